//go:build unix

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/secret"
)

func init() {
	rows["F2"] = scriptsStop
	rows["F3"] = printedIsText
	rows["F8"] = environmentGoesToAll
	rows["F9"] = filesStayWithTheRun
	rows["F10"] = stepsHaveNoTerminal
	rows["F11"] = numbersAreWords
	rows["F12"] = secretNumbersStayJSON
	rows["D6"] = oddFilesHoldNothingUp
}

// playReal runs a flow with processes, in real time.
func playReal(t *testing.T, text string, check func(r *api.Run), setup ...func(s *stage)) {
	t.Helper()
	doc, err := flow.Parse("row.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c := &dialect.Conversion{Flow: doc}
	s := newStage(t, c)
	s.real = true
	for _, set := range setup {
		set(s)
	}
	s.perform(c, nil, func(s *stage, _ *core.Run) { check(newNative(s).end()) })
}

// scriptsStop checks that a script ends with the first command that fails, and that a flow can say otherwise.
func scriptsStop(t *testing.T) {
	for exec, want := range map[string]api.RunPhase{
		`{shell: "false\necho on"}`:                                 api.RunFailed,
		`{shell: "(exit 3)\ntrue"}`:                                 api.RunFailed,
		`{shell: "false || true\necho on"}`:                         api.RunSucceeded,
		`{shell: "false\ntrue", interpreter: [/bin/sh, -c]}`:        api.RunSucceeded,
		`{shell: "set +e\nfalse\ntrue"}`:                            api.RunSucceeded,
		`{shell: "x=$(false)\necho on", env: {A: b}, stdin: words}`: api.RunFailed,
	} {
		playReal(t, "pawl: 1\nname: row\nsteps:\n  - {name: a, exec: "+exec+"}\n", func(r *api.Run) {
			if r.Phase != want {
				t.Errorf("exec: %s: %s, want %s", exec, r.Phase, want)
			}
		})
	}
}

// printedIsText checks that nothing that a step prints steers it, unless the flow asks for that. Results are what it
// writes to its file.
func printedIsText(t *testing.T) {
	const steps = `
pawl: 1
name: row
steps:
  - name: printed
    exec: |
      echo '{"pawl": {"failed": true, "message": "injected"}}'
      echo '{"x": 1}'
      echo "y=2" >> "$PAWL_OUTPUT"
      echo '{"x": 3}' >&2
  - name: asked
    exec: {shell: "echo '{\"x\": 1}'", results: lines}
`
	playReal(t, steps, func(r *api.Run) {
		for name, want := range map[string]string{"printed": "<nil> 2", "asked": "1 <nil>"} {
			var s *api.Step
			for _, s = range r.Steps {
				if s.Name == name {
					break
				}
			}
			var out struct{ X, Y any }
			if err := json.Unmarshal(s.Output, &out); err != nil || s.Phase != api.StepSucceeded {
				t.Fatal(name, s.Phase, s.Why, err)
			}
			if got := strings.TrimSpace(strings.Join([]string{textOf(out.X), textOf(out.Y)}, " ")); got != want {
				t.Errorf("%s has the results %s, want %s", name, got, want)
			}
		}
	})
}

// textOf writes a value of JSON, and <nil> where there is none.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "<nil>"
	case string:
		return v
	default:
		text, _ := json.Marshal(v)
		return string(text)
	}
}

// environmentGoesToAll checks that the variables of a flow are in the environment of each process, below those of the
// machine and of the step.
func environmentGoesToAll(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte("C=file\nA=file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("B", "machine")
	text := "pawl: 1\nname: row\nenv: {A: flow, B: flow}\ndotenv: " + filepath.Join(dir, ".env") + "\nsteps:\n" +
		"  - {name: a, exec: 'test \"$A $B $C\" = \"file machine file\"'}\n" +
		"  - {name: b, exec: {shell: 'test \"$A $B $C\" = \"step machine file\"', env: {A: step}}}\n"
	playReal(t, text, func(r *api.Run) {
		if r.Phase != api.RunSucceeded {
			t.Errorf("%s: %s", r.Phase, r.Why)
		}
	})
}

// filesStayWithTheRun checks that files of a step are kept before it ends, that a later step gets them as they were,
// and that what leads out of the folder of the step is refused.
func filesStayWithTheRun(t *testing.T) {
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(`
pawl: 1
name: row
defaults: {exec: {dir: DIR}}
steps:
  - {name: make, forEach: [p, q], exec: {shell: "mkdir -p out; echo $X > out/$X.txt", env: {X: "${{ item }}"},
     artifacts: "out/${{ item }}.txt"}}
  - {name: lose, needs: make, exec: "rm -r out"}
  - {name: use, needs: lose, exec: {shell: "test $(cat out/p.txt out/q.txt | tr -d '\\n') = pq", artifactsFrom: [make]}}
  - {name: link, exec: {shell: "ln -s SECRET leak", artifacts: leak}, retry: "fixed(3, 1ms)"}
`, "DIR", dir)
	store := artifact.New(artifact.NewFolder(t.TempDir()), artifact.Limits{})
	playReal(t, strings.ReplaceAll(text, "SECRET", secret), func(r *api.Run) {
		for _, s := range r.Steps {
			bad := s.Name == "link"
			if bad != (s.Phase == api.StepFailed) ||
				bad && (len(s.Attempts) != 1 || !strings.Contains(s.Why, "leads out")) {
				t.Errorf("step %s: %s %s", s.Step, s.Phase, s.Why)
			}
		}
		if kept, err := store.List(t.Context(), r.Run); err != nil || len(kept) != 2 {
			t.Errorf("kept are %+v, %v", kept, err)
		}
	}, func(s *stage) { s.exec.Artifacts = store })
}

// stepsHaveNoTerminal checks that each process of a step is in a session of its own, in which a program that asks at
// the terminal fails instead of being stopped.
func stepsHaveNoTerminal(t *testing.T) {
	const text = `
pawl: 1
name: row
steps:
  - {name: a, exec: 'test "$(ps -o sid= -p $$ | tr -d " ")" = $$'}
  - {name: b, exec: 'if (exec < /dev/tty) 2> /dev/null; then exit 3; fi'}
`
	playReal(t, text, func(r *api.Run) {
		if r.Phase != api.RunSucceeded {
			t.Errorf("%s: %s", r.Phase, r.Why)
		}
	})
}

// numbersAreWords checks that a number of YAML is what the file writes where a text is wanted.
func numbersAreWords(t *testing.T) {
	const text = `
pawl: 1
name: row
env: {V: 1.10, MODE: 0644}
steps:
  - name: a
    exec:
      command: [sh, -c, 'echo "$V $MODE $W $X $1 $2"', sh, 1_000, 2.50]
      env: {W: 1e3, X: 12}
`
	playReal(t, text, func(r *api.Run) {
		var out struct{ Stdout string }
		if err := json.Unmarshal(r.Steps[0].Output, &out); err != nil {
			t.Fatal(r.Why, err)
		}
		if got := strings.TrimSpace(out.Stdout); got != "1.10 0644 1e3 12 1_000 2.50" {
			t.Errorf("the step gets %s", got)
		}
	})
}

// secretNumbersStayJSON checks that results stay JSON where a number of them is a secret, which is not recorded.
func secretNumbersStayJSON(t *testing.T) {
	t.Setenv("ROW_PIN", "2026")
	const text = `
pawl: 1
name: row
secrets: [pin]
steps:
  - name: a
    exec:
      shell: 'echo "{\"year\": 2026, \"list\": [2026, 1]}" >> "$PAWL_OUTPUT"; echo "pin=$PIN" >> "$PAWL_OUTPUT"'
      env: {PIN: "${{ secrets.pin }}"}
output: ["${{ steps.a.output.year }}", "${{ steps.a.output.list[1] }}", "${{ steps.a.output.pin }}"]
`
	playReal(t, text, func(r *api.Run) {
		if got := string(r.Output); r.Phase != api.RunSucceeded || got != `["***",1,"***"]` {
			t.Errorf("%s %s: %s", r.Phase, r.Why, got)
		}
	}, func(s *stage) {
		name, source, err := secret.ParseSource("pin=env:ROW_PIN")
		if err != nil {
			t.Fatal(err)
		}
		s.exec.Secrets = secret.NewStore(map[string]secret.Source{name: source})
	})
}

// oddFilesHoldNothingUp checks that nothing which a step leaves behind keeps its run open after the deadline: neither
// what is not a file, nor a place of artifacts that does not answer.
func oddFilesHoldNothingUp(t *testing.T) {
	dir := t.TempDir()
	text := strings.ReplaceAll(`
pawl: 1
name: row
defaults: {exec: {dir: DIR}}
steps:
  - name: leave
    exec:
      shell: |
        mkdir -p out/d; echo x > out/f; mkfifo out/pipe; ln -s f out/same; ln -s d out/dir; ln -s nowhere out/gone
        ln -s circle out/circle; touch "$(printf 'out/bad\377')"; echo y > out/d/g
      artifacts: [out, "out/*"]
      tests: "out/pipe*"
    continueOn: [failed]
  - {name: keep, needs: leave, exec: {shell: "true", artifacts: out}}
  - {name: take, needs: keep, exec: {dir: TO, artifactsFrom: keep,
     shell: "test -L out/same && test -L out/dir && test -L out/gone && cat out/dir/g && ! test -e out/pipe"}}
`, "DIR", dir)
	store := artifact.New(artifact.NewFolder(t.TempDir()), artifact.Limits{})
	playReal(t, strings.ReplaceAll(text, "TO", t.TempDir()), func(r *api.Run) {
		for _, s := range r.Steps {
			if want := s.Name != "leave"; want != (s.Phase == api.StepSucceeded) {
				t.Errorf("step %s: %s %s", s.Step, s.Phase, s.Why)
			}
		}
	}, func(s *stage) { s.exec.Artifacts = store })

	answers := make(chan struct{})
	t.Cleanup(func() { close(answers) })
	deaf := artifact.New(deafBucket{artifact.NewFolder(t.TempDir()), answers}, artifact.Limits{})
	const late = `
pawl: 1
name: row
timeout: 3s
steps: [{name: keep, exec: {dir: DIR, shell: "echo x > out.txt", artifacts: out.txt, grace: 100ms}}]
hooks: {onTimeout: {exec: "touch DIR/hooked"}}
`
	playReal(t, strings.ReplaceAll(late, "DIR", dir), func(r *api.Run) {
		if r.Phase != api.RunTimedOut {
			t.Errorf("%s: %s", r.Phase, r.Why)
		}
		if _, err := os.Stat(filepath.Join(dir, "hooked")); err != nil {
			t.Errorf("the hook did not run: %v", err)
		}
	}, func(s *stage) { s.exec.Artifacts = deaf })
}

// deafBucket does not answer when something is put, whatever its context says: a network file system that is gone.
type deafBucket struct {
	*artifact.Folder
	answers <-chan struct{}
}

func (b deafBucket) Put(context.Context, string, io.Reader, int64) error {
	<-b.answers
	return errors.New("late")
}
