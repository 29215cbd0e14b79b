package trail_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/policy"
)

var unavailable = &policy.Failure{Kind: policy.KindError, Type: "exit", Code: 1, Message: "503 Service Unavailable"}

// began starts a run of a flow.
func began(t *testing.T, text string) *player {
	t.Helper()
	doc, err := flow.Parse("order.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	def, err := flow.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	id := core.RunID{1}
	p := &player{
		T: t, def: def, state: core.NewRun(id), trail: trail.New(id, def),
		now: policy.At(time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)),
	}
	start, err := doc.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	p.do(start)
	return p
}

func (p *player) run() *api.Run { return p.trail.Snapshot(p.now) }

// says compares what the run says, as it reads now.
func (p *player) says(want string) {
	p.Helper()
	r := p.run()
	if got := r.Says.Reads(api.Time(p.now), api.Length); got != want {
		p.Errorf("it says\n%s\nand not\n%s", got, want)
	}
}

// then compares what the run says of what comes, as it reads now.
func (p *player) then(want string) {
	p.Helper()
	if got := p.run().Then.Reads(api.Time(p.now), api.Length); got != want {
		p.Errorf("then\n%s\nand not\n%s", got, want)
	}
}

// ends compares what can end the run: each end with how long it is away.
func (p *player) ends(want ...string) {
	p.Helper()
	var got []string
	for _, e := range p.run().Ends {
		text := e.Text
		if e.Step != "" {
			text = e.Step + ": " + text
		}
		if e.At != 0 {
			text += " in " + api.Length(e.At.Sub(api.Time(p.now)))
		}
		if e.Left != 0 {
			text += ", " + api.Length(e.Left.Std()) + " left"
		}
		got = append(got, text)
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		p.Errorf("it is ended by\n%s\nand not by\n%s", a, b)
	}
}

// TestAttemptsEndARun checks that a run says when its attempts are used up, if that comes before its limits, as the
// forecast knows.
func TestAttemptsEndARun(t *testing.T) {
	p := began(t, `
pawl: 1
name: order
timeout: 45m
steps:
  - name: charge
    exec: {command: [a]}
    retry: {maxAttempts: 4, initialInterval: 1m, backoffCoefficient: 2}
    timeout: {scheduleToClose: 30m}
`)
	p.attempt("charge", unavailable)
	p.pass(30 * time.Second)
	p.says("charge retries in 30s, attempt 2 of 4; attempt 1 failed: 503 Service Unavailable.")
	p.ends("charge: last attempt (4) in 6m30s", "charge: scheduleToClose 30m in 29m30s", "run 45m in 44m30s")
	p.pass(30 * time.Second)
	p.attempt("charge", unavailable)
	p.says("charge retries in 2m, attempt 3 of 4; the last 2 failed alike: 503 Service Unavailable.")
	p.then("If its attempts fail, charge gives up in 6m after attempt 4: its attempts are used up then.")
	r := p.run()
	if a := r.Steps[0].Ahead; len(a.Attempts) != 2 || a.Attempts[1].From.Sub(a.Attempts[0].From) != 4*time.Minute {
		t.Errorf("ahead is %+v", a)
	}
	p.forecasts()
	p.operate(core.OpPause, "", nil)
	p.then("charge retries when its run is resumed, attempt 3 of 4; the last 2 failed alike: " +
		"503 Service Unavailable.")
	if got := p.run().Steps[0].Says.Text; got !=
		"retries when its run is resumed, attempt 3 of 4; the last 2 failed alike: 503 Service Unavailable" {
		t.Errorf("of a paused run it says %q", got)
	}
}

// forecasts compares what is ahead of each step with the forecast of the run.
func (p *player) forecasts() {
	p.Helper()
	seen := p.run()
	f := trail.Of(p.state.ID, p.def, p.entries)
	run := core.Restore(p.state.ID, p.def, p.entries)
	act := core.Act{End: "error", Message: "assumed to fail"}
	err := core.Forecast(run, nil, act, 20, p.now, func(e core.Entry) { f.Fold(e) })
	if err != nil {
		p.Fatal(err)
	}
	for i, later := range f.Snapshot(p.now).Steps[:len(seen.Steps)] {
		s := seen.Steps[i]
		if s.Phase.Closed() || s.Ahead == nil {
			continue
		}
		if s.Ahead.GivesUp != later.EndedAt {
			p.Errorf("%s gives up at %s, and in the forecast at %s", s.Step, s.Ahead.GivesUp, later.EndedAt)
		}
		for _, a := range s.Ahead.Attempts {
			if b := later.Attempts[a.Attempt-1]; a.From != b.StartedAt || a.Attempt != b.Attempt {
				p.Errorf("%s has attempt %+v ahead, and in the forecast %+v", s.Step, a, b)
			}
		}
	}
}

// TestNoTimeEndsARun checks that a step whose next attempt would begin after a deadline gives up before it.
func TestNoTimeEndsARun(t *testing.T) {
	p := began(t, `
pawl: 1
name: order
steps:
  - {name: charge, exec: {command: [a]}, retry: "exponential(12, 1m)", timeout: {scheduleToClose: 10m}}
`)
	p.attempt("charge", unavailable)
	p.forecasts()
	if e := p.run().Ends[0]; e.Cause != api.EndNoTime || e.Limit != "scheduleToClose" || e.Ends != "step" {
		t.Errorf("the first end is %+v", e)
	}
}

// TestHealthyAttemptEndsAtItsLimit checks that the attempts to come say when a step ends once one has failed, and not
// while the first one runs well.
func TestHealthyAttemptEndsAtItsLimit(t *testing.T) {
	p := began(t, `
pawl: 1
name: training
steps:
  - {name: train, exec: {command: [a]}, retry: "exponential(5, 2s)", timeout: {startToClose: 10h}}
  - {name: load, exec: {command: [a]}, retry: "exponential(12, 1m)", timeout: {scheduleToClose: 10m}}
`)
	for _, step := range []core.StepID{0, 1} {
		p.do(core.TaskStarted{Step: step, Attempt: 1, Worker: "here"})
	}
	p.pass(4 * time.Second)
	p.ends("load: scheduleToClose 10m in 9m56s", "train: last attempt (5)")
	p.do(core.TaskEnded{Step: 0, Attempt: 1, Failure: unavailable})
	p.do(core.TaskEnded{Step: 1, Attempt: 1, Failure: unavailable})
	p.pass(2 * time.Second)
	p.do(core.TaskStarted{Step: 0, Attempt: 2, Worker: "here"})
	p.ends("train: last attempt (5) in 44s", "load: no time for attempt 5 before the limit scheduleToClose in 7m10s",
		"load: scheduleToClose 10m in 9m54s")
}

// TestSilenceEndsNothingFirst checks that a limit that each sign of life moves does not count as what ends an attempt
// first.
func TestSilenceEndsNothingFirst(t *testing.T) {
	p := began(t, `
pawl: 1
name: order
steps:
  - {name: load, exec: {command: [a]}, timeout: {startToClose: 2h, heartbeat: 30s}}
`)
	p.do(core.TaskStarted{Step: 0, Attempt: 1, Worker: "here"})
	p.pass(5 * time.Second)
	p.do(core.Beat{Step: 0, Attempt: 1})
	p.says("load runs for 5.0s.")
	p.ends("load: startToClose 2h in 1h59m", "load: heartbeat 30s without a sign of life in 30s")
}

// TestStoppedClock checks that a run that is paused with its clock has no deadlines meanwhile.
func TestStoppedClock(t *testing.T) {
	p := began(t, "pawl: 1\nname: order\ntimeout: 45m\nsteps: [{name: ask, wait: {event: ok}, timeout: 1h}]\n")
	p.pass(15 * time.Minute)
	p.operate(core.OpPause, "", func(op *core.Operation) { op.StopClock, op.Reason = true, "on the phone" })
	at := p.now
	p.pass(15 * time.Minute)
	p.says("Paused by ada 15m00s ago: on the phone; its clock stands.")
	p.ends("run 45m, 30m left")
	r := p.run()
	if r.ClockStoppedAt != api.Time(at) || r.Deadline != 0 || r.Deadlines[0].At != 0 || !r.Operations[0].StopClock {
		t.Errorf("the clock stopped at %s; deadline %s; %+v %+v", r.ClockStoppedAt, r.Deadline, r.Deadlines,
			r.Operations)
	}
	p.operate(core.OpResume, "", nil)
	p.ends("run 45m in 30m", "ask: wait 1h in 1h")
}

// TestSleepPastADeadline checks that a run that sleeps past its deadline says so.
func TestSleepPastADeadline(t *testing.T) {
	p := began(t, "pawl: 1\nname: order\ntimeout: 20m\nsteps: [{name: rest, sleep: 2h}]\n")
	p.says("rest sleeps and wakes in 2h; but the limit run ends it before, in 20m.")
	p.then("The run ends then as timed out, unless the limit run is extended.")
	p.pass(20 * time.Minute)
	p.says("Timed out in 20m: run limit of 20m expired (set at order.yaml:3:10); rest had not ended.")
	p.then("A retry begins again with rest.")
}

// TestWaits checks what steps say that wait.
func TestWaits(t *testing.T) {
	p := began(t, "pawl: 1\nname: order\nsteps: [{name: ask, wait: {event: approved}, timeout: 1h}]\n")
	p.pass(time.Minute)
	p.says("ask waits for the event approved for 1m00s.")
	if parts := p.run().Says.Parts; parts[0].Step != "ask" || parts[2].Event != "approved" {
		t.Errorf("its parts are %+v", parts)
	}
	p = began(t, "pawl: 1\nname: order\nsteps: [{name: sub, flow: {name: other}}]\n")
	child := p.run().Steps[0].Child
	p.says("sub waits for its child run " + child + " for 0s.")
	if parts := p.run().Says.Parts; child == "" || parts[2].Run != child {
		t.Errorf("its parts are %+v", parts)
	}
}

// TestNoWorker checks that an attempt says that no worker takes it, as long as that is so.
func TestNoWorker(t *testing.T) {
	p := began(t, `
pawl: 1
name: order
steps:
  - {name: render, task: {type: pdf}, queue: reports, retry: "fixed(3, 1s)"}
`)
	none := false
	p.trail.Known.Unserved = func(queue, taskType string) bool {
		return none && queue == "reports" && taskType == "pdf"
	}
	p.now = p.now.Add(22 * time.Minute)
	p.says("render waits for a worker of the queue reports for 22m00s.")
	none = true
	p.says(`render waits for a worker of the queue reports for 22m00s: no worker takes "pdf" tasks from that queue.`)
	p.then("render begins when such a worker comes.")
	none = false
	p.says("render waits for a worker of the queue reports for 22m00s.")
}

// TestHeldUntil checks that the attempts of a step that an open breaker holds begin when its probe may go.
func TestHeldUntil(t *testing.T) {
	p := began(t, `
pawl: 1
name: order
steps:
  - {name: lookup, exec: {command: [a]}, retry: "fixed(3, 1m)", timeout: {scheduleToClose: 2h}}
`)
	until := p.now.Add(5 * time.Minute)
	p.do(core.TaskHeld{Step: 0, Attempt: 1, Held: core.Held{
		Reason: core.HeldBreaker, Service: true, Name: "maps", Until: until, Probes: 7,
	}})
	p.says("lookup attempt 1 of 3 is held by service maps: its last attempts have failed, and a probe goes first " +
		"(7 failed so far); it starts in 5m at the soonest.")
	if a := p.run().Steps[0].Ahead; a == nil || a.Attempts[0].From != api.Time(until) {
		t.Errorf("ahead is %+v", a)
	}
	p.ends("lookup: scheduleToClose 2h in 2h", "lookup: last attempt (3) at the soonest in 7m")
	p.forecasts()
}

// TestFailedItems checks that a run that succeeded says how many of its items failed.
func TestFailedItems(t *testing.T) {
	p := began(t, `
pawl: 1
name: order
steps:
  - {name: pages, forEach: "${{ 1..4 }}", exec: {command: [b]}, continueOn: [error]}
`)
	for _, key := range []string{"pages[0]", "pages[1]", "pages[2]"} {
		p.attempt(key, nil)
	}
	p.says("pages[3] waits for a worker for 0s.")
	p.pass(time.Second)
	p.attempt("pages[3]", unavailable)
	p.says("Succeeded in 1s; 1 of 4 items of pages failed (item 4): 503 Service Unavailable.")
}

// TestLives checks that attempts are counted anew after an operator has put a step back to work.
func TestLives(t *testing.T) {
	p := began(t, "pawl: 1\nname: order\nsteps: [{name: a, exec: {command: [a]}, retry: \"fixed(2, 0s)\"}]\n")
	p.attempt("a", unavailable)
	p.pass(0)
	p.attempt("a", unavailable)
	p.says(`Failed in 0s: step "a" failed: all 2 attempts are used up; the last one: 503 Service Unavailable.`)
	p.pass(18 * time.Minute)
	p.operate(core.OpRetryRun, "", nil)
	again := p.now
	p.pass(0)
	p.attempt("a", unavailable)
	p.pass(0)
	p.attempt("a", unavailable)
	s := p.run().Steps[0]
	if want := "all 2 attempts since it was retried are used up; the last one: 503 Service Unavailable"; s.Why != want {
		t.Errorf("it says %q", s.Why)
	}
	if s.AgainAt != api.Time(again) || s.Attempts[1].Life != 0 || s.Attempts[2].Life != 1 {
		t.Errorf("again at %s: %+v", s.AgainAt, s.Attempts)
	}
}

// TestColoursInAFailure checks that what a program printed for a terminal is plain in sentences.
func TestColoursInAFailure(t *testing.T) {
	p := began(t, "pawl: 1\nname: order\nsteps: [{name: a, exec: {command: [a]}}]\n")
	p.attempt("a", &policy.Failure{Kind: policy.KindError, Message: "\x1b[31merror:\x1b[0m \x1b]0;title\x07no file"})
	p.says(`Failed in 0s: step "a" failed: error: no file (the step has no retries).`)
}

// TestPolicyInForce checks that a step shows the policy that holds for it, also after an operator has replaced it.
func TestPolicyInForce(t *testing.T) {
	p := began(t, "pawl: 1\nname: order\nsteps: [{name: a, exec: {command: [a]}, retry: \"fixed(7, 1s)\"}]\n")
	if got := p.run().Steps[0].Policy; got == nil || got.Retry.MaxAttempts != 7 {
		t.Errorf("the policy is %+v", got)
	}
	p.operate(core.OpSetPolicy, "a", func(op *core.Operation) {
		op.Policy = &policy.Policy{Retry: &policy.Retry{MaxAttempts: 9, BackoffCoefficient: 1}}
	})
	if got := p.run().Steps[0].Policy; got.Retry.MaxAttempts != 9 {
		t.Errorf("the policy is %+v", got)
	}
}

// TestRunInItsQueue checks that a run that waits for its queue says which one, and why.
func TestRunInItsQueue(t *testing.T) {
	p := began(t, `
pawl: 1
name: order
queue: heavy
queues: {heavy: {concurrency: 1}}
steps:
  - {name: a, exec: {command: [a]}}
`)
	p.do(core.NotAdmitted{Held: core.Held{Reason: core.HeldConcurrency, Name: "heavy"}})
	p.now = p.now.Add(time.Minute)
	p.says("Waits in the queue heavy for 1m00s: its concurrency is used up.")
	p.then("It begins when a run of that queue has ended.")
	if parts := p.run().Says.Parts; parts[1].Queue != "heavy" {
		t.Errorf("its parts are %+v", parts)
	}
	named := func(n int, names ...string) core.SomeRuns {
		out := core.SomeRuns{N: n}
		for i, name := range names {
			out.Named = append(out.Named, core.NamedRun{Run: core.RunID{byte(i + 1)}, WorkflowID: name})
		}
		return out
	}
	for _, c := range []struct {
		line core.Line
		says string
	}{
		{core.Line{Holders: named(1, "first")}, "used up by first; it is the next one."},
		{core.Line{Holders: named(2, "a", "b"), Ahead: named(1, "c")}, "used up by a and b; c is ahead of it."},
		{
			core.Line{Holders: named(3, "a", "b", "c"), Ahead: named(5, "d", "e", "f")},
			"used up by a, b and c; d, e, f and 2 more runs are ahead of it.",
		},
		{core.Line{Ahead: named(1)}, "used up; 1 run is ahead of it."},
	} {
		p.trail.Known.Line = &c.line
		p.says("Waits in the queue heavy for 1m00s: its concurrency is " + c.says)
	}
	if parts := p.run().Says.Parts; len(parts) != 5 {
		t.Errorf("its parts are %+v", parts)
	}
}
