package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/core"
	"github.com/pawl-dev/pawl/dialect/steep"
)

const steepServices = `
- {id: list, name: L, description: d, path: ./list, runtime: other, parameters: [
    {id: dir, name: D, description: d, type: output, cardinality: 1..1, dataType: directory}]}
- {id: one, name: O, description: d, path: ./one, runtime: other, parameters: [
    {id: in, name: I, description: d, type: input, cardinality: 1..1, label: -i},
    {id: out, name: O, description: d, type: output, cardinality: 0..1, label: -o, fileSuffix: .x}]}
- {id: maybe, name: O, description: d, path: ./maybe, runtime: other, parameters: [
    {id: in, name: I, description: d, type: input, cardinality: 1..1},
    {id: out, name: O, description: d, type: output, cardinality: 0..1, dataType: fileOrEmptyList}]}
- {id: many, name: M, description: d, path: ./many, runtime: other, parameters: [
    {id: in, name: I, description: d, type: input, cardinality: 0..n, label: -i}]}
`

// TestSteepFor runs an iteration over the files of a folder, each a chain of two actions, and gathers what they make.
func TestSteepFor(t *testing.T) {
	c := steepConversion(t, `
api: 4.7.0
name: w
vars: [{id: files}, {id: mid}, {id: result}, {id: results}, {id: factor, value: 3}]
actions:
  - {type: execute, id: last, service: many, inputs: [{id: in, var: results}]}
  - type: for
    id: each
    input: files
    enumerator: file
    output: results
    yieldToOutput: result
    actions:
      - {type: execute, id: second, service: one, inputs: [{id: in, var: mid}], outputs: [{id: out, var: result, store: true, prefix: sub/}]}
      - {type: execute, id: first, service: one, inputs: [{id: in, var: file}], outputs: [{id: out, var: mid}]}
  - {type: execute, id: begin, service: list, outputs: [{id: dir, var: files}]}
`, steepServices, "")
	script := map[string][]try{"files.files": {{output: `{"files":"tmp/a\ntmp/b c"}`}}}
	perform(t, c, script, nil, func(s *stage, r *core.Run) {
		wantPhase(t, r, core.RunSucceeded)
		if got := len(s.attempts()); got != 9 { // begin, its files, 2 × (iteration + first + second), last
			t.Errorf("%d attempts: %s", got, strings.Join(s.attempts(), "\n"))
		}
		line := strings.Join(s.command(len(s.seen)-1), " ")
		if strings.Count(line, "-i out/") != 2 || !strings.Contains(line, "/sub/second.out.x") {
			t.Errorf("the last action reads %q, not what the iterations made", line)
		}
		for i, task := range s.seen {
			line := strings.Join(s.command(i), " ")
			if task.StepName == "first" && !strings.Contains(line, "-i tmp/a -o") && !strings.Contains(line, "-i tmp/b c -o") {
				t.Errorf("an iteration's first action runs %q", line)
			}
		}
	})
}

// TestSteepYieldToInput runs a for action whose iterations give it more to do.
func TestSteepYieldToInput(t *testing.T) {
	c := steepConversion(t, `
api: 4.7.0
name: w
vars: [{id: start, value: [a, b]}, {id: more}, {id: all}]
actions:
  - type: for
    id: each
    input: start
    enumerator: item
    yieldToInput: more
    yieldToOutput: more
    output: all
    actions:
      - {type: execute, id: work, service: maybe, inputs: [{id: in, var: item}], outputs: [{id: out, var: more}]}
  - {type: execute, id: last, service: many, inputs: [{id: in, var: all}]}
`, steepServices, "")
	// Each of a and b yields one file; those yield nothing.
	works := 0
	script := map[string][]try{"more.files": {{output: `{"files":""}`}}}
	perform(t, c, script, nil, func(s *stage, r *core.Run) {
		wantPhase(t, r, core.RunSucceeded)
		for _, task := range s.seen {
			if task.StepName == "work" {
				works++
			}
		}
		if works != 2 {
			t.Errorf("%d iterations, want 2", works)
		}
	})
}

// TestSteepChains retries process chains: the actions of a chain begin again, with fresh attempts.
func TestSteepChains(t *testing.T) {
	c := steepConversion(t, `
api: 4.7.0
name: w
retries: {processChains: {maxAttempts: 3, delay: 10s, exponentialBackoff: 2}}
vars: [{id: a}, {id: b}]
actions:
  - {type: execute, id: first, service: one, inputs: [{id: in, value: x}], outputs: [{id: out, var: a}]}
  - {type: execute, id: second, service: one, inputs: [{id: in, var: a}], outputs: [{id: out, var: b}], retries: {maxAttempts: 2, delay: 1s}}
  - {type: execute, id: left, service: one, inputs: [{id: in, var: b}]}
  - {type: execute, id: right, service: one, inputs: [{id: in, var: b}], maxRuntime: 5s}
`, steepServices, "")
	perform(t, c, map[string][]try{"second": {broken}}, nil, func(s *stage, r *core.Run) {
		var got []string
		for _, line := range s.attempts() {
			if strings.HasPrefix(line, "second@") {
				got = append(got, strings.Fields(line)[0])
			}
		}
		want := "second@0ms-0ms second@1s-1s second@11s-11s second@12s-12s second@32s-32s second@33s-33s"
		if strings.Join(got, " ") != want {
			t.Errorf("attempts %s\nwant     %s", strings.Join(got, " "), want)
		}
		if status := steep.Status(r); status != "ERROR" {
			t.Errorf("status %s: what follows was never begun", status)
		}
	})
	// A chain that is cancelled by a timeout is not retried, and its sibling goes on.
	perform(t, c, map[string][]try{"right": {hangs}, "left": {{run: time.Minute}}}, nil, func(s *stage, r *core.Run) {
		if got := r.EndedAt.Std().Sub(s.began); got != time.Minute || steep.Status(r) != "CANCELLED" {
			t.Errorf("ended after %s as %s", got, steep.Status(r))
		}
	})
}

// TestSteepMacro expands a macro in a macro, with a default and a dependency.
func TestSteepMacro(t *testing.T) {
	c := steepConversion(t, `
api: 4.7.0
name: w
vars: [{id: result}]
actions:
  - {type: execute, id: after, service: many, dependsOn: twice}
  - {type: execute, id: reader, service: many, inputs: [{id: in, var: result}]}
  - {type: include, id: twice, macro: outer, inputs: [{id: text, value: hello}], outputs: [{id: made, var: result}]}
`, steepServices, `
- id: outer
  name: Outer
  description: d
  parameters:
    - {id: text, name: T, description: d, type: input}
    - {id: made, name: M, description: d, type: output}
  vars: [{id: between}]
  actions:
    - {type: include, id: first, macro: inner, outputs: [{id: made, var: between}]}
    - {type: execute, id: second, service: one, inputs: [{id: in, var: text}], outputs: [{id: out, var: made}], dependsOn: [first]}
- id: inner
  name: Inner
  description: d
  parameters:
    - {id: text, name: T, description: d, type: input, default: fallback}
    - {id: made, name: M, description: d, type: output}
  actions:
    - {type: execute, id: only, service: one, inputs: [{id: in, var: text}], outputs: [{id: out, var: made}]}
`)
	perform(t, c, nil, nil, func(s *stage, r *core.Run) {
		wantPhase(t, r, core.RunSucceeded)
		if len(s.seen) != 4 {
			t.Fatalf("%d attempts, want 4", len(s.seen))
		}
		if line := strings.Join(s.command(0), " "); !strings.Contains(line, "-i fallback") {
			t.Errorf("the inner macro runs %q", line)
		}
		if line := strings.Join(s.command(1), " "); !strings.Contains(line, "-i hello") {
			t.Errorf("the outer macro runs %q", line)
		}
	})
}
