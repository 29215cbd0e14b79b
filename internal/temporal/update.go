package temporal

import (
	"context"
	"errors"
	"math/rand/v2"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/temporal/tasks"
)

// UpdateWorkflowExecution gives the worker of a run an update, and waits until that has come to a stage.
func (s *Frontend) UpdateWorkflowExecution(
	ctx context.Context, q *workflowservice.UpdateWorkflowExecutionRequest,
) (*workflowservice.UpdateWorkflowExecutionResponse, error) {
	until, err := checkUpdate(ctx, s, q)
	if err != nil {
		return nil, err
	}
	for range 3 { // another run of the chain may follow meanwhile
		r, err := s.use(ctx, q.WorkflowExecution)
		if err != nil {
			return nil, err
		}
		if first := q.FirstExecutionRunId; first != "" && first != r.Fold.First().String() {
			r.Release()
			return nil, noRun(q.WorkflowExecution.GetWorkflowId())
		}
		name := r.Execution()
		state, err := r.Update(ctx, q.Request, until)
		if errors.Is(err, tasks.ErrContinued) && q.WorkflowExecution.GetRunId() == "" {
			continue
		}
		return answerUpdate(name, q.Request, state), err
	}
	return nil, tasks.ErrContinued
}

// answerUpdate returns the answer to who has asked for an update.
func answerUpdate(
	name *commonpb.WorkflowExecution, request *updatepb.Request, state tasks.UpdateState,
) *workflowservice.UpdateWorkflowExecutionResponse {
	return &workflowservice.UpdateWorkflowExecutionResponse{
		UpdateRef: &updatepb.UpdateRef{WorkflowExecution: name, UpdateId: request.GetMeta().GetUpdateId()},
		Outcome:   state.Outcome, Stage: state.Stage,
	}
}

// largestUpdate bounds an update: its arguments with what is around them.
const largestUpdate = maxPayload + 64<<10

// checkUpdate refuses an update that makes no sense. It gives it an id where it has none, and returns the stage that is
// waited for.
func checkUpdate(
	ctx context.Context, s *Frontend, q *workflowservice.UpdateWorkflowExecutionRequest,
) (tasks.Stage, error) {
	wrong := ""
	switch {
	case q.Request == nil:
		wrong = "Request is not set on request."
	case q.Request.GetInput().GetName() == "":
		wrong = "UpdateName is not set on request."
	case len(q.Request.GetInput().GetName()) > maxID:
		wrong = "UpdateName length exceeds limit."
	case len(q.Request.GetMeta().GetUpdateId()) > maxID:
		wrong = "UpdateID length exceeds limit."
	case proto.Size(q.Request) > largestUpdate:
		wrong = "The update exceeds the size limit of 2 MiB."
	case q.GetWaitPolicy().GetLifecycleStage() == tasks.Admitted:
		wrong = "ADMITTED is not a stage that can be waited for."
	}
	if wrong != "" {
		return 0, serviceerror.NewInvalidArgument(wrong)
	}
	if q.Request.Meta == nil {
		q.Request.Meta = &updatepb.Meta{}
	}
	q.Request.Meta.Identity = actor(ctx, q.Request.Meta.Identity)
	if q.Request.Meta.UpdateId == "" {
		q.Request.Meta.UpdateId = core.NewRunID(s.clock.Now(), 0, rand.Uint64(), rand.Uint64()).String() // a UUID
	}
	if _, err := proto.Marshal(q.Request); err != nil { // a text is not UTF-8
		return 0, serviceerror.NewInvalidArgument(err.Error())
	}
	if q.GetWaitPolicy().GetLifecycleStage() == tasks.Accepted {
		return tasks.Accepted, nil
	}
	return tasks.Completed, nil
}

// PollWorkflowExecutionUpdate says how an update is doing, once it has come to a stage.
func (s *Frontend) PollWorkflowExecutionUpdate(
	ctx context.Context, q *workflowservice.PollWorkflowExecutionUpdateRequest,
) (*workflowservice.PollWorkflowExecutionUpdateResponse, error) {
	ref := q.GetUpdateRef()
	if ref.GetUpdateId() == "" {
		return nil, serviceerror.NewInvalidArgument("UpdateID is not set on request.")
	}
	r, err := s.use(ctx, ref.WorkflowExecution)
	if err != nil {
		return nil, err
	}
	name := r.Execution()
	state, err := r.PollUpdate(ctx, ref.UpdateId, q.GetWaitPolicy().GetLifecycleStage())
	return &workflowservice.PollWorkflowExecutionUpdateResponse{
		Outcome: state.Outcome, Stage: state.Stage,
		UpdateRef: &updatepb.UpdateRef{WorkflowExecution: name, UpdateId: ref.UpdateId},
	}, err
}

// errAborted answers for an operation that was not tried, or does not count, because of another one.
var errAborted = serviceerror.NewMultiOperationAborted("Operation was aborted.")

// both returns the error of two operations of which one has failed.
func both(start, update error) error {
	text := "Update-with-Start could not be executed."
	return serviceerror.NewMultiOperationExecution(text, []error{start, update})
}

// ExecuteMultiOperation gives an update to the open run of a workflow id, or to one that it starts: then the run's
// first task brings the update.
func (s *Frontend) ExecuteMultiOperation(
	ctx context.Context, q *workflowservice.ExecuteMultiOperationRequest,
) (*workflowservice.ExecuteMultiOperationResponse, error) {
	start, update, err := operations(q)
	if err != nil {
		return nil, err
	}
	until, err := checkUpdate(ctx, s, update)
	if err != nil {
		return nil, both(errAborted, err)
	}
	if err := checkStart(start); err != nil {
		return nil, both(err, errAborted)
	}
	for range 3 { // runs of the workflow id may begin and end meanwhile
		id, state, err := updateOpen(ctx, s, start, update.Request, until)
		started := false
		if id == (core.RunID{}) && err == nil {
			id, started, state, err = startUpdated(ctx, s, start, update.Request, until)
			if err == nil && !started {
				continue
			}
		}
		again := errors.Is(err, tasks.ErrContinued) || errors.Is(err, tasks.ErrEnded)
		switch {
		case again && !started:
			continue
		case err != nil && id == (core.RunID{}):
			return nil, both(plain(err), errAborted)
		case err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			return nil, both(errAborted, plain(err))
		}
		name := &commonpb.WorkflowExecution{WorkflowId: start.WorkflowId, RunId: id.String()}
		return answerBoth(name, started, answerUpdate(name, update.Request, state)), nil
	}
	return nil, both(errAborted, serviceerror.NewUnavailable("runs of the workflow id begin and end at present"))
}

func answerBoth(
	name *commonpb.WorkflowExecution, started bool, update *workflowservice.UpdateWorkflowExecutionResponse,
) *workflowservice.ExecuteMultiOperationResponse {
	return &workflowservice.ExecuteMultiOperationResponse{
		Responses: []*workflowservice.ExecuteMultiOperationResponse_Response{
			{Response: &workflowservice.ExecuteMultiOperationResponse_Response_StartWorkflow{
				StartWorkflow: &workflowservice.StartWorkflowExecutionResponse{
					RunId: name.RunId, Started: started, Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
				},
			}},
			{Response: &workflowservice.ExecuteMultiOperationResponse_Response_UpdateWorkflow{UpdateWorkflow: update}},
		},
	}
}

// operations returns the two operations that are known.
func operations(q *workflowservice.ExecuteMultiOperationRequest) (
	start *workflowservice.StartWorkflowExecutionRequest, update *workflowservice.UpdateWorkflowExecutionRequest,
	err error,
) {
	if len(q.Operations) == 2 {
		start, update = q.Operations[0].GetStartWorkflow(), q.Operations[1].GetUpdateWorkflow()
	}
	if start == nil || update == nil {
		return nil, nil, serviceerror.NewInvalidArgument("Operations have to be exactly [Start, Update].")
	}
	wrong := ""
	switch id := update.WorkflowExecution.GetWorkflowId(); {
	case id != "" && id != start.WorkflowId:
		wrong = "WorkflowId is not consistent with previous operation(s)"
	case update.WorkflowExecution.GetRunId() != "":
		wrong = "RunId is not allowed on an update with a start"
	case update.FirstExecutionRunId != "":
		wrong = "FirstExecutionRunId is not allowed on an update with a start"
	}
	if wrong != "" {
		return nil, nil, both(errAborted, serviceerror.NewInvalidArgument(wrong))
	}
	return start, update, nil
}

// checkStart refuses a start that cannot come with an update.
func checkStart(q *workflowservice.StartWorkflowExecutionRequest) error {
	wrong := ""
	switch {
	case q.CronSchedule != "":
		wrong = "CronSchedule is not allowed."
	case q.RequestEagerExecution:
		wrong = "RequestEagerExecution is not supported."
	case q.WorkflowStartDelay.AsDuration() != 0:
		wrong = "WorkflowStartDelay is not supported."
	case q.WorkflowIdConflictPolicy == enumspb.WORKFLOW_ID_CONFLICT_POLICY_UNSPECIFIED:
		wrong = "WorkflowIdConflictPolicy must be set."
	}
	if wrong != "" {
		return serviceerror.NewInvalidArgument(wrong)
	}
	_, err := check(q)
	return err
}

// updateOpen gives an update to the open run of a workflow id, if the start allows that, or the run has the update. It
// returns no run if there is none.
func updateOpen(
	ctx context.Context, s *Frontend, start *workflowservice.StartWorkflowExecutionRequest, request *updatepb.Request,
	until tasks.Stage,
) (core.RunID, tasks.UpdateState, error) {
	r, err := s.use(ctx, &commonpb.WorkflowExecution{WorkflowId: start.WorkflowId})
	if isNotFound(err) {
		return core.RunID{}, tasks.UpdateState{}, nil
	}
	if err != nil {
		return core.RunID{}, tasks.UpdateState{}, err
	}
	known := r.HasUpdate(request.Meta.UpdateId)
	same := start.RequestId != "" && start.RequestId == r.Fold.Start().RequestId
	uses := start.WorkflowIdConflictPolicy == enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING
	if !known && (r.Fold.Closed != 0 || !same && !uses) {
		r.Release()
		return core.RunID{}, tasks.UpdateState{}, nil
	}
	id := r.Fold.Run
	state, err := r.Update(ctx, request, until)
	return id, state, err
}

// startUpdated starts a run that has an update from the beginning. It reports whether the run is new; where it is not,
// the update was not given to it.
func startUpdated(
	ctx context.Context, s *Frontend, start *workflowservice.StartWorkflowExecutionRequest, request *updatepb.Request,
	until tasks.Stage,
) (id core.RunID, started bool, state tasks.UpdateState, err error) {
	r, id, started, err := startHeld(ctx, s, start)
	if err != nil || !started {
		r.Release()
		return core.RunID{}, false, state, err
	}
	state, err = r.Update(ctx, request, until)
	return id, true, state, err
}

// startHeld starts a run and returns it in use, so that no worker gets its first task before that is made use of. Where
// the run is not new the returned one is nothing. It has to be released in any case.
func startHeld(
	ctx context.Context, s *Frontend, q *workflowservice.StartWorkflowExecutionRequest,
) (r *tasks.OfRun, id core.RunID, started bool, err error) {
	as := core.NewRunID(s.clock.Now(), core.KeyOfWorkflowID(q.WorkflowId), rand.Uint64(), rand.Uint64())
	r = s.tasks.Use(as)
	id, started, err = s.startAs(ctx, q, as)
	if started && err == nil {
		err = r.Refresh(ctx)
	}
	return r, id, started, err
}
