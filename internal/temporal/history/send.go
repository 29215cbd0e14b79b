package history

import (
	commandpb "go.temporal.io/api/command/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// The types of steps that send.
const (
	SendSignal = "signal"
	SendCancel = "cancel"
)

// sends reads what a step sends.
func (s *Begun) sends(spec *core.StepSpec) {
	if spec.Type == SendCancel {
		s.CancelRun = &commandpb.RequestCancelExternalWorkflowExecutionCommandAttributes{}
		_ = proto.Unmarshal(spec.Input, s.CancelRun) // it was marshalled here
		return
	}
	s.Signal = &commandpb.SignalExternalWorkflowExecutionCommandAttributes{}
	_ = proto.Unmarshal(spec.Input, s.Signal)
}

// initiated tells that the worker has begun a child workflow, or has sent something to another run.
func initiated(f *Fold, e *Event, s *Begun) {
	switch {
	case s.Child != nil:
		childInitiated(f, e, s)
	case s.Signal != nil:
		a := s.Signal
		e.Attributes = &historypb.HistoryEvent_SignalExternalWorkflowExecutionInitiatedEventAttributes{
			SignalExternalWorkflowExecutionInitiatedEventAttributes: &historypb.
				SignalExternalWorkflowExecutionInitiatedEventAttributes{
				WorkflowTaskCompletedEventId: f.Completed, Namespace: namespace, WorkflowExecution: a.Execution,
				SignalName: a.SignalName, Input: a.Input, ChildWorkflowOnly: a.ChildWorkflowOnly, Header: a.Header,
				Control: a.Control,
			},
		}
	case s.CancelRun != nil:
		a := s.CancelRun
		e.Attributes = &historypb.HistoryEvent_RequestCancelExternalWorkflowExecutionInitiatedEventAttributes{
			RequestCancelExternalWorkflowExecutionInitiatedEventAttributes: &historypb.
				RequestCancelExternalWorkflowExecutionInitiatedEventAttributes{
				WorkflowTaskCompletedEventId: f.Completed, Namespace: namespace,
				WorkflowExecution: target(a.WorkflowId, a.RunId), Reason: a.Reason,
				ChildWorkflowOnly: a.ChildWorkflowOnly,
				Control:           a.Control,
			},
		}
	}
}

// sendEnded tells what became of what the worker has sent.
func sendEnded(f *Fold, s *Begun, r core.StepEnded) {
	e := event(0, f.at)
	delivered := r.Phase == core.StepSucceeded || r.Phase == core.StepSkipped
	switch {
	case s.Signal != nil && delivered:
		e.EventType = enumspb.EVENT_TYPE_EXTERNAL_WORKFLOW_EXECUTION_SIGNALED
		e.Attributes = &historypb.HistoryEvent_ExternalWorkflowExecutionSignaledEventAttributes{
			ExternalWorkflowExecutionSignaledEventAttributes: &historypb.
				ExternalWorkflowExecutionSignaledEventAttributes{
				InitiatedEventId: s.Scheduled, Namespace: namespace, WorkflowExecution: s.Signal.Execution,
			},
		}
	case s.Signal != nil:
		e.EventType = enumspb.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED
		e.Attributes = &historypb.HistoryEvent_SignalExternalWorkflowExecutionFailedEventAttributes{
			SignalExternalWorkflowExecutionFailedEventAttributes: &historypb.
				SignalExternalWorkflowExecutionFailedEventAttributes{
				Cause: signalCause(r.Failure), Namespace: namespace, WorkflowExecution: s.Signal.Execution,
				InitiatedEventId: s.Scheduled,
			},
		}
	case delivered:
		e.EventType = enumspb.EVENT_TYPE_EXTERNAL_WORKFLOW_EXECUTION_CANCEL_REQUESTED
		e.Attributes = &historypb.HistoryEvent_ExternalWorkflowExecutionCancelRequestedEventAttributes{
			ExternalWorkflowExecutionCancelRequestedEventAttributes: &historypb.
				ExternalWorkflowExecutionCancelRequestedEventAttributes{
				InitiatedEventId: s.Scheduled, Namespace: namespace,
				WorkflowExecution: target(s.CancelRun.WorkflowId, s.CancelRun.RunId),
			},
		}
	default:
		const absent = enumspb.
			CANCEL_EXTERNAL_WORKFLOW_EXECUTION_FAILED_CAUSE_EXTERNAL_WORKFLOW_EXECUTION_NOT_FOUND
		e.EventType = enumspb.EVENT_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_FAILED
		e.Attributes = &historypb.HistoryEvent_RequestCancelExternalWorkflowExecutionFailedEventAttributes{
			RequestCancelExternalWorkflowExecutionFailedEventAttributes: &historypb.
				RequestCancelExternalWorkflowExecutionFailedEventAttributes{
				Cause: absent, Namespace: namespace,
				WorkflowExecution: target(s.CancelRun.WorkflowId, s.CancelRun.RunId),
				InitiatedEventId:  s.Scheduled,
			},
		}
	}
	f.happened(s.ID, e)
}

// signalCause says why a signal was not delivered.
func signalCause(why *policy.Failure) enumspb.SignalExternalWorkflowExecutionFailedCause {
	if why != nil && why.Type == core.TypeFull {
		return enumspb.SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED_CAUSE_SIGNAL_COUNT_LIMIT_EXCEEDED
	}
	return enumspb.SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED_CAUSE_EXTERNAL_WORKFLOW_EXECUTION_NOT_FOUND
}
