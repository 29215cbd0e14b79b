package worker

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
)

// Announcer is an Executor that calls Announce by itself, because it has something to prepare before the work begins.
type Announcer interface {
	Executor
	Announces()
}

type announceKey struct{}

// Announce says that the attempt of a task's context begins now, where its predecessor was lost, and waits until that is durable.
// It reports false where the attempt was over before: then the work must not begin.
func Announce(ctx context.Context) bool {
	announce, ok := ctx.Value(announceKey{}).(func() bool)
	return !ok || announce()
}

// announce waits for a turn, and then until the announcement is durable.
func (p *Pool) announce(ctx context.Context, t core.Task) bool {
	if !p.turns.take(ctx) {
		return false
	}
	said := make(chan bool, 1)
	beat := core.Beat{Step: t.Token.Step, Attempt: t.Token.Attempt, At: p.cfg.Now()}
	p.confirm(t.Token.Run, beat, func(ended bool) { said <- ended })
	begins := false
	select {
	case ended := <-said:
		begins = !ended
	case <-ctx.Done():
	}
	p.turns.give()
	if !begins {
		<-ctx.Done() // it is about to be revoked, or the pool to be closed
	}
	return begins
}

// confirm reports, and says when that is durable where the reporter can tell.
func (p *Pool) confirm(run core.RunID, in core.Input, done func(ended bool)) {
	if c, ok := p.cfg.Reporter.(Confirmer); ok {
		c.Confirm(run, in, done)
		return
	}
	p.cfg.Reporter.Report(run, in)
	done(false)
}

// rounds is in how many commits those that wait to announce themselves all get their turn.
const rounds = 16

// turns lets few attempts announce themselves at once. After a crash there may be thousands, and those that the next one catches
// between their announcement and their beginning count as lost without having begun: a sixteenth is caught, each time another one
// by chance. More rounds would eat the time of the attempts.
type turns struct {
	mu      sync.Mutex
	taken   int
	crowd   int // the most that took or waited for one since nobody did
	waiting []chan struct{}
}

func (q *turns) free() bool {
	n := q.taken + len(q.waiting)
	if n == 0 {
		q.crowd = 0
	}
	q.crowd = max(q.crowd, n)
	return q.taken < max(runtime.GOMAXPROCS(0), q.crowd/rounds)
}

// take waits for a turn; false: ctx is done.
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
	q.taken-- // it came at the same instant
	q.pass()
	return false
}

func (q *turns) give() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken--
	q.pass()
}

// pass hands free turns to those that wait, in any order, so that not the same ones are in danger after each crash.
func (q *turns) pass() {
	for len(q.waiting) > 0 && q.free() {
		i, last := rand.IntN(len(q.waiting)), len(q.waiting)-1
		close(q.waiting[i])
		q.waiting[i] = q.waiting[last]
		q.waiting = q.waiting[:last]
		q.taken++
	}
}
