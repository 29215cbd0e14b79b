package tasks

import (
	"context"

	"go.temporal.io/api/workflowservice/v1"
)

// TakeActivities returns the activities that have come for a worker. With a context that is done they go to others.
type TakeActivities = func(context.Context) []*workflowservice.PollActivityTaskQueueResponse

// ExpectActivities lets a worker wait for some activities of a queue, which its answer schedules.
type ExpectActivities = func(queue, identity string, n int) TakeActivities

// SeatEagerly tells the keeper how workers wait for what their own answers schedule. Call it before the first answer.
func (k *Keeper) SeatEagerly(expect ExpectActivities) { k.expect = expect }

// mostEager bounds how many activities one reply has.
const mostEager = 100

// eager lets a worker wait for the activities of its answer that it wants with the reply.
func (r *OfRun) eager(q *workflowservice.RespondWorkflowTaskCompletedRequest) TakeActivities {
	wanted, all := map[string]int{}, 0
	for _, c := range q.Commands {
		a := c.GetScheduleActivityTaskCommandAttributes()
		if !a.GetRequestEagerExecution() || all == mostEager {
			continue
		}
		queue := a.GetTaskQueue().GetName()
		if queue == "" {
			queue = r.Fold.Start().GetTaskQueue().GetName()
		}
		wanted[queue]++
		all++
	}
	if all == 0 || r.keeper.expect == nil {
		return func(context.Context) []*workflowservice.PollActivityTaskQueueResponse { return nil }
	}
	var takes []TakeActivities
	for queue, n := range wanted {
		takes = append(takes, r.keeper.expect(queue, q.Identity, n))
	}
	return func(ctx context.Context) (out []*workflowservice.PollActivityTaskQueueResponse) {
		for _, take := range takes {
			out = append(out, take(ctx)...)
		}
		return out
	}
}

// cancelledContext is the context of a worker that does not get what came for it.
var cancelledContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Begin gives the caller the workflow task that is due, if one is; nil: none is.
func (r *OfRun) Begin(identity string) *workflowservice.PollWorkflowTaskQueueResponse {
	if _, isDue := r.wanted(); !isDue || r.out != nil || r.offered != nil {
		return nil
	}
	return r.begin(identity, false)
}
