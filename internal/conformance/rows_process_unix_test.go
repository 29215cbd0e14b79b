//go:build unix

package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/core"
)

func init() {
	rows["F2"] = scriptsStop
	rows["F3"] = printedIsText
	rows["F8"] = environmentGoesToAll
	rows["F9"] = filesStayWithTheRun
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
