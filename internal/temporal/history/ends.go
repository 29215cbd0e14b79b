package history

import (
	"math"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
	"github.com/pawl-dev/pawl/policy"
)

// created tells how the run began.
func (f *Fold) created(r core.RunCreated) {
	f.WorkflowID, f.Chain, f.Status = r.WorkflowID, r.Chain, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	f.Created, f.startAt, f.expires = f.at, r.StartAt, r.Execution.At
	f.input, f.start = r.Input, nil
	q := f.Start()
	f.origin = originOf(f.Run, q, r.Chain.Previous)
	told := convert.Told(q)
	a := &historypb.WorkflowExecutionStartedEventAttributes{
		WorkflowType: q.WorkflowType, TaskQueue: q.TaskQueue, Input: q.Input,
		WorkflowExecutionTimeout: q.WorkflowExecutionTimeout, WorkflowRunTimeout: q.WorkflowRunTimeout,
		WorkflowTaskTimeout: durationpb.New(f.TaskTimeout()), OriginalExecutionRunId: f.origin.String(),
		FirstExecutionRunId: f.First().String(), Identity: q.Identity, RetryPolicy: q.RetryPolicy,
		Attempt: int32(r.Chain.Attempt), Header: q.Header, Memo: q.Memo, SearchAttributes: q.SearchAttributes,
		WorkflowId: r.WorkflowID, Priority: q.Priority, RootWorkflowExecution: told.RootWorkflowExecution,
		FirstWorkflowTaskBackoff: durationpb.New(0), ParentWorkflowNamespace: told.ParentWorkflowNamespace,
		ParentWorkflowExecution: told.ParentWorkflowExecution,
		ParentInitiatedEventId:  told.ParentInitiatedEventId,
		CronSchedule:            q.CronSchedule, LastCompletionResult: q.LastCompletionResult,
		ContinuedFailure: q.ContinuedFailure,
	}
	if r.Chain.Previous != (core.RunID{}) {
		a.ContinuedExecutionRunId = r.Chain.Previous.String()
		a.Initiator = enumspb.CONTINUE_AS_NEW_INITIATOR_WORKFLOW
		switch {
		case r.Chain.Attempt > 1:
			a.Initiator = enumspb.CONTINUE_AS_NEW_INITIATOR_RETRY
		case r.Actor == core.ActorCron:
			a.Initiator = enumspb.CONTINUE_AS_NEW_INITIATOR_CRON_SCHEDULE
		}
	}
	if r.Execution.At != 0 {
		a.WorkflowExecutionExpirationTime = stamp(r.Execution.At)
	}
	if r.StartAt > f.at {
		a.FirstWorkflowTaskBackoff = durationpb.New(r.StartAt.Sub(f.at))
		if d := q.WorkflowStartDelay; d.AsDuration() > 0 && r.Chain.Previous == (core.RunID{}) {
			a.FirstWorkflowTaskBackoff = d
		}
	}
	e := event(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, f.at)
	e.UserMetadata = q.UserMetadata
	e.Attributes = &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
		WorkflowExecutionStartedEventAttributes: a,
	}
	f.add(e)
	if r.StartAt == 0 {
		f.begun = true
		f.need(0)
	}
}

// Memo returns the memo of the run.
func (f *Fold) Memo() *commonpb.Memo {
	if f.memo == nil {
		return f.Start().Memo
	}
	return f.memo
}

// Search returns the search attributes of the run.
func (f *Fold) Search() *commonpb.SearchAttributes {
	if f.search == nil {
		return f.Start().SearchAttributes
	}
	return f.search
}

// signal tells an event that was sent to the run, or an update that was.
func (f *Fold) signal(r core.SignalKept) {
	if request := convert.Readmitted(r.Payload); request != nil {
		f.admitted(request)
		return
	}
	input, header := convert.Sent(r.Payload)
	a := &historypb.WorkflowExecutionSignaledEventAttributes{
		SignalName: r.Name, Input: input, Header: header, Identity: r.Actor,
	}
	e := event(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, f.at)
	e.Attributes = &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
		WorkflowExecutionSignaledEventAttributes: a,
	}
	f.happened(core.NoStep, e)
}

// cancelAsked tells that somebody has asked the run to cancel.
func (f *Fold) cancelAsked(r core.Operated) {
	e := event(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED, f.at)
	e.Attributes = &historypb.HistoryEvent_WorkflowExecutionCancelRequestedEventAttributes{
		WorkflowExecutionCancelRequestedEventAttributes: &historypb.WorkflowExecutionCancelRequestedEventAttributes{
			Cause: r.Reason, Identity: r.Actor,
		},
	}
	f.happened(core.NoStep, e)
}

// ended tells how the run has ended.
func (f *Fold) ended(r core.RunEnded) {
	f.settle(math.MaxInt)
	f.due = due{}
	f.Closed, f.Next = f.at, r.Next
	failure, command := r.Failure, (*commandpb.Command)(nil)
	if f.close != nil && f.close.Phase == r.Phase {
		failure, command = f.close.Failure, f.closed
	}
	next := ""
	if r.Next != (core.RunID{}) {
		next = r.Next.String()
	}
	e := event(0, f.at)
	switch r.Phase {
	case core.RunSucceeded:
		f.succeeded(e, next)
	case core.RunContinued:
		f.continued(e, command.GetContinueAsNewWorkflowExecutionCommandAttributes(), next)
	case core.RunFailed:
		f.failed(e, failure, next)
	case core.RunTimedOut:
		f.Status, e.EventType = enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT,
			enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionTimedOutEventAttributes{
			WorkflowExecutionTimedOutEventAttributes: &historypb.WorkflowExecutionTimedOutEventAttributes{
				RetryState: f.retryState(failure, next), NewExecutionRunId: next,
			},
		}
	case core.RunCancelled:
		f.Status, e.EventType = enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
			enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionCanceledEventAttributes{
			WorkflowExecutionCanceledEventAttributes: &historypb.WorkflowExecutionCanceledEventAttributes{
				Details:                      command.GetCancelWorkflowExecutionCommandAttributes().GetDetails(),
				WorkflowTaskCompletedEventId: f.Completed,
			},
		}
	default:
		f.terminated(e)
	}
	f.add(e)
}

func (f *Fold) succeeded(e *Event, next string) {
	result := convert.Payloads(f.close.Output)
	if f.close.SameAs != 0 {
		result = f.steps[f.close.SameAs-1].result
	}
	f.Status, e.EventType = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED
	e.Attributes = &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{
		WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{
			Result: result, WorkflowTaskCompletedEventId: f.Completed, NewExecutionRunId: next,
		},
	}
}

func (f *Fold) continued(
	e *Event, c *commandpb.ContinueAsNewWorkflowExecutionCommandAttributes, next string,
) {
	start := &workflowservice.StartWorkflowExecutionRequest{}
	_ = proto.Unmarshal(f.close.Output, start) // it was marshalled here
	f.Status, e.EventType = enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
	e.Attributes = &historypb.HistoryEvent_WorkflowExecutionContinuedAsNewEventAttributes{
		WorkflowExecutionContinuedAsNewEventAttributes: &historypb.WorkflowExecutionContinuedAsNewEventAttributes{
			NewExecutionRunId: next, WorkflowType: start.WorkflowType, TaskQueue: start.TaskQueue, Input: start.Input,
			WorkflowRunTimeout: start.WorkflowRunTimeout, WorkflowTaskTimeout: start.WorkflowTaskTimeout,
			WorkflowTaskCompletedEventId: f.Completed, Initiator: enumspb.CONTINUE_AS_NEW_INITIATOR_WORKFLOW,
			Header: c.GetHeader(), Memo: c.GetMemo(), SearchAttributes: c.GetSearchAttributes(),
			BackoffStartInterval: c.GetBackoffStartInterval(), LastCompletionResult: start.LastCompletionResult,
			Failure: start.ContinuedFailure,
		},
	}
}

func (f *Fold) failed(e *Event, failure *policy.Failure, next string) {
	f.Status, e.EventType = enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED
	e.Attributes = &historypb.HistoryEvent_WorkflowExecutionFailedEventAttributes{
		WorkflowExecutionFailedEventAttributes: &historypb.WorkflowExecutionFailedEventAttributes{
			Failure: convert.Failure(failure), RetryState: f.retryState(failure, next),
			WorkflowTaskCompletedEventId: f.Completed, NewExecutionRunId: next,
		},
	}
}

func (f *Fold) terminated(e *Event) {
	f.Status, e.EventType = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED
	a := &historypb.WorkflowExecutionTerminatedEventAttributes{}
	if f.terminate != nil {
		a.Reason, a.Identity = f.terminate.Reason, f.terminate.Actor
	}
	e.Attributes = &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
		WorkflowExecutionTerminatedEventAttributes: a,
	}
}

// retryState says why no run follows one that has not succeeded, or that one does.
func (f *Fold) retryState(failure *policy.Failure, next string) enumspb.RetryState {
	retry := f.Start().RetryPolicy
	switch {
	case retry == nil:
		return enumspb.RETRY_STATE_RETRY_POLICY_NOT_SET
	case next != "" && f.Chain.Attempt != int(retry.MaximumAttempts):
		return enumspb.RETRY_STATE_IN_PROGRESS
	case failure != nil && failure.Limit == policy.LimitExecution:
		return enumspb.RETRY_STATE_TIMEOUT
	case retry.MaximumAttempts > 0 && f.Chain.Attempt >= int(retry.MaximumAttempts):
		return enumspb.RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED
	case failure != nil && !failure.NonRetryable && f.expires != 0:
		return enumspb.RETRY_STATE_TIMEOUT
	default:
		return enumspb.RETRY_STATE_NON_RETRYABLE_FAILURE
	}
}
