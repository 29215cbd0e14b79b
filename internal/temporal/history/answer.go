package history

import (
	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawl-dev/pawl/internal/core"
)

// answered tells how a workflow task went, and what its worker has decided.
func (f *Fold) answered(r core.BodyAnswered) {
	m, err := decodeMeta(r.Meta)
	if err != nil { // a newer version has written it: its commands are not known here
		m = Meta{Attempt: 1}
	}
	if f.due.entry > r.Seen { // the worker was asked before, because of an update
		f.due.at = r.Began
	}
	scheduled := f.settle(r.Seen)
	if scheduled == nil {
		f.due.attempt = m.Attempt
		scheduled = f.scheduled()
		scheduled.EventTime = stamp(r.Began)
		f.add(scheduled)
	}
	started := f.add(f.startedTask(scheduled.EventId, r.Began, m.Identity, f.size))
	f.due = due{}
	f.turns = append(f.turns, Turn{started.EventId, r.Seen, f.Turns, r.Began})
	f.Turns++
	switch {
	case m.Completed != nil:
		f.completed(scheduled.EventId, started.EventId, m.Completed)
	case m.Failed != nil:
		e := event(enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED, f.at)
		a := &historypb.WorkflowTaskFailedEventAttributes{
			ScheduledEventId: scheduled.EventId, StartedEventId: started.EventId, Cause: m.Failed.Cause,
			Failure: m.Failed.Failure, Identity: m.Failed.Identity,
		}
		if m.Base != "" {
			resetFrom(f, a, m.Base)
		}
		e.Attributes = &historypb.HistoryEvent_WorkflowTaskFailedEventAttributes{WorkflowTaskFailedEventAttributes: a}
		f.add(e)
	default:
		e := event(enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT, f.at)
		e.Attributes = &historypb.HistoryEvent_WorkflowTaskTimedOutEventAttributes{
			WorkflowTaskTimedOutEventAttributes: &historypb.WorkflowTaskTimedOutEventAttributes{
				ScheduledEventId: scheduled.EventId, StartedEventId: started.EventId,
				TimeoutType: enumspb.TIMEOUT_TYPE_START_TO_CLOSE,
			},
		}
		f.add(e)
	}
	switch {
	case len(f.tail) > 0:
		f.need(1)
	case m.Completed == nil && m.Base == "":
		f.due = due{is: true, after: hidden, at: f.at, attempt: m.Attempt + 1}
	case r.Again, f.dropped:
		f.need(0)
	}
	f.dropped = false
}

// completed tells the commands of an answer. Those that begin steps are told when the record of the step comes.
func (f *Fold) completed(
	scheduled, started int64, q *workflowservice.RespondWorkflowTaskCompletedRequest,
) {
	e := event(enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, f.at)
	e.Attributes = &historypb.HistoryEvent_WorkflowTaskCompletedEventAttributes{
		WorkflowTaskCompletedEventAttributes: &historypb.WorkflowTaskCompletedEventAttributes{
			ScheduledEventId: scheduled, StartedEventId: started, Identity: q.Identity,
			SdkMetadata: q.SdkMetadata, MeteringMetadata: q.MeteringMetadata,
		},
	}
	f.Asked, f.Completed = started, f.add(e).EventId
	left := messagesOf(q.Messages)
	for _, c := range q.Commands {
		if Ends(c) {
			f.closed = c
			continue
		}
		if a := c.GetProtocolMessageCommandAttributes(); a != nil {
			f.message(left.take(a.MessageId))
			continue
		}
		e := event(eventOf(c.CommandType), f.at)
		e.UserMetadata = c.UserMetadata
		f.command(f.add(e), c, q.Identity)
	}
	for _, m := range q.Messages { // those that no command has placed
		f.message(left.take(m.GetId()))
	}
}

// eventOf returns the type of the event that a command becomes.
func eventOf(c enumspb.CommandType) enumspb.EventType {
	switch c {
	case enumspb.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK:
		return enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
	case enumspb.COMMAND_TYPE_REQUEST_CANCEL_ACTIVITY_TASK:
		return enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED
	case enumspb.COMMAND_TYPE_START_TIMER:
		return enumspb.EVENT_TYPE_TIMER_STARTED
	case enumspb.COMMAND_TYPE_CANCEL_TIMER:
		return enumspb.EVENT_TYPE_TIMER_CANCELED
	case enumspb.COMMAND_TYPE_RECORD_MARKER:
		return enumspb.EVENT_TYPE_MARKER_RECORDED
	case enumspb.COMMAND_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
		return enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES
	case enumspb.COMMAND_TYPE_MODIFY_WORKFLOW_PROPERTIES:
		return enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED
	case enumspb.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION:
		return enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED
	case enumspb.COMMAND_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION:
		return enumspb.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED
	case enumspb.COMMAND_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION:
		return enumspb.EVENT_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED
	default:
		return enumspb.EVENT_TYPE_UNSPECIFIED
	}
}

// command fills in the event of a command.
func (f *Fold) command(e *Event, c *commandpb.Command, identity string) {
	switch a := c.Attributes.(type) {
	case *commandpb.Command_RequestCancelActivityTaskCommandAttributes:
		f.activityCancelRequested(e, a.RequestCancelActivityTaskCommandAttributes.ScheduledEventId)
	case *commandpb.Command_CancelTimerCommandAttributes:
		f.timerCancelled(e, a.CancelTimerCommandAttributes.TimerId, identity)
	case *commandpb.Command_RecordMarkerCommandAttributes:
		m := a.RecordMarkerCommandAttributes
		e.Attributes = &historypb.HistoryEvent_MarkerRecordedEventAttributes{
			MarkerRecordedEventAttributes: &historypb.MarkerRecordedEventAttributes{
				MarkerName: m.MarkerName, Details: m.Details, Header: m.Header, Failure: m.Failure,
				WorkflowTaskCompletedEventId: f.Completed,
			},
		}
	case *commandpb.Command_UpsertWorkflowSearchAttributesCommandAttributes:
		upserted := a.UpsertWorkflowSearchAttributesCommandAttributes.SearchAttributes
		e.Attributes = &historypb.HistoryEvent_UpsertWorkflowSearchAttributesEventAttributes{
			UpsertWorkflowSearchAttributesEventAttributes: &historypb.UpsertWorkflowSearchAttributesEventAttributes{
				WorkflowTaskCompletedEventId: f.Completed, SearchAttributes: upserted,
			},
		}
		f.search = &commonpb.SearchAttributes{
			IndexedFields: merged(f.Search().GetIndexedFields(), upserted.GetIndexedFields()),
		}
	case *commandpb.Command_ModifyWorkflowPropertiesCommandAttributes:
		upserted := a.ModifyWorkflowPropertiesCommandAttributes.UpsertedMemo
		e.Attributes = &historypb.HistoryEvent_WorkflowPropertiesModifiedEventAttributes{
			WorkflowPropertiesModifiedEventAttributes: &historypb.WorkflowPropertiesModifiedEventAttributes{
				WorkflowTaskCompletedEventId: f.Completed, UpsertedMemo: upserted,
			},
		}
		f.memo = &commonpb.Memo{Fields: merged(f.Memo().GetFields(), upserted.GetFields())}
	default:
		f.begin(e)
	}
}

// merged returns fields with others, of which those without data are removed.
func merged(fields, others map[string]*commonpb.Payload) map[string]*commonpb.Payload {
	out := map[string]*commonpb.Payload{}
	for key, p := range fields {
		out[key] = p
	}
	for key, p := range others {
		if string(p.GetMetadata()["encoding"]) == "binary/null" || p.GetData() == nil {
			delete(out, key)
			continue
		}
		out[key] = p
	}
	return out
}

// begin fills in the event of a command that has begun a step. The steps of an answer are in the order of its commands.
func (f *Fold) begin(e *Event) {
	if len(f.began) == 0 {
		return
	}
	s := f.stepBegan(f.began[0])
	f.began = f.began[1:]
	s.Scheduled = e.EventId
	defer s.told()
	if s.Timer == nil && s.Activity == nil {
		initiated(f, e, s)
		return
	}
	if s.Activity == nil {
		e.Attributes = &historypb.HistoryEvent_TimerStartedEventAttributes{
			TimerStartedEventAttributes: &historypb.TimerStartedEventAttributes{
				TimerId: s.Timer.TimerId, StartToFireTimeout: s.Timer.StartToFireTimeout,
				WorkflowTaskCompletedEventId: f.Completed,
			},
		}
		return
	}
	a := s.Activity
	e.Attributes = &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
		ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{
			ActivityId: a.ActivityId, ActivityType: a.ActivityType, TaskQueue: a.TaskQueue, Header: a.Header,
			Input: a.Input, ScheduleToCloseTimeout: a.ScheduleToCloseTimeout,
			ScheduleToStartTimeout: a.ScheduleToStartTimeout, StartToCloseTimeout: a.StartToCloseTimeout,
			HeartbeatTimeout: a.HeartbeatTimeout, WorkflowTaskCompletedEventId: f.Completed,
			RetryPolicy: a.RetryPolicy, Priority: a.Priority,
		},
	}
}

func (f *Fold) activityCancelRequested(e *Event, scheduled int64) {
	e.Attributes = &historypb.HistoryEvent_ActivityTaskCancelRequestedEventAttributes{
		ActivityTaskCancelRequestedEventAttributes: &historypb.ActivityTaskCancelRequestedEventAttributes{
			ScheduledEventId: scheduled, WorkflowTaskCompletedEventId: f.Completed,
		},
	}
	if s := f.ScheduledAt(scheduled); s != nil {
		s.cancelled = e.EventId
	}
}

// timerCancelled tells that the worker has cancelled a timer. One that has fired meanwhile has not: its worker does not
// hear of that.
func (f *Fold) timerCancelled(e *Event, id, identity string) {
	a := &historypb.TimerCanceledEventAttributes{
		TimerId: id, WorkflowTaskCompletedEventId: f.Completed, Identity: identity,
	}
	if s := f.TimerOf(id); s != nil {
		a.StartedEventId = s.Scheduled
		for i, it := range f.tail {
			if it.step == s.ID {
				f.tail = append(f.tail[:i:i], f.tail[i+1:]...)
				f.dropped = true
				break
			}
		}
	}
	e.Attributes = &historypb.HistoryEvent_TimerCanceledEventAttributes{TimerCanceledEventAttributes: a}
}
