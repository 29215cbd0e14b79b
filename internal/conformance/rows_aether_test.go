package conformance

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/aether"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

func init() {
	addDialect("A1", aetherLimit)
	addDialect("A2", aetherFilter)
	addDialect("A3", aetherExpression)
	addDialect("A4", aetherInProgress)
	addDialect("A4", aetherInProgressPaused)
	addDialect("A5", aetherExhausted)
	addDialect("A5", aetherExhaustedInDag)
	addDialect("A6", aetherUnits)
	addDialect("A7", aetherSuspended)
	addDialect("A7", aetherTimeoutInDag)
	addDialect("A8", aetherResume)
	addDialect("A8", aetherResumeTwice)
	addDialect("A9", aetherIdempotent)
	addDialect("A11", aetherWorkflowTimeout)
	addDialect("A12", aetherDeadlineReused)
	addDialect("A13", aetherContainer)
}

const aetherHandlers = `handlers: {echo: {exec: {command: [./echo]}}, wait: {wait: {}}, subtree: {flow: inner},
    ask: {http: "http://localhost/"}}`

// aetherSource makes a workflow of a dag's tasks, and more templates after it.
func aetherSource(spec, tasks, templates string) aether.Source {
	text := `{"apiVersion": "aether/v1", "kind": "Workflow", "metadata": {"name": "w"}, ` +
		`"spec": {"entrypoint": "main", ` + spec + `
"templates": [{"dag": {"name": "main", "tasks": [` + tasks + `]}},
	{"task": {"name": "work", "executor": {"type": "echo"}}}` + templates + `]}}`
	return aether.Source{Name: "flow.json", Text: []byte(text)}
}

func aetherFlow(t *testing.T, spec, tasks, templates string) *dialect.Conversion {
	t.Helper()
	c, err := aether.Convert(aetherSource(spec, tasks, templates),
		aether.Source{Name: "handlers.yaml", Text: []byte(aetherHandlers)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// aetherTask runs one task called work and compares its number of attempts and its phase.
func aetherTask(t *testing.T, fields string, tries []try, attempts int, phase string) {
	t.Helper()
	c := aetherFlow(t, "", `{"name": "work", "template": "work", `+fields+`}`, "")
	perform(t, c, map[string][]try{"work": tries}, nil, func(s *stage, r *core.Run) {
		step, _ := r.Lookup("work")
		if got := len(s.attempts()); got != attempts || aether.TaskPhase(step) != phase {
			t.Errorf("%s: %d attempts, %s; want %d, %s (%v)", fields, got, aether.TaskPhase(step),
				attempts, phase, step.Failure)
		}
		if phase == "Succeeded" && aether.Retries(step) != attempts-1 {
			t.Errorf("%s: %d retries", fields, aether.Retries(step))
		}
	})
}

func aetherLimit(t *testing.T) {
	aetherTask(t, `"retry": {"limit": 2}`, []try{broken}, 3, "Error")
	aetherTask(t, `"retry": {"limit": 0}`, []try{broken}, 1, "Error")
	aetherTask(t, `"when": "true"`, []try{broken}, 1, "Error")
	aetherTask(t, `"retry": {"limit": 3}`, []try{broken, broken, ok}, 3, "Succeeded")
}

func aetherFilter(t *testing.T) {
	aetherTask(t, `"retry": {"limit": 2}`, []try{failed}, 1, "Failed")
	aetherTask(t, `"retry": {"limit": 2}`, []try{{kind: policy.KindTimeout}, ok}, 2, "Succeeded")
	aetherTask(t, `"retry": {"limit": 2}`, []try{broken, failed}, 2, "Failed")
}

func aetherExpression(t *testing.T) {
	retry := func(expression string) string { return `"retry": {"limit": 3, "expression": "` + expression + `"}` }
	aetherTask(t, retry("tasks.work.phase != 'Succeeded'"), []try{failed, broken, ok}, 3, "Succeeded")
	aetherTask(t, retry("tasks.work.phase == 'Failed'"), []try{failed, broken}, 2, "Error")
	aetherTask(t, retry("tasks.work.code == 7"), []try{{kind: policy.KindError, code: 7}, broken}, 2, "Error")
	aetherTask(t, retry("tasks.work.msg contains 'trouble'"), []try{failed, ok}, 2, "Succeeded")
	aetherTask(t, retry("tasks.work.outputs.parameters.done == true"), []try{broken}, 1, "Error")
	// The output of a failed attempt counts, until one does not say so any more.
	busy := try{kind: policy.KindFailed, code: 1, output: `{"state": {"now": "busy"}}`}
	gone := try{kind: policy.KindFailed, code: 1, output: `{"state": {"now": "gone"}}`}
	aetherTask(t, retry("tasks.work.outputs.parameters.state.now == 'busy'"), []try{busy, busy, gone}, 3, "Failed")
	aetherTask(t, retry("tasks.work.outputs.parameters.state.now == 'busy'"), []try{busy, broken}, 2, "Error")
	// An executor without a code of its own has those of Aether.
	aetherTask(t, retry("tasks.work.code == 2"), []try{{kind: policy.KindFailed}, {kind: policy.KindError}}, 2, "Error")
	aetherTask(t, retry("tasks.work.code == 3"), []try{{kind: policy.KindError}, {kind: policy.KindFailed}}, 2,
		"Failed")
	aetherTask(t, retry("tasks.work.code == 4"), []try{{kind: policy.KindTimeout}, {kind: policy.KindFailed}}, 2,
		"Failed")
	// An expression that is empty is one that is left out: the default filter holds.
	aetherTask(t, retry(""), []try{broken, failed}, 2, "Failed")
	aetherTask(t, retry("'tasks.work.phase' == 'x'"), []try{broken}, 1, "Error")
	_, err := aether.Convert(aetherSource("", `{"name": "work", "template": "work", `+retry("tasks.work.code")+`}`, ""),
		aether.Source{Name: "handlers.yaml", Text: []byte(aetherHandlers)})
	if err == nil || !strings.Contains(err.Error(), "flow.json:2:") || !strings.Contains(err.Error(), "true or false") {
		t.Errorf("an expression that is no condition is refused with %v", err)
	}
	// The expression may name what the task depends on, also with a dash in it.
	c := aetherFlow(t, "", `{"name": "pre-check", "template": "work"},
{"name": "next", "template": "work", "dependencies": ["pre-check"], "retry": {"limit": 1,
    "expression": "tasks.pre-check.phase == 'Succeeded' && tasks.pre-check.outputs.parameters.go-on == 'yes'"}}`, "")
	perform(t, c, map[string][]try{"pre-check": {{output: `{"go-on":"yes"}`}}, "next": {failed, ok}}, nil,
		func(s *stage, r *core.Run) {
			wantPhase(t, r, core.RunSucceeded)
			if got := len(s.attempts()); got != 3 {
				t.Errorf("%d attempts, want 3", got)
			}
		})
}

func aetherInProgress(t *testing.T) {
	c := aetherFlow(t,
		`"arguments": {"parameters": [{"name": "order", "value": 42}]}, "hooks": {"onSuccess": {"template": "work"},
    "onError": {"template": "work"}},`,
		`{"name": "flaky", "template": "work", "retry": {"limit": 2}, "arguments": {"parameters": [{"name": "id",
    "valueFrom": {"parameter": "workflow.arguments.parameters.order"}}]}}`, "")
	perform(t, c, map[string][]try{"flaky": {
		{run: time.Second, kind: policy.KindError},
		{run: time.Second, kind: policy.KindError},
		{run: time.Second},
	}}, func(s *stage) {
		s.pass(1500 * time.Millisecond)
		step, _ := s.run().Lookup("flaky")
		if step.Phase.Closed() || aether.TaskPhase(step) != "Running" || aether.Retries(step) != 1 {
			t.Errorf("between the attempts the task is %s with %d retries",
				aether.TaskPhase(step), aether.Retries(step))
		}
	}, func(s *stage, r *core.Run) {
		s.wantAttempts("flaky@0ms-1s error", "flaky@1s-2s error", "flaky@2s-3s ok", "onSuccess@3s-3s ok")
		for i := range 3 {
			if string(s.seen[i].Payload) != string(s.seen[0].Payload) ||
				!strings.Contains(string(s.seen[i].Payload), "42") {
				t.Errorf("attempt %d was given %s", i+1, s.seen[i].Payload)
			}
		}
		if step, _ := r.Lookup("flaky"); aether.Retries(step) != 2 {
			t.Errorf("%d retries", aether.Retries(step))
		}
	})
}

// aetherInProgressPaused checks that while the run is paused no attempt begins, so the task is seen between two of
// them. It has not ended then, whatever its last attempt did.
func aetherInProgressPaused(t *testing.T) {
	c := aetherFlow(t, "", `{"name": "flaky", "template": "work", "retry": {"limit": 2}}`, "")
	perform(t, c, map[string][]try{"flaky": {{run: time.Second, kind: policy.KindError}, ok}}, func(s *stage) {
		s.pass(500 * time.Millisecond)
		s.operate(core.Operation{Op: core.OpPause, Step: core.NoStep})
		s.pass(time.Minute)
		r := s.run()
		step, _ := r.Lookup("flaky")
		if step.Phase != core.StepBackingOff || aether.TaskPhase(step) != "Ready" || aether.Status(r) != "Running" {
			t.Errorf("the step is %s, the task %s, the workflow %s", step.Phase, aether.TaskPhase(step),
				aether.Status(r))
		}
		s.operate(core.Operation{Op: core.OpResume, Step: core.NoStep})
	}, func(s *stage, r *core.Run) {
		wantPhase(t, r, core.RunSucceeded)
		s.wantAttempts("flaky@0ms-1s error", "flaky@1m500ms-1m500ms ok")
	})
}

func aetherExhausted(t *testing.T) {
	tasks := func(extra string) string {
		return `{"name": "doomed", "template": "work", "retry": {"limit": 2,
    "expression": "tasks.doomed.phase != 'Succeeded'"}` + extra + `}, {"name": "after", "template": "work",
    "dependencies": ["doomed"]}`
	}
	for extra, want := range map[string]string{
		"": "Failed", `, "continueOn": {"failed": true}`: "Succeeded",
		`, "continueOn": {"error": true}`: "Failed",
	} {
		perform(t, aetherFlow(t, "", tasks(extra), ""), map[string][]try{"doomed": {failed}}, nil,
			func(s *stage, r *core.Run) {
				n := strings.Count(strings.Join(s.attempts(), " "), "doomed@")
				step, _ := r.Lookup("doomed")
				if n != 3 || aether.TaskPhase(step) != "Failed" || aether.Status(r) != want {
					t.Errorf("%q: %d attempts, task %s, workflow %s",
						extra, n, aether.TaskPhase(step), aether.Status(r))
				}
			})
	}
}

// aetherContinueOnOfDag checks that the setting of a dag holds for all of its tasks, but for those that have their own.
func aetherContinueOnOfDag(t *testing.T, ending, own string, tries []try, task, dag string) {
	t.Helper()
	c := aetherFlow(t, "", `{"name": "sub", "template": "inner"}`, `, {"dag": {"name": "inner",
    "continueOn": {"`+ending+`": true}, "tasks": [{"name": "bad", "template": "work", "timeout": "5s"`+own+`},
    {"name": "after", "template": "work", "dependencies": ["bad"]}]}}`)
	perform(t, c, map[string][]try{"bad": tries}, nil, func(s *stage, r *core.Run) {
		after := s.played["after"] == 1
		if sub, _ := r.Lookup("sub"); aether.TaskPhase(sub) != dag || after != (dag == "Succeeded") {
			t.Errorf("%s%s: after a task that is %s the dag is %s, and its next task began: %v", ending, own, task,
				aether.TaskPhase(sub), after)
		}
	}, across)
}

func aetherExhaustedInDag(t *testing.T) {
	aetherContinueOnOfDag(t, "failed", "", []try{failed}, "Failed", "Succeeded")
	aetherContinueOnOfDag(t, "error", "", []try{failed}, "Failed", "Failed")
	aetherContinueOnOfDag(t, "error", "", []try{broken}, "Error", "Succeeded")
	aetherContinueOnOfDag(t, "failed", `, "continueOn": {"error": true}`, []try{failed}, "Failed", "Failed")
}

func aetherTimeoutInDag(t *testing.T) {
	aetherContinueOnOfDag(t, "timeout", "", []try{hangs}, "Timeout", "Succeeded")
	aetherContinueOnOfDag(t, "failed", "", []try{hangs}, "Timeout", "Error")
}

func aetherUnits(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "30s": 30 * time.Second, "5m": 5 * time.Minute,
		"2h": 2 * time.Hour, "1d": 24 * time.Hour,
	} {
		c := aetherFlow(t, `"timeout": "2d",`, `{"name": "work", "template": "work", "timeout": "`+text+`"}`, "")
		perform(t, c, map[string][]try{"work": {hangs}}, nil, func(s *stage, r *core.Run) {
			if got := r.EndedAt.Std().Sub(s.began); got != want || s.stops != 1 {
				t.Errorf("timeout %s ended the run after %s, %d attempts stopped", text, got, s.stops)
			}
		})
	}
	// An empty text is a timeout that is left out.
	aetherTask(t, `"timeout": ""`, []try{{run: 50 * time.Minute}}, 1, "Succeeded")
	for _, text := range []string{"abc", "5x", "-1s", "1 d", "5", "1w", " "} {
		_, err := aether.Convert(aetherSource("", `{"name": "work", "template": "work", "timeout": "`+text+`"}`, ""),
			aether.Source{Name: "handlers.yaml", Text: []byte(aetherHandlers)})
		if err == nil || !strings.Contains(err.Error(), "flow.json:2:") {
			t.Errorf("timeout %q is refused with %v", text, err)
		}
	}
}

// aetherWait returns the page's example: a task that waits for a signal, and one after it.
func aetherWait(t *testing.T, continueOn string) *dialect.Conversion {
	t.Helper()
	return aetherFlow(t, "", `{"name": "wait-external", "timeout": "1s", `+continueOn+`
"inputs": {"parameters": [{"name": "suspend", "value": true}]}, "executor": {"type": "echo"}},
{"name": "finish", "template": "work", "dependencies": ["wait-external"],
    "arguments": {"parameters": [{"name": "phase", "value": "{{tasks.wait-external.phase}}"}]}}`, "")
}

func aetherSuspended(t *testing.T) {
	perform(t, aetherWait(t, `"continueOn": {"timeout": true},`), nil, func(s *stage) {
		synctest.Wait()
		if got := aether.Status(s.run()); got != "Suspended" {
			t.Errorf("the workflow is %s", got)
		}
	}, func(s *stage, r *core.Run) {
		step, _ := r.Lookup("wait-external")
		if aether.TaskPhase(step) != "Timeout" || aether.Status(r) != "Succeeded" ||
			r.EndedAt.Std().Sub(s.began) != time.Second {
			t.Errorf("task %s, workflow %s after %s", aether.TaskPhase(step), aether.Status(r),
				r.EndedAt.Std().Sub(s.began))
		}
		if len(s.seen) != 1 || !strings.Contains(string(s.seen[0].Payload), "Timeout") {
			t.Errorf("what follows was not run, or not told how it ended: %d", len(s.seen))
		}
	})
	perform(t, aetherWait(t, ""), nil, nil, func(s *stage, r *core.Run) {
		wantPhase(t, r, core.RunFailed)
		if step, _ := r.Lookup("finish"); aether.TaskPhase(step) != "Skipped" {
			t.Errorf("what follows is %s", aether.TaskPhase(step))
		}
	})
}

func aetherResume(t *testing.T) {
	c := aetherFlow(t, "", `{"name": "approve", "timeout": "1h", "executor": {"type": "wait"}},
{"name": "finish", "template": "work", "dependencies": ["approve"], "arguments": {"parameters": [{"name": "by",
    "valueFrom": {"parameter": "tasks.approve.outputs.parameters.by"}}]}}`, "")
	perform(t, c, map[string][]try{"finish": {{run: time.Minute}}}, func(s *stage) {
		s.pass(time.Second)
		s.send("resume.approve", `{"by": "ada"}`)
		s.send("resume.approve", `{"by": "bob"}`)
	}, func(s *stage, r *core.Run) {
		wantPhase(t, r, core.RunSucceeded)
		s.wantAttempts("finish@1s-1m1s ok")
		if len(s.seen) == 1 && !strings.Contains(string(s.seen[0].Payload), "ada") {
			t.Errorf("the payload did not arrive: %s", s.seen[0].Payload)
		}
	})
}

// aetherResumeTwice checks that a second resume of a task does nothing, neither to it nor to another task that suspends
// after it.
func aetherResumeTwice(t *testing.T) {
	c := aetherFlow(t, "", `{"name": "approve", "executor": {"type": "wait"}},
{"name": "confirm", "timeout": "5m", "executor": {"type": "wait"}, "dependencies": ["approve"],
    "continueOn": {"timeout": true}},
{"name": "finish", "template": "work", "dependencies": ["confirm"], "arguments": {"parameters": [
    {"name": "by", "value": "{{tasks.approve.outputs.parameters.by}} {{tasks.confirm.phase}}"}]}}`, "")
	perform(t, c, nil, func(s *stage) {
		s.pass(time.Second)
		for _, by := range []string{"ada", "bob", "eve"} {
			s.send("resume.approve", `{"by": "`+by+`"}`)
			s.pass(time.Second)
		}
		if step, known := s.run().Lookup("confirm"); !known || aether.TaskPhase(step) != "Suspended" {
			t.Error("a second resume of one task resumed another one")
		}
	}, func(s *stage, r *core.Run) {
		wantPhase(t, r, core.RunSucceeded)
		if got := aetherGiven(t, s); got != `finish {"by":"ada Timeout"}` {
			t.Errorf("what follows was given %s", got)
		}
		if step, _ := r.Lookup("approve"); string(step.Output) != `{"by": "ada"}` {
			t.Errorf("the task's payload is %s", step.Output)
		}
	})
}

func aetherIdempotent(t *testing.T) {
	// Ended first: the expiry does nothing.
	aetherTask(t, `"timeout": "10s"`, []try{{run: 9 * time.Second}}, 1, "Succeeded")
	// A task that waits for a worker times out, and is never begun.
	c := aetherFlow(t, "",
		`{"name": "busy", "template": "work"}, {"name": "ready", "template": "work", "timeout": "10s"}`, "")
	perform(t, c, map[string][]try{"busy": {{run: time.Minute}}}, nil, func(s *stage, r *core.Run) {
		step, _ := r.Lookup("ready")
		if aether.TaskPhase(step) != "Timeout" || step.EndedAt.Std().Sub(s.began) != 10*time.Second ||
			len(s.seen) != 1 {
			t.Errorf("ready is %s after %s; %d attempts were begun", aether.TaskPhase(step),
				step.EndedAt.Std().Sub(s.began), len(s.seen))
		}
	}, func(s *stage) { s.slots = 1 })
}

func aetherWorkflowTimeout(t *testing.T) {
	c := aetherFlow(t,
		`"timeout": "30m", "hooks": {"onTimeout": {"template": "work"}, "onError": {"template": "work"}},`,
		`{"name": "a", "template": "work", "timeout": "2h", "retry": {"limit": 5}}, {"name": "b",
    "executor": {"type": "wait"}}, {"name": "c", "template": "work", "dependencies": ["a"]}`, "")
	perform(t, c, map[string][]try{"a": {hangs}}, nil, func(s *stage, r *core.Run) {
		if aether.Status(r) != "Timeout" || r.EndedAt.Std().Sub(s.began) != 30*time.Minute {
			t.Errorf("%s after %s", aether.Status(r), r.EndedAt.Std().Sub(s.began))
		}
		hooks := 0
		for _, line := range s.attempts() {
			if strings.HasPrefix(line, "onTimeout@30m") {
				hooks++
			}
			if strings.HasPrefix(line, "onError") {
				t.Error("onError ran")
			}
		}
		if hooks != 1 || s.stops != 1 {
			t.Errorf("onTimeout ran %d times, %d attempts were stopped", hooks, s.stops)
		}
		for i := range r.Steps {
			step := &r.Steps[i]
			if want := map[string]string{"a": "Cancelled", "b": "Cancelled"}[step.Key()]; !step.Phase.Closed() ||
				want != "" && aether.TaskPhase(step) != want {
				t.Errorf("%s is %s, not %s", step.Key(), aether.TaskPhase(step), want)
			}
		}
	})
	// An hour where nothing is said; none with 0s.
	for _, spec := range []string{"", `"timeout": "",`} {
		perform(t, aetherFlow(t, spec, `{"name": "a", "template": "work"}`, ""), map[string][]try{"a": {hangs}}, nil,
			func(s *stage, r *core.Run) {
				if got := r.EndedAt.Std().Sub(s.began); got != time.Hour || aether.Status(r) != "Timeout" {
					t.Errorf("%q: %s after %s", spec, aether.Status(r), got)
				}
			})
	}
	perform(t, aetherFlow(t, `"timeout": "0s",`, `{"name": "a", "template": "work"}`, ""),
		map[string][]try{"a": {{run: 3 * time.Hour}}}, nil, func(_ *stage, r *core.Run) {
			wantPhase(t, r, core.RunSucceeded)
		})
}

func aetherDeadlineReused(t *testing.T) {
	c := aetherFlow(t, "", `{"name": "flaky", "template": "work", "timeout": "10s", "retry": {"limit": 3}}`, "")
	perform(t, c, map[string][]try{"flaky": {
		{run: 4 * time.Second, kind: policy.KindError},
		{run: 4 * time.Second, kind: policy.KindError},
		hangs,
	}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("flaky@0ms-4s error", "flaky@4s-8s error", "flaky@8s-10s timeout scheduleToClose")
		if step, _ := r.Lookup("flaky"); aether.TaskPhase(step) != "Timeout" {
			t.Errorf("the task is %s", aether.TaskPhase(step))
		}
	})
}

func aetherContainer(t *testing.T) {
	inner := `, {"dag": {"name": "inner", "tasks": [{"name": "one", "template": "work"}, {"name": "two",
    "template": "work", "dependencies": ["one"]}]}},
{"task": {"name": "wrapper", "executor": {"type": "subtree"}}},
	{"loop": {"name": "many", "items": [1], "body": "work"}}`
	for _, template := range []string{"inner", "many"} {
		_, err := aether.Convert(aetherSource("", `{"name": "sub", "template": "`+template+`", "retry": {"limit": 1}}`,
			inner), aether.Source{Name: "handlers.yaml", Text: []byte(aetherHandlers)})
		if err == nil || !strings.Contains(err.Error(), "flow.json:2:") || !strings.Contains(err.Error(), "wrap it") {
			t.Errorf("retry on %s: %v", template, err)
		}
	}
	c := aetherFlow(t, "", `{"name": "sub", "template": "wrapper", "retry": {"limit": 1}}`, inner)
	perform(t, c, map[string][]try{"two": {broken}}, nil, func(s *stage, r *core.Run) {
		got := strings.Join(s.attempts(), " ")
		if strings.Count(got, "one@") != 2 || strings.Count(got, "two@") != 2 || strings.Count(got, "sub@") != 2 {
			t.Errorf("the subtree is not run twice: %s", got)
		}
		if aether.Status(r) != "Error" {
			t.Errorf("the workflow is %s", aether.Status(r))
		}
	})
}
