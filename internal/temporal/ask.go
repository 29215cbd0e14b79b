package temporal

import (
	"context"
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/temporal/activities"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
	"github.com/pawl-dev/pawl/internal/temporal/tasks"
)

// QueryWorkflow asks the worker of a run.
func (s *Frontend) QueryWorkflow(
	ctx context.Context, q *workflowservice.QueryWorkflowRequest,
) (*workflowservice.QueryWorkflowResponse, error) {
	if q.GetQuery().GetQueryType() == "" {
		return nil, serviceerror.NewInvalidArgument("QueryType is not set on request.")
	}
	r, err := s.use(ctx, q.Execution)
	if err != nil {
		return nil, err
	}
	if tasks.Rejected(q.QueryRejectCondition, r.Fold) {
		status := r.Fold.Status
		r.Release()
		return &workflowservice.QueryWorkflowResponse{QueryRejected: &querypb.QueryRejected{Status: status}}, nil
	}
	return r.Query(ctx, q.Query)
}

// RespondQueryTaskCompleted takes the answer of a worker to a query.
func (s *Frontend) RespondQueryTaskCompleted(
	_ context.Context, q *workflowservice.RespondQueryTaskCompletedRequest,
) (*workflowservice.RespondQueryTaskCompletedResponse, error) {
	return &workflowservice.RespondQueryTaskCompletedResponse{}, s.tasks.AnswerQuery(q)
}

// ResetStickyTaskQueue makes the next task of a run go to any worker.
func (s *Frontend) ResetStickyTaskQueue(
	ctx context.Context, q *workflowservice.ResetStickyTaskQueueRequest,
) (*workflowservice.ResetStickyTaskQueueResponse, error) {
	r, err := s.use(ctx, q.Execution)
	if err != nil {
		return nil, err
	}
	r.Unstick()
	r.Release()
	return &workflowservice.ResetStickyTaskQueueResponse{}, nil
}

// SignalWithStartWorkflowExecution sends an event to the open run of a workflow id, or to one that it starts.
func (s *Frontend) SignalWithStartWorkflowExecution(
	ctx context.Context, q *workflowservice.SignalWithStartWorkflowExecutionRequest,
) (*workflowservice.SignalWithStartWorkflowExecutionResponse, error) {
	if q.SignalName == "" {
		return nil, serviceerror.NewInvalidArgument("SignalName is not set on request.")
	}
	payload, err := convert.Signal(q.SignalInput, q.Header)
	if err != nil {
		return nil, serviceerror.NewInvalidArgument(err.Error())
	}
	conflict := q.WorkflowIdConflictPolicy
	switch conflict {
	case enumspb.WORKFLOW_ID_CONFLICT_POLICY_UNSPECIFIED:
		conflict = enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING
	case enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL:
		return nil, serviceerror.NewInvalidArgument("WorkflowIdConflictPolicy FAIL is not supported here.")
	default:
	}
	start := &workflowservice.StartWorkflowExecutionRequest{
		Namespace: q.Namespace, WorkflowId: q.WorkflowId, WorkflowType: q.WorkflowType, TaskQueue: q.TaskQueue,
		Input: q.Input, WorkflowExecutionTimeout: q.WorkflowExecutionTimeout, WorkflowRunTimeout: q.WorkflowRunTimeout,
		WorkflowTaskTimeout: q.WorkflowTaskTimeout, Identity: q.Identity, RequestId: q.RequestId,
		WorkflowIdReusePolicy: q.WorkflowIdReusePolicy, WorkflowIdConflictPolicy: conflict, RetryPolicy: q.RetryPolicy,
		CronSchedule: q.CronSchedule, Memo: q.Memo, SearchAttributes: q.SearchAttributes, Header: q.Header,
		WorkflowStartDelay: q.WorkflowStartDelay, UserMetadata: q.UserMetadata, Priority: q.Priority,
	}
	event := core.SignalReceived{Name: q.SignalName, ID: q.RequestId, Payload: payload, Actor: actor(ctx, q.Identity)}
	for range 3 { // the run that is to hear of it may end meanwhile
		id, started, err := s.start(ctx, start, core.Signal{Name: event.Name, ID: event.ID, Payload: payload})
		if err == nil && !started {
			err = s.engine.Signal(ctx, id, event, false)
		}
		if errors.Is(ended(err), errClosed) {
			if !s.hasMade(ctx, id, q.RequestId) {
				continue
			}
			err = nil // it has the event since it began
		}
		if err != nil {
			return nil, err
		}
		return &workflowservice.SignalWithStartWorkflowExecutionResponse{RunId: id.String(), Started: started}, nil
	}
	return nil, serviceerror.NewUnavailable("runs of the workflow id begin and end at present")
}

// hasMade reports whether a request has started a run.
func (s *Frontend) hasMade(ctx context.Context, id core.RunID, request string) bool {
	r, err := s.use(ctx, &commonpb.WorkflowExecution{RunId: id.String()})
	if err != nil {
		return false
	}
	defer r.Release()
	return request != "" && r.Fold.Start().RequestId == request
}

// tokenOf returns the token of the attempt of an activity that a worker has, by the id of the activity.
func (s *Frontend) tokenOf(ctx context.Context, workflow, run, activity string) ([]byte, error) {
	if activity == "" {
		return nil, serviceerror.NewInvalidArgument("activityId is not set on request")
	}
	r, err := s.use(ctx, &commonpb.WorkflowExecution{WorkflowId: workflow, RunId: run})
	if err != nil {
		return nil, err
	}
	id, one := r.Fold.Run, r.Fold.ActivityOf(activity)
	r.Release()
	if one == nil || one.Closed {
		return nil, activities.ErrStale
	}
	state, err := s.engine.Inspect(ctx, id)
	if err != nil {
		return nil, err
	}
	step := &state.Steps[one.ID]
	return activities.Token{
		Attempt: core.Token{Run: id, Step: one.ID, Attempt: step.Attempt}, Secret: step.Secret,
	}.Bytes(), nil
}

// RespondActivityTaskCompletedById takes the result of an activity that is named by its id.
func (s *Frontend) RespondActivityTaskCompletedById(
	ctx context.Context, q *workflowservice.RespondActivityTaskCompletedByIdRequest,
) (*workflowservice.RespondActivityTaskCompletedByIdResponse, error) {
	token, err := s.tokenOf(ctx, q.WorkflowId, q.RunId, q.ActivityId)
	if err == nil {
		_, err = s.RespondActivityTaskCompleted(ctx, &workflowservice.RespondActivityTaskCompletedRequest{
			TaskToken: token, Result: q.Result, Identity: q.Identity,
		})
	}
	return &workflowservice.RespondActivityTaskCompletedByIdResponse{}, err
}

// RespondActivityTaskFailedById takes the failure of an activity that is named by its id.
func (s *Frontend) RespondActivityTaskFailedById(
	ctx context.Context, q *workflowservice.RespondActivityTaskFailedByIdRequest,
) (*workflowservice.RespondActivityTaskFailedByIdResponse, error) {
	token, err := s.tokenOf(ctx, q.WorkflowId, q.RunId, q.ActivityId)
	if err == nil {
		_, err = s.RespondActivityTaskFailed(ctx, &workflowservice.RespondActivityTaskFailedRequest{
			TaskToken: token, Failure: q.Failure, Identity: q.Identity, LastHeartbeatDetails: q.LastHeartbeatDetails,
		})
	}
	return &workflowservice.RespondActivityTaskFailedByIdResponse{}, err
}

// RespondActivityTaskCanceledById takes the word that an activity has stopped that is named by its id.
func (s *Frontend) RespondActivityTaskCanceledById(
	ctx context.Context, q *workflowservice.RespondActivityTaskCanceledByIdRequest,
) (*workflowservice.RespondActivityTaskCanceledByIdResponse, error) {
	token, err := s.tokenOf(ctx, q.WorkflowId, q.RunId, q.ActivityId)
	if err == nil {
		_, err = s.RespondActivityTaskCanceled(ctx, &workflowservice.RespondActivityTaskCanceledRequest{
			TaskToken: token, Details: q.Details, Identity: q.Identity,
		})
	}
	return &workflowservice.RespondActivityTaskCanceledByIdResponse{}, err
}

// RecordActivityTaskHeartbeatById takes the heartbeat of an activity that is named by its id.
func (s *Frontend) RecordActivityTaskHeartbeatById(
	ctx context.Context, q *workflowservice.RecordActivityTaskHeartbeatByIdRequest,
) (*workflowservice.RecordActivityTaskHeartbeatByIdResponse, error) {
	token, err := s.tokenOf(ctx, q.WorkflowId, q.RunId, q.ActivityId)
	if err != nil {
		return nil, err
	}
	out, err := s.RecordActivityTaskHeartbeat(ctx, &workflowservice.RecordActivityTaskHeartbeatRequest{
		TaskToken: token, Details: q.Details, Identity: q.Identity,
	})
	return &workflowservice.RecordActivityTaskHeartbeatByIdResponse{CancelRequested: out.GetCancelRequested()}, err
}
