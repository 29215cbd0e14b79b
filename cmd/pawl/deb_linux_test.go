package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// unitName is where the package has its unit.
const unitName = "usr/lib/systemd/system/pawl.service"

// debian is a folder as dpkg sees a machine. systemd is a program that writes down what it is called with.
type debian struct {
	*testing.T
	root, called string
	env          []string
}

func newDebian(t *testing.T) *debian {
	t.Helper()
	d := &debian{T: t, root: t.TempDir()}
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "run/systemd/system", "var/lib/pawl"} {
		if err := os.MkdirAll(filepath.Join(d.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(d.root, "var", "lib", "dpkg"), "status", "")
	programs := t.TempDir()
	d.called = filepath.Join(programs, "called")
	write(t, programs, "systemctl", "#!/bin/sh\necho \"$*\" >>"+d.called+"\n")
	if err := os.Chmod(filepath.Join(programs, "systemctl"), 0o755); err != nil {
		t.Fatal(err)
	}
	d.env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH")+":/usr/sbin:/sbin")
	return d
}

// dpkg changes the machine, and returns what systemd was asked for by that.
func (d *debian) dpkg(args ...string) string {
	d.Helper()
	_ = os.Remove(d.called) // it may not be there
	cmd := exec.Command("dpkg", append([]string{
		"--root=" + d.root, "--force-not-root", "--force-script-chrootless", "--force-confold", "--log=/dev/null",
	}, args...)...)
	cmd.Env = d.env
	if said, err := cmd.CombinedOutput(); err != nil {
		d.Fatalf("dpkg %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	called, _ := os.ReadFile(d.called) // nothing was asked for
	return strings.ReplaceAll(strings.TrimSpace(string(called)), "\n", "; ")
}

// has fails the test unless the files are there, or are not.
func (d *debian) has(there bool, names ...string) {
	d.Helper()
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(d.root, name)); (err == nil) != there {
			d.Errorf("%s is there: %v, want %v", name, err == nil, there)
		}
	}
}

// here converts a path of the machine to one of this test's machine: /etc/pawl/pawl.yaml,
// sqlite:/var/lib/pawl/pawl.db.
func (d *debian) here(word string) string {
	scheme, path, ok := strings.Cut(word, ":/")
	if !ok {
		scheme, path, ok = "", strings.TrimPrefix(word, "/"), strings.HasPrefix(word, "/")
	} else {
		scheme += ":"
	}
	if !ok {
		return word
	}
	return scheme + filepath.Join(d.root, path)
}

// start does what systemd would do with the unit: it starts the command with the environment that the unit says.
func (d *debian) start() *process {
	d.Helper()
	unit, err := os.ReadFile(filepath.Join(d.root, unitName))
	if err != nil {
		d.Fatal(err)
	}
	cmd := command(d.T, d.TempDir())
	var words []string
	for line := range strings.Lines(string(unit)) {
		line = strings.TrimSpace(line)
		if call, ok := strings.CutPrefix(line, "ExecStart="); ok {
			words = strings.Fields(call)
		}
		if set, ok := strings.CutPrefix(line, "Environment="); ok {
			name, value, _ := strings.Cut(set, "=")
			cmd.Env = append(cmd.Env, name+"="+d.here(value))
		}
	}
	if len(words) < 2 || words[1] != "server" {
		d.Fatalf("the unit calls %q", words)
	}
	for i, w := range words {
		words[i] = d.here(w)
	}
	cmd.Path, cmd.Args = words[0], words[:1]
	p := launch(d.T, cmd, words[2:]...)
	p.told("READY=1")
	return p
}

// TestDebianPackage installs the package below a folder, starts what its unit says, installs a newer one over it while
// that runs, and removes it: nothing is left of it but what users made.
func TestDebianPackage(t *testing.T) {
	nightly.Only(t, "it builds and installs a package")
	t.Parallel()
	for _, name := range []string{"dpkg", "dpkg-deb"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	build := exec.Command("go", "tool", "-modfile=tools/nfpm/go.mod", "nfpm", "--version")
	build.Dir = filepath.Join("..", "..")
	if said, err := build.CombinedOutput(); err != nil && os.Getenv("PAWL_REQUIRE_PACKAGE") == "" {
		t.Skipf("nfpm cannot be built here: %v\n%s", err, said) // nobody has fetched it yet, and there is no network
	}
	out := t.TempDir()
	older, newer := script(t, out, "deb", "1.2.3"), script(t, out, "deb", "1.2.4")
	d := newDebian(t)
	files := []string{
		"usr/bin/pawl", unitName, "usr/share/man/man1/pawl-run.1.gz", "usr/share/bash-completion/completions/pawl",
		"usr/share/doc/pawl/copyright",
	}
	if asked := d.dpkg("--install", older); asked != "daemon-reload" {
		t.Errorf("an installation asks systemd for: %s", asked)
	}
	d.has(true, append(files, "etc/pawl/pawl.yaml", "etc/pawl/flows")...)

	write(t, filepath.Join(d.root, "etc", "pawl", "flows"), "nap.yaml",
		"pawl: 1\nname: nap\nsteps: [{name: a, wait: {event: on}}]\n")
	write(t, filepath.Join(d.root, "etc", "pawl"), "pawl.yaml", "rate: 100\n")
	p := d.start()
	token := createToken(t, d.root, d.here("sqlite:/var/lib/pawl/pawl.db"), "ada", "--role", "operate")
	if status, text := p.ask(token, "POST", "/api/v1/runs", `{"workflow":"nap","workflowId":"n-1"}`); status != 201 {
		t.Fatalf("%d %s", status, text)
	}

	if asked := d.dpkg("--install", newer); asked != "daemon-reload; try-restart pawl.service" {
		t.Errorf("a newer package asks systemd for: %s", asked)
	}
	kept, err := os.ReadFile(filepath.Join(d.root, "etc/pawl/pawl.yaml"))
	if err != nil || string(kept) != "rate: 100\n" {
		t.Errorf("the settings have become %s, %v", kept, err)
	}
	p.signal(syscall.SIGTERM) // as a restart does
	p.told("STOPPING=1")
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	p = d.start()
	var version struct{ Version string }
	_, text := p.ask("", "GET", "/version", "")
	if err := json.Unmarshal([]byte(text), &version); err != nil || !strings.HasPrefix(version.Version, "1.2.4") {
		t.Errorf("after the upgrade: %s, %v", text, err)
	}
	if status, text := p.ask(token, "POST", "/api/v1/runs/n-1/events", `{"name":"on"}`); status >= 300 {
		t.Errorf("%d %s", status, text)
	}
	status, text := p.ask(token, "GET", "/api/v1/runs/n-1/outcome?wait=20s", "")
	if status != http.StatusOK || !strings.Contains(text, "succeeded") {
		t.Errorf("the run of before the upgrade: %d %s", status, text)
	}
	p.signal(syscall.SIGTERM)
	p.told("STOPPING=1")
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}

	if asked := d.dpkg("--remove", "pawl"); asked != "disable --now pawl.service; daemon-reload" {
		t.Errorf("a removal asks systemd for: %s", asked)
	}
	d.has(false, files...)
	d.has(true, "etc/pawl/pawl.yaml", "var/lib/pawl/pawl.db")
	d.dpkg("--purge", "pawl")
	d.has(false, "etc/pawl/pawl.yaml")
	d.has(true, "etc/pawl/flows/nap.yaml", "var/lib/pawl/pawl.db")
}

// systemdCheck is the program of systemd that looks at units.
const systemdCheck = "systemd-analyze" //nolint:misspell // its name

// TestUnit holds the unit against systemd, where that is installed: no word of it is wrong, and it is hardened.
func TestUnit(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "pawl.service"))
	if err != nil {
		t.Fatal(err)
	}
	// The default of systemd sends SIGTERM to the processes of steps too. Their attempts would fail before the
	// server, which first answers requests, stops them, and they would be asked twice.
	if !strings.Contains(string(unit), "\nKillMode=mixed\n") {
		t.Error("a stop of the unit fails the steps that run")
	}
	if _, err := exec.LookPath(systemdCheck); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	write(t, dir, "pawl", "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(dir, "pawl"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "pawl.service", strings.ReplaceAll(string(unit), "/usr/bin/pawl", filepath.Join(dir, "pawl")))
	said := tool(t, dir, systemdCheck, "verify", "--man=no", "--recursive-errors=no", "./pawl.service")
	if strings.Contains(said, "pawl.service") {
		t.Errorf("systemd says: %s", said)
	}
	if runs, err := exec.Command(systemdCheck, "security", "--help").Output(); err != nil ||
		!strings.Contains(string(runs), "--threshold") {
		t.Skip("this systemd cannot tell how a unit is hardened")
	}
	tool(t, dir, systemdCheck, "security", "--offline=true", "--threshold=25", "./pawl.service") // 2.5 of 10
}
