package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// shownCommands finds the commands of a page with the mark before them: whether a test runs them, and if not, why.
var shownCommands = regexp.MustCompile("(?s)<!-- (run|run beside|not run: [^\n]*) -->\n```sh\n(.*?)```")

// shownName finds the name of a flow.
var shownName = regexp.MustCompile(`(?m)^name: (\S+)$`)

// manualHead is what the commands of a page find: pawl with an address of the test's own. What serves works beside the
// commands, until they have ended.
const manualHead = `set -eu
stop() { # what serves may be the child of a child, which wait does not wait for, and it writes until it ends
  kill $(cat "$ROOT/served") 2> "$ROOT/killed" || true
  wait
  for server in $(cat "$ROOT/served"); do
    while kill -0 "$server" 2> "$ROOT/killed"; do sleep 0.05; done
  done
}
trap stop EXIT
: > "$ROOT/served"
ready() {
  until command curl -fs "127.0.0.1:$PORT/readyz" > ready.log; do
    kill -0 "$(tail -n 1 "$ROOT/served")"
    sleep 0.05
  done
}
pawl() {
  case $1 in
  dev | server)
    "$PAWL" "$@" --listen "127.0.0.1:$PORT" > "$ROOT/server.log" 2>&1 &
    echo $! >> "$ROOT/served"
    ready
    ;;
  worker)
    "$PAWL" "$@" > "$ROOT/worker.log" 2>&1 &
    echo $! >> "$ROOT/served"
    ;;
  *) "$PAWL" "$@" ;;
  esac
}
`

// TestManual runs the commands that README and the manual show, page by page, each page in a folder of its own. The
// flows of the page are there. testdata/manual has what else a page needs: files, and what happens before, between the
// lines of and after its first, second, … block: before-1, between-1, after-1.
func TestManual(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the commands are those of a shell on Linux")
	}
	for _, name := range []string{"bash", "curl", "tar", "sha256sum"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "guide", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, page := range append(pages, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var blocks [][]string
		for _, m := range shownCommands.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasPrefix(m[1], "not run") {
				blocks = append(blocks, m[1:])
			}
		}
		ran += len(blocks)
		if len(blocks) > 0 {
			t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
				t.Parallel()
				runPage(t, page, string(text), blocks)
			})
		}
	}
	if ran < 15 {
		t.Errorf("only %d blocks of commands are run", ran)
	}
}

// runPage runs blocks of commands of a page, one after the other.
func runPage(t *testing.T, page, text string, blocks [][]string) {
	dir := t.TempDir()
	for _, block := range slices.Backward(yamlBlock.FindAllStringSubmatch(text, -1)) {
		if name := shownName.FindStringSubmatch(block[1]); name != nil { // the first one of a name is meant
			write(t, dir, name[1]+".yaml", block[1])
		}
	}
	parts := map[string]string{}
	file := filepath.Join("testdata", "manual", strings.TrimSuffix(filepath.Base(page), ".md")+".txtar")
	if more, err := txtar.ParseFile(file); err == nil {
		for _, f := range more.Files {
			parts[f.Name] = string(f.Data)
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f.Name)), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, dir, f.Name, string(f.Data))
			if err := os.Chmod(filepath.Join(dir, f.Name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	} else if !os.IsNotExist(err) {
		t.Fatal(err)
	}
	script := &strings.Builder{}
	script.WriteString(manualHead)
	for i, block := range blocks {
		first, rest, _ := strings.Cut(block[1], "\n")
		if block[0] == "run beside" {
			first = "{ " + first + "\n} &"
		}
		n := i + 1
		fmt.Fprintf(script, "%s\necho '# block %d' >&2\n%s\n%s\n%s\n%s\n", parts[fmt.Sprint("before-", n)], n, first,
			parts[fmt.Sprint("between-", n)], rest, parts[fmt.Sprint("after-", n)])
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close() // a server of the page takes the port
	here := strings.NewReplacer(
		":7295", ":"+port, "/backup/", dir+"/backup/", "/var/lib/pawl/", dir+"/lib/", "/etc/pawl/", dir+"/etc/",
	).Replace(script.String())
	real, err := exec.LookPath("pawl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", here)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "ROOT="+dir, "PORT="+port, "PAWL="+real,
		"XDG_STATE_HOME="+dir+"/state", "XDG_CONFIG_HOME="+dir+"/.config", "PAWL_SERVER=", "PAWL_DATABASE=",
		"USER=tester")
	if out, err := cmd.CombinedOutput(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "server.log"))
		t.Errorf("the commands of %s: %v\n%s\n%s", page, err, out, log)
	}
}
