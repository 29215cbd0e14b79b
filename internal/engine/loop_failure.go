package engine

import (
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// stalled reports whether the journal takes no writes for now.
func (l *loop) stalled() bool {
	s := l.e.state.Load()
	return s != nil && !s.final
}

// failed reports whether an error ended the engine.
func (l *loop) failed() bool {
	s := l.e.state.Load()
	return s != nil && s.final && !errors.Is(s.err, ErrClosed) && !errors.Is(s.err, errHeld)
}

// fail handles a failed append, or a failed read without which the open batch must not be saved. The partition forgets
// its memory. If the error is not final, the loop opens the partition again later.
func (l *loop) fail(err error, now core.Time) {
	switch {
	case partitionLost(err):
		l.e.cfg.Log.Error("this engine has lost the partition and ends it here", "id", "partition-lost",
			"partition", l.e.cfg.Partition, "error", err)
	case errors.Is(err, journal.ErrBehind):
		l.e.cfg.Log.Error("the database lacks something that was seen of it, nothing is read or written there",
			"id", "database-went-back", "partition", l.e.cfg.Partition, "error", err)
	default:
		l.e.cfg.Log.Error("the journal cannot be read or written, new requests are refused until it can",
			"id", "storage-stalled",
			"partition", l.e.cfg.Partition, "error", err)
	}
	l.stalledAt = time.Now()
	l.p.Failed(err)
	s := &status{err: failure("engine", "", err), final: final(err)}
	// If Close was called meanwhile, this replaces its state, so that Close returns the error.
	l.e.state.Store(s)
	l.backoff = firstBackoff
	l.retry = now.Add(l.backoff)
	if s.final {
		l.end(s.err)
	}
}

// end gives the partition up. If another engine owns it, that engine starts the attempts again, so the workers here
// stop theirs.
func (l *loop) end(err error) {
	switch {
	case l.e.cfg.Shared:
		l.p.ShutShared(err)
	case partitionLost(err):
		l.p.tasks.revokeAll()
		l.p.Shut(err)
	default:
		l.p.Shut(err)
	}
}

// reopen opens the partition again if the journal takes writes again. To find out, it appends a batch.
func (l *loop) reopen(now core.Time) {
	began := time.Now()
	ctx, cancel := l.withinLease()
	defer cancel()
	err := l.p.Open(ctx, now)
	l.p.ctx = l.e.ctx
	if err == nil {
		l.p.Probe()
		if err = l.e.cfg.Journal.Append(ctx, l.p.Cut(now)); err == nil && !l.tenure.Answered(began, time.Now()) {
			err = ErrLeaseEnded
		}
		if err != nil {
			l.p.Failed(err)
		} else {
			l.p.Committed(l.clock.Read())
		}
	}
	switch {
	case err == nil:
		l.e.state.Store(nil)
		l.e.cfg.Log.Info("the journal takes writes again", "partition", l.e.cfg.Partition,
			"after", time.Since(l.stalledAt).Seconds())
	case final(err):
		l.e.state.Store(&status{err: failure("engine", "", err), final: true})
		l.end(l.e.err())
	default:
		l.backoff = min(2*l.backoff, lastBackoff)
		l.retry = l.clock.Read().Add(l.backoff)
	}
}

// refuse answers starts and inputs with an error while nothing can be saved. Reports of workers and calls that only
// read wait until the journal takes writes again.
func (l *loop) refuse() {
	var kept []request
	err := l.e.err()
	for _, requests := range [][]request{l.taken[l.next:], l.e.requests.take(nil)} {
		for _, req := range requests {
			if req.call != nil && req.call.nature() == saves {
				req.call.Answered().Err = err
				req.call.answer()
				continue
			}
			kept = append(kept, req)
		}
	}
	l.taken, l.next = kept, 0
}

// tellCommit reports the batch that was just appended.
func (l *loop) tellCommit(r result) {
	if tell := l.e.cfg.Observer.Committed; tell != nil {
		tell(r.took, l.p.pipeline.inFlight.first().entries, len(r.job.batch.Encoded))
	}
}
