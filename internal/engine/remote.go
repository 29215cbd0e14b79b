package engine

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/limit"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/policy"
)

// Offered tells the engine that a remote worker has come with free slots; see Matcher.Offered.
func (e *Engine) Offered(queue string, takes func(taskType string) bool) {
	e.cfg.Matcher.Offered(queue, takes)
}

// keepRemote takes over the attempts of a run that remote workers execute since before the engine was opened, once for
// each time that the run is read. Those that have ended, and whose work was told to stop, are told again: the engine
// that did so may have died before. It reports whether remote workers can be reached.
//
// The attempts of a run that rests are taken over too: a caller may end them, and then their workers have to hear of it
// before the next ones start.
func (p *Partition) keepRemote(r *run) (reachable bool) {
	w := p.tasks.matcher.Remote()
	if w == nil || r.keptRemote {
		return w != nil
	}
	r.keptRemote = true
	for _, t := range r.state.RemoteTasks() {
		_, known := p.tasks.held[t.Token]
		if !known && p.tasks.alive[t.Token] {
			continue // its end was reported before the storage failed, and is reported again after that
		}
		if !known {
			key := slots.Key{Queue: t.Queue, Type: t.Type, Group: t.Group}
			kept := slots.Slot{Of: w, Key: key, Used: true}
			p.tasks.held[t.Token] = hold{slot: kept, dispatched: true, ticket: p.takenBefore(r, t)}
			p.tasks.matcher.Keep(key)
		}
		w.Remote.Keep(t)
		if s := &r.state.Steps[t.Token.Step]; s.Stopping {
			why := policy.KindCancelled // an operator has skipped or completed the step
			if s.Failure != nil {
				why = s.Failure.Kind
			}
			w.Remote.Revoke(t.Token, why)
		}
	}
	return true
}

// takenBefore counts an attempt in the limits of its queue and service that started before the engine was opened. It
// returns nil if nothing bounds it.
func (p *Partition) takenBefore(r *run, t core.Task) *limit.Ticket {
	bounds := p.bounds(r, t.Token.Step)
	if bounds == nil {
		return nil
	}
	of := &limit.Ticket{Token: t.Token, Client: p.tasks.client, Queue: t.Queue, Type: t.Type}
	p.tasks.tickets++
	s := &r.state.Steps[t.Token.Step]
	p.tasks.matcher.Limiter().Add(of, s.ShareKey(), bounds, core.Held{}, 0, p.now)
	p.tasks.matcher.Limiter().TakePlace(of)
	return of
}

// Deliver reports as Report does. It calls done with nil when the report is durable, else with why it was refused. done
// must not block.
func (e *Engine) Deliver(run core.RunID, in core.Input, done func(error)) {
	e.Do(run, nil, []core.Input{e.bounded(in)}, done)
}

// AttemptState is what a worker in another process is told about its attempt.
type AttemptState struct {
	Task   core.Task // the task without the payload; an operator may have changed its limits
	Now    core.Time // when that was so
	Paused bool      // the run is paused: this attempt goes on, and nothing new starts
}

// Attempt returns how the attempt of a step is doing. Errors: CodeNotFound, CodeStale (it has ended).
func (e *Engine) Attempt(ctx context.Context, tok core.Token) (AttemptState, error) {
	return e.of(tok.Run).attempt(ctx, tok)
}

func (e *driver) attempt(ctx context.Context, tok core.Token) (AttemptState, error) {
	c := e.call(CallAttempt)
	c.Run, c.Step, c.Attempt = tok.Run, tok.Step, tok.Attempt
	if err := e.do(ctx, c); err != nil {
		return AttemptState{}, err
	}
	state, err := c.State, c.Err
	e.free(c)
	return state, err
}

// attemptState answers how an attempt is doing.
func (p *Partition) attemptState(c *Call) {
	r, err := p.get(c.Run)
	if err != nil {
		c.Err = failure("report", c.Run.String(), err)
		p.reply(c)
		return
	}
	for _, t := range r.state.RemoteTasks() {
		if t.Token.Step == c.Step && t.Token.Attempt == c.Attempt {
			c.State = AttemptState{Task: t, Now: p.now, Paused: r.state.PausedAt != 0}
			if r.state.Steps[c.Step].Stopping {
				break
			}
			p.reply(c)
			return
		}
	}
	c.Err = &Error{
		Code: CodeStale, Op: "report", ID: c.Run.String(),
		Err: fmt.Errorf("attempt %d has ended", c.Attempt),
	}
	p.reply(c)
}
