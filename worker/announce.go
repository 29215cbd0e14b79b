package worker

import (
	"context"

	"github.com/pawl-dev/pawl/core"
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

// announce lets few attempts announce themselves at once. After a crash there may be thousands, and those that the next one catches
// between their announcement and their beginning count as lost without having begun.
func (p *Pool) announce(ctx context.Context, t core.Task) bool {
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	case <-ctx.Done():
		return false
	}
	said := make(chan bool, 1)
	beat := core.Beat{Step: t.Token.Step, Attempt: t.Token.Attempt, At: p.cfg.Now()}
	p.reports.confirm(t.Token.Run, beat, func(ended bool) { said <- ended })
	select {
	case ended := <-said:
		if !ended {
			return true
		}
	case <-ctx.Done():
		return false
	}
	<-ctx.Done() // it is about to be revoked, or the pool to be closed
	return false
}
