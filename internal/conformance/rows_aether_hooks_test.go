package conformance

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/aether"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

func init() {
	addDialect("A4", aetherTaskHooks)
	addDialect("A8", aetherAnswersSuspended)
}

const everyHook = `"hooks": {"onSuccess": {"template": "work"}, "onFailure": {"template": "work"},
    "onError": {"template": "work"}, "onTimeout": {"template": "work"}, "onExit": {"template": "work", "arguments": {
    "parameters": [{"name": "told", "value": "{{tasks.flaky.phase}} {{tasks.pre.outputs.parameters.n}}"}]}}}`

// hookName returns Aether's name of a hook, as its handler is told. A flow names its hooks by where they stand.
func hookName(t *testing.T, task core.Task) string {
	t.Helper()
	var p struct{ Stdin string }
	var in struct{ Task string }
	if err := json.Unmarshal(task.Payload, &p); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(p.Stdin), &in); err != nil {
		t.Fatal(err)
	}
	return in.Task
}

// ran lists the hooks that ran, in their order.
func (s *stage) ran() string {
	var hooks []string
	for _, task := range s.seen {
		if strings.HasPrefix(task.StepName, "on") {
			hooks = append(hooks, hookName(s.t, task))
		}
	}
	return strings.Join(hooks, " ")
}

// aetherTaskHooks checks that the hooks of a task run once, when its last attempt has ended, and the task ends as
// without them.
func aetherTaskHooks(t *testing.T) {
	for _, test := range []struct {
		name, fields       string
		tries              []try
		hooks, phase, next string
		attempts           int
	}{
		{"success", "", []try{broken, ok}, "onSuccess onExit", "Succeeded", "Succeeded", 2},
		{"failed", "", []try{failed}, "onFailure onExit", "Failed", "Skipped", 1},
		{"error", "", []try{broken}, "onError onExit", "Error", "Skipped", 3},
		{"timeout", `"timeout": "5s",`, []try{broken, hangs}, "onTimeout onExit", "Timeout", "Skipped", 2},
		{"its own timeout", "", []try{{kind: policy.KindTimeout}}, "onTimeout onExit", "Timeout", "Skipped", 3},
		{
			"goes on", `"timeout": "5s", "continueOn": {"timeout": true},`,
			[]try{hangs},
			"onTimeout onExit", "Timeout",
			"Succeeded", 1,
		},
	} {
		t.Run("hooks/"+test.name, func(t *testing.T) {
			c := aetherFlow(t, "", `{"name": "pre", "template": "work"},
{"name": "flaky", "template": "work", "dependencies": ["pre"], "retry": {"limit": 2}, `+test.fields+everyHook+`},
{"name": "next", "template": "work", "dependencies": ["flaky"]}`, "")
			script := map[string][]try{"flaky": test.tries, "pre": {{output: `{"n": 7}`}}}
			perform(t, c, script, nil, func(s *stage, r *core.Run) {
				flaky, _ := r.Lookup("flaky")
				next, _ := r.Lookup("next")
				if aether.TaskPhase(flaky) != test.phase || aether.TaskPhase(next) != test.next {
					t.Errorf("the task is %s, the next one %s (%v)", aether.TaskPhase(flaky), aether.TaskPhase(next),
						flaky.Failure)
				}
				if got := s.ran(); got != test.hooks || s.played["flaky"] != test.attempts {
					t.Errorf("%d attempts, and the hooks %s", s.played["flaky"], got)
				}
				for _, task := range s.seen {
					told := text(stdin(t, task)["told"])
					if task.StepName == "onExit" && told != test.phase+" 7" {
						t.Errorf("onExit was told %q", told)
					}
				}
			}, across)
		})
	}
	// A hook that fails is none of the task's failures, and what the task returned is there after it.
	c := aetherFlow(t, "", `{"name": "flaky", "template": "work", "hooks": {"onSuccess": {"template": "work"}}},
{"name": "next", "template": "work", "dependencies": ["flaky"], "arguments": {"parameters": [{"name": "o",
    "valueFrom": {"parameter": "tasks.flaky.outputs.parameters.o"}}]}}`, "")
	script := map[string][]try{"flaky": {{output: `{"o": 5}`}}, "onSuccess": {broken}}
	perform(t, c, script, nil, func(s *stage, r *core.Run) {
		wantPhase(t, r, core.RunSucceeded)
		if got := aetherGiven(t, s); !strings.Contains(got, `next {"o":5}`) {
			t.Errorf("what follows was given %s", got)
		}
	}, across)
}

// aetherSuspender returns a flow with a task whose process may answer that it suspends, and a task after it.
func aetherSuspender(t *testing.T) *dialect.Conversion {
	t.Helper()
	c, err := aether.Convert(aetherSource("", `{"name": "ask", "timeout": "30m", "executor": {"type": "mail"},
    "continueOn": {"timeout": true}}, {"name": "next", "template": "work", "dependencies": ["ask"], "arguments": {
    "parameters": [{"name": "by", "value": "{{tasks.ask.outputs.parameters.by}}"},
    {"name": "phase", "value": "{{tasks.ask.phase}}"}]}}`, ""), aether.Source{Name: "handlers.yaml", Text: []byte(
		`handlers: {echo: {exec: [./echo]}, mail: {exec: [./mail], suspends: true}}`)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// aetherAnswersSuspended checks a task whose process answers that it suspends. The task's output is that of whoever
// resumes it, and its timeout goes on.
func aetherAnswersSuspended(t *testing.T) {
	asks := map[string][]try{"ask": {{run: time.Minute, output: `{"suspended": true, "by": "nobody"}`}}}
	resume := func(s *stage) {
		s.pass(2 * time.Minute)
		page, err := s.engine.List(s.t.Context(), journal.Query{Limit: 10})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, row := range page.Runs {
			if row.ID == s.root {
				continue
			}
			child, err := s.engine.Inspect(s.t.Context(), row.ID)
			if err != nil || aether.Status(child) != "Suspended" {
				s.t.Errorf("the task's own run is %s, %v", aether.Status(child), err)
			}
			if err := s.engine.Signal(s.t.Context(), row.ID,
				core.SignalReceived{Name: "resume.ask", Payload: []byte(`{"by": "ada"}`)}, false); err != nil {
				s.t.Error(err)
			}
		}
		synctest.Wait()
	}
	for name, test := range map[string]struct {
		script map[string][]try
		act    func(s *stage)
		want   string
		took   time.Duration
	}{
		"resumed": {asks, resume, `next {"by":"ada","phase":"Succeeded"}`, 2 * time.Minute},
		"timed out": {
			asks, nil, `next {"by":"{{tasks.ask.outputs.parameters.by}}","phase":"Timeout"}`, 30 * time.Minute,
		},
		"not suspended": {
			map[string][]try{"ask": {{output: `{"by": "eve"}`}}}, nil, `next {"by":"eve","phase":"Succeeded"}`, 0,
		},
	} {
		t.Run("answer/"+name, func(t *testing.T) {
			perform(t, aetherSuspender(t), test.script, test.act, func(s *stage, r *core.Run) {
				wantPhase(t, r, core.RunSucceeded)
				if got := aetherGiven(t, s); !strings.Contains(got, test.want) || s.played["ask"] != 1 {
					t.Errorf("%d attempts; what follows was given\n%s", s.played["ask"], got)
				}
				if took := r.EndedAt.Std().Sub(s.began); took != test.took {
					t.Errorf("it took %s", took)
				}
			}, across)
		})
	}
}
