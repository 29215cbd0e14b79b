package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dialect/steep"
	"github.com/pawl-dev/pawl/internal/core"
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
      - {type: execute, id: second, service: one, inputs: [{id: in, var: mid}], outputs: [{id: out, var: result,
          store: true, prefix: sub/}]}
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
		if strings.Count(line, "-i out/") != 2 || !strings.Contains(line, "/sub/second.out.0.x") {
			t.Errorf("the last action reads %q, not what the iterations made", line)
		}
		for i, task := range s.seen {
			line := strings.Join(s.command(i), " ")
			if strings.HasPrefix(task.StepName, "first[") && !strings.Contains(line, "-i tmp/a -o") &&
				!strings.Contains(line, "-i tmp/b c -o") {
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
			if strings.HasPrefix(task.StepName, "work[") {
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
  - {type: execute, id: second, service: one, inputs: [{id: in, var: a}], outputs: [{id: out, var: b}],
      retries: {maxAttempts: 2, delay: 1s}}
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
		if status := s.steepStatus(r); status != "ERROR" {
			t.Errorf("status %s: what follows was never begun", status)
		}
	})
	// A chain that is cancelled by a timeout is not retried, and its sibling goes on.
	perform(t, c, map[string][]try{"right": {hangs}, "left": {{run: time.Minute}}}, nil, func(s *stage, r *core.Run) {
		if got := r.EndedAt.Std().Sub(s.began); got != time.Minute || s.steepStatus(r) != "CANCELLED" {
			t.Errorf("ended after %s as %s", got, s.steepStatus(r))
		}
	})
}

// TestSteepChainBorders checks that the same actions are one process chain as in Steep's generator. c fails, so the
// actions of its chain run twice, and those of others once.
func TestSteepChainBorders(t *testing.T) {
	for name, c := range map[string]struct{ actions, want string }{
		"one after the other": {`
  - {type: execute, id: b, service: many, dependsOn: a}
  - {type: execute, id: a, service: many}
  - {type: execute, id: c, service: many, dependsOn: b}`, "a2 b2 c2"},
		"a fork": {`
  - {type: execute, id: a, service: many}
  - {type: execute, id: c, service: many, dependsOn: a}
  - {type: execute, id: x, service: many, dependsOn: a}`, "a1 c2 x1"},
		"all follow b": {`
  - {type: execute, id: a, service: one, inputs: [{id: in, value: x}], outputs: [{id: out, var: v}]}
  - {type: execute, id: b, service: many, dependsOn: a}
  - {type: execute, id: c, service: many, inputs: [{id: in, var: v}], dependsOn: b}`, "a2 b2 c2"},
		"what was executed before joins nothing": {`
  - {type: execute, id: a, service: one, inputs: [{id: in, value: x}], outputs: [{id: out, var: v}]}
  - {type: execute, id: other, service: many, dependsOn: a}
  - {type: execute, id: b, service: one, inputs: [{id: in, var: v}], outputs: [{id: out, var: w}]}
  - {type: execute, id: c, service: many, inputs: [{id: in, var: v}, {id: in, var: w}]}`, "a1 b2 c2 other1"},
		"a join": {`
  - {type: execute, id: a, service: one, inputs: [{id: in, value: x}], outputs: [{id: out, var: v}]}
  - {type: execute, id: b, service: one, inputs: [{id: in, value: x}], outputs: [{id: out, var: w}]}
  - {type: execute, id: c, service: many, inputs: [{id: in, var: v}, {id: in, var: w}]}`, "a1 b1 c2"},
		"two ways are no tree": {`
  - {type: execute, id: a, service: many}
  - {type: execute, id: b, service: many, dependsOn: a}
  - {type: execute, id: d, service: many, dependsOn: [a, b]}
  - {type: execute, id: c, service: many, dependsOn: [b, d]}`, "a1 b2 c2 d2"},
		"a chain takes as long as its actions": {`
  - {type: execute, id: p, service: many}
  - {type: execute, id: q, service: many, dependsOn: p}
  - {type: execute, id: s, service: many}
  - {type: execute, id: x, service: many, dependsOn: s}
  - {type: execute, id: e, service: many, dependsOn: s}
  - {type: execute, id: c, service: many, dependsOn: [e, q]}`, "c2 e1 p1 q1 s1 x1"},
		"a file that may be missing is looked for": {`
  - {type: execute, id: a, service: maybe, inputs: [{id: in, value: x}], outputs: [{id: out, var: v}]}
  - {type: execute, id: c, service: many, inputs: [{id: in, var: v}]}`, "a1 c2 v.files1"},
	} {
		t.Run(name, func(t *testing.T) {
			conversion := steepConversion(t, "api: 4.7.0\nname: w\nretries: {processChains: {maxAttempts: 2, delay: "+
				"1s}}\nvars: [{id: v}, {id: w}]\nactions:"+c.actions, steepServices, "")
			script := map[string][]try{"c": {broken}, "v.files": {{output: `{"files":"f"}`}}}
			perform(t, conversion, script, nil, func(s *stage, _ *core.Run) {
				times := map[string]int{}
				for _, task := range s.seen {
					times[task.StepName]++
				}
				var got []string
				for _, name := range slices.Sorted(maps.Keys(times)) {
					got = append(got, fmt.Sprintf("%s%d", name, times[name]))
				}
				if text := strings.Join(got, " "); text != c.want {
					t.Errorf("got %s, want %s", text, c.want)
				}
			})
		})
	}
}

// TestSteepCardinality checks that the number of times that a parameter is given is known when the action begins, and
// is checked then.
func TestSteepCardinality(t *testing.T) {
	for list, want := range map[string]string{"[x]": "SUCCESS", "[x, y]": "ERROR", "[]": "ERROR"} {
		c := steepConversion(t, `
api: 4.7.0
name: w
vars: [{id: list, value: `+list+`}, {id: made}, {id: all}]
actions:
  - {type: for, id: each, input: list, enumerator: e, output: all, yieldToOutput: made, actions: [
      {type: execute, id: work, service: one, inputs: [{id: in, var: e}], outputs: [{id: out, var: made}]}]}
  - {type: execute, id: last, service: one, inputs: [{id: in, var: all}]}
`, steepServices, "")
		perform(t, c, nil, nil, func(s *stage, r *core.Run) {
			last, _ := r.Lookup("last")
			switch {
			case s.steepStatus(r) != want:
				t.Errorf("%s: %s, want %s", list, s.steepStatus(r), want)
			case list == "[]" && !strings.Contains(last.Failure.Message,
				`workflow.yaml:6:63: the variable "all" never gets a value`):
				t.Errorf("%s: %v", list, last.Failure)
			case list == "[x, y]" && !strings.Contains(last.Failure.Message,
				`workflow.yaml:8:5: parameter "in" of service "one" is given 2 times`):
				t.Errorf("%s: %v", list, last.Failure)
			}
		})
	}
}

// TestSteepStatus checks that the status of a submission depends on the process chains in its iterations as well.
func TestSteepStatus(t *testing.T) {
	slow := []try{{run: time.Second}}
	for name, c := range map[string]struct {
		script map[string][]try
		want   string
	}{
		"all well":                          {nil, "SUCCESS"},
		"a chain fails at its end":          {map[string][]try{"second": {broken}}, "PARTIAL_SUCCESS"},
		"a chain fails at its beginning":    {map[string][]try{"first": {broken}}, "PARTIAL_SUCCESS"},
		"a chain fails, and others need it": {map[string][]try{"fork": {broken}}, "ERROR"},
		"a chain of each iteration fails": {
			map[string][]try{"second": {broken}, "fork": slow, "alone": {broken}},
			"PARTIAL_SUCCESS",
		},
		"all fail": {map[string][]try{
			"first": {broken}, "fork": {broken}, "left": {broken},
			"alone": {broken},
		}, "ERROR"},
		"one is cancelled, in every iteration": {map[string][]try{"second": {hangs}, "alone": {broken}}, "CANCELLED"},
		"one is cancelled beside failures":     {map[string][]try{"second": {hangs}, "left": {broken}}, "CANCELLED"},
	} {
		conversion := steepConversion(t, `
api: 4.7.0
name: w
vars: [{id: list, value: [x, y]}, {id: made}]
actions:
  - {type: for, id: each, input: list, enumerator: e, actions: [
      {type: execute, id: first, service: one, inputs: [{id: in, var: e}], outputs: [{id: out, var: made}]},
      {type: execute, id: second, service: one, inputs: [{id: in, var: made}], maxRuntime: 5s},
      {type: execute, id: fork, service: many},
      {type: execute, id: left, service: many, dependsOn: fork},
      {type: execute, id: right, service: many, dependsOn: fork}]}
  - {type: execute, id: alone, service: many}
`, steepServices, "")
		perform(t, conversion, c.script, nil, func(s *stage, r *core.Run) {
			if got := s.steepStatus(r); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		})
	}
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
    - {type: execute, id: second, service: one, inputs: [{id: in, var: text}], outputs: [{id: out, var: made}],
        dependsOn: [first]}
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

// steepStatus returns a run's status in Steep's words.
func (s *stage) steepStatus(r *core.Run) string {
	status, _ := steep.Status(s.told(r))
	return status
}

func (s *stage) told(r *core.Run) steep.Told {
	return steep.Told{Run: r, Chains: s.chains[r.Workflow], Child: func(step core.StepID) (steep.Told, bool) {
		entries, err := s.engine.Entries(s.t.Context(), r.ID, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		var child core.RunID
		for _, e := range entries {
			for _, rec := range e.Records {
				if started, ok := rec.(core.AttemptStarted); ok && started.Step == step {
					child = started.Child
				}
			}
		}
		c, err := s.engine.Inspect(s.t.Context(), child)
		if err != nil {
			s.t.Fatal(err)
		}
		return s.told(c), true
	}}
}
