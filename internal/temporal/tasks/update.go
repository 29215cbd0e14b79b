package tasks

import (
	"context"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	protocolpb "go.temporal.io/api/protocol/v1"
	"go.temporal.io/api/serviceerror"
	updatepb "go.temporal.io/api/update/v1"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pawl-dev/pawl/internal/core"
)

// update is one that the workflow has not accepted yet. It goes to the worker with the next workflow task; where none
// is due, it makes one. Such updates live in memory: who asks asks again after a crash, with the same id.
type update struct {
	request *updatepb.Request
	with    *lease        // the task that it went out with; nil: it waits for one
	over    chan struct{} // closed when it was accepted, rejected or given up
	outcome *updatepb.Outcome
	err     error // why it was given up; nil: it was accepted, if there is no outcome
}

func (u *update) id() string { return u.request.GetMeta().GetUpdateId() }

// end says what has become of the update.
func (u *update) end(outcome *updatepb.Outcome, err error) {
	u.outcome, u.err = outcome, err
	close(u.over)
}

// Stage is how far an update has come.
type Stage = enumspb.UpdateWorkflowExecutionLifecycleStage

// The stages of an update.
const (
	Admitted  = enumspb.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ADMITTED
	Accepted  = enumspb.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ACCEPTED
	Completed = enumspb.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED
)

// UpdateState is how an update is doing.
type UpdateState struct {
	Run     core.RunID
	Stage   Stage
	Outcome *updatepb.Outcome // nil: it is not known yet
}

const (
	// updatesOpen and updatesEver bound the updates of a run: those without an outcome, and all that it has accepted.
	updatesOpen = 10
	updatesEver = 2000
	// noUpdates is the attempt of a workflow task from which on updates are refused: its worker cannot go on.
	noUpdates = 3
	// updateFor is how long a caller waits for an update before it has to ask again.
	updateFor = 20 * time.Second
)

var (
	// ErrEnded answers who wants something of a run that has ended.
	ErrEnded = serviceerror.NewNotFound("workflow execution already completed")
	// ErrContinued says that an update was given up because another run of the chain follows.
	ErrContinued = serviceerror.NewUnavailable("workflow operation can not be applied because workflow is closing")

	errUpdateLost = serviceerror.NewUnavailable("Workflow Update was aborted.")
)

// endedFirst is the outcome of an update that was accepted, and whose run has ended before it had another one.
var endedFirst = &updatepb.Outcome{Value: &updatepb.Outcome_Failure{Failure: &failurepb.Failure{
	Message: "Workflow Update failed because the Workflow completed before the Update completed.", Source: "Server",
	FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{
		Type: "AcceptedUpdateCompletedWorkflow", NonRetryable: true,
	}},
}}}

// unprocessed is the outcome of an update of which its worker says nothing.
var unprocessed = &updatepb.Outcome{Value: &updatepb.Outcome_Failure{Failure: &failurepb.Failure{
	Message: "Workflow Update is rejected because it wasn't processed by worker. " +
		"Probably, Workflow Update is not supported by the worker.",
	Source: "Server",
	FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{
		Type: "UnprocessedUpdate", NonRetryable: true,
	}},
}}}

// Update gives the worker of a run an update, and returns how it is doing once it has come to a stage, or the wait is
// over. An update whose id is known is not given again. The run is used and released.
func (r *OfRun) Update(ctx context.Context, request *updatepb.Request, until Stage) (UpdateState, error) {
	if err := r.admit(request); err != nil {
		r.Release()
		return UpdateState{}, err
	}
	return r.await(ctx, request.GetMeta().GetUpdateId(), until)
}

// HasUpdate reports whether an update of an id was admitted.
func (r *OfRun) HasUpdate(id string) bool { return r.waiting(id) != nil || r.Fold.Update(id) != nil }

// PollUpdate returns how an update is doing, as Update does. The run is used and released.
func (r *OfRun) PollUpdate(ctx context.Context, id string, until Stage) (UpdateState, error) {
	if !r.HasUpdate(id) {
		r.Release()
		return UpdateState{}, serviceerror.NewNotFoundf("update %q not found", id)
	}
	return r.await(ctx, id, until)
}

// waiting returns the update of an id that was not accepted yet; nil: there is none.
func (r *OfRun) waiting(id string) *update {
	i := slices.IndexFunc(r.updates, func(u *update) bool { return u.id() == id })
	if i < 0 {
		return nil
	}
	return r.updates[i]
}

// admit takes an update, unless its id is known, or says why not.
func (r *OfRun) admit(request *updatepb.Request) error {
	if r.HasUpdate(request.GetMeta().GetUpdateId()) {
		return nil
	}
	all, open := r.Fold.Updates()
	attempt, _, isDue := r.Pending()
	switch {
	case r.Fold.Closed != 0:
		return ErrEnded
	case isDue && attempt >= noUpdates:
		return serviceerror.NewWorkflowNotReady(
			"Unable to perform workflow execution update due to Workflow Task in failed state.")
	case open+len(r.updates) >= updatesOpen:
		return serviceerror.NewResourceExhaustedf(enumspb.RESOURCE_EXHAUSTED_CAUSE_CONCURRENT_LIMIT,
			"limit on number of concurrent in-flight updates has been reached (%d)", updatesOpen)
	case all+len(r.updates) >= updatesEver:
		return serviceerror.NewFailedPreconditionf(
			"limit on number of total updates has been reached (%d)", updatesEver)
	}
	r.updates = append(r.updates, &update{request: request, over: make(chan struct{})})
	r.offer()
	return nil
}

// await waits until an update has come to a stage, and releases the run.
func (r *OfRun) await(ctx context.Context, id string, until Stage) (UpdateState, error) {
	k, run := r.keeper, r.Fold.Run
	wait := time.NewTimer(WaitFor(ctx, updateFor))
	defer wait.Stop()
	for {
		state, u := r.stateOf(id), r.waiting(id)
		if state.Stage >= until {
			r.Release()
			return state, nil
		}
		over, changed := make(chan struct{}), r.Watch()
		if u != nil {
			over = u.over
		}
		r.Release()
		var err error
		select {
		case <-over:
		case <-changed:
		case <-wait.C:
			until = Admitted // it is told how far the update has come
		case <-ctx.Done():
			err = ctx.Err()
		}
		r.Unwatch()
		switch known := u != nil && isClosed(u.over); {
		case known && u.outcome != nil:
			state.Stage, state.Outcome = Completed, u.outcome
			return state, nil
		case known && u.err != nil:
			return state, u.err
		case err != nil:
			return state, err
		}
		r = k.Use(run)
		if err := r.Refresh(ctx); err != nil {
			r.Release()
			return state, err
		}
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stateOf returns how an update is doing that was admitted.
func (r *OfRun) stateOf(id string) UpdateState {
	state := UpdateState{Run: r.Fold.Run, Stage: Admitted}
	known := r.Fold.Update(id)
	switch {
	case known == nil:
	case known.Outcome != nil:
		state.Stage, state.Outcome = Completed, known.Outcome
	case r.Fold.Closed != 0:
		state.Stage, state.Outcome = Completed, endedFirst
	case known.Accepted != 0:
		state.Stage = Accepted
	}
	return state
}

// wants reports whether updates wait for a workflow task, which they make due.
func (r *OfRun) wants() bool {
	f := r.Fold
	later := f.Entries == 0 || !f.Begun() && f.Chain.Previous != (core.RunID{})
	if later || f.Closed != 0 {
		return false
	}
	return slices.ContainsFunc(r.updates, func(u *update) bool { return u.with == nil })
}

// wanted reports whether a worker is to be given a task, and which attempt it is.
func (r *OfRun) wanted() (attempt int32, is bool) {
	attempt, is = r.Fold.Due()
	if !is && r.wants() {
		attempt, is = 1, true
	}
	return attempt, is && !r.Fold.Paused()
}

// messages returns the messages of the updates that go out with a task. Their workers work on them after the events
// that come before the task.
func (r *OfRun) messages(l *lease, started int64) []*protocolpb.Message {
	var out []*protocolpb.Message
	for _, u := range r.updates {
		body, err := anypb.New(u.request)
		if u.with != nil || err != nil {
			continue
		}
		u.with = l
		out = append(out, &protocolpb.Message{
			Id: u.id() + "/request", ProtocolInstanceId: u.id(), Body: body,
			SequencingId: &protocolpb.Message_EventId{EventId: started - 1},
		})
	}
	return out
}

// unsend lets the updates of a task wait for the next one.
func (r *OfRun) unsend(l *lease) {
	for _, u := range r.updates {
		if u.with == l {
			u.with = nil
		}
	}
}

// reject ends an update that its worker does not accept. Nothing of it is recorded.
func (r *OfRun) reject(u *update, outcome *updatepb.Outcome) {
	r.updates = slices.DeleteFunc(r.updates, func(o *update) bool { return o == u })
	u.end(outcome, nil)
}

// settle ends the updates that the history has, and all of them if the run has ended.
func (r *OfRun) settle() {
	r.updates = slices.DeleteFunc(r.updates, func(u *update) bool {
		switch {
		case r.Fold.Update(u.id()) != nil:
			u.end(nil, nil)
		case r.Fold.Closed != 0 && r.Fold.Next != (core.RunID{}):
			u.end(nil, ErrContinued)
		case r.Fold.Closed != 0:
			u.end(nil, ErrEnded)
		default:
			return false
		}
		return true
	})
}

// giveUp ends all updates because the run is not known any more. Who asks asks again.
func (r *OfRun) giveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.updates {
		u.end(nil, errUpdateLost)
	}
	r.updates = nil
	r.grown() // who waits for more of it looks again
}
