package conformance

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/dialect/aether"
	"github.com/pawl-dev/pawl/internal/core"
)

// aetherGiven lists what the attempts of each step were given as parameters.
func aetherGiven(t *testing.T, s *stage) string {
	t.Helper()
	var out []string
	for _, task := range s.seen {
		in, _ := json.Marshal(stdin(t, task))
		name, _, _ := strings.Cut(task.StepName, "[")
		out = append(out, name+" "+string(in))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// run matches a child run's id in messages. It differs each time.
var run = regexp.MustCompile(`the child run [0-9a-f-]+`)

func across(s *stage) { s.across = true }

// TestAetherData checks that the data of tasks whose source has no value, loops with failing iterations, and tasks that
// others omit.
func TestAetherData(t *testing.T) {
	list := `{"task": {"name": "list", "executor": {"type": "echo"}, "outputs": {"parameters": [{"name": "of"},
    {"name": "more", "value": "its own"}]}}},
{"task": {"name": "one", "inputs": {"parameters": [{"name": "k", "default": 0}]}, "executor": {"type": "echo"}}}`
	for _, test := range []struct {
		name, tasks, templates string
		script                 map[string][]try
		phase, want            string
	}{
		{
			// A name of an output that is not there stays as it is, and a place gives way to the input's default.
			name: "nothing",
			tasks: `{"name": "a", "template": "list", "when": "1 == 2"}, {"name": "b", "template": "one",
    "dependencies": ["a"], "arguments": {"parameters": [
{"name": "k", "valueFrom": {"parameter": "tasks.a.outputs.parameters.of"}},
	{"name": "x", "value": "got {{tasks.a.outputs.parameters.of}}"},
{"name": "y", "value": "{{ tasks.a.outputs.parameters.of }}"},
	{"name": "z", "value": "{{tasks.a.outputs.parameters.more}}"}]}},
{"name": "c", "template": "one", "dependencies": ["a"], "when": "tasks.a.outputs.parameters.of == 'y'"}`,
			templates: `, ` + list, phase: "Succeeded",
			want: `b {"k":0,"x":"got {{tasks.a.outputs.parameters.of}}",` +
				`"y":"{{ tasks.a.outputs.parameters.of }}","z":"its own"}`,
		},
		{
			name: "expressions",
			tasks: `{"name": "a", "template": "list"}, {"name": "b", "template": "one", "dependencies": ["a"],
    "arguments": {"parameters": [
{"name": "k", "valueFrom": {"expression": "tasks.a.outputs.parameters.of + {{tasks.a.code}} + 1"}},
	{"name": "x", "valueFrom": {"path": "tasks.a.outputs.parameters.more"}}]}}`,
			templates: `, ` + list, script: map[string][]try{"a": {{output: `{"of": 41}`}}}, phase: "Succeeded",
			want: `a {}
b {"k":42,"x":"its own"}`,
		},
		{
			// A name in brackets is the same as the dotted one, wherever it stands.
			name: "brackets",
			tasks: `{"name": "a", "template": "few", "retry": {"limit": 2,
    "expression": "tasks.a.outputs.parameters[\"success-count\"] == 0"}},
{"name": "b-1", "template": "one", "dependencies": ["a"], "arguments": {"parameters": [
    {"name": "k", "valueFrom": {"parameter": "tasks[\"a\"].outputs[\"parameters\"]['success-count']"}},
    {"name": "x", "value": "of {{tasks.a.outputs.parameters[\"success-count\"]}}"}]},
    "when": "tasks?.a?.outputs?.parameters?.[\"success-count\"] == 1 && tasks['a']['phase'] == 'Succeeded'"},
{"name": "c", "template": "one", "dependencies": ["b-1"], "when": "tasks[\"b-1\"].code == 0",
    "arguments": {"parameters": [{"name": "k", "valueFrom": {"expression":
    "tasks[\"b-1\"].outputs.parameters[\"r-1\"] - 1"}}]}}`,
			templates: `, ` + list + `, {"task": {"name": "few", "executor": {"type": "echo"}}}`,
			script: map[string][]try{
				"a":   {{kind: failed.kind, output: `{"success-count": 0}`}, {output: `{"success-count": 1}`}},
				"b-1": {{output: `{"r-1": 7}`}},
			},
			phase: "Succeeded",
			want: `a {}
a {}
b-1 {"k":1,"x":"of 1"}
c {"k":6}`,
		},
		{
			// An argument that is an empty text is a value.
			name: "empty",
			tasks: `{"name": "a", "template": "one", "arguments": {"parameters": [{"name": "k", "value": ""},
    {"name": "l", "value": null}, {"name": "m", "value": ""}]}}`,
			templates: `, ` + list, phase: "Succeeded", want: `a {"k":"","l":null,"m":""}`,
		},
		{
			// A mapping's fields are the iteration's inputs, and a list may be a text.
			name: "items",
			tasks: `{"name": "a", "template": "list"}, {"name": "b", "template": "each", "dependencies": ["a"]},
    {"name": "c", "template": "none"},
{"name": "d", "template": "one", "dependencies": ["b", "c"],
	"arguments": {"parameters": [{"name": "k",
	"value": "{{tasks.b.outputs.parameters.o}} {{tasks.c.outputs.parameters.o}}"}]}}`,
			templates: `, ` + list + `,
{"loop": {"name": "each", "itemsFrom": "{{tasks.a.outputs.parameters.of}}", "maxIterations": 2, "body": "one",
    "aggregate": {"strategy": "list", "parameters": ["o"]}}},
{"loop": {"name": "none", "itemsFrom": "inputs.parameters.absent", "body": "one"}}`,
			script: map[string][]try{"a": {{output: `{"of": "[{\"k\": 7}, 8, 9]"}`}}, "one": {{output: `{"o": 1}`}}},
			phase:  "Succeeded",
			want: `a {}
d {"k":"[1 1] {{tasks.c.outputs.parameters.o}}"}
one {"k":0,"loop_iter.index":1,"loop_iter.item":8}
one {"k":7,"loop_iter.index":0}`,
		},
		{
			// The condition is asked after an iteration that failed, too, and the loop fails in the end.
			name: "repeat",
			tasks: `{"name": "a", "template": "again", "continueOn": {"failed": true}}, {"name": "b",
    "template": "one", "dependencies": ["a"],
"arguments": {"parameters": [{"name": "k", "value": "{{tasks.a.phase}}: {{tasks.a.msg}}"}]}}`,
			templates: `, ` + list + `,
{"loop": {"name": "again", "repeatCondition": "tasks.try.phase != 'Succeeded'", "maxIterations": 5, "body": "try",
	"arguments": {"parameters": [{"name": "n", "value": "{{loop_iter.index}}"}]}}},
{"task": {"name": "try", "executor": {"type": "echo"}}}`,
			script: map[string][]try{"try": {{kind: failed.kind, msg: "no"}, {kind: broken.kind, msg: "out"}, ok}},
			phase:  "Succeeded",
			want: `b {"k":"Failed: RUN failed: step \"ended\" failed: no"}
try {"n":0}
try {"n":1}
try {"n":2}`,
		},
		{
			name: "entrypoints", tasks: `{"name": "x",
    "template": "start"}`, templates: `, ` + list + `, {"dag": {"name": "start", "entrypoints": ["a"], "tasks": [
{"name": "a", "template": "list"}, {"name": "b", "template": "list", "dependencies": ["a"]},
	{"name": "c", "template": "list"},
{"name": "d", "template": "list", "dependencies": ["c"]},
	{"name": "e", "template": "list", "dependencies": ["b", "c"]}]}}`,
			phase: "Succeeded", want: `a {}
b {}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := aetherFlow(t, "", test.tasks, test.templates)
			perform(t, c, test.script, nil, func(s *stage, r *core.Run) {
				if got := aether.Status(r); got != test.phase {
					t.Errorf("%s, not %s: %v", got, test.phase, r.Failure)
				}
				if got := run.ReplaceAllString(aetherGiven(t, s), "RUN"); got != test.want {
					t.Errorf("the steps were given\n%s\nand not\n%s", got, test.want)
				}
			}, across)
		})
	}
}

// TestAetherPhaseConditions checks that succeeded is checked before failed, and failed before error, and all of them
// before a retry. If none applies, the phase stays as it was.
func TestAetherPhaseConditions(t *testing.T) {
	for i, test := range []struct {
		conditions, retry string
		tries             []try
		attempts          int
		phase             string
	}{
		{`"succeeded": "code == 3"`, `"limit": 2`, []try{{kind: broken.kind}}, 1, "Succeeded"},
		{
			`"succeeded": "code == 9", "failed": "outputs.parameters.o > 1"`, `"limit": 2`,
			[]try{{output: `{"o": 2}`}, ok},
			1, "Failed",
		},
		{
			`"failed": "outputs.parameters.o > 1"`, `"limit": 2, "expression": "tasks.work.phase == 'Failed'"`,
			[]try{{output: `{"o": 2}`}, {output: `{"o": 1}`}},
			2, "Succeeded",
		},
		{
			`"failed": "outputs.parameters[\"o-p\"] > 1 && outputs['parameters'].q == 3"`, `"limit": 2`,
			[]try{{output: `{"o-p": 2, "q": 3}`}, ok},
			1, "Failed",
		},
		// A comparison with an output that is not there does not hold.
		{`"succeeded": "outputs.parameters.o == outputs.parameters.p"`, `"limit": 0`, []try{broken}, 1, "Error"},
		{`"failed": "outputs.parameters.o != 'x'"`, `"limit": 0`, []try{{output: `{"p": 1}`}}, 1, "Succeeded"},
		{`"failed": "!(outputs.parameters.o == 'x')"`, `"limit": 0`, []try{{output: `{"p": 1}`}}, 1, "Succeeded"},
		{
			`"failed": "code == 75 || outputs.parameters.o == 1"`, `"limit": 0`,
			[]try{{kind: broken.kind, code: 75}},
			1, "Failed",
		},
		{`"failed": "(outputs.parameters.o ?? 1) == 1"`, `"limit": 0`, []try{{output: `{"p": 1}`}}, 1, "Failed"},
		{`"error": "phase == 'Failed' && msg != 'phase'"`, `"limit": 1`, []try{failed, ok}, 2, "Succeeded"},
		{`"succeeded": "true", "failed": "true", "error": "true"`, `"limit": 1`, []try{failed}, 1, "Succeeded"},
		{`"failed": "true", "error": "true"`, `"limit": 1`, []try{ok}, 1, "Failed"},
		{`"succeeded": "code == 4"`, `"limit": 1`, []try{broken, broken}, 2, "Error"},
		{
			`"succeeded": "code == 4"`, `"limit": 4, "expression": "tasks.work.code == 75"`,
			[]try{{kind: broken.kind, code: 75}, {kind: broken.kind, code: 76}},
			2, "Error",
		},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c := aetherFlow(t, "", `{"name": "work", "template": "strict", "retry": {`+test.retry+`}},
{"name": "next", "template": "work", "dependencies": ["work"], "arguments": {"parameters": [{"name": "o",
    "value": "{{tasks.work.outputs.parameters.o}}"}]}}`,
				`, {"task": {"name": "strict", "executor": {"type": "echo"},
    "phaseConditions": {`+test.conditions+`}}}`)
			perform(t, c, map[string][]try{"work": test.tries}, nil, func(s *stage, r *core.Run) {
				step, _ := r.Lookup("work")
				if got := aether.TaskPhase(step); got != test.phase || s.played["work"] != test.attempts {
					t.Errorf("%s after %d attempts (%v)", got, s.played["work"], step.Failure)
				}
			}, across)
		})
	}
}

// TestAetherLoopEntrypoint checks that the run's output is what the loop's aggregate makes of the iterations' outputs.
func TestAetherLoopEntrypoint(t *testing.T) {
	for aggregate, want := range map[string]string{
		"":                                     `{"o":2,"p":"y"}`,
		`, "aggregate": {"strategy": "last"}`:  `{"o":2,"p":"y"}`,
		`, "aggregate": {"strategy": "first"}`: `{"o":1}`,
		`, "aggregate": {"strategy": "list"}`:  `{"o":[1,2],"p":[null,"y"]}`,
		`, "aggregate": {"strategy": "list", "parameters": ["o"]}`:  `{"o":[1,2]}`,
		`, "aggregate": {"strategy": "first", "parameters": ["o"]}`: `{"o":1}`,
		`, "aggregate": {"parameters": ["o", "absent"]}`:            `{"absent":null,"o":2}`,
	} {
		for _, over := range []string{
			`"items": [1, 2]`, `"repeatCondition": "loop_iter.index < 1", "maxIterations": 5`,
		} {
			c, err := aether.Convert(aether.Source{Name: "flow.json", Text: []byte(`{"apiVersion": "aether/v1",
    "kind": "Workflow", "metadata": {"name": "w"}, "spec": {"entrypoint": "many", "templates": [
{"loop": {"name": "many", ` + over + `, "body": "work"` + aggregate + `}},
{"task": {"name": "work", "executor": {"type": "echo"}}}]}}`)},
				aether.Source{Name: "handlers.yaml", Text: []byte(aetherHandlers)})
			if err != nil {
				t.Fatal(err)
			}
			script := map[string][]try{
				"work[0]": {{output: `{"o":1}`}}, "work[1]": {{output: `{"o":2,"p":"y"}`}},
				"work": {{output: `{"o":1}`}, {output: `{"o":2,"p":"y"}`}},
			}
			perform(t, c, script, nil, func(_ *stage, r *core.Run) {
				if wantPhase(t, r, core.RunSucceeded); string(r.Output) != want {
					t.Errorf("%s%s: the output is %s, want %s", over, aggregate, r.Output, want)
				}
			}, across)
		}
	}
}
