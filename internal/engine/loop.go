package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/clock"
	"github.com/pawl-dev/pawl/internal/journal"
)

const (
	// While the journal takes no writes, the loop tries again after these delays.
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second

	// lookAtClock is how long the loop sleeps at most while something will be due. A timer of the system does not count
	// the time during which the machine is suspended, and does not notice that the wall clock is set forward.
	lookAtClock = time.Minute

	// afterAlarm is how long after the alarm the timer goes off, where there is one.
	afterAlarm = 2 * time.Millisecond

	pruneEvery = time.Minute
)

func newLoop(e *driver) *loop {
	l := &loop{
		e: e, p: newPartition(e.cfg, e.defs), clock: clock.New(e.cfg.Now, e.cfg.Log),
		stall: clock.NewStall(e.cfg.Now != nil),
		jobs:  make(chan job, 1), results: make(chan result, 1), windows: make(chan windowPart),
		fetches: make(chan fetched, 1), // there is one fetch at a time, so its reader never blocks
	}
	if e.cfg.Retention > 0 {
		l.prune = 1 // the loop prunes at once
	}
	return l
}

// open makes the partition ready.
func (l *loop) open(ctx context.Context) error {
	began := time.Now()
	if err := l.p.Open(ctx, l.clock.Read()); err != nil {
		return errors.Join(err, l.p.Release(ctx))
	}
	l.tenure = l.p.Tenure(began, l.clock.Read())
	l.p.ctx = l.e.ctx // ctx bounds only the opening
	return nil
}

// withinLease returns a context that ends with the lease, so that the loop notices that end also while it waits for the
// journal.
func (l *loop) withinLease() (context.Context, context.CancelFunc) {
	if left, ends := l.tenure.Left(time.Now()); ends {
		return context.WithTimeoutCause(l.e.ctx, left, ErrLeaseEnded)
	}
	return l.e.ctx, func() {}
}

// untilLeaseEnds shortens a sleep to the end of the lease.
func (l *loop) untilLeaseEnds(wait time.Duration) time.Duration {
	if left, ends := l.tenure.Left(time.Now()); ends {
		return min(wait, left)
	}
	return wait
}

// run executes the loop: it handles arrivals, cuts a batch when the committer is free, and sleeps until something
// happens.
func (l *loop) run() {
	committed := make(chan struct{})
	go l.commit(committed)
	l.timer = time.NewTimer(time.Hour)
	if l.clock.Real() {
		l.alarm = clock.NewAlarm()
	}
	if l.alarm != nil {
		l.rings = l.alarm.Rings()
		defer l.alarm.Close()
	}
	for l.round() {
	}
	l.timer.Stop()
	l.e.cancel()
	close(l.jobs)
	l.drain()
	<-committed
	close(l.e.done)
}

// round executes one round of the loop and reports whether the loop goes on.
func (l *loop) round() bool {
	now := l.clock.Read()
	l.stall.Woke(now)
	more := false
	switch {
	case l.failed():
		return false
	case l.tenure.Ended(time.Now()):
		l.fail(ErrLeaseEnded, now)
		return false
	case l.stalled():
		if l.retry <= now && !l.busy {
			l.reopen(now)
			more = true
		} else {
			l.refuse()
		}
	default:
		more = l.handle(now)
		if !l.stall.Holds(now) {
			more = l.p.Tick(now) || more
		}
		l.startWindowReader(now)
		l.startInboxReader(now)
		more = l.awaitDecision() || more
		l.dispatch(now)
	}
	l.publish()
	select {
	case <-l.e.stop:
		l.finish()
		return false
	default:
	}
	l.stall.Until = now
	if more && l.hasRoom() {
		l.poll()
		return true
	}
	l.sleep(now)
	return true
}

// handle handles the requests in the queue while there is room. It reports whether more requests may be waiting.
func (l *loop) handle(now core.Time) (more bool) {
	leftOver := l.next < len(l.taken) // an earlier round ran out of room
	if !leftOver {
		clear(l.taken)
		l.taken, l.next = l.e.requests.take(l.taken), 0
	}
	for l.next < len(l.taken) && l.hasRoom() {
		req := &l.taken[l.next]
		l.next++
		switch {
		case req.call != nil:
			l.p.Handle(req.call, now)
		case req.rep.in != nil:
			l.p.Report(req.rep.run, req.rep.in, now)
		case req.match != nil:
			l.p.Match(req.match.Queue, req.match.Type, now)
		case req.expect:
			l.p.Expect()
		default:
			l.p.Rematch(now)
		}
	}
	return leftOver || l.next < len(l.taken)
}

// hasRoom reports whether more inputs may be taken before the journal has caught up.
func (l *loop) hasRoom() bool {
	return l.p.pipeline.hasRoom(l.e.cfg.Inflight)
}

// dispatch gives the committer its next job, if it is free: a batch, else a renewal of the ownership, else a removal of
// old runs.
func (l *loop) dispatch(now core.Time) {
	if l.busy {
		return
	}
	if err := l.p.ReadError(); err != nil {
		l.fail(err, now)
		return
	}
	if b := l.p.Cut(now); b != nil {
		l.busy = true
		l.jobs <- job{batch: b}
		return
	}
	switch {
	case l.tenure.Renew() != 0 && l.tenure.Renew() <= now:
		l.busy = true
		l.jobs <- job{renew: l.p.pipeline.epoch}
	case l.prune != 0 && l.prune <= now:
		l.busy = true
		l.jobs <- job{prune: now.Add(-l.e.cfg.Retention), claims: l.nextClaim}
	}
}

// sleep waits until something happens. It handles it, except for requests, which the next round handles.
func (l *loop) sleep(now core.Time) {
	l.setTimer(now)
	l.stall.Until = l.timerAt
	ready := l.e.requests.ready
	if !l.stalled() && !l.hasRoom() {
		ready = nil // requests must wait until a batch is durable
	}
	select {
	case <-ready:
	case r := <-l.results:
		l.jobDone(r)
	case w := <-l.windows:
		l.loaded(w)
	case f := <-l.fetches:
		l.fetched(f)
	case <-l.timer.C:
		l.timerAt = 0
	case <-l.rings:
		l.timerAt = 0
	case <-l.e.stop:
	}
}

// poll does the same as sleep without waiting.
func (l *loop) poll() {
	select {
	case r := <-l.results:
		l.jobDone(r)
	case w := <-l.windows:
		l.loaded(w)
	case f := <-l.fetches:
		l.fetched(f)
	default:
	}
}

// setTimer sets the timer to the next instant at which the loop has something to do.
func (l *loop) setTimer(now core.Time) {
	var at core.Time
	switch {
	case l.stalled():
		at = l.retry
	default:
		at = l.stall.Postponed(l.p.Next())
		at = earliest(earliest(at, l.prune), l.tenure.Renew())
	}
	if at == 0 {
		return
	}
	at = min(at, now.Add(lookAtClock))
	if at == l.timerAt || (now < l.timerAt && l.timerAt < at) {
		return // an earlier alarm wakes the loop for nothing, but setting it costs more, at each commit
	}
	l.timerAt = at
	wait := at.Sub(now)
	if wait <= 0 && l.busy {
		// Due work may need the committer. The committer's result ends the sleep, so the timer need not fire at once.
		wait, l.timerAt = 10*time.Millisecond, 0
	}
	if l.alarm != nil && wait > 0 {
		l.alarm.Set(l.clock.Wall().Add(wait))
		wait += afterAlarm
	}
	l.timer.Reset(max(l.untilLeaseEnds(wait), 0))
}

// commit executes the committer. The committer carries out one job after the other, so batches reach the journal in
// order.
func (l *loop) commit(done chan<- struct{}) {
	defer close(done)
	j := l.e.cfg.Journal
	for work := range l.jobs {
		r := result{job: work, began: time.Now()}
		switch {
		case work.batch != nil:
			r.err = l.watched(r.began, func() error { return j.Append(l.e.ctx, work.batch) })
			r.took = time.Since(r.began)
		case work.renew != 0:
			r.err = l.watched(r.began, func() error {
				_, err := j.Renew(l.e.ctx, l.e.cfg.Partition, work.renew)
				return err
			})
		default:
			r.pruned, r.err = j.Prune(l.e.ctx, l.e.cfg.Partition, journal.Old{Before: work.prune, Limit: prunePage})
			if r.err == nil && j.PartitionCount() > 1 {
				r.claims, r.nextClaim, r.err = oldClaims(l.e.ctx, j, l.e.cfg.Partition, work.claims, work.prune)
			}
		}
		l.results <- r
	}
}

// jobDone handles a result of the committer. It starts the next append first and carries out the effects of this batch
// after that, so that the disk is never idle.
func (l *loop) jobDone(r result) {
	l.busy = false
	now := l.clock.Read()
	switch {
	case r.job.renew != 0:
		if r.err == nil && !l.tenure.Answered(r.began, time.Now()) {
			r.err = ErrLeaseEnded
		}
		l.renewed(r.err, now)
	case r.job.batch == nil:
		l.pruned(r, now)
	case r.err != nil:
		l.fail(r.err, now)
	case !l.tenure.Answered(r.began, time.Now()):
		l.fail(ErrLeaseEnded, now)
	default:
		if l.p.ReadError() == nil {
			l.dispatch(now)
		}
		l.tenure.Schedule(now)
		l.patience = min(r.took/2, maxPatience)
		l.tellCommit(r)
		l.p.Committed(now)
	}
}

// renewed handles the result of a renewal. If the renewal failed, but not because there is a new owner, the loop goes
// on and renews again later. That is safe: the journal refuses appends of an engine that is no longer the owner.
func (l *loop) renewed(err error, now core.Time) {
	l.tenure.Schedule(now)
	switch {
	case err == nil:
		l.p.Expect() // look for messages whose sender could not notify this partition, for example because it crashed
	case final(err):
		l.fail(err, now)
	default:
		l.e.cfg.Log.Warn("the ownership of the partition could not be renewed, trying again", "error", err)
	}
}

// pruned handles the result of a removal of old runs.
func (l *loop) pruned(r result, now core.Time) {
	l.prune = now.Add(min(pruneEvery, max(l.e.cfg.Retention/10, time.Second)))
	l.p.residents.recent.forget()
	if r.err == nil {
		l.nextClaim = r.nextClaim
		r.err = l.p.starts.dropClaims(r.claims)
	}
	switch {
	case r.err != nil:
		l.e.cfg.Log.Warn("old runs could not be removed, trying again", "error", r.err)
	case r.pruned == prunePage:
		l.prune = now.Add(100 * time.Millisecond) // there are more; small steps leave time for appends
	}
}

// startWindowReader starts a goroutine that reads the runs of the next window, if it is time for that.
func (l *loop) startWindowReader(now core.Time) {
	w, ok := l.p.Window(now)
	if !ok {
		return
	}
	pace := newPace(w, &l.clock, now)
	l.readers.Add(1)
	go func() {
		defer l.readers.Done()
		far, err := ReadWindow(l.e.ctx, l.e.cfg.Journal, l.e.cfg.Partition, w, func(runs []Loaded) error {
			if err := l.sendPart(windowPart{window: w, runs: runs}); err != nil {
				return err
			}
			return pace.rest(l.e.ctx, runs)
		})
		w.rested = pace.rested
		_ = l.sendPart(windowPart{window: w, end: true, far: far, err: err})
	}()
}

// sendPart gives a part of a window to the loop.
func (l *loop) sendPart(w windowPart) error {
	select {
	case l.windows <- w:
		return nil
	case <-l.e.ctx.Done():
		return l.e.ctx.Err()
	}
}

// loaded handles a part of a window that was read.
func (l *loop) loaded(w windowPart) {
	if l.stalled() || l.failed() {
		return // the partition has forgotten its memory since the reader started
	}
	if w.end {
		l.p.at(l.clock.Read()) // the reader may have rested since its last part
		l.p.WindowDone(w.window, w.far, w.err)
		return
	}
	l.p.Loaded(w.window, w.runs, l.clock.Read())
}

// startInboxReader starts a goroutine that reads the messages of other partitions, if it is time for that.
func (l *loop) startInboxReader(now core.Time) {
	f, ok := l.p.Fetch(now)
	if !ok {
		return
	}
	l.readers.Go(func() {
		messages, err := l.e.cfg.Journal.Inbox(l.e.ctx, l.e.cfg.Partition, f.After, f.Limit)
		select {
		case l.fetches <- fetched{f, messages, err}:
		case <-l.e.ctx.Done():
		}
	})
}

// fetched handles the messages that were read.
func (l *loop) fetched(f fetched) {
	if !l.stalled() && !l.failed() {
		l.p.Fetched(f.fetch, f.messages, f.err, l.clock.Read())
	}
}

// publish stores the counts that Engine.Stats returns.
func (l *loop) publish() {
	if l.stalled() || l.failed() {
		return
	}
	s := l.p.Stats()
	l.e.counts.Lock()
	l.e.counts.Stats = s
	l.e.counts.Unlock()
}

// finish ends the work after Close: it handles the rest of the requests, appends all batches, and completes the view.
// Then it releases the partition.
func (l *loop) finish() {
	l.e.state.CompareAndSwap(nil, closedStatus())
	now := l.clock.Read()
	for !l.stalled() && !l.failed() {
		more := l.handle(now)
		l.p.Flush()
		l.dispatch(now)
		if l.busy {
			l.jobDone(<-l.results)
			continue
		}
		if !more {
			break
		}
	}
	if l.busy {
		<-l.results
	}
	switch {
	case l.failed():
	case l.e.given.Load():
		l.p.ShutShared(moved(l.e.cfg.Partition))
	default:
		l.p.Shut(&Error{Code: CodeClosed, Op: "engine", Err: errors.New("it was closed")})
	}
	if !l.failed() {
		if err := l.p.Release(context.WithoutCancel(l.e.ctx)); err != nil {
			l.e.cfg.Log.Warn("the partition could not be released; another engine can take it when its lease has ended",
				"error", err)
		}
	}
	if l.stalled() {
		// Callers get the answer that the engine is closed from now on, because it will not try again. Close returns
		// the reason.
		l.e.unsaved = l.e.err()
		l.e.state.Store(closedStatus())
	}
}

// drain answers all calls that are still in the queue after the loop has ended. It answers no waiters: a caller that is
// woken by both its answer and its waiter could put its call back into the pool too early.
func (l *loop) drain() {
	l.e.requests.close()
	go func() { // readers may be blocked in sendPart; the loop below lets them go on
		l.readers.Wait()
		close(l.windows)
	}()
	for range l.windows {
	}
	err := l.e.err()
	for _, requests := range [][]request{l.taken[l.next:], l.e.requests.take(nil)} {
		for _, req := range requests {
			if req.call == nil {
				continue
			}
			req.call.Answered().Err = err
			req.call.answer()
		}
	}
}

func tooLarge(n, limit int) string {
	return fmt.Sprintf("the payload has %d bytes, the limit is %d", n, limit)
}
