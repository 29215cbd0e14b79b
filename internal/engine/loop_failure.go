package engine

import (
	"context"
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

// callersWait is how long a commit may take until people are told: callers wait for it.
const callersWait = 2 * time.Second

// blockerWithin bounds the question what a commit waits for.
const blockerWithin = time.Second

// watched runs a call of the journal that callers wait for. When it has taken too long it says so, with what holds it
// up if the journal can tell, and once more when it has ended.
func (l *loop) watched(began time.Time, call func() error) error {
	said := make(chan struct{})
	late := time.AfterFunc(callersWait, func() {
		defer close(said)
		w := &commitWait{partition: l.e.cfg.Partition, since: began}
		l.e.waits.Store(w)
		if j, ok := l.e.cfg.Journal.(journal.Blockable); ok {
			ctx, cancel := context.WithTimeout(l.e.ctx, blockerWithin)
			defer cancel()
			with := *w
			with.blocker = j.Blocker(ctx, l.e.cfg.Partition)
			l.e.waits.Store(&with)
			w = &with
		}
		l.e.cfg.Log.Warn("a commit waits, and with it all callers of the partition", "partition", w.partition,
			"for", time.Since(began).Seconds(), "blocker", w.blocker)
	})
	err := call()
	if !late.Stop() {
		<-said
		l.e.waits.Store(nil)
		l.e.cfg.Log.Info("the commit that waited has ended", "partition", l.e.cfg.Partition,
			"after", time.Since(began).Seconds(), "error", err)
	}
	return err
}
