package conformance

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/steep"
	"github.com/pawl-dev/pawl/internal/core"
)

func init() { addDialect("S10", steepProcesses) }

// steepProcesses runs real programs from a workflow and its services file: one that hangs, one that stops writing, one
// that writes to stderr alone and one that completes no line, which both are signs of life, and one that fails twice
// and then succeeds. Another program reads its output.
func steepProcesses(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// Signs of life come in time also on a busy machine: a process that sleeps for a moment tells how long that takes.
	begun := time.Now()
	if err := exec.Command("sleep", "0.05").Run(); err != nil {
		t.Fatal(err)
	}
	patience := max(500, 10*time.Since(begun).Milliseconds())
	dots, alive := strconv.FormatInt(3*patience/50, 10), strconv.FormatInt(patience, 10)+"ms"
	services := `
- {id: hang, name: Hang, description: never ends,
    path: ` + script("hang", "while :; do echo busy; sleep 0.02; done\n") + `, runtime: other, parameters: [],
   maxRuntime: {timeout: 200ms, errorOnTimeout: true}, retries: {maxAttempts: 2}}
- {id: silent, name: Silent, description: says nothing any more,
    path: ` + script("silent", "echo once\nexec sleep 600\n") + `, runtime: other, parameters: [],
   maxInactivity: 200ms}
- {id: errors, name: Errors, description: writes lines to stderr,
    path: ` + script("errors", "for i in $(seq "+dots+"); do echo $i >&2; sleep 0.05; done\n") + `, runtime: other,
   parameters: [], maxInactivity: ` + alive + `}
- {id: dots, name: Dots, description: writes and completes no line,
    path: ` + script("dots", "for i in $(seq "+dots+"); do printf .; sleep 0.05; done\n") + `, runtime: other,
   parameters: [], maxInactivity: ` + alive + `}
- id: flaky
  name: Flaky
  description: fails twice
  path: ` + script("flaky", "[ \"$PAWL_ATTEMPT\" = 3 ] || exit 1\necho \"from $PAWL_ATTEMPT\" > \"$2\"\n") + `
  runtime: other
  retries: {maxAttempts: 4, delay: 20ms, exponentialBackoff: 2}
  parameters:
    - {id: out, name: Out, description: a file, type: output, cardinality: 1..1, label: --out, fileSuffix: .txt}
- id: read
  name: Read
  description: reads a file
  path: ` + script("read", "echo \"text=$(cat \"$1\")\" >> \"$PAWL_OUTPUT\"\n") + `
  runtime: other
  parameters:
    - {id: in, name: In, description: a file, type: input, cardinality: 1..1}
`
	workflow := `
api: 4.7.0
name: processes
vars: [{id: made}]
actions:
  - {type: execute, service: read, inputs: [{id: in, var: made}]}
  - {type: execute, service: hang}
  - {type: execute, service: silent}
  - {type: execute, service: errors}
  - {type: execute, service: dots}
  - {type: execute, service: flaky, outputs: [{id: out, var: made}]}
`
	c := steepConversion(t, workflow, services, "")
	input, _ := json.Marshal(map[string]string{
		"tmpPath": filepath.Join(dir, "tmp"),
		"outPath": filepath.Join(dir, "out"),
	})
	performReal(t, c, string(input), nil, func(s *stage, r *core.Run) {
		got := map[string]string{}
		for _, line := range s.attempts() {
			name, _, _ := strings.Cut(line, "@")
			_, how, _ := strings.Cut(line, " ")
			got[name] += how + ";"
		}
		for name, want := range map[string]string{
			"hang": "timeout startToClose;timeout startToClose;", "silent": "timeout inactivity;",
			"errors": "ok;", "dots": "ok;",
			"flaky": "error;error;ok;", "read": "ok;",
		} {
			if got[name] != want {
				t.Errorf("%s: attempts %q, want %q", name, got[name], want)
			}
		}
		for name, want := range map[string]string{
			"hang": "ERROR", "silent": "CANCELLED", "errors": "SUCCESS", "dots": "SUCCESS",
			"flaky": "SUCCESS", "read": "SUCCESS",
		} {
			step, _ := r.Lookup(name)
			if status := steep.StepStatus(step); status != want {
				t.Errorf("%s is %s, want %s", name, status, want)
			}
		}
		step, _ := r.Lookup("read")
		if !strings.Contains(string(step.Output), `"text":"from 3"`) {
			t.Errorf("what flaky wrote was not read: %s", step.Output)
		}
		if status := s.steepStatus(r); status != "CANCELLED" {
			t.Errorf("the workflow is %s; one cancelled chain cancels it", status)
		}
	})
}

func steepConversion(t rapid.TB, workflow, services, macros string) *dialect.Conversion {
	t.Helper()
	src := steep.Sources{
		Workflow: steep.Source{Name: "workflow.yaml", Text: []byte(workflow)},
		Services: []steep.Source{{Name: "services.yaml", Text: []byte(services)}},
	}
	if macros != "" {
		src.Macros = []steep.Source{{Name: "macros.yaml", Text: []byte(macros)}}
	}
	c, err := steep.Convert(src)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSteepYieldProcesses splits a text in halves until a part is one letter: each part is given back to the for
// action.
func TestSteepYieldProcesses(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"halve": `text=$1; [ -f "$1" ] && text=$(cat "$1"); [ ${#text} -gt 1 ] || exit 0` + "\n" +
			`printf %s "${text%?}" > "$2"` + "\n",
		"count": `echo "n=$#" >> "$PAWL_OUTPUT"` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := steepConversion(t, `
api: 4.7.0
name: halves
vars: [{id: texts, value: [abcd, xy]}, {id: rest}, {id: rests}]
actions:
  - {type: execute, service: count, inputs: [{id: in, var: rests}]}
  - type: for
    id: each
    input: texts
    enumerator: text
    output: rests
    yieldToInput: rest
    yieldToOutput: rest
    actions: [{type: execute, service: halve, inputs: [{id: in, var: text}], outputs: [{id: out, var: rest}]}]
`, `
- {id: halve, path: `+filepath.Join(dir, "halve")+`, runtime: other, parameters: [
    {id: in, type: input, cardinality: 1..1}, {id: out, type: output, cardinality: 1..1, dataType: fileOrEmptyList}]}
- {id: count, path: `+filepath.Join(dir, "count")+`, runtime: other, parameters: [{id: in, type: input,
    cardinality: 0..n}]}
`, "")
	input, _ := json.Marshal(map[string]string{"tmpPath": filepath.Join(dir, "tmp")})
	performReal(t, c, string(input), nil, func(s *stage, r *core.Run) {
		wantPhase(t, r, core.RunSucceeded)
		if n := strings.Count(strings.Join(s.attempts(), " "), "halve["); n != 6 { // abcd, abc, ab, a; xy, x
			t.Errorf("%d iterations, want 6", n)
		}
		if step, _ := r.Lookup("count"); !strings.Contains(string(step.Output), `"n":"4"`) {
			t.Errorf("what was yielded is counted as %s, want 4", step.Output)
		}
	})
}
