package activities

import (
	"context"
	"slices"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawl-dev/pawl/internal/temporal/convert"
)

// Expect lets a worker wait for activities that its own answer schedules, before all others that wait. take ends that,
// and returns those that have come; with a context that is done they go to other workers.
func (q *Queues) Expect(queue, identity string, n int) (
	take func(context.Context) []*workflowservice.PollActivityTaskQueueResponse,
) {
	polls := make([]*poll, n)
	for i := range polls {
		polls[i] = newPoll(queue, identity)
	}
	name := convert.QueuePrefix + queue
	q.mu.Lock()
	if q.closed {
		polls = nil
	}
	q.set(name, slices.Concat(polls, q.polls[name]))
	q.mu.Unlock()
	return func(ctx context.Context) []*workflowservice.PollActivityTaskQueueResponse {
		var out []*workflowservice.PollActivityTaskQueueResponse
		for _, p := range polls {
			if q.leave(p) {
				continue
			}
			select {
			case t := <-p.task:
				if one, err := q.handOut(ctx, &t); err == nil {
					out = append(out, one)
				}
			case <-p.returned:
			case <-q.over:
			}
		}
		return out
	}
}
