package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/dialect/aether"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/policy"
)

func init() {
	addDialect("A10", aetherOneWriter)
	addDialect("A14", aetherStops)
}

// aetherOneWriter lets a second engine take over the journal from one whose signs of life do not arrive. From then on
// only the newer one can write, and the task's end is written once.
func aetherOneWriter(t *testing.T) {
	c := aetherFlow(t, "", `{"name": "work", "template": "work", "timeout": "1m"}`, "")
	synctest.Test(t, func(t *testing.T) {
		first := newStage(t, c)
		first.script = map[string][]try{"work": {{run: 10 * time.Second}}}
		var cut atomic.Bool
		first.journal.Term, first.journal.Now = time.Second, func() core.Time { return policy.At(time.Now()) }
		first.journal.Fault = func(op memory.Op, _ *journal.Batch) error {
			if cut.Load() && op == memory.OpRenew {
				return errors.New("the network is down")
			}
			return nil
		}
		first.open(c.Flow)
		first.pass(3 * time.Second)
		cut.Store(true)
		first.pass(2 * time.Second)
		cut.Store(false)
		second := newStage(t, c)
		second.script, second.journal, second.root = map[string][]try{"work": {{run: 2 * time.Second}}}, first.journal,
			first.root
		second.open(nil)
		out, err := second.engine.Result(t.Context(), first.root)
		if err != nil || out.Phase != core.RunSucceeded {
			t.Errorf("the second engine: %v %v", out.Phase, err)
		}
		first.pass(20 * time.Second) // the first one's worker ends, and its engine may write no more
		if first.engine.Err() == nil {
			err := first.engine.Operate(t.Context(), first.root,
				core.Operation{Op: core.OpCancel, Step: core.NoStep})
			if err == nil {
				t.Error("the first engine still writes")
			}
		}
		ends := 0
		entries, err := second.engine.Entries(t.Context(), first.root, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			for _, rec := range e.Records {
				if _, ended := rec.(core.RunEnded); ended {
					ends++
				}
			}
		}
		if ends != 1 {
			t.Errorf("the run's end is written %d times", ends)
		}
		second.close()
		_ = first.pool.Close(context.Background())
		_ = first.engine.Close() // it says that it lost the journal
	})
}

// aetherStops lets a real process time out. The process and its children are stopped. The next task checks that, for
// ten seconds at most. It has to wait because it starts at once: only another attempt of the same task would start
// after the old work is gone. A dead process whose parent does not wait for it counts as gone.
func aetherStops(t *testing.T) {
	dir := t.TempDir()
	pids := filepath.Join(dir, "pids")
	const check = `for p in $(cat "$PIDS"); do n=0; while :; do ` +
		`case "$(sed -n "s/^State:[^A-Z]*//p" /proc/$p/status 2>/dev/null)" in ""|Z*|X*) break;; esac; ` +
		`n=$((n+1)); [ $n -lt 200 ] || { echo "$p lives"; exit 1; }; sleep 0.05; done; done`
	c, err := aether.Convert(aetherSource("",
		`{"name": "poll", "template": "work", "timeout": "300ms", "continueOn": {"timeout": true}},
{"name": "after", "executor": {"type": "check"},
	"dependencies": ["poll"]}`, ""), aether.Source{Name: "handlers.yaml", Text: []byte(`handlers:
  echo: {exec: {shell: 'sleep 600 & echo $$ $! > "$PIDS"; wait', env: {PIDS: "` + pids + `"}}}
  check: {exec: {shell: '` + check + `', env: {PIDS: "` + pids + `"}}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	performReal(t, c, "", nil, func(_ *stage, r *core.Run) {
		step, _ := r.Lookup("poll")
		if aether.TaskPhase(step) != "Timeout" || aether.Status(r) != "Succeeded" {
			t.Errorf("the task is %s, the workflow %s: %v", aether.TaskPhase(step), aether.Status(r), r.Failure)
		}
	})
	if text, err := os.ReadFile(pids); err != nil || len(strings.Fields(string(text))) != 2 {
		t.Errorf("the processes were not begun: %q %v", text, err)
	}
}

// TestAetherLoops runs loops over a list, over an earlier task's output and with a condition, and a dag in a dag.
func TestAetherLoops(t *testing.T) {
	c := aetherFlow(t, "", `
{"name": "produce", "template": "work"},
{"name": "each", "template": "dynamic", "dependencies": ["produce"],
	"arguments": {"parameters": [{"name": "list",
	"valueFrom": {"parameter": "tasks.produce.outputs.parameters.files"}}]}},
{"name": "fixed", "template": "static"},
{"name": "again", "template": "repeat"},
{"name": "sub", "template": "inner", "arguments": {"parameters": [{"name": "who", "value": "ada"}]}},
{"name": "final", "template": "work", "dependencies": ["each", "fixed", "again", "sub"], "arguments": {"parameters": [
  {"name": "each", "valueFrom": {"parameter": "tasks.each.outputs.parameters.done"}},
	{"name": "fixed", "value": "last is {{tasks.fixed.outputs.parameters.done}}"},
  {"name": "again", "valueFrom": {"parameter": "tasks.again.outputs.parameters.done"}},
	{"name": "sub", "valueFrom": {"parameter": "tasks.sub.outputs.parameters.result"}}]}}`, `,
{"loop": {"name": "dynamic", "inputs": {"parameters": [{"name": "list"}]}, "itemsFrom": "{{inputs.parameters.list}}",
	"concurrency": 1, "body": "step", "arguments": {"parameters": [{"name": "file", "value": "{{iterator.item}}"}]},
	"aggregate": {"strategy": "list", "parameters": ["done"]}}},
{"loop": {"name": "static", "items": ["x", "y"], "body": "step",
	"arguments": {"parameters": [{"name": "file", "value": "{{iterator.index}}-{{iterator.item}}"}]}}},
{"loop": {"name": "repeat", "repeatCondition": "loop_iter.index != 2", "maxIterations": 10, "body": "step",
	"arguments": {"parameters": [{"name": "file", "value": "{{loop_iter.index}}"}]},
	"aggregate": {"strategy": "list"}}},
{"task": {"name": "step", "inputs": {"parameters": [{"name": "file", "type": "string"}]},
	"executor": {"type": "echo"}}},
{"dag": {"name": "inner", "inputs": {"parameters": [{"name": "who"}]},
	"tasks": [{"name": "one", "template": "step",
	"arguments": {"parameters": [{"name": "file", "valueFrom": {"parameter": "inputs.parameters.who"}}]}}],
  "outputs": {"parameters": [{"name": "result", "valueFrom": {"parameter": "tasks.one.outputs.parameters.done"}}]}}}`)
	script := map[string][]try{"produce": {{output: `{"files": ["a", "b",
    "c"]}`}}, "step": {{output: `{"done": true}`}}, "one": {{output: `{"done": "hello"}`}}}
	perform(t, c, script, nil, func(s *stage, r *core.Run) {
		wantPhase(t, r, core.RunSucceeded)
		var files []string
		var final map[string]any
		for _, task := range s.seen {
			in := stdin(t, task)
			if strings.HasPrefix(task.StepName, "step") || task.StepName == "one" {
				files = append(files, text(in["file"]))
			}
			if task.StepName == "final" {
				final = in
			}
		}
		for _, want := range []string{"a", "b", "c", "0-x", "1-y", "0", "1", "2", "ada"} {
			if n := strings.Count(" "+strings.Join(files, " ")+" ", " "+want+" "); n != 1 {
				t.Errorf("%q was given %d times: %q", want, n, files)
			}
		}
		got, _ := json.Marshal(final)
		const want = `{"again":[true,true,true],"each":[true,true,true],"fixed":"last is true","sub":"hello"}`
		if string(got) != want {
			t.Errorf("final was given %s, want %s", got, want)
		}
	})
}

// TestAetherReferences checks that expressions and {{ }} may name codes, fields deep in a value, the inputs of the
// current task in its executor's config, and in a loop the tasks of the dag that calls it.
func TestAetherReferences(t *testing.T) {
	c := aetherFlow(t, `"arguments": {"parameters": [{"name": "where", "value": {"dir": "/data"}}]},`, `
{"name": "list", "template": "work"},
{"name": "late", "template": "work", "timeout": "1s", "continueOn": {"timeout": true}},
{"name": "bad", "template": "work", "continueOn": {"failed": true}},
{"name": "broken", "template": "work", "continueOn": {"error": true}},
{"name": "exits", "template": "work", "retry": {"limit": 5, "expression": "tasks.exits.code == 3"},
	"continueOn": {"error": true}},
{"name": "each", "template": "many", "dependencies": ["list"]},
{"name": "again", "template": "repeat", "dependencies": ["list"]},
{"name": "quiet", "template": "work", "dependencies": ["list"],
	"when": "\"{{tasks.list.outputs.parameters.state}}\" == 'ready now' && {{tasks.list.code}} == 0"},
{"name": "final", "template": "configured", "dependencies": ["list", "late", "bad", "broken", "exits", "each", "again",
	"quiet"], "arguments": {"parameters": [
  {"name": "codes",
	"value": "{{tasks.list.code}} {{tasks.late.code}} {{tasks.bad.code}} {{tasks.broken.code}} {{tasks.exits.code}}"},
  {"name": "deep", "value": "{{tasks.list.outputs.parameters.meta.owner.name}}"},
	{"name": "dir", "valueFrom": {"parameter": "workflow.arguments.parameters.where.dir"}},
  {"name": "empty", "value": ""}]}}`, `,
{"loop": {"name": "many", "itemsFrom": "tasks.list.outputs.parameters.files", "body": "one",
	"arguments": {"parameters": [
  {"name": "file", "value": "{{iterator.item.name}}"}, {"name": "short", "value": "{{loop_iter.name}}"},
	{"name": "of", "value": "{{tasks.list.outputs.parameters.state}}"}]}}},
{"loop": {"name": "repeat", "repeatCondition": "loop_iter.index < tasks.list.outputs.parameters.times",
	"maxIterations": 10, "body": "one", "arguments": {"parameters": [{"name": "file",
	"value": "{{loop_iter.index}}"}]}}},
{"task": {"name": "one", "executor": {"type": "echo"}}},
{"task": {"name": "configured", "inputs": {"parameters": [{"name": "dir"}, {"name": "empty", "value": "its own"},
	{"name": "absent"}]}, "executor": {"type": "echo", "config": {"path": "{{inputs.parameters.dir}}/x"}}}}`)
	script := map[string][]try{
		"list": {{output: `{"files": [{"name": "a"}, {"name": "b"}], "state": "ready now", "times": 2,
    "meta": {"owner": {"name": "ada"}}}`}},
		"late": {hangs}, "bad": {{kind: failed.kind}}, "broken": {{kind: broken.kind}},
		"exits": {{kind: broken.kind}, {kind: broken.kind, code: 75}},
	}
	perform(t, c, script, nil, func(s *stage, r *core.Run) {
		wantPhase(t, r, core.RunSucceeded)
		given := map[string][]string{}
		var config string
		for _, task := range s.seen {
			in, _ := json.Marshal(stdin(t, task))
			name, _, _ := strings.Cut(task.StepName, "[")
			given[name] = append(given[name], string(in))
			if name == "final" {
				config = string(task.Payload)
			}
		}
		if got := strings.Join(given["final"],
			" "); got != `{"codes":"0 4 2 3 75","deep":"ada","dir":"/data","empty":""}` ||
			!strings.Contains(config, `/data/x`) {
			t.Errorf("final was given %s; %s", got, config)
		}
		slices.Sort(given["one"])
		want := []string{
			`{"file":"a","loop_iter.index":0,"name":"a","of":"ready now","short":"a"}`,
			`{"file":"b","loop_iter.index":1,"name":"b","of":"ready now","short":"b"}`,
			`{"file":0}`, `{"file":1}`, `{"file":2}`,
		}
		if !slices.Equal(given["one"], want) {
			t.Errorf("the iterations were given %v", given["one"])
		}
		if len(given["exits"]) != 2 || len(given["quiet"]) != 1 {
			t.Errorf("%d attempts of exits, %d of quiet", len(given["exits"]), len(given["quiet"]))
		}
	})
	// Any number of iterations may run at a time if no number is given.
	var items []string
	for i := range 100 {
		items = append(items, strconv.Itoa(i))
	}
	c = aetherFlow(t, "", `{"name": "all", "template": "wide"}`, `,
{"loop": {"name": "wide", "items": [`+strings.Join(items, ",")+`], "body": "gate"}},
{"dag": {"name": "gate", "tasks": [{"name": "wait", "executor": {"type": "wait"}, "timeout": "1m",
    "continueOn": {"timeout": true}}]}}`)
	perform(t, c, nil, nil, func(s *stage, r *core.Run) {
		if took := r.EndedAt.Std().Sub(s.began); took != time.Minute {
			t.Errorf("a hundred waits of a minute took %s", took)
		}
	})
}

// stdin reads the parameters that a process was given.
func stdin(t *testing.T, task core.Task) map[string]any {
	t.Helper()
	var p struct{ Stdin string }
	var in struct{ Parameters map[string]any }
	if err := json.Unmarshal(task.Payload, &p); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(p.Stdin), &in); err != nil {
		t.Fatalf("%s: %v in %s", task.StepName, err, p.Stdin)
	}
	return in.Parameters
}

func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	out, _ := json.Marshal(v)
	return string(out)
}
