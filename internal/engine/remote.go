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
func (t *tasks) keepRemote(r *run) (reachable bool) {
	w := t.matcher.Remote()
	if w == nil || r.keptRemote {
		return w != nil
	}
	r.keptRemote = true
	for _, task := range r.state.RemoteTasks() {
		_, known := t.held[task.Token]
		if !known && t.alive[task.Token] {
			continue // its end was reported before the storage failed, and is reported again after that
		}
		if !known {
			key := slots.Key{Queue: task.Queue, Type: task.Type, Group: task.Group}
			kept := slots.Slot{Of: w, Key: key, Used: true}
			t.held[task.Token] = hold{slot: kept, dispatched: true, ticket: t.takenBefore(r, task)}
			t.matcher.Keep(key)
		}
		w.Remote.Keep(task)
		if s := &r.state.Steps[task.Token.Step]; s.Stopping {
			why := policy.KindCancelled // an operator has skipped or completed the step
			if s.Failure != nil {
				why = s.Failure.Kind
			}
			w.Remote.Revoke(task.Token, why)
		}
	}
	return true
}

// takenBefore counts an attempt in the limits of its queue and service that started before the engine was opened. It
// returns nil if nothing bounds it.
func (t *tasks) takenBefore(r *run, task core.Task) *limit.Ticket {
	bounds := t.bounds(r, task.Token.Step)
	if bounds == nil {
		return nil
	}
	of := &limit.Ticket{Token: task.Token, Client: t.client, Queue: task.Queue, Type: task.Type}
	t.tickets++
	s := &r.state.Steps[task.Token.Step]
	t.matcher.Limiter().Add(of, s.ShareKey(), bounds, core.Held{}, 0, t.now)
	t.matcher.Limiter().TakePlace(of)
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
	c := &AttemptCall{Token: tok}
	if err := e.of(tok.Run).ask(ctx, c); err != nil {
		return AttemptState{}, err
	}
	return c.Answer, nil
}

// AttemptCall asks how the attempt of a step is doing.
type AttemptCall struct {
	repeating[AttemptState]
	Token core.Token
}

func (*AttemptCall) op() string { return "report" }

func (c *AttemptCall) do(p *Partition) {
	if r, err := p.get(c.Token.Run); err != nil {
		c.Err = failure(c.op(), c.Token.Run.String(), err)
	} else if t := remoteTask(r.state, c.Token); t == nil {
		c.Err = &Error{
			Code: CodeStale, Op: c.op(), ID: c.Token.Run.String(),
			Err: fmt.Errorf("attempt %d has ended", c.Token.Attempt),
		}
	} else {
		c.Answer = AttemptState{Task: *t, Now: p.now, Paused: r.state.PausedAt != 0}
	}
	p.pipeline.reply(c)
}

// remoteTask returns the task of an attempt that a remote worker executes and is to go on with; nil: there is none.
func remoteTask(r *core.Run, tok core.Token) *core.Task {
	for _, t := range r.RemoteTasks() {
		if t.Token.Step == tok.Step && t.Token.Attempt == tok.Attempt && !r.Steps[tok.Step].Stopping {
			return &t
		}
	}
	return nil
}
