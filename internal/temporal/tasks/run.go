package tasks

import (
	"container/list"
	"context"
	"math"
	"sync"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/temporal/history"
)

// OfRun is what the keeper knows of a run. It is used between Keeper.Use and Release.
type OfRun struct {
	Fold *history.Fold

	keeper  *Keeper
	mu      sync.Mutex
	body    *engine.Body
	out     *lease        // the task that a worker has; nil: none has one
	offered *offer        // the task that waits for a worker; nil: none does
	extra   int32         // tasks that failed after the last one whose failure was recorded
	changed chan struct{} // closed when the history grows; nil: nobody has asked for it
	sticky  sticky
	queries []*query  // those that wait for the next task
	updates []*update // those that the workflow has not accepted yet, in the order in which they came
	watched int       // callers that wait for more of the history
	later   bool      // the keeper looks at it again after a while

	// The lock of the keeper guards these, except for busy, which is set before the lock of the run is given up.
	users  int
	busy   bool
	weight int
	since  time.Time     // when it was used last
	place  *list.Element // its place among the runs that nobody uses; nil: somebody does
}

// sticky is the queue of the worker that has the workflow in its memory.
type sticky struct {
	queue  string // empty: no worker has it
	within time.Duration
}

// lease is a task that a worker has.
type lease struct {
	number   uint64
	seen     int
	turn     int
	began    core.Time
	attempt  int32
	identity string
	timer    *time.Timer
	queries  map[string]*query // those that it has to answer
	bare     bool              // it is only about updates: nothing else is due
}

// Refresh folds what has become durable of the run. Errors: as of Engine.Entries; NotFound if it is of another kind.
func (r *OfRun) Refresh(ctx context.Context) error {
	entries, err := r.keeper.engine.Entries(ctx, r.Fold.Run, r.Fold.Entries)
	if err != nil || len(entries) == 0 {
		return err
	}
	if r.Fold.Entries == 0 && !history.OfWorkflow(entries[0]) {
		return serviceerror.NewNotFound("workflow not found for ID: " + r.Fold.Run.String())
	}
	for _, e := range entries {
		r.Fold.Add(e)
	}
	if attempt, isDue := r.Fold.Due(); !isDue || attempt == 1 {
		r.extra = 0
	}
	r.settle()
	r.grown()
	return nil
}

// Events returns what anybody may see of the history at present: while a worker has a task, not what has happened
// since.
func (r *OfRun) Events() []*history.Event { return r.Fold.View(r.seen()) }

// Page returns these events without the first n, and may stop after most of them.
func (r *OfRun) Page(n, most int) []*history.Event { return r.Fold.Page(n, most, r.seen()) }

// Visible returns how many events anybody may see at present.
func (r *OfRun) Visible() int {
	final := r.Fold.Final()
	return final + len(r.Page(final, math.MaxInt))
}

// seen returns the number of entries of which anybody may see the events.
func (r *OfRun) seen() int {
	if r.out != nil {
		return r.out.seen
	}
	return r.Fold.Entries
}

// Watch returns a channel that is closed when the history grows. The run is not forgotten until Unwatch.
func (r *OfRun) Watch() <-chan struct{} {
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	r.watched++
	return r.changed
}

// Unwatch ends a watch. It is called after Release.
func (r *OfRun) Unwatch() {
	r.keeper.mu.Lock()
	r.keeper.use(r)
	r.keeper.mu.Unlock()
	r.mu.Lock()
	r.watched--
	r.Release()
}

// grown tells who watches that the history has grown.
func (r *OfRun) grown() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Pending returns which attempt of a workflow task is due or out, and whether a worker has it.
func (r *OfRun) Pending() (attempt int32, out, due bool) {
	attempt, due = r.wanted()
	return attempt + r.extra, r.out != nil, due || r.out != nil
}

// offer offers the workflow task that is due, if one is and nobody has it: to the worker that has the workflow in its
// memory, and to all others if that one does not take it in time.
func (r *OfRun) offer() {
	if _, isDue := r.wanted(); !isDue || r.out != nil || r.offered != nil {
		return
	}
	queues := r.keeper.queues
	o := &offer{run: r, queue: r.Fold.Start().GetTaskQueue().GetName(), since: r.keeper.now()}
	r.offered = o
	name := r.stickyQueue()
	if name == "" {
		queues.put(o.queue, o, false)
		return
	}
	o.patience = time.AfterFunc(r.sticky.within, func() {
		if queues.remove(name, o) {
			r.keeper.offerToAll(o)
		}
	})
	queues.put(name, o, false)
}

// stickyQueue returns the queue of the worker that has the workflow in its memory; empty: none has, or it has stopped.
func (r *OfRun) stickyQueue() string {
	if r.sticky.queue != "" && r.keeper.queues.hasLeft(r.sticky.queue) {
		r.Unstick()
	}
	return r.sticky.queue
}

// offerToAll offers a workflow task to all workers that its own worker has not taken.
func (k *Keeper) offerToAll(o *offer) {
	r := k.Use(o.run.Fold.Run) // it may have been forgotten and read again
	defer r.Release()
	if r.offered == o {
		r.offered = nil
		r.Unstick()
		r.offer()
	}
}

// Leave gives the workflows of a worker that stops to all others. queue is its own one.
func (k *Keeper) Leave(queue string) {
	for _, o := range k.queues.leave(queue) {
		if o.query != nil {
			k.queues.put(o.queue, o, false)
			continue
		}
		o.patience.Stop()
		k.offerToAll(o)
	}
}

// Waiting returns how many workflow tasks wait in a queue, and since when the oldest does; zero: none waits.
func (k *Keeper) Waiting(queue string) (count int, since time.Time) {
	count, at := k.queues.waiting(queue)
	if count > 0 {
		since = at.Std()
	}
	return count, since
}

// begin gives a task to a worker.
func (r *OfRun) begin(identity string, fromSticky bool) *workflowservice.PollWorkflowTaskQueueResponse {
	k := r.keeper
	attempt, _ := r.wanted()
	_, isDue := r.Fold.Due()
	l := &lease{
		number: k.leases.Add(1), seen: r.Fold.Entries, turn: r.Fold.Turns, began: k.now(),
		attempt: attempt + r.extra, identity: identity, bare: !isDue,
	}
	known := 0
	if fromSticky && l.attempt == 1 {
		known = int(r.Fold.Asked)
	}
	task := r.Fold.Task(l.seen, known, l.began, identity, l.attempt)
	r.out = l
	l.timer = time.AfterFunc(r.Fold.TaskTimeout(), func() { k.timedOut(r.Fold.Run, l) })
	token := token{r.Fold.Run, k.epoch, l.number, l.turn, l.seen, l.began, l.attempt}
	now := timestamppb.New(l.began.Std())
	return &workflowservice.PollWorkflowTaskQueueResponse{
		TaskToken: token.bytes(), WorkflowExecution: r.Execution(), WorkflowType: r.Fold.Start().GetWorkflowType(),
		PreviousStartedEventId: r.Fold.Asked, StartedEventId: task.Started, Attempt: l.attempt,
		History: &historypb.History{Events: task.Events}, WorkflowExecutionTaskQueue: r.Fold.Start().GetTaskQueue(),
		ScheduledTime: now, StartedTime: now, Queries: r.attach(l),
		Messages: r.messages(l, task.Started),
	}
}

// Namespace returns the namespace of the run.
func (r *OfRun) Namespace() string { return r.keeper.namespace }

// Execution names the run.
func (r *OfRun) Execution() *commonpb.WorkflowExecution {
	return &commonpb.WorkflowExecution{WorkflowId: r.Fold.WorkflowID, RunId: r.Fold.Run.String()}
}

// pollFor is how long a worker waits for a task at most.
const pollFor = time.Minute

// Poll returns a workflow task once there is one; an empty answer: the wait is over.
func (k *Keeper) Poll(
	ctx context.Context, queue string, isSticky bool, identity string,
) (*workflowservice.PollWorkflowTaskQueueResponse, error) {
	wait := WaitFor(ctx, pollFor)
	for {
		o := k.queues.take(ctx, queue, wait)
		if o == nil {
			return &workflowservice.PollWorkflowTaskQueueResponse{}, ctx.Err()
		}
		take := func() *workflowservice.PollWorkflowTaskQueueResponse { return k.take(ctx, o, isSticky, identity) }
		if o.query != nil {
			take = func() *workflowservice.PollWorkflowTaskQueueResponse { return k.ask(ctx, o, isSticky) }
		}
		if answer := take(); answer != nil {
			return answer, nil
		}
	}
}

// take gives a worker the task of an offer; nil: it is not due any more.
func (k *Keeper) take(
	ctx context.Context, o *offer, isSticky bool, identity string,
) *workflowservice.PollWorkflowTaskQueueResponse {
	r := k.Use(o.run.Fold.Run)
	defer r.Release()
	if r.offered != o {
		return nil
	}
	r.offered = nil
	if o.patience != nil {
		o.patience.Stop()
	}
	switch err := r.Refresh(ctx); {
	case ctx.Err() != nil:
		r.offer() // another worker takes it
		return nil
	case err != nil:
		r.lookLater(err)
		return nil
	}
	if _, isDue := r.wanted(); !isDue || r.out != nil {
		return nil
	}
	return r.begin(identity, isSticky)
}

// WaitFor returns how long a caller may be kept waiting: some time, or a little less than it gives itself.
func WaitFor(ctx context.Context, most time.Duration) time.Duration {
	end, bounded := ctx.Deadline()
	if !bounded {
		return most
	}
	return max(min(most, time.Until(end)-time.Second), time.Millisecond)
}
