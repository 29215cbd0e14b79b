package trail_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/policy"
)

const document = `pawl: 1
name: order
timeout: 1h
steps:
  - {name: first, exec: {command: [a]}, retry: "fixed(3, 10s)", timeout: {startToClose: 1m, scheduleToClose: 5m}}
  - {name: pages, forEach: "${{ 1..4 }}", exec: {command: [b]}, retry: "fixed(2, 1s)"}
  - {name: approval, wait: {event: approved}, timeout: 30m}
  - {name: last, needs: [first, pages], exec: {command: [c]}}
hooks: {onFailure: {exec: {command: [sorry]}}}
`

// player drives a run on the machine. It compares each snapshot of a followed trail with one that is made from the
// whole history at once.
type player struct {
	*testing.T
	def     *core.Definition
	state   *core.Run
	now     core.Time
	trail   *trail.Trail
	entries []core.Entry
}

func (p *player) do(in core.Input) {
	p.Helper()
	out, err := core.Advance(p.state, p.def, in, p.now)
	if err != nil {
		p.Fatal(err)
	}
	if len(out.Entry.Records) == 0 {
		return
	}
	p.entries = append(p.entries, out.Entry)
	p.trail.Fold(out.Entry)
	followed, err := json.Marshal(p.trail.Snapshot(p.now))
	if err != nil {
		p.Fatal(err)
	}
	whole, err := json.Marshal(trail.Of(p.state.ID, p.def, p.entries).Snapshot(p.now))
	if err != nil {
		p.Fatal(err)
	}
	if string(followed) != string(whole) {
		p.Fatalf("after entry %d, %T, the followed run is\n%s\nand read at once\n%s",
			len(p.entries), in, followed, whole)
	}
	for _, e := range out.Effects {
		if r, ok := e.(core.Revoke); ok {
			p.do(core.TaskStopped{Step: r.Step, Attempt: r.Attempt})
		}
	}
}

func (p *player) pass(d time.Duration) {
	p.now = p.now.Add(d)
	p.do(core.Tick{})
}

func (p *player) attempt(key string, f *policy.Failure) {
	p.Helper()
	s, ok := p.state.Lookup(key)
	if !ok {
		p.Fatalf("no step %s", key)
	}
	p.do(core.TaskStarted{Step: s.ID, Attempt: s.Attempt, Worker: "here"})
	p.do(core.Beat{Step: s.ID, Attempt: s.Attempt})
	p.do(core.TaskEnded{Step: s.ID, Attempt: s.Attempt, Output: []byte(`{}`), Failure: f})
}

func (p *player) operate(op core.Op, step string, change func(*core.Operation)) {
	p.Helper()
	in := core.Operation{Op: op, Step: core.NoStep, Actor: "ada"}
	if s, ok := p.state.Lookup(step); ok {
		in.Step = s.ID
	}
	if change != nil {
		change(&in)
	}
	p.do(in)
}

// TestSnapshotsAreUpToDate checks that a followed trail keeps the steps that did not change. None of them is out of
// date.
func TestSnapshotsAreUpToDate(t *testing.T) {
	doc, err := flow.Parse("order.yaml", []byte(document))
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
	broken := &policy.Failure{Kind: policy.KindError, Type: "exit", Code: 3, Message: "exit code 3"}
	p.do(start)
	p.attempt("first", broken)
	p.attempt("pages[0]", nil)
	p.attempt("pages[1]", broken)
	p.operate(core.OpExtend, "first", func(op *core.Operation) {
		op.Limit,
			op.By = policy.LimitScheduleToClose, time.Minute
	})
	p.operate(core.OpExtend, "", func(op *core.Operation) { op.Limit, op.By = policy.LimitRun, -50*time.Minute })
	p.operate(core.OpPause, "", func(op *core.Operation) { op.StopClock = true })
	p.pass(time.Minute)
	p.operate(core.OpResume, "", nil)
	p.attempt("first", nil)
	p.operate(core.OpSetPolicy, "pages[1]", func(op *core.Operation) { op.Policy = &policy.Policy{} })
	p.operate(core.OpSkip, "pages[2]", nil)
	p.operate(core.OpFail, "pages[3]", func(op *core.Operation) { op.Failure = broken })
	p.do(core.SignalReceived{Name: "approved", Payload: []byte(`{}`)})
	p.pass(20 * time.Minute) // the run's deadline
	p.attempt("onFailure", nil)
	if !p.state.Phase.Closed() {
		t.Fatalf("the run is %s", p.state.Phase)
	}
	p.operate(core.OpRetryRun, "", nil)
	p.pass(time.Second)
	p.operate(core.OpCancel, "", nil)
	if n := p.trail.Snapshot(p.now); n.Events != p.trail.Events() || n.Events < 30 {
		t.Errorf("%d events", n.Events)
	}
}

// TestHeartbeats checks that an attempt shows its last heartbeats, and that the parts shown before do not change.
func TestHeartbeats(t *testing.T) {
	doc, err := flow.Parse("one.yaml", []byte("pawl: 1\nname: one\nsteps: [{name: a, exec: a}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	def, err := flow.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	p := &player{
		T: t, def: def, state: core.NewRun(core.RunID{1}), trail: trail.New(core.RunID{1}, def),
		now: policy.At(time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)),
	}
	start, err := doc.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	p.do(start)
	p.do(core.TaskStarted{Step: 0, Attempt: 1, Worker: "here"})
	var before []api.Time
	for i := range 60 {
		p.pass(2 * time.Second)
		p.do(core.Beat{Step: 0, Attempt: 1, Details: []byte("1")})
		if i == 49 {
			before = p.trail.Attempts(0)[0].Heartbeats
		}
	}
	got, end := p.trail.Attempts(0)[0].Heartbeats, api.Time(p.now)
	if len(got) != 50 || got[49] != end || got[0] != api.Time(p.now.Add(-98*time.Second)) {
		t.Errorf("%d heartbeats from %s to %s, at %s", len(got), got[0], got[len(got)-1], end)
	}
	if len(before) != 50 || before[49].Sub(before[0]) != 98*time.Second {
		t.Errorf("what was shown before changes: %v", before)
	}
}
