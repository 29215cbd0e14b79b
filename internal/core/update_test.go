package core

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// waitFor returns a wait for an update of the given name.
func waitFor(name string, n int) Schedule {
	spec := &StepSpec{Name: fmt.Sprintf("%s#%d", name, n), Def: -1, Kind: KindWait, Update: name}
	return Schedule{Spec: spec, Item: -1, Group: NoStep}
}

// decide lets a body decide.
func decide(t *testing.T, r *Run, cmds ...Command) Output {
	t.Helper()
	out, err := Advance(r, withBody, Commands{Commands: cmds}, max(r.LastAt(), epoch).Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func answerSpec(id string) *StepSpec {
	return &StepSpec{Name: "answer " + id, Def: -1, Type: "answer"}
}

// TestUpdateIsTakenOnce accepts updates that a wait can take, and ignores others: of another name, a second one, one
// that was taken before, and one for a wait that does not exist.
func TestUpdateIsTakenOnce(t *testing.T) {
	r := begun(t, Start{})
	decide(t, r, waitFor("a", 1), waitFor("a", 2))
	accept := func(key, name, id string) {
		decide(t, r, AcceptUpdate{Key: key, Name: name, ID: id, Payload: []byte(id)})
	}
	accept("a#1", "b", "1")
	accept("a#3", "a", "1")
	if len(r.Updates) != 0 {
		t.Fatalf("taken were %v", r.Updates)
	}
	accept("a#1", "a", "1")
	accept("a#1", "a", "2")
	accept("a#2", "a", "1")
	s, _ := r.Lookup("a#1")
	if len(r.Updates) != 1 || r.Updates[0].Step != s.ID || s.Phase != StepSucceeded || string(s.Output) != "1" {
		t.Fatalf("taken were %v, the step is %s with %s", r.Updates, s.Phase, s.Output)
	}
	if s, _ := r.Lookup("a#2"); s.Phase != StepSuspended {
		t.Errorf("the second wait is %s", s.Phase)
	}
	decide(t, r, AnswerUpdate{Spec: answerSpec("1"), Name: "a", ID: "1", Output: []byte("first")})
	decide(t, r, AnswerUpdate{Spec: answerSpec("1 again"), Name: "a", ID: "1", Output: []byte("second")})
	if u := r.FindUpdate("a", "1"); u == nil || !u.Answered || string(u.Output) != "first" {
		t.Errorf("the answer is %+v", u)
	}
}

// TestEventEndsNoWaitForUpdate sends an event that has the name of an update.
func TestEventEndsNoWaitForUpdate(t *testing.T) {
	r := begun(t, Start{})
	decide(t, r, waitFor("a", 1))
	for _, name := range []string{"a", ""} {
		if _, err := Advance(r, withBody, SignalReceived{Name: name}, r.LastAt()); err != nil {
			t.Fatal(err)
		}
	}
	if s, _ := r.Lookup("a#1"); s.Phase != StepSuspended {
		t.Errorf("the wait is %s", s.Phase)
	}
}

// TestUpdatesGoWithTheChain ends a run with an answered and an open update. Both have answers then, which the next run
// knows.
func TestUpdatesGoWithTheChain(t *testing.T) {
	r := begun(t, Start{})
	decide(t, r, waitFor("a", 1), waitFor("a", 2))
	decide(t, r, AcceptUpdate{Key: "a#1", Name: "a", ID: "1"}, AcceptUpdate{Key: "a#2", Name: "a", ID: "2"},
		AnswerUpdate{Spec: answerSpec("1"), Name: "a", ID: "1", Output: []byte("done")})
	out := decide(t, r, Close{Phase: RunContinued})
	var next *Start
	for _, e := range out.Effects {
		if closed, ok := e.(Closed); ok {
			next = closed.Next
		}
	}
	if next == nil {
		t.Fatal("no run follows")
	}
	for _, run := range []*Run{r, begun(t, *next)} {
		one, two := run.FindUpdate("a", "1"), run.FindUpdate("a", "2")
		if one == nil || !one.Answered || string(one.Output) != "done" || one.Failure != nil {
			t.Errorf("the first one is %+v", one)
		}
		if two == nil || !two.Answered || two.Failure == nil {
			t.Errorf("the second one is %+v", two)
		}
	}
}

// TestAnswersAreBounded answers more updates than a run remembers, by number and by size. An open one is never
// forgotten.
func TestAnswersAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		size, sent, kept int
	}{
		"number": {10, updatesKept + 5, updatesKept}, "size": {updateBytes / 4, 7, 4}, "huge": {updateBytes + 1, 3, 1},
	} {
		r := begun(t, Start{})
		decide(t, r, waitFor("open", 0))
		decide(t, r, AcceptUpdate{Key: "open#0", Name: "open", ID: "open"})
		for i := range c.sent {
			id := fmt.Sprint(i)
			decide(t, r, waitFor("a", i))
			decide(t, r, AcceptUpdate{Key: fmt.Sprintf("a#%d", i), Name: "a", ID: id})
			decide(t, r, AnswerUpdate{
				Spec: answerSpec(id), Name: "a", ID: id, Output: bytes.Repeat([]byte("x"), c.size),
			})
		}
		if len(r.Updates) != c.kept+1 || r.FindUpdate("open", "open") == nil {
			t.Errorf("%s: %d are known, want %d and the open one", name, len(r.Updates), c.kept)
		}
		if last := r.FindUpdate("a", fmt.Sprint(c.sent-1)); last == nil || !last.Answered {
			t.Errorf("%s: the last answer is not known", name)
		}
	}
}
