package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

const (
	batchBytes   = 1 << 20 // a batch this large is cut before more is computed
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
	prunePage    = 200
	pruneEvery   = time.Minute
)

func newLoop(e *Engine) *loop {
	l := &loop{
		e: e, p: newPartition(e.cfg, e.defs), clock: clock{source: e.cfg.Now, log: e.cfg.Log},
		jobs: make(chan job, 1), results: make(chan result, 1), windows: make(chan windowPart),
		fetches: make(chan fetched, 1), // one at a time, so that its reader never waits
	}
	if e.cfg.Retention > 0 {
		l.prune = 1
	}
	return l
}

// open makes the partition ready. What still executes of the previous owner's attempts is ended before.
func (l *loop) open(ctx context.Context) error {
	if before := l.e.cfg.BeforeRecovery; before != nil {
		if err := endLeftovers(ctx, before); err != nil {
			return err
		}
	}
	if err := l.p.Open(ctx, l.clock.read()); err != nil {
		return errors.Join(err, l.p.Release(ctx))
	}
	l.renewAt(l.clock.read())
	l.p.ctx = l.e.ctx // what is read from here on is not bounded by the opening
	return nil
}

// endLeftovers ends what still executes of the previous owner's attempts.
func endLeftovers(ctx context.Context, end func(context.Context) error) error {
	if err := end(ctx); err != nil {
		return &Error{
			Code: CodeInternal, Op: "open", Err: err, Hint: "what still runs of earlier attempts could not be ended",
		}
	}
	return nil
}

// run is the loop: handle what there is, cut a batch when the committer is free, sleep until something comes.
func (l *loop) run() {
	committed := make(chan struct{})
	go l.commit(committed)
	l.timer = time.NewTimer(time.Hour)
	for l.turn() {
	}
	l.timer.Stop()
	l.e.cancel()
	close(l.jobs)
	l.drain()
	<-committed
	close(l.e.done)
}

// turn is one round of the loop; it reports whether to go on.
func (l *loop) turn() bool {
	now := l.clock.read()
	more := false
	switch {
	case l.failed():
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
		more = l.p.Tick(now) || more
		l.read(now)
		l.fetch(now)
		l.dispatch(now)
	}
	l.publish()
	select {
	case <-l.e.stop:
		l.finish()
		return false
	default:
	}
	if more && l.room() {
		l.poll()
		return true
	}
	l.sleep(now)
	return true
}

// handle takes what the inbox holds, as far as there is room for it. What came while there was none is more.
func (l *loop) handle(now core.Time) (more bool) {
	late := l.next < len(l.items)
	if !late {
		clear(l.items)
		l.items, l.next = l.e.inbox.take(l.items), 0
	}
	for l.next < len(l.items) && l.room() {
		it := &l.items[l.next]
		l.next++
		switch {
		case it.call != nil:
			l.p.Handle(it.call, now)
		case it.rep.in != nil:
			l.p.Report(it.rep.run, it.rep.in, now)
		case it.match != nil:
			l.p.Match(it.match.queue, it.match.taskType, now)
		case it.expect:
			l.p.Expect()
		default:
			l.p.Rematch(now)
		}
	}
	return late || l.next < len(l.items)
}

// room reports whether more may be computed before something is durable.
func (l *loop) room() bool {
	return l.p.room(l.e.cfg.Inflight)
}

// dispatch gives the committer something to do, if it is free.
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
	case l.renew != 0 && l.renew <= now:
		l.busy = true
		l.jobs <- job{renew: l.p.pipeline.epoch}
	case l.prune != 0 && l.prune <= now:
		l.busy = true
		l.jobs <- job{prune: now.Add(-l.e.cfg.Retention)}
	}
}

// sleep waits for the next thing to happen and takes it in, but for what the inbox holds.
func (l *loop) sleep(now core.Time) {
	l.arm(now)
	ready := l.e.inbox.ready
	if !l.stalled() && !l.room() {
		ready = nil // the disk is what everyone waits for
	}
	select {
	case <-ready:
	case r := <-l.results:
		l.landed(r)
	case w := <-l.windows:
		l.loaded(w)
	case f := <-l.fetches:
		l.fetched(f)
	case <-l.timer.C:
		l.armed = 0
	case <-l.e.stop:
	}
}

// poll is sleep without waiting.
func (l *loop) poll() {
	select {
	case r := <-l.results:
		l.landed(r)
	case w := <-l.windows:
		l.loaded(w)
	case f := <-l.fetches:
		l.fetched(f)
	default:
	}
}

// arm sets the timer for the next instant at which something is to happen.
func (l *loop) arm(now core.Time) {
	var at core.Time
	switch {
	case l.stalled():
		at = l.retry
	default:
		at = l.p.Next()
		at = earliest(earliest(at, l.prune), l.renew)
	}
	if at == 0 || at == l.armed {
		return
	}
	l.armed = at
	// A busy committer answers soon; a due batch waits for it, not for the timer.
	wait := at.Sub(now)
	if wait <= 0 && l.busy {
		wait, l.armed = 10*time.Millisecond, 0
	}
	l.timer.Reset(max(wait, 0))
}

// commit is the committer: it alone appends, one batch after the other.
func (l *loop) commit(done chan<- struct{}) {
	defer close(done)
	j := l.e.cfg.Journal
	for work := range l.jobs {
		r := result{job: work}
		switch {
		case work.batch != nil:
			r.err = j.Append(l.e.ctx, work.batch)
		case work.renew != 0:
			_, r.err = j.Renew(l.e.ctx, l.e.cfg.Partition, work.renew)
		default:
			r.pruned, r.err = j.Prune(l.e.ctx, l.e.cfg.Partition, work.prune, prunePage)
		}
		l.results <- r
	}
}

// landed takes a result of the committer. The next batch goes to the disk before the effects of this one are seen to.
func (l *loop) landed(r result) {
	l.busy = false
	now := l.clock.read()
	switch {
	case r.job.renew != 0:
		l.renewed(r.err, now)
	case r.job.batch == nil:
		l.pruned(r, now)
	case r.err != nil:
		l.fail(r.err, now)
	default:
		if l.p.ReadError() == nil {
			l.dispatch(now)
		}
		l.renewAt(now)
		l.p.Committed(now)
	}
}

// renewAt has the ownership renewed when a third of its term is over without an append.
func (l *loop) renewAt(now core.Time) {
	if term := l.p.pipeline.term; term > 0 {
		l.renew = now.Add(term / 3)
	}
}

// renewed takes the result of a renewal. What fails for another reason than a new owner is tried again: what is appended
// meanwhile tells whether the partition is still this engine's.
func (l *loop) renewed(err error, now core.Time) {
	l.renewAt(now)
	switch {
	case err == nil:
		l.p.Expect() // should nobody have been able to say that a message came
	case final(err):
		l.fail(err, now)
	default:
		l.e.cfg.Log.Warn("the ownership of the partition cannot be renewed, trying again", "error", err)
	}
}

func (l *loop) pruned(r result, now core.Time) {
	l.prune = now.Add(min(pruneEvery, max(l.e.cfg.Retention/10, time.Second)))
	switch {
	case r.err != nil:
		l.e.cfg.Log.Warn("old runs cannot be removed", "error", r.err)
	case r.pruned == prunePage:
		l.prune = now.Add(100 * time.Millisecond) // more of them, a little at a time
	}
}

// read starts a reader for the runs of the next window, if it is time.
func (l *loop) read(now core.Time) {
	w, ok := l.p.Window(now)
	if !ok {
		return
	}
	l.readers.Add(1)
	go func() {
		defer l.readers.Done()
		far, err := ReadWindow(l.e.ctx, l.e.cfg.Journal, l.e.cfg.Partition, w, func(runs []Loaded) error {
			return l.hand(windowPart{window: w, runs: runs})
		})
		_ = l.hand(windowPart{window: w, end: true, far: far, err: err})
	}()
}

func (l *loop) hand(w windowPart) error {
	select {
	case l.windows <- w:
		return nil
	case <-l.e.ctx.Done():
		return l.e.ctx.Err()
	}
}

func (l *loop) loaded(w windowPart) {
	if l.stalled() || l.failed() {
		return // what was read belongs to a memory that is forgotten
	}
	if w.end {
		l.p.WindowDone(w.window, w.far, w.err)
		return
	}
	l.p.Loaded(w.window, w.runs, l.clock.read())
}

// fetch starts a reader for what other partitions have sent, if it is time.
func (l *loop) fetch(now core.Time) {
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

func (l *loop) fetched(f fetched) {
	if !l.stalled() && !l.failed() {
		l.p.Fetched(f.fetch, f.messages, f.err, l.clock.read())
	}
}

func (l *loop) stalled() bool {
	s := l.e.state.Load()
	return s != nil && !s.final
}

func (l *loop) failed() bool {
	s := l.e.state.Load()
	return s != nil && s.final && !errors.Is(s.err, ErrClosed)
}

// fail takes a failed append, or a failed read without which there is nothing to append. The partition forgets what it holds; unless the error is final, it is opened again.
func (l *loop) fail(err error, now core.Time) {
	if partitionLost(err) {
		l.e.cfg.Log.Error("another engine owns the partition, this one ends", "partition", l.e.cfg.Partition, "error", err)
	} else {
		l.e.cfg.Log.Error("what happened cannot be saved", "error", err)
	}
	l.p.Failed(err)
	s := &status{err: failure("engine", "", err), final: final(err)}
	// Close may have been called: its state gives way, so that it returns what happened.
	l.e.state.Store(s)
	l.backoff = firstBackoff
	l.retry = now.Add(l.backoff)
	if s.final {
		l.end(s.err)
	}
}

// end leaves the partition for good. Where another engine owns it, the attempts in workers' hands are that one's to make.
func (l *loop) end(err error) {
	if partitionLost(err) {
		l.p.RevokeAll()
	}
	l.p.Shut(err)
}

// reopen tries whether the journal takes writes again.
func (l *loop) reopen(now core.Time) {
	err := l.p.Open(l.e.ctx, now)
	if err == nil {
		l.p.Probe()
		if err = l.e.cfg.Journal.Append(l.e.ctx, l.p.Cut(now)); err != nil {
			l.p.Failed(err)
		} else {
			l.p.Committed(l.clock.read())
		}
	}
	switch {
	case err == nil:
		l.e.state.Store(nil)
		l.e.cfg.Log.Info("the journal takes writes again")
	case final(err):
		l.e.state.Store(&status{err: failure("engine", "", err), final: true})
		l.end(l.e.Err())
	default:
		l.backoff = min(2*l.backoff, lastBackoff)
		l.retry = l.clock.read().Add(l.backoff)
	}
}

// refuse answers the requests that came while nothing can be saved. Reports and readers wait for better times.
func (l *loop) refuse() {
	var kept []item
	err := l.e.Err()
	for _, items := range [][]item{l.items[l.next:], l.e.inbox.take(nil)} {
		for _, it := range items {
			if it.call != nil && it.call.Op <= CallInput {
				it.call.Err = err
				it.call.answer()
				continue
			}
			kept = append(kept, it)
		}
	}
	l.items, l.next = kept, 0
}

func (l *loop) publish() {
	if l.stalled() || l.failed() {
		return
	}
	s := l.p.Stats()
	l.e.stats.Lock()
	l.e.stats.Stats = s
	l.e.stats.Unlock()
}

// finish ends the work after Close: what was reported and asked is recorded, what is recorded is written down, and the
// view is brought up to date.
func (l *loop) finish() {
	l.e.state.CompareAndSwap(nil, closedStatus())
	now := l.clock.read()
	for !l.stalled() && !l.failed() {
		more := l.handle(now)
		l.p.Flush()
		l.dispatch(now)
		if l.busy {
			l.landed(<-l.results)
			continue
		}
		if !more {
			break
		}
	}
	if l.busy {
		<-l.results
	}
	if !l.failed() {
		l.p.Shut(&Error{Code: CodeClosed, Op: "engine", Err: errors.New("it was closed")})
	}
	if !l.failed() {
		if err := l.p.Release(context.WithoutCancel(l.e.ctx)); err != nil {
			l.e.cfg.Log.Warn("the partition cannot be given back; it is free when its lease has ended", "error", err)
		}
	}
	if l.stalled() { // who asks now is told that it is closed: it does not go on by itself
		l.e.unsaved = l.e.Err()
		l.e.state.Store(closedStatus())
	}
}

// drain answers what is still in the inbox after the loop has ended. A caller who hears from the answer and from its waiter
// could put its call back into the pool too early, so the answer is all there is.
func (l *loop) drain() {
	l.e.inbox.close()
	go func() { // readers may wait to hand over
		l.readers.Wait()
		close(l.windows)
	}()
	for range l.windows {
	}
	err := l.e.Err()
	for _, items := range [][]item{l.items[l.next:], l.e.inbox.take(nil)} {
		for _, it := range items {
			if it.call == nil {
				continue
			}
			it.call.Err = err
			it.call.answer()
		}
	}
}

func tooLarge(n, limit int) string {
	return fmt.Sprintf("the payload has %d bytes, the limit is %d", n, limit)
}
