package conformance

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/stevora"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

func init() {
	addDialect("V1", stevoraDefaults)
	addDialect("V2", stevoraBounds)
	addDialect("V3", stevoraDelays)
	addDialect("V4", stevoraShouldRetry)
	addDialect("V5", stevoraBetween)
	addDialect("V6", stevoraOnce)
	addDialect("V6", stevoraReportedTwice)
	addDialect("V7", stevoraMessage)
	addDialect("V8", stevoraRetryRequest)
	addDialect("V9", stevoraRestart)
}

const stevoraHandlers = "handlers: {call: {exec: [./call]}, other: {http: \"http://localhost/\"}, llm: {task: {type: " +
	"Ask}}}"

func stevoraConvert(steps string) (*dialect.Conversion, error) {
	text := `{"name": "w", "version": "1", "steps": [` + steps + `]}`
	return stevora.Convert(stevora.Source{Name: "def.json", Text: []byte(text)},
		stevora.Source{Name: "handlers.yaml", Text: []byte(stevoraHandlers)})
}

func stevoraFlow(t *testing.T, steps string) *dialect.Conversion {
	t.Helper()
	c, err := stevoraConvert(steps)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stevoraTask returns a definition of one task with a policy.
func stevoraTask(t *testing.T, retry string) *dialect.Conversion {
	t.Helper()
	if retry != "" {
		retry = `, "retry": ` + retry
	}
	return stevoraFlow(t, `{"type": "task", "name": "work", "handler": "call"`+retry+`}`)
}

func stevoraDefaults(t *testing.T) {
	for text, want := range map[string]policy.Retry{
		``:   {MaxAttempts: 3, InitialInterval: time.Second, BackoffCoefficient: 2, MaxInterval: 5 * time.Minute},
		`{}`: {MaxAttempts: 3, InitialInterval: time.Second, BackoffCoefficient: 2, MaxInterval: 5 * time.Minute},
		`{"maxAttempts": 5, "backoffMs": 2000, "backoffMultiplier": 3}`: {
			MaxAttempts:     5,
			InitialInterval: 2 * time.Second, BackoffCoefficient: 3, MaxInterval: 5 * time.Minute,
		},
		`{"backoffMs": 700}`: {
			MaxAttempts: 3, InitialInterval: 700 * time.Millisecond, BackoffCoefficient: 2,
			MaxInterval: 5 * time.Minute,
		},
		`{"maxBackoffMs": 60000}`: {
			MaxAttempts: 3, InitialInterval: time.Second,
			BackoffCoefficient: 2, MaxInterval: time.Minute,
		},
	} {
		c := stevoraTask(t, text)
		var form map[string]any
		if text != "" {
			if err := json.Unmarshal([]byte(text), &form); err != nil {
				t.Fatal(err)
			}
		}
		p, err := stevora.Policy(map[string]any{"retry": form})
		if err != nil {
			t.Fatal(err)
		}
		got := p.Retry
		if got.MaxAttempts != want.MaxAttempts || got.InitialInterval != want.InitialInterval ||
			got.BackoffCoefficient != want.BackoffCoefficient || got.MaxInterval != want.MaxInterval ||
			got.Jitter != 0.25 {
			t.Errorf("%s: %+v", text, got)
		}
		perform(t, c, map[string][]try{"work": {failed}}, nil, func(s *stage, r *core.Run) {
			if n := len(s.attempts()); n != want.MaxAttempts || stevora.Status(r.Phase.String()) != "FAILED" {
				t.Errorf("%s: %d attempts, %s", text, n, stevora.Status(r.Phase.String()))
			}
		})
	}
}

func stevoraBounds(t *testing.T) {
	for text, field := range map[string]string{
		`{"maxAttempts": 0}`: "maxAttempts", `{"maxAttempts": 21}`: "maxAttempts",
		`{"maxAttempts": 2.5}`: "maxAttempts", `{"maxAttempts": -1}`: "maxAttempts",
		`{"backoffMs": 99}`: "backoffMs", `{"backoffMs": 100.5}`: "backoffMs", `{"backoffMs": "1s"}`: "backoffMs",
		`{"backoffMultiplier": 0.999}`: "backoffMultiplier", `{"backoffMultiplier": 10.001}`: "backoffMultiplier",
	} {
		_, err := stevoraConvert(`{"type": "task", "name": "work", "handler": "call", "retry": ` + text + `}`)
		if err == nil || !strings.Contains(err.Error(), "def.json:1:") || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is refused with %v", text, err)
		}
	}
	for _, text := range []string{
		`{"maxAttempts": 1, "backoffMs": 100, "backoffMultiplier": 1}`,
		`{"maxAttempts": 20, "backoffMultiplier": 10}`,
	} {
		if _, err := stevoraConvert(`{"type": "task", "name": "work", "handler": "call", "retry": ` + text +
			`}`); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// stevoraDelays draws 10,000 delays of a policy with a cap: each is the page's formula, and for each attempt they are
// spread over the upper quarter below the capped delay.
func stevoraDelays(t *testing.T) {
	retry := stevoraTask(t, `{"maxAttempts": 20, "maxBackoffMs": 30000}`).Flow.Steps[0].Policy.Retry
	low, high := map[int]float64{}, map[int]float64{}
	for i := range 10_000 {
		attempt, u := 1+i%19, float64(i)/10_000
		base := min(1000*math.Pow(2, float64(attempt-1)), 30_000)
		d := float64(retry.Delay(attempt, 0, u)) / float64(time.Millisecond)
		if want := math.Floor(base * (0.75 + float64(0.25*u))); d != want || d < base*0.75 || d >= base {
			t.Fatalf("the delay after attempt %d is %v ms, want %v, within [%v, %v)", attempt, d, want, base*0.75, base)
		}
		if at, seen := low[attempt]; !seen || d/base < at {
			low[attempt] = d / base
		}
		high[attempt] = max(high[attempt], d/base)
	}
	for attempt := range low {
		if low[attempt] > 0.76 || high[attempt] < 0.99 {
			t.Errorf("the delays after attempt %d are spread over %v to %v of the base only", attempt, low[attempt],
				high[attempt])
		}
	}
	// Real runs show the same delays, those after the cap included.
	perform(t, stevoraTask(t, `{"maxAttempts": 7, "maxBackoffMs": 8000}`), map[string][]try{"work": {failed}}, nil,
		func(s *stage, r *core.Run) {
			at := 0.0
			starts := s.starts("work")
			for i, base := range []float64{1000, 2000, 4000, 8000, 8000, 8000} {
				if d := float64(starts[i+1].Milliseconds()) - at; d < base*0.75 || d >= base {
					t.Errorf("retry %d came after %v ms", i+1, d)
				}
				at = float64(starts[i+1].Milliseconds())
			}
		})
}

func stevoraShouldRetry(t *testing.T) {
	for _, n := range []int{1, 2, 20} {
		perform(t, stevoraTask(t, fmt.Sprintf(`{"maxAttempts": %d, "backoffMs": 100, "backoffMultiplier": 1}`, n)),
			map[string][]try{"work": {broken}}, nil, func(s *stage, _ *core.Run) {
				if got := len(s.attempts()); got != n {
					t.Errorf("maxAttempts %d: %d attempts", n, got)
				}
			})
	}
}

func stevoraBetween(t *testing.T) {
	perform(t, stevoraTask(t, ""), map[string][]try{"work": {failed, ok}}, func(s *stage) {
		s.pass(100 * time.Millisecond)
		r := s.run()
		step, _ := r.Lookup("work")
		if stevora.StepStatus(step.Phase.String()) != "FAILED" || step.Failure == nil ||
			step.Failure.Message != "known trouble" {
			t.Errorf("the step is %s: %v", stevora.StepStatus(step.Phase.String()), step.Failure)
		}
		if next := step.NextAt.Std().Sub(s.began); next < 750*time.Millisecond || next > time.Second {
			t.Errorf("nextRetryAt is %s after the start", next)
		}
		if stevora.Status(r.Phase.String()) != "WAITING" {
			t.Errorf("the run is %s", stevora.Status(r.Phase.String()))
		}
		asked := s.stevoraServer()("GET", "/"+s.root.String()).run(t)
		if work := asked.step("work"); asked.Status != "WAITING" || work.Status != "FAILED" || work.Error == nil ||
			work.Error.Message != "known trouble" || work.NextAt != step.NextAt.Std().UTC().Format(stevoraTime) {
			t.Errorf("over HTTP it is %+v", asked)
		}
		got := s.stevoraEvents()
		if want := []string{
			"WORKFLOW_STARTED", "STEP_STARTED", "STEP_FAILED",
			"RETRY_SCHEDULED",
		}; !slices.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
	}, func(_ *stage, r *core.Run) {
		if stevora.Status(r.Phase.String()) != "COMPLETED" {
			t.Errorf("the run is %s", stevora.Status(r.Phase.String()))
		}
	})
}

// stevoraEvents returns the run's events in Stevora's words, as its API tells them.
func (s *stage) stevoraEvents() []string {
	s.t.Helper()
	var out []string
	for _, e := range s.stevoraTold(s.stevoraServer()) {
		out = append(out, e.Type)
	}
	return out
}

// stevoraOnce triggers a retry again and again while it is pending: it happens once.
func stevoraOnce(t *testing.T) {
	perform(t, stevoraTask(t, `{"maxAttempts": 2}`), map[string][]try{"work": {failed, {run: time.Minute}}},
		func(s *stage) {
			synctest.Wait()
			step, _ := s.run().Lookup("work")
			for range 5 {
				// All triggers except the first find the step running, and are refused.
				now := core.Operation{Op: core.OpNow, Step: step.ID, Actor: "test"}
				_ = s.engine.Operate(s.t.Context(), s.root, now)
			}
		}, func(s *stage, r *core.Run) {
			if n := len(s.attempts()); n != 2 || stevora.Status(r.Phase.String()) != "COMPLETED" {
				t.Errorf("%d attempts, %s", n, stevora.Status(r.Phase.String()))
			}
			if n := strings.Count(strings.Join(s.stevoraEvents(), " "), "RETRY_SCHEDULED"); n != 1 {
				t.Errorf("the retry was scheduled %d times", n)
			}
		})
}

// stevoraReportedTwice delivers the failure of the first attempt again and again, while the retry is pending and while
// it runs. That failure is what schedules the retry: it does so once, and ends no other attempt.
func stevoraReportedTwice(t *testing.T) {
	perform(t, stevoraTask(t, `{"maxAttempts": 3}`), map[string][]try{"work": {failed, {run: time.Minute}}},
		func(s *stage) {
			for range 4 {
				s.pass(400 * time.Millisecond)
				s.engine.Report(s.root, core.TaskEnded{
					Attempt: 1, Failure: &policy.Failure{Kind: policy.KindFailed, Message: "known trouble"},
				})
				synctest.Wait()
			}
		}, func(s *stage, r *core.Run) {
			if n := len(s.attempts()); n != 2 || stevora.Status(r.Phase.String()) != "COMPLETED" {
				t.Errorf("%d attempts, %s", n, stevora.Status(r.Phase.String()))
			}
			if n := strings.Count(strings.Join(s.stevoraEvents(), " "), "RETRY_SCHEDULED"); n != 1 {
				t.Errorf("the retry was scheduled %d times", n)
			}
		})
}

func stevoraMessage(t *testing.T) {
	perform(t, stevoraTask(t, ""), map[string][]try{"work": {failed}}, nil, func(s *stage, r *core.Run) {
		if got, want := stevora.Message(r), "Step 'work' failed after 3 attempts"; got != want {
			t.Errorf("message %q, want %q", got, want)
		}
		ask := s.stevoraServer()
		if asked := ask("GET", "/"+s.root.String()).run(t); asked.Status != "FAILED" || asked.Error == nil ||
			asked.Error.Message != "Step 'work' failed after 3 attempts" {
			t.Errorf("over HTTP it is %+v", asked)
		}
		got := s.stevoraTold(ask)
		if tail := got[len(got)-2:]; tail[0].Type != "STEP_FAILED" || tail[1].Type != "WORKFLOW_FAILED" ||
			tail[1].Payload.Error.Message != "Step 'work' failed after 3 attempts" {
			t.Errorf("events %+v", got)
		}
	})
}

// stevoraRestart closes the engine in a delay: the next one makes attempt 2 when it is due.
func stevoraRestart(t *testing.T) {
	c := stevoraTask(t, `{"backoffMs": 60000, "maxAttempts": 2}`)
	synctest.Test(t, func(t *testing.T) {
		first := newStage(t, c)
		first.script = map[string][]try{"work": {failed}}
		first.open(c.Flow)
		first.pass(time.Second)
		step, _ := first.run().Lookup("work")
		due := step.NextAt.Std()
		first.close()
		second := newStage(t, c)
		second.journal, second.root, second.began = first.journal.Reopen(), first.root, first.began
		second.open(nil)
		out, err := second.engine.Result(t.Context(), first.root)
		if err != nil || out.Phase != core.RunSucceeded {
			t.Fatalf("%v %v", out.Phase, err)
		}
		if len(second.seen) != 1 || second.seen[0].Token.Attempt != 2 || !time.Now().Equal(due) {
			t.Errorf("%d attempts after the restart, at %s; attempt 2 was due at %s", len(second.seen), time.Now(), due)
		}
		second.close()
	})
}

// TestStevoraWalk walks a definition with every type of step, both ways.
func TestStevoraWalk(t *testing.T) {
	c := stevoraFlow(t, `
{"type": "task", "name": "first", "handler": "call", "config": {"k": 1}},
{"type": "condition", "name": "big", "expression": "order.big", "trueStep": "wait-paid", "falseStep": "small"},
{"type": "external_event", "name": "wait-paid", "signalType": "payment", "timeoutMs": 600000},
{"type": "approval", "name": "approve", "contentKey": "draft", "timeoutMs": 60000},
{"type": "condition", "name": "done", "expression": "approved", "trueStep": "pause", "falseStep": "small"},
{"type": "task", "name": "small", "handler": "call"},
{"type": "wait", "name": "pause", "durationMs": 5000},
{"type": "llm", "name": "ask", "model": "m", "messages": [{"role": "user", "content": "hi"}]}`)
	phases := func(r *core.Run) string {
		var out []string
		for i := range r.Steps {
			out = append(out, r.Steps[i].Spec.Name+"="+stevora.StepStatus(r.Steps[i].Phase.String()))
		}
		return strings.Join(out, " ")
	}
	big := map[string][]try{"first": {{output: `{"stateUpdates": {"order": {"big": 1}, "draft": "text"}}`}}}
	queue := func(s *stage) { s.taskTypes = []string{"Ask"} }
	perform(t, c, big, func(s *stage) {
		s.pass(time.Second)
		if stevora.Status(s.run().Phase.String()) != "WAITING" {
			t.Errorf("the run is %s", stevora.Status(s.run().Phase.String()))
		}
		s.send("payment", `{"paid": 7}`)
		s.send("approval.approve", `{"approved": true}`)
	}, func(s *stage, r *core.Run) {
		want := "first=COMPLETED big=COMPLETED wait-paid=COMPLETED approve.content=SKIPPED approve=COMPLETED " +
			"done=COMPLETED small=SKIPPED pause=COMPLETED ask=COMPLETED"
		if got := phases(r); got != want || r.EndedAt.Std().Sub(s.began) != 6*time.Second {
			t.Errorf("after %s:\n%s\nwant\n%s", r.EndedAt.Std().Sub(s.began), got, want)
		}
		if last := string(s.seen[len(s.seen)-1].Payload); !strings.Contains(last, `"paid":7`) ||
			!strings.Contains(last, `"model":"m"`) {
			t.Errorf("the last step was given %s", last)
		}
	}, queue)
	perform(t, c, map[string][]try{"first": {{output: `{"stateUpdates": {"order": {"big": 0}}}`}}}, nil,
		func(_ *stage, r *core.Run) {
			want := "first=COMPLETED big=COMPLETED wait-paid=SKIPPED approve.content=SKIPPED approve=SKIPPED " +
				"done=SKIPPED small=COMPLETED pause=COMPLETED ask=COMPLETED"
			if got := phases(r); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		}, queue)
	// There is nothing to approve, and nobody pays.
	perform(t, c, map[string][]try{"first": {{output: `{"stateUpdates": {"order": {"big": true}}}`}}},
		func(s *stage) { s.send("payment", "{}") }, func(_ *stage, r *core.Run) {
			if stevora.Status(r.Phase.String()) != "FAILED" || r.Failure.Type != "APPROVAL_CONTENT_MISSING" ||
				stevora.Message(r) != "Step 'approve' failed after 1 attempts" {
				t.Errorf("%s: %v, %s", stevora.Status(r.Phase.String()), r.Failure, stevora.Message(r))
			}
		}, queue)
	perform(t, c, big, nil, func(s *stage, r *core.Run) {
		if stevora.Status(r.Phase.String()) != "FAILED" || r.EndedAt.Std().Sub(s.began) != 10*time.Minute ||
			stevora.Message(r) != "Step 'wait-paid' failed after 1 attempts" {
			t.Errorf("%s after %s: %s", r.Phase, r.EndedAt.Std().Sub(s.began), stevora.Message(r))
		}
		if got := s.stevoraEvents(); strings.Join(got[len(got)-2:], " ") != "STEP_FAILED WORKFLOW_FAILED" {
			t.Errorf("events %v", got)
		}
	}, queue)
}

// TestStevoraState checks that later steps read what steps, events and reviewers wrote. The prompt of a model contains
// the values.
func TestStevoraState(t *testing.T) {
	steps := []string{`{"type": "task", "name": "draft", "handler": "call"}`}
	script := map[string][]try{"draft": {{output: `{"stateUpdates": {"mail": "hello", "n": {"deep": 5},
    "flag": false}}`}}}
	for i := range 60 {
		name := fmt.Sprintf("step%d", i)
		steps = append(steps, fmt.Sprintf(`{"type": "task", "name": %q, "handler": "call"}`, name))
		script[name] = []try{{output: fmt.Sprintf(`{"stateUpdates": {"last": %d, "key%d": true}}`, i, i)}}
	}
	script["step7"] = []try{{output: `{"stateUpdates": "none"}`}}
	steps = append(steps,
		`{"type": "condition", "name": "flagged", "expression": "flag", "trueStep": "never", "falseStep": "review"}`,
		`{"type": "task", "name": "never", "handler": "other"}`,
		`{"type": "approval", "name": "review", "contentKey": "mail"}`,
		`{"type": "external_event", "name": "note", "signalType": "note"}`,
		`{"type": "condition", "name": "known", "expression": "missing.deeper", "trueStep": "never2",
    "falseStep": "ask"}`,
		`{"type": "task", "name": "never2", "handler": "other"}`,
		`{"type": "llm", "name": "ask", "model": "m",
    "systemPrompt": "{{input.tone}} {{state.n.deep}} {{n}} {{tone}} {{nothing}}", "messages": [{"role": "user",
    "content": "say {{ mail }}"}]}`)
	c := stevoraFlow(t, strings.Join(steps, ",\n"))
	perform(t, c, script, func(s *stage) {
		s.pass(time.Second)
		s.send("approval.review", `{"decision": "edited", "editedContent": "good day", "decidedBy": "ada"}`)
		s.send("note", `"just a text"`)
	}, func(s *stage, r *core.Run) {
		wantPhase(t, r, core.RunSucceeded)
		var given struct {
			Config struct {
				SystemPrompt string
				Messages     []struct{ Content string }
			}
			State map[string]any
		}
		if err := json.Unmarshal(s.seen[len(s.seen)-1].Payload, &given); err != nil {
			t.Fatal(err)
		}
		if got := given.Config.SystemPrompt + "|" +
			given.Config.Messages[0].Content; got != "kind 5 {\"deep\":5} kind {{nothing}}|say good day" {
			t.Errorf("the model is asked %q", got)
		}
		for key, want := range map[string]any{
			"last": 59.0, "key0": true, "key59": true,
			"mail": "good day", "decidedBy": "ada",
		} {
			if given.State[key] != want {
				t.Errorf("%s is %v in the state, want %v", key, given.State[key], want)
			}
		}
		events := strings.Join(s.stevoraEvents(), " ")
		if !strings.Contains(events, "APPROVAL_REQUESTED") || strings.Count(events, "WORKFLOW_PAUSED") != 1 {
			t.Errorf("events %s", events)
		}
	}, func(s *stage) { s.taskTypes, s.input = []string{"Ask"}, `{"tone": "kind"}` })
}
