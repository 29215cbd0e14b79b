package history

import (
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
	"github.com/pawl-dev/pawl/policy"
)

// namespace is the only one.
const namespace = "default"

// ChildOf returns the newest child workflow of an id; nil: there is none.
func (f *Fold) ChildOf(id string) *Begun {
	return f.last(func(s *Begun) bool { return s.Child != nil && s.Child.WorkflowId == id })
}

// run names the child run.
func (s *Begun) run() *commonpb.WorkflowExecution { return target(s.Child.WorkflowId, s.Run) }

// target names the run that something is sent to.
func target(workflow, run string) *commonpb.WorkflowExecution {
	return &commonpb.WorkflowExecution{WorkflowId: workflow, RunId: run}
}

// childInitiated tells that the worker has begun a child workflow.
func childInitiated(f *Fold, e *Event, s *Begun) {
	a := s.Child
	e.Attributes = &historypb.HistoryEvent_StartChildWorkflowExecutionInitiatedEventAttributes{
		StartChildWorkflowExecutionInitiatedEventAttributes: &historypb.
			StartChildWorkflowExecutionInitiatedEventAttributes{
			Namespace: namespace, WorkflowId: a.WorkflowId, WorkflowType: a.WorkflowType, TaskQueue: a.TaskQueue,
			Input: a.Input, WorkflowExecutionTimeout: a.WorkflowExecutionTimeout,
			WorkflowRunTimeout: a.WorkflowRunTimeout, WorkflowTaskTimeout: a.WorkflowTaskTimeout,
			ParentClosePolicy: a.ParentClosePolicy, WorkflowTaskCompletedEventId: f.Completed,
			WorkflowIdReusePolicy: a.WorkflowIdReusePolicy, RetryPolicy: a.RetryPolicy, CronSchedule: a.CronSchedule,
			Header: a.Header, Memo: a.Memo, SearchAttributes: a.SearchAttributes, Priority: a.Priority,
		},
	}
}

// childBegan tells that a child run is there.
func childBegan(f *Fold, s *Begun) {
	if s.Closed || s.RunBegan != nil || f.close != nil {
		return
	}
	s.RunBegan = event(enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED, f.at)
	s.RunBegan.Attributes = &historypb.HistoryEvent_ChildWorkflowExecutionStartedEventAttributes{
		ChildWorkflowExecutionStartedEventAttributes: &historypb.ChildWorkflowExecutionStartedEventAttributes{
			Namespace: namespace, InitiatedEventId: s.Scheduled, WorkflowExecution: s.run(),
			WorkflowType: s.Child.WorkflowType, Header: s.Child.Header,
		},
	}
	f.happened(s.ID, s.RunBegan)
}

// childEnded tells how a child workflow has ended, or that it was not started.
func childEnded(f *Fold, s *Begun, r core.StepEnded) {
	done := r.Phase == core.StepSucceeded || r.Phase == core.StepSkipped
	if s.RunBegan == nil && !done {
		f.happened(s.ID, childNotStarted(f, s, r.Failure))
		return
	}
	childBegan(f, s) // an operator may have given it a result before it was there
	e := event(0, f.at)
	switch why := childFailure(r.Failure); {
	case done:
		childCompleted(f, e, s, r)
	case r.Failure != nil && r.Failure.Type == terminated:
		e.EventType = enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED
		e.Attributes = &historypb.HistoryEvent_ChildWorkflowExecutionTerminatedEventAttributes{
			ChildWorkflowExecutionTerminatedEventAttributes: &historypb.ChildWorkflowExecutionTerminatedEventAttributes{
				Namespace: namespace, WorkflowExecution: s.run(), WorkflowType: s.Child.WorkflowType,
				InitiatedEventId: s.Scheduled,
			},
		}
	case r.Phase == core.StepCancelled:
		e.EventType = enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED
		e.Attributes = &historypb.HistoryEvent_ChildWorkflowExecutionCanceledEventAttributes{
			ChildWorkflowExecutionCanceledEventAttributes: &historypb.ChildWorkflowExecutionCanceledEventAttributes{
				Details:   convert.Failure(why).GetCanceledFailureInfo().GetDetails(),
				Namespace: namespace, WorkflowExecution: s.run(), WorkflowType: s.Child.WorkflowType,
				InitiatedEventId: s.Scheduled,
			},
		}
	case why != nil && (why.Limit == policy.LimitRun || why.Limit == policy.LimitExecution):
		e.EventType = enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT
		e.Attributes = &historypb.HistoryEvent_ChildWorkflowExecutionTimedOutEventAttributes{
			ChildWorkflowExecutionTimedOutEventAttributes: &historypb.ChildWorkflowExecutionTimedOutEventAttributes{
				Namespace: namespace, WorkflowExecution: s.run(), WorkflowType: s.Child.WorkflowType,
				InitiatedEventId: s.Scheduled, RetryState: childRetryState(s, why),
			},
		}
	default:
		e.EventType = enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED
		e.Attributes = &historypb.HistoryEvent_ChildWorkflowExecutionFailedEventAttributes{
			ChildWorkflowExecutionFailedEventAttributes: &historypb.ChildWorkflowExecutionFailedEventAttributes{
				Failure: convert.Failure(why), Namespace: namespace, WorkflowExecution: s.run(),
				WorkflowType: s.Child.WorkflowType, InitiatedEventId: s.Scheduled, RetryState: childRetryState(s, why),
			},
		}
	}
	f.tell(item{step: s.ID, events: []*Event{e}, began: s.RunBegan})
}

// terminated is the type of the failure of a step whose child run was terminated.
const terminated = "terminated"

// childFailure returns the failure of the child run itself: the step's says around it that it is the child's.
func childFailure(f *policy.Failure) *policy.Failure {
	if f != nil && f.Cause != nil {
		return f.Cause
	}
	return f
}

// childRetryState says why no run follows one of a child.
func childRetryState(s *Begun, why *policy.Failure) enumspb.RetryState {
	retry := s.Child.RetryPolicy
	switch {
	case retry == nil:
		return enumspb.RETRY_STATE_RETRY_POLICY_NOT_SET
	case why == nil:
		return enumspb.RETRY_STATE_UNSPECIFIED
	case why.Limit == policy.LimitExecution:
		return enumspb.RETRY_STATE_TIMEOUT
	case why.NonRetryable, slices.Contains(retry.NonRetryableErrorTypes, why.Type):
		return enumspb.RETRY_STATE_NON_RETRYABLE_FAILURE
	case retry.MaximumAttempts > 0:
		return enumspb.RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED
	default:
		return enumspb.RETRY_STATE_TIMEOUT
	}
}

func childCompleted(f *Fold, e *Event, s *Begun, r core.StepEnded) {
	s.result = convert.Payloads(r.Output)
	if r.Reason == policy.ReasonOperator {
		s.result = convert.Given(r.Output)
	}
	e.EventType = enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED
	e.Attributes = &historypb.HistoryEvent_ChildWorkflowExecutionCompletedEventAttributes{
		ChildWorkflowExecutionCompletedEventAttributes: &historypb.ChildWorkflowExecutionCompletedEventAttributes{
			Result: s.result, Namespace: namespace, WorkflowExecution: s.run(), WorkflowType: s.Child.WorkflowType,
			InitiatedEventId: s.Scheduled,
		},
	}
}

// childNotStarted tells that a child workflow was not started.
func childNotStarted(f *Fold, s *Begun, why *policy.Failure) *Event {
	cause := enumspb.START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_UNSPECIFIED
	if why != nil && why.Type == core.TypeIDInUse {
		cause = enumspb.START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_WORKFLOW_ALREADY_EXISTS
	}
	e := event(enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED, f.at)
	e.Attributes = &historypb.HistoryEvent_StartChildWorkflowExecutionFailedEventAttributes{
		StartChildWorkflowExecutionFailedEventAttributes: &historypb.StartChildWorkflowExecutionFailedEventAttributes{
			Namespace: namespace, WorkflowId: s.Child.WorkflowId, WorkflowType: s.Child.WorkflowType, Cause: cause,
			InitiatedEventId: s.Scheduled,
		},
	}
	return e
}

// linkChild tells the end of a child workflow which event its start is.
func linkChild(e *Event, id int64) {
	switch a := e.Attributes.(type) {
	case *historypb.HistoryEvent_ChildWorkflowExecutionCompletedEventAttributes:
		a.ChildWorkflowExecutionCompletedEventAttributes.StartedEventId = id
	case *historypb.HistoryEvent_ChildWorkflowExecutionFailedEventAttributes:
		a.ChildWorkflowExecutionFailedEventAttributes.StartedEventId = id
	case *historypb.HistoryEvent_ChildWorkflowExecutionTimedOutEventAttributes:
		a.ChildWorkflowExecutionTimedOutEventAttributes.StartedEventId = id
	case *historypb.HistoryEvent_ChildWorkflowExecutionCanceledEventAttributes:
		a.ChildWorkflowExecutionCanceledEventAttributes.StartedEventId = id
	case *historypb.HistoryEvent_ChildWorkflowExecutionTerminatedEventAttributes:
		a.ChildWorkflowExecutionTerminatedEventAttributes.StartedEventId = id
	}
}
