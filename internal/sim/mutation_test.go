package sim

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// changedJournal is a journal that changes the batches it gets, or drops them.
type changedJournal struct {
	journal.Journal
	change func(b *journal.Batch) (keep bool)
}

func (j changedJournal) Append(ctx context.Context, b *journal.Batch) error {
	c := *b
	if !j.change(&c) {
		return nil
	}
	return j.Journal.Append(ctx, &c)
}

// rewriteEntries changes the entries of a batch.
func rewriteEntries(b *journal.Batch, change func(e *core.Entry)) {
	var out []byte
	for rest := b.Encoded; len(rest) > 0; {
		e, after, err := core.ReadEntry(rest)
		if err != nil {
			panic(err)
		}
		change(&e)
		out = core.AppendEntry(out, &e)
		rest = after
	}
	b.Encoded = out
}

// TestChecksFindMistakes plants one mistake at a time between the engine and its journal, or in its memory. The checks
// must notice it.
func TestChecksFindMistakes(t *testing.T) {
	for _, m := range []struct {
		name string
		opt  Options
		see  []Invariant
	}{
		{
			"an acknowledged batch is dropped",
			Options{WrapJournal: dropFifthBatch()},
			[]Invariant{Acknowledged, Replay, NoHang, DueOrder},
		},
		{"a deadline moves in memory", Options{ChangeMemory: func(r *core.Run) {
			if r.Execution.At != 0 {
				r.Execution.At = r.Execution.At.Add(time.Second)
			}
		}}, []Invariant{Replay, FixedDeadline}},
		{"a step's attempt moves in memory", Options{ChangeMemory: func(r *core.Run) {
			if len(r.Steps) > 0 {
				r.Steps[0].Attempt += 100
			}
		}}, []Invariant{Replay, OneAttempt, EndsOnce, Acknowledged, NoHang}},
		{"a deadline moves in the journal", changeEntries(func(e *core.Entry) {
			for i, rec := range e.Records {
				if began, ok := rec.(core.StepBegan); ok && began.ScheduleToClose != 0 {
					began.ScheduleToClose = began.ScheduleToClose.Add(time.Second)
					e.Records[i] = began
				}
			}
		}), []Invariant{FixedDeadline}},
		{"a loss counts that is none of a suspect", changeEntries(func(e *core.Entry) {
			for i, rec := range e.Records {
				ended, ok := rec.(core.AttemptEnded)
				if ok && ended.Failure != nil && ended.Failure.Kind == policy.KindLost {
					ended.LostAlone++
					e.Records[i] = ended
				}
			}
		}), []Invariant{Counted, Replay}},
		{"an attempt starts late", changeEntries(func(e *core.Entry) {
			for _, rec := range e.Records {
				if _, ok := rec.(core.AttemptStarted); ok {
					e.At = e.At.Add(24 * time.Hour)
					return
				}
			}
		}), []Invariant{NotAfter, FixedDeadline, DueOrder, Recorded, Replay}},
		{"an end is written twice", changeEntries(func(e *core.Entry) {
			for _, rec := range e.Records {
				if ended, ok := rec.(core.RunEnded); ok {
					e.Records = append(e.Records, ended)
					return
				}
			}
		}), []Invariant{TerminalOnce}},
		{"an attempt ends twice", changeEntries(func(e *core.Entry) {
			for i, rec := range e.Records {
				if ended, ok := rec.(core.AttemptEnded); ok {
					e.Records = slices.Insert(e.Records, i, core.Record(ended))
					return
				}
			}
		}), []Invariant{EndsOnce}},
		{"an attempt is not counted", changeEntries(func(e *core.Entry) {
			e.Records = slices.DeleteFunc(e.Records, func(rec core.Record) bool {
				_, ready := rec.(core.AttemptReady)
				return ready
			})
			if len(e.Records) == 0 {
				e.Records = append(e.Records, core.SignalKept{Name: "nothing"})
			}
		}), []Invariant{OneAttempt, EndsOnce, Replay, Acknowledged}},
		{"labels are left behind in their chain", changeEntries(func(e *core.Entry) {
			if created, ok := e.Records[0].(core.RunCreated); ok && created.Chain.Previous != (core.RunID{}) {
				created.Labels = ""
				e.Records[0] = created
			}
		}), []Invariant{Recorded}},
		{"headers are left behind in their chain", changeEntries(func(e *core.Entry) {
			if created, ok := e.Records[0].(core.RunCreated); ok && created.Chain.Previous != (core.RunID{}) {
				created.Headers = ""
				e.Records[0] = created
			}
		}), []Invariant{Recorded}},
		{"a child run does not have the headers of its parent", changeEntries(func(e *core.Entry) {
			if created, ok := e.Records[0].(core.RunCreated); ok && created.Parent.Run != (core.RunID{}) {
				created.Headers = ""
				e.Records[0] = created
			}
		}), []Invariant{Recorded}},
		{"a child run does not say of which family it is", changeEntries(func(e *core.Entry) {
			if created, ok := e.Records[0].(core.RunCreated); ok && created.Parent.Run != (core.RunID{}) {
				created.Parent.Top = created.Parent.Run
				created.Parent.Depth++
				e.Records[0] = created
			}
		}), []Invariant{Recorded}},
		{"a body's change of a label is lost", changeEntries(func(e *core.Entry) {
			for i, rec := range e.Records {
				if mark, ok := rec.(core.StepOmitted); ok && mark.Labels != "" {
					mark.Labels = ""
					e.Records[i] = mark
				}
			}
		}), []Invariant{Recorded}},
		{"an event is left behind in its chain", changeEntries(func(e *core.Entry) {
			e.Records = slices.DeleteFunc(e.Records, func(rec core.Record) bool {
				kept, ok := rec.(core.SignalKept)
				return ok && kept.Carried
			})
		}), []Invariant{Events}},
		{"an event is taken twice in its chain", changeEntries(func(e *core.Entry) {
			for i, rec := range e.Records {
				if kept, ok := rec.(core.SignalKept); ok && kept.Taken {
					kept.Taken, kept.Carried = false, false
					e.Records[i] = kept
				}
			}
		}), []Invariant{Events}},
		{"the view has a wrong phase", Options{NoFaults: true, WrapJournal: changeBatches(func(b *journal.Batch) bool {
			if b.View != nil && len(b.View.Runs) > 0 {
				v := *b.View
				v.Runs = slices.Clone(v.Runs)
				v.Runs[0].Phase = core.RunTerminated
				b.View = &v
			}
			return true
		})}, []Invariant{Replay}},
		{"a former owner still writes", Options{WrapJournal: ignoreEpochs()}, []Invariant{Fencing}},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			expectViolation(t, m.opt, m.see)
		})
	}
}

// expectViolation runs universes until the checks notice the planted mistake.
func expectViolation(t *testing.T, opt Options, see []Invariant) {
	t.Helper()
	for seed := uint64(1); seed <= 3000; seed++ {
		_, err := Run(seed, opt)
		var v *Violation
		if !errors.As(err, &v) {
			continue
		}
		if !slices.Contains(see, v.Invariant) {
			if see[0] == Fencing || see[0] == Events || see[0] == Decided || see[0] == Delivered ||
				see[0] == Talk {
				continue // the mistake breaks several invariants; this one must be among them in some universe
			}
			t.Fatalf("seed %d broke another invariant: %v", seed, err)
		}
		return
	}
	t.Error("the checks did not notice the planted mistake in 3000 universes")
}

func changeBatches(f func(*journal.Batch) bool) func(journal.Journal) journal.Journal {
	return func(j journal.Journal) journal.Journal { return changedJournal{j, f} }
}

func changeEntries(change func(e *core.Entry)) Options {
	return Options{NoFaults: true, WrapJournal: changeBatches(func(b *journal.Batch) bool {
		rewriteEntries(b, change)
		return true
	})}
}

// dropFifthBatch drops the fifth batch with entries of each journal.
func dropFifthBatch() func(journal.Journal) journal.Journal {
	return func(j journal.Journal) journal.Journal {
		n := 0
		return changedJournal{j, func(b *journal.Batch) bool {
			if len(b.Encoded) > 0 {
				n++
			}
			return n != 5 || len(b.Encoded) == 0
		}}
	}
}

// ignoreEpochs gives every batch the epoch of the current owner and the next number, so that former owners can write.
func ignoreEpochs() func(journal.Journal) journal.Journal {
	return func(j journal.Journal) journal.Journal {
		return &journalWithoutEpochs{Journal: j}
	}
}

type journalWithoutEpochs struct {
	journal.Journal
	epoch, last uint64
}

func (j *journalWithoutEpochs) Acquire(ctx context.Context, partition int, owner string) (journal.Lease, error) {
	lease, err := j.Journal.Acquire(ctx, partition, owner)
	if err == nil {
		j.epoch, j.last = lease.Epoch, lease.Last
	}
	return lease, err
}

func (j *journalWithoutEpochs) Renew(ctx context.Context, partition int, epoch uint64) (journal.Lease, error) {
	lease, err := j.Journal.Renew(ctx, partition, epoch)
	if err == nil {
		j.last = lease.Last
	}
	return lease, err
}

func (j *journalWithoutEpochs) Append(ctx context.Context, b *journal.Batch) error {
	c := *b
	c.Epoch, c.Seq = j.epoch, j.last+1
	err := j.Journal.Append(ctx, &c)
	if err == nil || errors.Is(err, errDisk) {
		j.last++
	}
	return err
}
