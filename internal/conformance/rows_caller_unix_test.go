//go:build unix

package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func init() {
	rows["D5"] = callerGoesAlong
}

// held is a run that keeps the database until the file go is there.
const held = `pawl: 1
name: held
secrets: [tok]
steps:
  - name: hold
    exec:
      shell: 'echo up > up-$STAGE; while ! [ -f go ]; do sleep 0.05; done; echo "$STAGE ${T#*-}"'
      env: {T: "${{ secrets.tok }}"}
`

// asked prints what its step has got of whoever has started it, also in a child run.
const asked = `pawl: 1
name: asked
secrets: [tok]
steps:
  - name: own
    exec:
      shell: 'echo "$STAGE ${OF_FIRST-none} ${#T} $(whose) $(umask) $(basename "$PWD")"'
      env: {T: "${{ secrets.tok }}"}
  - {name: inner, needs: own, flow: inner}
output: {own: "${{ trim(steps.own.output.stdout) }}", inner: "${{ steps.inner.output.it }}"}
`

const inner = `pawl: 1
name: inner
steps: [{name: a, exec: 'echo "$STAGE $(whose)"'}]
output: {it: "${{ trim(steps.a.output.stdout) }}"}
`

// callerGoesAlong checks that a run which another process carries gets the environment, PATH, secrets, folder and umask
// of the command that has started it, that none of the values is stored, and that a resume tells what differs.
func callerGoesAlong(t *testing.T) {
	c := carrier{t, built(t), t.TempDir()}
	c.write("held.yaml", held)
	c.write("asked.yaml", asked)
	c.write("inner.yaml", inner)
	c.write("token", "of-second-12\n")
	if err := os.Mkdir(filepath.Join(c.dir, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	first := c.as("first", "OF_FIRST=1", "TOK=very-secret-of-first")
	keeps := first("run", "held.yaml", "--id", "held", "--secret", "tok=env:TOK", "-o", "none")
	if err := keeps.Start(); err != nil {
		t.Fatal(err)
	}
	c.until("up-first")

	second := c.as("second", "PRIVATE=nobody-stores-this")
	line := second("run", "../asked.yaml", "--id", "asked", "--secret", "tok=file:../token", "--quiet")
	line.Args[len(line.Args)-1] = "sqlite:../pass.db"
	line.Args = append([]string{"sh", "-c", `umask 027; cd below; exec "$@"`, "sh"}, line.Args...)
	line.Path = "/bin/sh"
	out, err := line.Output()
	var compact bytes.Buffer
	if err == nil {
		err = json.Compact(&compact, out)
	}
	want := `{"own":"second none 12 second 0027 below","inner":"second second"}`
	if got := compact.String(); err != nil || got != want {
		t.Errorf("%v, the steps got\n%s, want\n%s", err, got, want)
	}
	shown, err := second("run", "show", "asked").CombinedOutput()
	if err != nil || !bytes.Contains(shown, []byte("the environment of process")) {
		t.Errorf("%v, it is shown without its environment:\n%s", err, shown)
	}

	third := c.as("third", "TOK=very-secret-of-third")
	resumes := third("resume", "held", "--secret", "tok=env:TOK", "-o", "none")
	stderr, err := resumes.StderrPipe()
	if err == nil {
		err = resumes.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines, said := bufio.NewScanner(stderr), ""
	for lines.Scan() {
		if said += lines.Text() + "\n"; strings.Contains(lines.Text(), "goes on with other values of") {
			c.write("go", "") // the run ends once it is told
		}
	}
	if err := resumes.Wait(); err != nil {
		t.Errorf("resume: %v\n%s", err, said)
	}
	if err := keeps.Wait(); err != nil {
		t.Errorf("the first one: %v", err)
	}
	if !strings.Contains(said, "OF_FIRST, PATH, STAGE") {
		t.Errorf("the resume says of what differs only\n%s", said)
	}
	c.nowhere("very-secret-of-first", "nobody-stores-this", "of-second-12")
	c.restsAndDiffers(first, third)
	c.serverHasItsOwn()
}

// restsAndDiffers checks that a resume tells what differs also when nobody carries the run any more.
func (c carrier) restsAndDiffers(first, third func(args ...string) *exec.Cmd) {
	c.Helper()
	c.write("fails.yaml", "pawl: 1\nname: fails\nsteps: [{name: a, exec: 'test \"$STAGE\" = third'}]\n")
	if err := first("run", "fails.yaml", "--id", "fails", "-o", "none").Run(); err == nil {
		c.Fatal("the first attempt has another environment")
	}
	out, err := third("run", "retry", "fails").CombinedOutput()
	if err == nil {
		out, err = third("resume", "fails").CombinedOutput()
	}
	if err != nil || !bytes.Contains(out, []byte("it had OF_FIRST")) {
		c.Errorf("resume: %v, it says\n%s", err, out)
	}
}

// serverHasItsOwn checks that a server's steps get what the server has, and that a secret of the command is refused.
func (c carrier) serverHasItsOwn() {
	c.Helper()
	c.write("stage.yaml", "pawl: 1\nname: stage\nsteps: [{name: a, exec: 'echo \"${STAGE-none}\"'}]\n"+
		"output: \"${{ trim(steps.a.output.stdout) }}\"\n")
	c.server(func() {
		out, err := c.as("fourth")("run", "stage.yaml", "--quiet").Output()
		if err != nil || strings.TrimSpace(string(out)) != `"none"` {
			c.Errorf("on a server: %v, %s", err, out)
		}
		out, err = c.as("fourth")("run", "stage.yaml", "--secret", "tok=env:HOME").CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("--secret is for steps that this command executes")) {
			c.Errorf("a secret for a server: %v, %s", err, out)
		}
	})
}

// as returns commands of a terminal with an environment of its own: STAGE, a program called whose, and more.
func (c carrier) as(stage string, more ...string) func(args ...string) *exec.Cmd {
	c.Helper()
	bin := filepath.Join(c.dir, "bin-"+stage)
	err := os.Mkdir(bin, 0o700)
	if err == nil || os.IsExist(err) {
		err = os.WriteFile(filepath.Join(bin, "whose"), []byte("#!/bin/sh\necho "+stage+"\n"), 0o700)
	}
	if err != nil {
		c.Fatal(err)
	}
	return func(args ...string) *exec.Cmd {
		cmd := c.command(args...)
		cmd.Env = append(cmd.Env, "STAGE="+stage, "PATH="+bin+":"+os.Getenv("PATH"))
		cmd.Env = append(cmd.Env, more...)
		return cmd
	}
}

// until waits for a file.
func (c carrier) until(name string) {
	c.Helper()
	wait := exec.CommandContext(c.Context(), "/bin/sh", "-c", `while ! [ -f "$1" ]; do sleep 0.02; done`, "sh", name)
	wait.Dir = c.dir
	if err := wait.Run(); err != nil {
		c.Fatal(err)
	}
}

// nowhere checks that texts are in no file of the database.
func (c carrier) nowhere(texts ...string) {
	c.Helper()
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		stored := strings.HasPrefix(path, filepath.Join(c.dir, "pass.db"))
		if err != nil || !stored || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, text := range texts {
			if bytes.Contains(data, []byte(text)) {
				c.Errorf("%s is in %s", text, path)
			}
		}
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
}
