package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// TestSlotsAfterAFailedOpen checks that slots are free again if Open fails after attempts have taken them because of
// messages that were kept.
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

// TestUnbornChildOfARunSetAside checks that a child run is started anew after a process died when its start was durable
// and its beginning was not. The next process cannot read the parent; the child starts when the parent can be read
// again.
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
