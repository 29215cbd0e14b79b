package sdk

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
)

// Types is how many workflow types there are.
const Types = 200

// Name returns the name of a workflow type.
func Name(n int) string { return "k" + strconv.Itoa(n%Types) }

// number returns the number of a workflow type.
func number(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "k"))
	return n
}

// IsName reports whether a name is that of a workflow type.
func IsName(name string) bool { return strings.HasPrefix(name, "k") && Name(number(name)) == name }

// opened is something that the workflow has begun: a timer, an activity, a child workflow, or what it sends.
type opened struct {
	key   string // its id
	event int64  // the event that has begun it
	there int64  // the event that says that a child workflow is there; zero: it is not yet
}

// Replay is what a worker knows of a run whose history it has replayed.
type Replay struct {
	kind     int // the number of the workflow type
	left     int // how often the workflow may still continue as new
	answered int // workflow tasks that were answered
	digest   uint64
	run      string // the id of the run, which is in all that it sends: equal runs send different events

	timers, activities, children, sends []opened

	cancelled bool
	heard     map[string]bool  // events that were sent to it
	updates   map[string]int64 // the events with which updates were accepted that have no outcome; zero: only admitted
	finished  map[string]bool  // updates that have an outcome
	closed    bool
}

func (r *Replay) clone() *Replay {
	c := *r
	c.timers, c.activities = slices.Clone(r.timers), slices.Clone(r.activities)
	c.children, c.sends = slices.Clone(r.children), slices.Clone(r.sends)
	return &c
}

// Play replays a history. Errors: the history is not one that the workflow can have.
func Play(events []*historypb.HistoryEvent) (*Replay, error) {
	r := &Replay{heard: map[string]bool{}, updates: map[string]int64{}, finished: map[string]bool{}}
	for i := 0; i < len(events); {
		e := events[i]
		if e.EventId != int64(i)+1 {
			return nil, fmt.Errorf("event %d has the id %d", i+1, e.EventId)
		}
		if r.closed {
			return nil, fmt.Errorf("event %d, %s, follows the end of the run", e.EventId, e.EventType)
		}
		i++
		if e.EventType != enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			if err := r.hear(e, events); err != nil {
				return nil, fmt.Errorf("event %d, %s: %w", e.EventId, e.EventType, err)
			}
			continue
		}
		n, err := r.repeat(e.EventId, events[i:])
		if err != nil {
			return nil, err
		}
		i += n
	}
	return r, nil
}

// repeat decides again what the workflow has decided before, and returns how many events that has become.
func (r *Replay) repeat(completed int64, events []*historypb.HistoryEvent) (n int, err error) {
	for n < len(events) {
		is, err := r.said(events[n])
		if err != nil {
			return n, fmt.Errorf("event %d, %s: %w", events[n].EventId, events[n].EventType, err)
		}
		if !is {
			break
		}
		n++
	}
	decides := r.clone().decides(completed + 1 + int64(n))
	r.answered++
	for _, w := range decides {
		if n >= len(events) {
			return n, fmt.Errorf("the workflow has decided %s, which is not there", w.kind)
		}
		e := events[n]
		if e.EventType != w.kind || keyOf(e) != w.key {
			return n, fmt.Errorf("the workflow has decided %s %q, and event %d is %s %q", w.kind, w.key, e.EventId,
				e.EventType, keyOf(e))
		}
		r.took(w, e.EventId)
		n++
	}
	return n, nil
}

// said takes the event of what the workflow has said of an update.
func (r *Replay) said(e *historypb.HistoryEvent) (is bool, err error) {
	if a := e.GetWorkflowExecutionUpdateAcceptedEventAttributes(); a != nil {
		id := a.ProtocolInstanceId
		if was, known := r.updates[id]; was != 0 || r.finished[id] {
			return true, fmt.Errorf("the update %q is accepted twice", id)
		} else if known == (a.AcceptedRequest != nil) {
			return true, fmt.Errorf("the request of the update %q: admitted %t, accepted %t", id, known,
				a.AcceptedRequest != nil)
		}
		r.updates[id] = e.EventId
		return true, nil
	}
	if a := e.GetWorkflowExecutionUpdateCompletedEventAttributes(); a != nil {
		id := a.GetMeta().GetUpdateId()
		if r.updates[id] == 0 || r.updates[id] != a.AcceptedEventId {
			return true, fmt.Errorf("the update %q is completed, and was accepted by event %d, not %d", id,
				r.updates[id], a.AcceptedEventId)
		}
		delete(r.updates, id)
		r.finished[id] = true
		return true, nil
	}
	return false, nil
}

// hear takes an event that the workflow has not decided itself.
func (r *Replay) hear(e *historypb.HistoryEvent, all []*historypb.HistoryEvent) error {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%d %d %d %s", r.digest, e.EventId, e.EventType, keyOf(e))
	from := func(of *[]opened, event int64) error {
		_, err := end(of, event)
		return err
	}
	var err error
	switch a := e.Attributes.(type) {
	case *historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes:
		r.kind = number(a.WorkflowExecutionStartedEventAttributes.WorkflowType.GetName())
		r.left = count(a.WorkflowExecutionStartedEventAttributes.Input)
		r.run = a.WorkflowExecutionStartedEventAttributes.OriginalExecutionRunId
	case *historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes:
		key := keyOf(e)
		if r.heard[key] {
			err = fmt.Errorf("%s is told twice", key)
		}
		r.heard[key] = true
	case *historypb.HistoryEvent_WorkflowExecutionCancelRequestedEventAttributes:
		if r.cancelled {
			err = fmt.Errorf("it is told twice")
		}
		r.cancelled = true
	case *historypb.HistoryEvent_WorkflowExecutionUpdateAdmittedEventAttributes:
		id := a.WorkflowExecutionUpdateAdmittedEventAttributes.Request.GetMeta().GetUpdateId()
		if _, known := r.updates[id]; known || r.finished[id] {
			err = fmt.Errorf("the update %q is told twice", id)
		}
		r.updates[id] = 0
	case *historypb.HistoryEvent_TimerFiredEventAttributes:
		err = from(&r.timers, a.TimerFiredEventAttributes.StartedEventId)
	case *historypb.HistoryEvent_ActivityTaskCompletedEventAttributes:
		b := a.ActivityTaskCompletedEventAttributes
		err = r.activity(all, b.ScheduledEventId, b.StartedEventId)
	case *historypb.HistoryEvent_ActivityTaskFailedEventAttributes:
		b := a.ActivityTaskFailedEventAttributes
		err = r.activity(all, b.ScheduledEventId, b.StartedEventId)
	case *historypb.HistoryEvent_ActivityTaskTimedOutEventAttributes:
		b := a.ActivityTaskTimedOutEventAttributes
		err = r.activity(all, b.ScheduledEventId, b.StartedEventId)
	case *historypb.HistoryEvent_ActivityTaskCanceledEventAttributes:
		b := a.ActivityTaskCanceledEventAttributes
		err = r.activity(all, b.ScheduledEventId, b.StartedEventId)
	case *historypb.HistoryEvent_ExternalWorkflowExecutionSignaledEventAttributes:
		err = from(&r.sends, a.ExternalWorkflowExecutionSignaledEventAttributes.InitiatedEventId)
	case *historypb.HistoryEvent_SignalExternalWorkflowExecutionFailedEventAttributes:
		err = from(&r.sends, a.SignalExternalWorkflowExecutionFailedEventAttributes.InitiatedEventId)
	case *historypb.HistoryEvent_ExternalWorkflowExecutionCancelRequestedEventAttributes:
		err = from(&r.sends, a.ExternalWorkflowExecutionCancelRequestedEventAttributes.InitiatedEventId)
	case *historypb.HistoryEvent_RequestCancelExternalWorkflowExecutionFailedEventAttributes:
		err = from(&r.sends, a.RequestCancelExternalWorkflowExecutionFailedEventAttributes.InitiatedEventId)
	default:
		return r.hearOther(e)
	}
	r.digest = sum.Sum64()
	return err
}

// hearOther takes an event of a child workflow, a workflow task, or the end of the run.
func (r *Replay) hearOther(e *historypb.HistoryEvent) error {
	switch e.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED,
		enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT, enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		return nil
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		if reset := e.GetWorkflowTaskFailedEventAttributes().GetNewRunId(); reset != "" {
			r.run = reset
		}
		return nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		r.closed = true
		return nil
	default:
		return r.hearChild(e)
	}
}

// hearChild takes an event of a child workflow: all others were taken before.
func (r *Replay) hearChild(e *historypb.HistoryEvent) error {
	begun, there, is := ofChild(e)
	if !is {
		return fmt.Errorf("the workflow has not decided it, and nobody else can have")
	}
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%d %d %d", r.digest, e.EventId, e.EventType)
	r.digest = sum.Sum64()
	if e.EventType == enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED {
		i := slices.IndexFunc(r.children, func(o opened) bool { return o.event == begun && o.there == 0 })
		if i < 0 {
			return fmt.Errorf("the child of event %d is there, and it was before, or was not begun", begun)
		}
		r.children[i].there = e.EventId
		return nil
	}
	o, err := end(&r.children, begun)
	if err == nil && o.there != there {
		err = fmt.Errorf("the child of event %d was there with event %d, not %d", begun, o.there, there)
	}
	return err
}

// ofChild returns the event that has begun the child workflow which an event is about, and the one that said that it
// was there.
func ofChild(e *historypb.HistoryEvent) (begun, there int64, is bool) {
	switch a := e.Attributes.(type) {
	case *historypb.HistoryEvent_ChildWorkflowExecutionStartedEventAttributes:
		return a.ChildWorkflowExecutionStartedEventAttributes.InitiatedEventId, 0, true
	case *historypb.HistoryEvent_StartChildWorkflowExecutionFailedEventAttributes:
		return a.StartChildWorkflowExecutionFailedEventAttributes.InitiatedEventId, 0, true
	case *historypb.HistoryEvent_ChildWorkflowExecutionCompletedEventAttributes:
		b := a.ChildWorkflowExecutionCompletedEventAttributes
		return b.InitiatedEventId, b.StartedEventId, true
	case *historypb.HistoryEvent_ChildWorkflowExecutionFailedEventAttributes:
		b := a.ChildWorkflowExecutionFailedEventAttributes
		return b.InitiatedEventId, b.StartedEventId, true
	case *historypb.HistoryEvent_ChildWorkflowExecutionCanceledEventAttributes:
		b := a.ChildWorkflowExecutionCanceledEventAttributes
		return b.InitiatedEventId, b.StartedEventId, true
	case *historypb.HistoryEvent_ChildWorkflowExecutionTimedOutEventAttributes:
		b := a.ChildWorkflowExecutionTimedOutEventAttributes
		return b.InitiatedEventId, b.StartedEventId, true
	case *historypb.HistoryEvent_ChildWorkflowExecutionTerminatedEventAttributes:
		b := a.ChildWorkflowExecutionTerminatedEventAttributes
		return b.InitiatedEventId, b.StartedEventId, true
	default:
		return 0, 0, false
	}
}

// activity takes the end of an activity. Its last attempt began with the event that it names, if a worker had it.
func (r *Replay) activity(all []*historypb.HistoryEvent, begun, started int64) error {
	if _, err := end(&r.activities, begun); err != nil {
		return err
	}
	if started == 0 {
		return nil
	}
	if started > int64(len(all)) ||
		all[started-1].GetActivityTaskStartedEventAttributes().GetScheduledEventId() != begun {
		return fmt.Errorf("event %d is not the start of the activity of event %d", started, begun)
	}
	return nil
}

// end takes something out that has ended.
func end(of *[]opened, event int64) (opened, error) {
	i := slices.IndexFunc(*of, func(o opened) bool { return o.event == event })
	if i < 0 {
		return opened{}, fmt.Errorf("what event %d has begun has ended before, or was not begun", event)
	}
	o := (*of)[i]
	*of = slices.Delete(slices.Clone(*of), i, i+1)
	return o, nil
}

// keyOf returns what tells an event from others of its type.
func keyOf(e *historypb.HistoryEvent) string {
	switch a := e.Attributes.(type) {
	case *historypb.HistoryEvent_ActivityTaskScheduledEventAttributes:
		return a.ActivityTaskScheduledEventAttributes.ActivityId
	case *historypb.HistoryEvent_ActivityTaskCancelRequestedEventAttributes:
		return strconv.FormatInt(a.ActivityTaskCancelRequestedEventAttributes.ScheduledEventId, 10)
	case *historypb.HistoryEvent_TimerStartedEventAttributes:
		return a.TimerStartedEventAttributes.TimerId
	case *historypb.HistoryEvent_TimerCanceledEventAttributes:
		return a.TimerCanceledEventAttributes.TimerId
	case *historypb.HistoryEvent_MarkerRecordedEventAttributes:
		return a.MarkerRecordedEventAttributes.MarkerName
	case *historypb.HistoryEvent_StartChildWorkflowExecutionInitiatedEventAttributes:
		return a.StartChildWorkflowExecutionInitiatedEventAttributes.WorkflowId
	case *historypb.HistoryEvent_SignalExternalWorkflowExecutionInitiatedEventAttributes:
		return a.SignalExternalWorkflowExecutionInitiatedEventAttributes.WorkflowExecution.GetWorkflowId()
	case *historypb.HistoryEvent_RequestCancelExternalWorkflowExecutionInitiatedEventAttributes:
		return a.RequestCancelExternalWorkflowExecutionInitiatedEventAttributes.WorkflowExecution.GetWorkflowId()
	case *historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes:
		return a.WorkflowExecutionSignaledEventAttributes.SignalName + " " +
			text(a.WorkflowExecutionSignaledEventAttributes.Input)
	default:
		return ""
	}
}

// text returns the data of payloads.
func text(p *commonpb.Payloads) string {
	out := ""
	for _, one := range p.GetPayloads() {
		out += string(one.Data)
	}
	return out
}

func count(p *commonpb.Payloads) int {
	n, _ := strconv.Atoi(text(p))
	return n
}

// Input returns the input of a workflow that may continue as new so often.
func Input(left int) *commonpb.Payloads { return payloads(strconv.Itoa(left)) }

func payloads(data string) *commonpb.Payloads {
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{{
		Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(data),
	}}}
}
