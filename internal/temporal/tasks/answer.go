package tasks

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/temporal/history"
)

var (
	errToken = serviceerror.NewInvalidArgument("Invalid TaskToken.")
	errStale = serviceerror.NewNotFound("Workflow task not found.")
)

// held returns the run of a task whose token a worker shows, and the task. The run has to be released where there is no
// error. A task that an earlier process has given out counts, if nothing was shown to anybody that its worker does not
// know.
func (k *Keeper) held(ctx context.Context, text []byte) (*OfRun, *lease, error) {
	t, ok := readToken(text)
	if !ok {
		return nil, nil, errToken
	}
	r := k.Use(t.run)
	if err := r.Refresh(ctx); err != nil {
		r.Release()
		if errors.As(err, new(*serviceerror.NotFound)) {
			err = errStale
		}
		return nil, nil, err
	}
	l := r.out
	switch f := r.Fold; {
	case l != nil && t.epoch == k.epoch && l.number == t.lease:
		return r, l, nil
	case l == nil && t.epoch != k.epoch && f.Turns == t.turn && f.Closed == 0 && t.seen <= f.Entries &&
		f.News() <= t.seen && t.seen > 0:
		_, isDue := f.Due()
		l = &lease{
			seen: t.seen, turn: t.turn, began: t.began, attempt: t.tries, timer: time.NewTimer(time.Hour), bare: !isDue,
		}
		r.out = l
		return r, l, nil
	default:
		r.Release()
		return nil, nil, errStale
	}
}

// timedOut ends a task whose worker has not answered in time.
func (k *Keeper) timedOut(run core.RunID, l *lease) {
	r := k.Use(run)
	defer r.Release()
	if r.out == l {
		r.fail(l, &history.Meta{Identity: l.identity})
	}
}

// do gives the run an answer, and waits until it is durable.
func (r *OfRun) do(cmds []core.Command) error {
	done := make(chan error, 1)
	in := []core.Input{core.Commands{Commands: cmds}}
	r.keeper.engine.Do(r.Fold.Run, r.body, in, func(err error) { done <- err })
	err := <-done
	if err != nil { // the engine takes nothing more of a body of which it has refused something
		r.keeper.mu.Lock()
		r.body = engine.NewBody(r.keeper.generation)
		r.keeper.mu.Unlock()
	}
	return err
}

// answer returns the command that begins an answer.
func (l *lease) answer(m *history.Meta, again bool) (core.Answer, error) {
	m.Attempt = l.attempt
	meta, err := m.Encode()
	return core.Answer{Turn: l.turn, Seen: l.seen, Began: l.began, Again: again, Meta: meta}, err
}

const (
	// calmAfter is how many tasks in a row may fail until others wait a while.
	calmAfter = 2
	calmFrom  = 100 * time.Millisecond
	calmMost  = 10 * time.Second
)

// fail ends a task badly, and offers another one. Of tasks that fail one after the other, the first is recorded.
func (r *OfRun) fail(l *lease, m *history.Meta) {
	l.timer.Stop()
	r.out, r.sticky = nil, sticky{}
	r.takeBack(l)
	recorded := false
	if a, err := l.answer(m, true); l.attempt == 1 && err == nil {
		recorded = r.do([]core.Command{a}) == nil
	}
	if !recorded {
		r.extra++
	}
	if err := r.Refresh(context.Background()); err != nil {
		r.lookLater(err)
		return
	}
	attempt, isDue := r.wanted()
	attempt += r.extra
	if !isDue || attempt <= calmAfter {
		r.offer()
		r.direct()
		return
	}
	o := &offer{run: r, since: r.keeper.now()}
	r.offered = o
	wait := min(calmFrom<<min(attempt-calmAfter, 7), calmMost)
	time.AfterFunc(wait, func() {
		r := r.keeper.Use(r.Fold.Run)
		defer r.Release()
		if r.offered == o {
			r.offered = nil
			r.offer()
		}
	})
}

// Fail takes the answer of a worker that a task has failed.
func (k *Keeper) Fail(ctx context.Context, q *workflowservice.RespondWorkflowTaskFailedRequest) error {
	r, l, err := k.held(ctx, q.TaskToken)
	if err != nil {
		return err
	}
	defer r.Release()
	r.fail(l, &history.Meta{Failed: q})
	return nil
}

// refuse ends a task whose answer cannot be taken, and tells its worker why.
func (r *OfRun) refuse(l *lease, identity string, why *badCommand) error {
	r.fail(l, &history.Meta{Failed: &workflowservice.RespondWorkflowTaskFailedRequest{
		Cause: why.cause, Identity: identity, Failure: &failurepb.Failure{
			Message: why.text, Source: "Server", FailureInfo: &failurepb.Failure_ServerFailureInfo{
				ServerFailureInfo: &failurepb.ServerFailureInfo{NonRetryable: true},
			},
		},
	}})
	return serviceerror.NewInvalidArgument(why.text)
}

// Complete takes the answer of a worker.
func (k *Keeper) Complete(
	ctx context.Context, q *workflowservice.RespondWorkflowTaskCompletedRequest,
) (*workflowservice.RespondWorkflowTaskCompletedResponse, error) {
	r, l, err := k.held(ctx, q.TaskToken)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	l.settleQueries(q.QueryResults)
	said, bad := r.said(q)
	if bad != nil {
		return nil, r.refuse(l, q.Identity, bad)
	}
	if r.isTraceless(q, l, said) {
		l.timer.Stop()
		asked := r.Fold.Asked
		out, err := r.finish(ctx, q, l, said)
		out.ResetHistoryEventId = asked // its worker forgets the events of the task
		return out, err
	}
	cmds, bad := r.commands(q, l, said)
	if bad != nil {
		return nil, r.refuse(l, q.Identity, bad)
	}
	a, err := l.answer(&history.Meta{Completed: q, Messages: said.kept}, q.ForceCreateNewWorkflowTask)
	if err != nil {
		return nil, r.refuse(l, q.Identity, &badCommand{text: err.Error()})
	}
	l.timer.Stop()
	take := r.eager(q)
	if err := r.do(append([]core.Command{a}, cmds...)); err != nil {
		take(cancelledContext)
		return nil, r.notTaken(ctx, l, q, err)
	}
	activities := take(ctx)
	out, err := r.finish(ctx, q, l, said)
	out.ActivityTasks = activities
	return out, err
}

// finish ends a task whose answer was taken. A worker that wants the next task gets it with the reply, if one is due.
func (r *OfRun) finish(
	ctx context.Context, q *workflowservice.RespondWorkflowTaskCompletedRequest, l *lease, s *said,
) (*workflowservice.RespondWorkflowTaskCompletedResponse, error) {
	r.out, r.extra = nil, 0
	r.sticky = sticky{}
	if a := q.StickyAttributes; a.GetWorkerTaskQueue().GetName() != "" {
		r.sticky = sticky{a.WorkerTaskQueue.Name, max(a.ScheduleToStartTimeout.AsDuration(), time.Second)}
	}
	for u, outcome := range s.rejected { // the run may have ended after that
		r.reject(u, outcome)
	}
	err := r.Refresh(ctx)
	r.lookLater(err)
	r.rejectUnsaid(q, l)
	r.takeBack(l)
	out := &workflowservice.RespondWorkflowTaskCompletedResponse{}
	if _, isDue := r.wanted(); err == nil && isDue && q.ReturnNewWorkflowTask && r.offered == nil {
		out.WorkflowTask = r.begin(q.Identity, r.sticky.queue != "")
		return out, nil
	}
	r.offer()
	r.direct()
	return out, err
}

// notTaken ends a task whose answer the run has refused. One that ends the run is refused where something has happened
// that the worker has not heard of.
func (r *OfRun) notTaken(
	ctx context.Context, l *lease, q *workflowservice.RespondWorkflowTaskCompletedRequest, why error,
) error {
	if err := r.Refresh(ctx); err != nil {
		r.out = nil
		r.takeBack(l)
		r.lookLater(err)
		return err
	}
	ends := len(q.Commands) > 0 && history.Ends(q.Commands[len(q.Commands)-1])
	if ends && r.Fold.Closed == 0 && r.Fold.Turns == l.turn && r.Fold.News() > l.seen {
		return r.refuse(l, q.Identity, &badCommand{
			enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, "UnhandledCommand",
		})
	}
	r.keeper.log.Debug("the answer of a workflow task was refused", "run", r.Fold.Run.String(), "error", why)
	r.out = nil
	r.takeBack(l)
	r.offer()
	r.direct()
	return errStale
}
