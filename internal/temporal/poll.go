package temporal

import (
	"context"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/temporal/activities"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
	"github.com/pawl-dev/pawl/internal/temporal/tasks"
)

// pollFor is how long a worker waits for a task at most.
const pollFor = time.Minute

// queueOf returns the name of a task queue that a worker asks.
func queueOf(q *taskqueuepb.TaskQueue) (string, error) {
	switch name := q.GetName(); {
	case name == "":
		return "", serviceerror.NewInvalidArgument("TaskQueue is not set on request.")
	case len(name) > maxID:
		return "", serviceerror.NewInvalidArgument("TaskQueue length exceeds limit.")
	default:
		return name, nil
	}
}

// PollWorkflowTaskQueue gives a worker a workflow task.
func (s *Frontend) PollWorkflowTaskQueue(
	ctx context.Context, q *workflowservice.PollWorkflowTaskQueueRequest,
) (*workflowservice.PollWorkflowTaskQueueResponse, error) {
	name, err := queueOf(q.TaskQueue)
	if err != nil {
		return nil, err
	}
	s.pollers.ask(poller{name, enumspb.TASK_QUEUE_TYPE_WORKFLOW, q.Identity}, 0)
	return s.tasks.Poll(ctx, name, q.TaskQueue.Kind == enumspb.TASK_QUEUE_KIND_STICKY, q.Identity)
}

// RespondWorkflowTaskCompleted takes the answer of a worker.
func (s *Frontend) RespondWorkflowTaskCompleted(
	ctx context.Context, q *workflowservice.RespondWorkflowTaskCompletedRequest,
) (*workflowservice.RespondWorkflowTaskCompletedResponse, error) {
	return s.tasks.Complete(ctx, q)
}

// RespondWorkflowTaskFailed takes the answer that a worker cannot do a task.
func (s *Frontend) RespondWorkflowTaskFailed(
	ctx context.Context, q *workflowservice.RespondWorkflowTaskFailedRequest,
) (*workflowservice.RespondWorkflowTaskFailedResponse, error) {
	return &workflowservice.RespondWorkflowTaskFailedResponse{}, s.tasks.Fail(ctx, q)
}

// PollActivityTaskQueue gives a worker an attempt of an activity.
func (s *Frontend) PollActivityTaskQueue(
	ctx context.Context, q *workflowservice.PollActivityTaskQueueRequest,
) (*workflowservice.PollActivityTaskQueueResponse, error) {
	name, err := queueOf(q.TaskQueue)
	if err != nil {
		return nil, err
	}
	rate := q.GetTaskQueueMetadata().GetMaxTasksPerSecond().GetValue()
	s.pollers.ask(poller{name, enumspb.TASK_QUEUE_TYPE_ACTIVITY, q.Identity}, rate)
	out, err := s.queues.Poll(ctx, name, q.Identity, tasks.WaitFor(ctx, pollFor))
	if out == nil {
		out = &workflowservice.PollActivityTaskQueueResponse{}
	}
	return out, err
}

// PollNexusTaskQueue lets a worker wait that serves Nexus operations, of which there are none here. A worker that was
// refused would ask again each second.
func (s *Frontend) PollNexusTaskQueue(
	ctx context.Context, _ *workflowservice.PollNexusTaskQueueRequest,
) (*workflowservice.PollNexusTaskQueueResponse, error) {
	wait := time.NewTimer(tasks.WaitFor(ctx, pollFor))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-s.drained:
	case <-ctx.Done():
	}
	return &workflowservice.PollNexusTaskQueueResponse{}, ctx.Err()
}

// attemptOf reads the token of an attempt.
func attemptOf(token []byte) (activities.Token, error) {
	t, ok := activities.ReadToken(token)
	if !ok {
		return t, serviceerror.NewInvalidArgument("Invalid TaskToken.")
	}
	return t, nil
}

// RespondActivityTaskCompleted takes the result of an activity.
func (s *Frontend) RespondActivityTaskCompleted(
	ctx context.Context, q *workflowservice.RespondActivityTaskCompletedRequest,
) (*workflowservice.RespondActivityTaskCompletedResponse, error) {
	t, err := attemptOf(q.TaskToken)
	if err != nil {
		return nil, err
	}
	output, err := convert.Bytes(q.Result)
	if err != nil {
		return nil, serviceerror.NewInvalidArgument(err.Error())
	}
	err = s.queues.End(ctx, t, core.TaskEnded{Output: output})
	return &workflowservice.RespondActivityTaskCompletedResponse{}, err
}

// RespondActivityTaskFailed takes the failure of an attempt.
func (s *Frontend) RespondActivityTaskFailed(
	ctx context.Context, q *workflowservice.RespondActivityTaskFailedRequest,
) (*workflowservice.RespondActivityTaskFailedResponse, error) {
	t, err := attemptOf(q.TaskToken)
	if err != nil {
		return nil, err
	}
	failure, err := convert.FailureOf(q.Failure)
	if err != nil {
		return nil, serviceerror.NewInvalidArgument(err.Error())
	}
	details, err := convert.Bytes(q.LastHeartbeatDetails)
	if err != nil {
		return nil, serviceerror.NewInvalidArgument(err.Error())
	}
	err = s.queues.End(ctx, t, core.TaskEnded{Failure: failure, Details: details})
	return &workflowservice.RespondActivityTaskFailedResponse{}, err
}

// RespondActivityTaskCanceled takes the word that an attempt has stopped, since it was asked to.
func (s *Frontend) RespondActivityTaskCanceled(
	ctx context.Context, q *workflowservice.RespondActivityTaskCanceledRequest,
) (*workflowservice.RespondActivityTaskCanceledResponse, error) {
	t, err := attemptOf(q.TaskToken)
	if err != nil {
		return nil, err
	}
	state, err := s.queues.State(ctx, t)
	if err != nil {
		return nil, err
	}
	if !state.Cancel {
		return nil, serviceerror.NewInvalidArgument(
			"unable to mark activity as canceled without activity being request canceled first")
	}
	failure, err := convert.Cancelled(q.Details)
	if err != nil {
		return nil, serviceerror.NewInvalidArgument(err.Error())
	}
	err = s.queues.End(ctx, t, core.TaskEnded{Failure: failure})
	return &workflowservice.RespondActivityTaskCanceledResponse{}, err
}

// RecordActivityTaskHeartbeat takes a heartbeat, and says whether the attempt is to stop.
func (s *Frontend) RecordActivityTaskHeartbeat(
	ctx context.Context, q *workflowservice.RecordActivityTaskHeartbeatRequest,
) (*workflowservice.RecordActivityTaskHeartbeatResponse, error) {
	t, err := attemptOf(q.TaskToken)
	if err != nil {
		return nil, err
	}
	details, err := convert.Bytes(q.Details)
	if err != nil {
		return nil, serviceerror.NewInvalidArgument(err.Error())
	}
	if len(details) > largestUpdate {
		return nil, serviceerror.NewInvalidArgument("The details exceed the size limit of 2 MiB.")
	}
	state, err := s.queues.Beat(ctx, t, details)
	return &workflowservice.RecordActivityTaskHeartbeatResponse{CancelRequested: state.Cancel}, err
}
