package engine

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
)

// AttemptState is the answer to a worker in another process about its attempt.
type AttemptState struct {
	Task   core.Task // the task without the payload; an operator may have changed its limits
	Now    core.Time // when that was so
	Cancel bool      // the run's body has asked the work to stop
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
		c.Answer = AttemptState{
			Task: *t, Now: p.now, Cancel: r.state.Steps[c.Token.Step].CancelAsked, Paused: r.state.PausedAt != 0,
		}
	}
	p.pipeline.reply(c)
}

// remoteTask returns the task of an attempt that a remote worker executes and should continue, or nil if there is none.
func remoteTask(r *core.Run, tok core.Token) *core.Task {
	for _, t := range r.RemoteTasks() {
		if t.Token.Step == tok.Step && t.Token.Attempt == tok.Attempt && !r.Steps[tok.Step].Stopping {
			return &t
		}
	}
	return nil
}
