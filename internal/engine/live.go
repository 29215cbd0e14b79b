package engine

import (
	"context"
	"errors"
)

// Live counts the attempts that have a slot of a worker, also those whose start is not durable yet. Other than Stats it
// asks the loop, so it misses none that has taken its slot before. Errors: CodeClosed, CodeCancelled, and why the
// storage takes no work.
func (e *Engine) Live(ctx context.Context) (int, error) {
	n := 0
	for _, part := range e.all() {
		c := part.call(CallLive)
		if err := part.do(ctx, c); errors.Is(err, errHeld) {
			continue // its attempts are stopped
		} else if err != nil {
			return 0, err
		}
		n += c.Live
		part.free(c)
	}
	return n, nil
}

// live answers how many attempts have a slot.
func (p *Partition) live(c *Call) {
	c.Live = len(p.tasks.held)
	p.reply(c)
}
