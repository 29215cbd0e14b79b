package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// TestSlotsAfterAFailedOpen: attempts that begin because of messages which were kept take slots. If Open fails after
// that, the slots are free again.
func TestSlotsAfterAFailedOpen(t *testing.T) {
	r := newRig(t, 1)
	r.plans["kid"] = flow("kid", nap(time.Second)).definition()
	bad := r.start(flow("bad", child(`{"name":"kid"}`), task()))
	r.settle()
	r.unknown = "bad"
	r.restart()
	r.pass(10 * time.Second) // the child run ends, and the message about it is kept
	r.unknown = ""

	r.journal = r.journal.Reopen()
	reads := 0
	r.journal.Fault = func(op memory.Op, _ *journal.Batch) error {
		if op != memory.OpInbox {
			return nil
		}
		reads++
		return errorIf(reads == 2, errors.New("a planted error")) // the first read finds the message
	}
	r.p = NewPartition(r.config())
	if err := r.p.Open(t.Context(), r.now); err == nil {
		t.Fatal("the partition was opened")
	}
	r.journal.Fault = nil
	if err := r.p.Open(t.Context(), r.now); err != nil {
		t.Fatal(err)
	}
	r.workers.act = succeed
	r.pass(time.Second)
	r.wantPhase(bad, core.RunSucceeded)
}

// TestUnbornChildOfARunSetAside: a process dies when the start of a child run is durable and its beginning is not. The
// next one cannot read the parent. Once the parent can be read again, the child run is started anew.
func TestUnbornChildOfARunSetAside(t *testing.T) {
	r := newRig(t, -1)
	r.workers.act = succeed
	r.plans["kid"] = flow("kid", task()).definition()
	parent := r.start(flow("parent", child(`{"name":"kid"}`)))
	if err := r.journal.Append(t.Context(), r.p.Cut(r.now)); err != nil {
		t.Fatal(err)
	}
	r.unknown = "parent"
	r.restart()
	r.start(flow("other", task())) // its batches follow the one with the start of the child run
	r.settle()
	if err := r.p.SetAside(parent); err == nil {
		t.Fatal("the parent is not set aside")
	}
	r.unknown = ""
	r.restart()
	r.settle()
	r.wantPhase(parent, core.RunSucceeded)
}
