package worker

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
)

// Announcer is an Executor that calls Announce itself, because it has to prepare something before the work starts. For
// other executors the pool calls it.
type Announcer interface {
	Executor
	Announces()
}

// Announce reports to the engine that the work of an attempt starts now, and waits until that is durable. It does so
// only for attempts whose predecessor was lost; for others it returns true at once. False means that the attempt has
// already ended, and the work must not start.
//
// The engine needs this to find a step that kills its worker: only a loss after the announcement counts against the
// step.
func Announce(ctx context.Context) bool {
	a := attemptOf(ctx)
	return a == nil || !a.task.Announce || a.pool.announce(ctx, a.task)
}

// announce waits for a turn, reports that the attempt starts, and waits until that is durable.
func (p *Pool) announce(ctx context.Context, t core.Task) bool {
	if !p.turns.take(ctx) {
		return false
	}
	confirmed := make(chan bool, 1)
	beat := core.Beat{Step: t.Token.Step, Attempt: t.Token.Attempt, At: p.cfg.Now()}
	p.confirm(t.Token.Run, beat, func(ended bool) { confirmed <- ended })
	start := false
	select {
	case ended := <-confirmed:
		start = !ended
	case <-ctx.Done():
	}
	p.turns.give()
	if !start {
		<-ctx.Done() // the attempt is about to be revoked, or the pool to be closed
	}
	return start
}

// confirm sends a report and calls done when the report is durable. If the reporter cannot report that, it calls done
// at once.
func (p *Pool) confirm(run core.RunID, in core.Input, done func(ended bool)) {
	if c, ok := p.cfg.Reporter.(Confirmer); ok {
		c.Confirm(run, in, done)
		return
	}
	p.cfg.Reporter.Report(run, in)
	done(false)
}

// rounds is in how many commits all waiting attempts get their turn to announce themselves.
const rounds = 16

// turns lets only a few attempts announce themselves at the same time. After a crash there may be thousands. If the
// engine crashes again, those that were announced but had not started yet count as lost although they did nothing. So
// only a sixteenth announces itself at a time, and it is another sixteenth after each crash, chosen at random. More
// rounds would protect more attempts, but would also cost them more of their time.
type turns struct {
	mu      sync.Mutex
	taken   int
	peak    int // the most attempts that had or awaited a turn, since there were none
	waiting []chan struct{}
}

// free reports whether one more attempt may take a turn.
func (q *turns) free() bool {
	n := q.taken + len(q.waiting)
	if n == 0 {
		q.peak = 0
	}
	q.peak = max(q.peak, n)
	return q.taken < max(runtime.GOMAXPROCS(0), q.peak/rounds)
}

// take waits for a turn. False means that ctx is done.
func (q *turns) take(ctx context.Context) bool {
	q.mu.Lock()
	if len(q.waiting) == 0 && q.free() {
		q.taken++
		q.mu.Unlock()
		return true
	}
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	q.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, turn); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return false
	}
	q.taken-- // the turn came at the moment at which ctx was done: give it back
	q.handOut()
	return false
}

func (q *turns) give() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken--
	q.handOut()
}

// handOut gives free turns to waiting attempts at random, so that different attempts are at risk in each crash.
func (q *turns) handOut() {
	for len(q.waiting) > 0 && q.free() {
		i := rand.IntN(len(q.waiting))
		last := len(q.waiting) - 1
		close(q.waiting[i])
		q.waiting[i] = q.waiting[last]
		q.waiting = q.waiting[:last]
		q.taken++
	}
}
