package lease

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// work gives a keeper's holder an attempt.
func work(k *Keeper) (h *holder, tok core.Token) {
	for _, h = range k.holders {
	}
	tok = core.Token{Run: run1, Attempt: 1}
	k.tasks[tok] = &task{holder: h}
	return h, tok
}

// TestSignsOfLifeHaveNoInstant checks that the clock of a process says nothing about when its heartbeat came.
func TestSignsOfLifeHaveNoInstant(t *testing.T) {
	k, e := keep(t)
	h, _ := work(k)
	a := &answers{all: make([]api.DecisionAnswer, 2), done: make(chan struct{})}
	a.open.Store(2)
	for i, kind := range []upKind{upReport, upConfirm} {
		k.take(h, &up{Kind: kind, Run: run1, Inputs: []core.Input{core.Beat{Attempt: 1, At: 1 << 50}}}, a, i)
	}
	if len(e.reports) != 2 {
		t.Fatalf("the engine was told %v", e.reports)
	}
	for _, in := range e.reports {
		if beat := in.(core.Beat); beat.At != 0 || beat.Attempt != 1 {
			t.Errorf("the engine was told %+v", beat)
		}
	}
}

// TestProcessThatLeaves checks that it has no slots any more.
func TestProcessThatLeaves(t *testing.T) {
	k, _ := keep(t)
	if got := k.Slots("", body.TypeLocal); got != 1 {
		t.Errorf("%d slots", got)
	}
	h, _ := work(k)
	k.leave(h)
	if got := k.Slots("", body.TypeLocal); got != 0 {
		t.Errorf("%d slots of a process that leaves", got)
	}
}

// TestTaskAtItsDeadline checks that a process is not told that an attempt has no deadline because no time is left.
func TestTaskAtItsDeadline(t *testing.T) {
	k, _ := keep(t)
	h, _ := work(k)
	before := len(h.queue)
	k.Dispatch(core.Task{Token: core.Token{Run: run1, Attempt: 2}, Workflow: "w", Type: body.TypeHook, Deadline: 1})
	if len(h.queue) != before+1 || h.queue[before].Left <= 0 {
		t.Errorf("it is told %+v", h.queue[before:])
	}
}

// TestAttemptThatHasEndedDoesNotBegin checks that a function begins only if its attempt goes on.
func TestAttemptThatHasEndedDoesNotBegin(t *testing.T) {
	for _, ended := range []bool{false, true} {
		k, e := keep(t)
		h, _ := work(k)
		e.ended = ended
		a := &answers{all: make([]api.DecisionAnswer, 1), done: make(chan struct{})}
		a.open.Store(1)
		k.take(h, &up{Kind: upConfirm, Run: run1, Inputs: []core.Input{core.Beat{Attempt: 1}}}, a, 0)
		<-a.done
		if got := a.all[0].Error != nil; got != ended {
			t.Errorf("ended: %t, and the answer is %+v", ended, a.all[0].Error)
		}
	}
}

// TestWorkOfADeadProcessHasStopped checks that an attempt that was told to stop is not waited for after its process has
// gone, and one that was at work is lost.
func TestWorkOfADeadProcessHasStopped(t *testing.T) {
	for _, revoked := range []bool{false, true} {
		k, e := keep(t)
		h, tok := work(k)
		if revoked {
			k.Revoke(tok, policy.KindTimeout)
		}
		k.remove(h)
		if len(e.reports) != 1 || len(k.tasks) != 0 {
			t.Fatalf("the engine was told %v, %d attempts are known", e.reports, len(k.tasks))
		}
		switch in := e.reports[0].(type) {
		case core.TaskStopped:
			if !revoked || !in.Abandoned {
				t.Errorf("revoked: %t, and the engine was told %+v", revoked, in)
			}
		case core.TaskEnded:
			if revoked || in.Failure == nil || in.Failure.Kind != policy.KindLost {
				t.Errorf("revoked: %t, and the engine was told %+v", revoked, in)
			}
		}
	}
}
