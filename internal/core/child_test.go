package core

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/policy"
)

// TestInherits checks that a child run follows the deadline that it has from its parent, and no other, up to its own
// limit.
func TestInherits(t *testing.T) {
	f, err := parseFixture("rest sleep=1d")
	fatal(t, err)
	at := func(h int) Time { return epoch.Add(time.Duration(h) * time.Hour) }
	for _, c := range []struct {
		name              string
		own               time.Duration
		started, was, now int // hours; the first one is what it began with
		want              int // 0: it stays
	}{
		{"it follows", 0, 1, 1, 2, 2},
		{"up to its own limit", 3 * time.Hour, 1, 1, 5, 3},
		{"which is the earlier one", 30 * time.Minute, 1, 1, 2, 0},
		{"an operator gave it another", 0, 3, 1, 2, 0},
	} {
		r := NewRun(RunID{6: 0x70, 15: 7})
		def := f.definition()
		if c.own > 0 {
			def.Rules = func([]byte) RunRules { return RunRules{Execution: &policy.Limit{After: c.own}} }
		}
		_, err := Advance(r, def, Start{ExecutionAt: RunLimit{At: at(c.started)}}, epoch)
		fatal(t, err)
		to, moves := r.Inherits(at(c.was), at(c.now), epoch)
		if moves != (c.want > 0) || moves && to != at(c.want) {
			t.Errorf("%s: %v to %s", c.name, moves, to)
		}
	}
}

// TestInheritsAPassedDeadline checks that a child run ends at once by a deadline of its parent that has passed, also if
// the clock has gone back since the child's last entry.
func TestInheritsAPassedDeadline(t *testing.T) {
	f, err := parseFixture("rest sleep=1d")
	fatal(t, err)
	for _, c := range []struct{ last, now int }{{3, 4}, {3, 1}} { // hours
		at := func(h int) Time { return epoch.Add(time.Duration(h) * time.Hour) }
		r := NewRun(RunID{6: 0x70, 15: 7})
		take := func(in Input, now Time) {
			t.Helper()
			_, err := Advance(r, f.definition(), in, now)
			fatal(t, err)
		}
		take(Start{ExecutionAt: RunLimit{At: at(5)}}, epoch)
		take(SignalReceived{Name: "go"}, at(c.last))
		to, moves := r.Inherits(at(5), at(2), at(c.now))
		if !moves || to > at(4)+1 {
			t.Fatalf("%+v: %v to %s", c, moves, to)
		}
		take(Operation{Op: OpExtend, Step: NoStep, Limit: policy.LimitExecution, To: to}, at(c.now))
		take(Tick{}, to)
		if r.Phase != RunTimedOut {
			t.Errorf("%+v: the run is %s", c, r.Phase)
		}
	}
}

// TestRetriedChildHasItsOwnLimit checks that the limit that a child run has from its parent is an instant, which is
// gone when the run is retried after it. The execution limit of the child's own workflow, which was the later one, then
// applies again, counted from the retry. An operator who has removed the limit has removed both.
func TestRetriedChildHasItsOwnLimit(t *testing.T) {
	f, err := parseFixture("charge task")
	fatal(t, err)
	const own = 3 * time.Hour
	for _, c := range []struct {
		name    string
		own     time.Duration
		removed bool
		want    Time
	}{
		{"own limit", own, false, epoch.Add(2*time.Hour + own)},
		{"no limit of its own", 0, false, 0},
		{"an operator removed it", own, true, 0},
	} {
		def := f.definition()
		if c.own > 0 {
			def.Rules = func([]byte) RunRules {
				return RunRules{Execution: &policy.Limit{After: c.own, Origin: "flow.yaml:3"}}
			}
		}
		r := NewRun(RunID{6: 0x70, 15: 7})
		take := func(in Input, at time.Duration) {
			t.Helper()
			_, err := Advance(r, def, in, epoch.Add(at))
			fatal(t, err)
		}
		take(Start{ExecutionAt: RunLimit{At: epoch.Add(time.Hour)}, Parent: Parent{Run: RunID{15: 1}}}, 0)
		if c.removed {
			take(Operation{Op: OpExtend, Step: NoStep, Limit: policy.LimitExecution, To: policy.FarFuture}, 0)
			take(Operation{Op: OpCancel, Step: NoStep}, time.Hour)
		} else {
			take(Tick{}, time.Hour)
		}
		take(Operation{Op: OpRetryRun, Step: NoStep}, 2*time.Hour)
		if r.Execution.At != c.want {
			t.Errorf("%s: the execution limit is %s, want %s", c.name, until(r.Execution.At), until(c.want))
		}
		if c.want != 0 && (r.Execution.After != own || r.Execution.Origin != "flow.yaml:3") {
			t.Errorf("%s: the execution limit is %+v", c.name, r.Execution)
		}
	}
}

// TestChildHasTheEarlierInstant checks that the instant that the child's own workflow names binds the child where it
// comes before its parent's deadline, also when that moves and when the child is retried after it.
func TestChildHasTheEarlierInstant(t *testing.T) {
	f, err := parseFixture("charge task")
	fatal(t, err)
	at := func(h int) Time { return epoch.Add(time.Duration(h) * time.Hour) }
	for _, c := range []struct {
		own, parents int // hours
		begins       int // hours until the child's limit when it begins
		follows      int // where it moves when the parent's moves by two hours; 0: it stays
		retried      int // when the child is retried an hour after its limit; 0: none
	}{
		{own: 1, parents: 4, begins: 1, follows: 0, retried: 0},
		{own: 5, parents: 4, begins: 4, follows: 5, retried: 0},
		{own: 9, parents: 4, begins: 4, follows: 6, retried: 9},
	} {
		r := NewRun(RunID{6: 0x70, 15: 7})
		def := f.definition()
		def.Rules = func([]byte) RunRules {
			return RunRules{Deadline: &policy.Limit{At: at(c.own), Origin: "flow.yaml:4"}}
		}
		take := func(in Input, now Time) {
			t.Helper()
			_, err := Advance(r, def, in, now)
			fatal(t, err)
		}
		take(Start{ExecutionAt: RunLimit{At: at(c.parents)}, Parent: Parent{Run: RunID{15: 1}}}, epoch)
		if r.Execution.At != at(c.begins) {
			t.Errorf("%+v: it begins with the limit %s", c, until(r.Execution.At))
		}
		to, moves := r.Inherits(at(c.parents), at(c.parents+2), epoch)
		if moves != (c.follows > 0) || moves && to != at(c.follows) {
			t.Errorf("%+v: its parent's moves, and it to %s, %v", c, until(to), moves)
		}
		take(Tick{}, at(c.begins))
		take(Operation{Op: OpRetryRun, Step: NoStep}, at(c.begins+1))
		want := Time(0)
		if c.retried > 0 {
			want = at(c.retried)
		}
		if r.Execution.At != want {
			t.Errorf("%+v: it is retried with the limit %s", c, until(r.Execution.At))
		}
	}
}

// TestCancelWithAnAbandonedChild checks that a run that is asked to cancel does not wait for a child run that goes on
// alone.
func TestCancelWithAnAbandonedChild(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	cancel := Operation{Op: OpCancelGracefully, Step: NoStep}
	talk(t, r, Start{}, begins(KindChild, 0), cancel)
	if r.Phase.Closed() {
		t.Fatal("the run did not ask its child run")
	}
	talk(t, r, TaskStopped{Attempt: 1, Abandoned: true})
	if r.Phase != RunCancelled || r.Steps[0].Phase != StepCancelled {
		t.Errorf("the run is %s, its step %s", r.Phase, r.Steps[0].Phase)
	}
}

// TestFailureOfManyChildren checks that a failure that came up through many runs tells its beginning and its end once.
func TestFailureOfManyChildren(t *testing.T) {
	f := &policy.Failure{Kind: policy.KindError, Message: "no paper"}
	for i := range 32 {
		text := fmt.Sprintf("the child run %d of this ☂ family failed: %s", i, ends(Sentence(f)))
		f = &policy.Failure{Kind: policy.KindError, Message: text, Cause: f}
	}
	text := Sentence(f)
	if len(text) > 600 || !strings.HasPrefix(text, "the child run 31") || strings.Count(text, "run 31") != 1 ||
		!strings.HasSuffix(text, "failed: no paper") || strings.Count(text, "…") != 1 || !utf8.ValidString(text) {
		t.Errorf("it says %q", text)
	}
}
