package memory

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestJournal(t *testing.T) {
	journaltest.Run(t, func(*testing.T) journaltest.Store {
		j := NewPartitions(3)
		reopen := func() journal.Journal {
			j = j.Reopen()
			return j
		}
		now := core.Time(1)
		j.Term, j.Now = time.Minute, func() core.Time { return now }
		return journaltest.Store{
			Expire:  func() { now = now.Add(time.Minute) },
			Journal: j, Reopen: reopen, Crash: reopen,
			Rows: func(run core.RunID) ([]journal.StepRow, []journal.AttemptRow) {
				return j.Steps(run),
					j.Attempts(run)
			},
		}
	})
}

func TestReopenLeavesTheOldOneDead(t *testing.T) {
	old := New()
	lease, err := old.Acquire(t.Context(), 0, "a")
	if err != nil {
		t.Fatal(err)
	}
	next := old.Reopen()
	if err := old.Append(t.Context(), &journal.Batch{Epoch: lease.Epoch, Seq: 1}); !errors.Is(err, ErrClosed) {
		t.Errorf("the old journal's append: %v", err)
	}
	if lease, err = next.Acquire(t.Context(), 0, "b"); err != nil || lease.Last != 0 {
		t.Errorf("%+v, %v", lease, err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
	if _, err := next.List(t.Context(), journal.Query{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed journal's list: %v", err)
	}
}

func TestFaults(t *testing.T) {
	j := New()
	lease, err := j.Acquire(t.Context(), 0, "a")
	if err != nil {
		t.Fatal(err)
	}
	fail := map[Op]error{OpAppend: journal.ErrFull}
	j.Fault = func(op Op, b *journal.Batch) error {
		if (op == OpAppend || op == OpAck) != (b != nil) {
			t.Errorf("%s with batch %v", op, b)
		}
		return fail[op]
	}
	b := &journal.Batch{Epoch: lease.Epoch, Seq: 1, Entries: []core.Entry{{Run: journaltest.RunID(1)}}}
	if err := j.Append(t.Context(), b); !errors.Is(err, journal.ErrFull) {
		t.Fatalf("full: %v", err)
	}
	// The acknowledgement is lost, the batch is not.
	fail = map[Op]error{OpAck: journal.ErrLost}
	if err := j.Append(t.Context(), b); !errors.Is(err, journal.ErrLost) {
		t.Fatalf("lost: %v", err)
	}
	fail = nil
	if lease, err = j.Reopen().Acquire(t.Context(), 0, "b"); err != nil || lease.Last != 1 {
		t.Errorf("%+v, %v", lease, err)
	}
}
