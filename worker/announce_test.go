package worker

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/core"
	"github.com/pawl-dev/pawl/policy"
)

// slowly is a Confirmer that lets the test say when a report is durable.
type slowly struct {
	*reports
	confirms chan func(ended bool)
}

func (s slowly) Confirm(run core.RunID, in core.Input, done func(ended bool)) {
	s.Report(run, in)
	s.confirms <- done
}

// TestPoolAnnounces: an attempt whose predecessor was lost begins when its beginning is durable, and not at all where it has
// ended by then.
func TestPoolAnnounces(t *testing.T) {
	begun := make(chan struct{}, 10)
	p, r := newTestPool(t, map[string]Executor{"work": executorFunc(func(context.Context, core.Task, Alive) Result {
		begun <- struct{}{}
		return Result{}
	})})
	s := slowly{r, make(chan func(bool), 1)}
	p.ReportTo(s)
	task := testTask("work", "")
	task.Announce = true
	p.Dispatch(task)
	confirm := <-s.confirms
	if beat := next[core.Beat](t, r); beat.Attempt != 2 || len(begun) != 0 {
		t.Errorf("%+v was reported, %d have begun", beat, len(begun))
	}
	confirm(false)
	next[core.TaskEnded](t, r)
	if len(begun) != 1 {
		t.Errorf("%d have begun", len(begun))
	}
	p.Dispatch(task)
	(<-s.confirms)(true)
	p.Revoke(task.Token, policy.KindTimeout)
	next[core.TaskStopped](t, r)
	p.Dispatch(task)
	<-s.confirms
	p.Revoke(task.Token, policy.KindTimeout) // no answer has come
	next[core.TaskStopped](t, r)
	p.ReportTo(r) // it cannot confirm
	p.Dispatch(task)
	next[core.TaskEnded](t, r)
	if len(begun) != 2 {
		t.Errorf("%d have begun, want one that was confirmed and one that could not be", len(begun))
	}
}
