package sdk

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	protocolpb "go.temporal.io/api/protocol/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	updatepb "go.temporal.io/api/update/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Queue is the task queue of all workflows, ActivityType the type of their activities.
const Queue, ActivityType = "sdk", "act"

// decision is a command, and the event that it has to become.
type decision struct {
	command *commandpb.Command
	kind    enumspb.EventType
	key     string
}

// Reply is what a worker answers to a workflow task.
type Reply struct {
	Commands []*commandpb.Command
	Messages []*protocolpb.Message // all that it says of updates
	Kept     []*protocolpb.Message // those of Messages that the history has to keep
	Become   []enumspb.EventType   // the events that the answer has to become, one after the other
	Ends     bool                  // the run
}

// Answer returns what the worker decides. One that has heard of nothing but updates, and accepts none of them, decides
// nothing else. started is the id of the event with which the task began.
func (r *Replay) Answer(started int64, requests []*updatepb.Request, nothingElse bool, of *rand.Rand) *Reply {
	out := &Reply{}
	state := r.clone()
	state.updates = maps.Clone(r.updates)
	accepts := false
	for _, q := range requests {
		id := q.GetMeta().GetUpdateId()
		if _, known := state.updates[id]; known || state.finished[id] {
			continue
		}
		n := hashOf(id) % 3
		if n == 0 {
			out.reject(id, false)
			continue
		}
		accepts = true
		out.accept(id, q, started)
		if n == 1 {
			out.complete(id)
		}
	}
	if nothingElse && !accepts {
		return out
	}
	for _, id := range slices.Sorted(maps.Keys(state.updates)) {
		switch {
		case state.updates[id] == 0 && of.IntN(4) == 0:
			out.reject(id, true)
		case state.updates[id] == 0:
			out.accept(id, nil, started)
		case of.IntN(2) == 0:
			out.complete(id)
		}
	}
	for _, w := range state.decides(started + 2 + int64(len(out.Become))) {
		out.Commands, out.Become = append(out.Commands, w.command), append(out.Become, w.kind)
		out.Ends = out.Ends || closes(w.kind)
	}
	return out
}

func hashOf(text string) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(text))
	return sum.Sum64()
}

// say adds a message, which becomes an event of a type, or none.
func (a *Reply) say(id, what string, body proto.Message, kept bool, becomes enumspb.EventType) {
	packed, err := anypb.New(body)
	if err != nil {
		panic(err) // all its texts are UTF-8
	}
	m := &protocolpb.Message{Id: id + "/" + what, ProtocolInstanceId: id, Body: packed}
	a.Messages = append(a.Messages, m)
	if kept {
		a.Kept = append(a.Kept, m)
	}
	if becomes == 0 {
		return
	}
	a.Commands = append(a.Commands, &commandpb.Command{
		CommandType: enumspb.COMMAND_TYPE_PROTOCOL_MESSAGE,
		Attributes: &commandpb.Command_ProtocolMessageCommandAttributes{
			ProtocolMessageCommandAttributes: &commandpb.ProtocolMessageCommandAttributes{MessageId: m.Id},
		},
	})
	a.Become = append(a.Become, becomes)
}

// accept accepts an update. The history has the request already: nil.
func (a *Reply) accept(id string, request *updatepb.Request, started int64) {
	a.say(id, "accept", &updatepb.Acceptance{
		AcceptedRequestMessageId: id + "/request", AcceptedRequestSequencingEventId: started - 1,
		AcceptedRequest: request,
	}, true, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED)
}

func (a *Reply) complete(id string) {
	a.say(id, "complete", &updatepb.Response{
		Meta:    &updatepb.Meta{UpdateId: id},
		Outcome: &updatepb.Outcome{Value: &updatepb.Outcome_Success{Success: payloads(strconv.Quote(id))}},
	}, true, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED)
}

func (a *Reply) reject(id string, admitted bool) {
	a.say(id, "reject", &updatepb.Rejection{Failure: failure("Rejected")}, admitted, 0)
}

func failure(kind string) *failurepb.Failure {
	return &failurepb.Failure{Message: "it failed", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
		ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: kind, NonRetryable: kind == "Fatal"},
	}}
}

func closes(kind enumspb.EventType) bool {
	switch kind {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		return true
	default:
		return false
	}
}

// took notes that a command has become an event.
func (r *Replay) took(w decision, id int64) {
	begun := func(of *[]opened) { *of = append(*of, opened{key: w.key, event: id}) }
	switch w.kind {
	case enumspb.EVENT_TYPE_TIMER_STARTED:
		begun(&r.timers)
	case enumspb.EVENT_TYPE_TIMER_CANCELED:
		r.timers = slices.DeleteFunc(slices.Clone(r.timers), func(o opened) bool { return o.key == w.key })
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		begun(&r.activities)
	case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		begun(&r.children)
	case enumspb.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED,
		enumspb.EVENT_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
		begun(&r.sends)
	default:
		r.closed = r.closed || closes(w.kind)
	}
}

// decides returns what the workflow does next. Its first command becomes the event next. It changes the replay.
func (r *Replay) decides(next int64) (out []decision) {
	of := rand.New(rand.NewPCG(r.digest, uint64(r.answered)))
	add := func(w decision) {
		r.took(w, next)
		out = append(out, w)
		next++
	}
	if r.answered > r.kind%5 {
		add(r.ending(of))
		return out
	}
	for range of.IntN(4) {
		add(r.decision(of, next))
	}
	if len(r.timers) == 0 {
		add(timer(of, next)) // something has to come
	}
	return out
}

func span(of *rand.Rand, low, high time.Duration) *durationpb.Duration {
	for n := of.IntN(20); n > 0 && low < high; n-- {
		low *= 2
	}
	return durationpb.New(min(low, high).Truncate(time.Millisecond))
}

func timer(of *rand.Rand, next int64) decision {
	id := fmt.Sprintf("t%d", next)
	return decision{&commandpb.Command{
		CommandType: enumspb.COMMAND_TYPE_START_TIMER,
		Attributes: &commandpb.Command_StartTimerCommandAttributes{
			StartTimerCommandAttributes: &commandpb.StartTimerCommandAttributes{
				TimerId: id, StartToFireTimeout: span(of, time.Millisecond, 20*time.Minute),
			},
		},
	}, enumspb.EVENT_TYPE_TIMER_STARTED, id}
}

func (r *Replay) decision(of *rand.Rand, next int64) decision {
	switch n := of.IntN(20); {
	case n < 6:
		return activity(of, next)
	case n < 8 && len(r.timers) > 0:
		id := r.timers[of.IntN(len(r.timers))].key
		return decision{&commandpb.Command{
			CommandType: enumspb.COMMAND_TYPE_CANCEL_TIMER,
			Attributes: &commandpb.Command_CancelTimerCommandAttributes{
				CancelTimerCommandAttributes: &commandpb.CancelTimerCommandAttributes{TimerId: id},
			},
		}, enumspb.EVENT_TYPE_TIMER_CANCELED, id}
	case n < 10 && len(r.activities) > 0:
		event := r.activities[of.IntN(len(r.activities))].event
		return decision{&commandpb.Command{
			CommandType: enumspb.COMMAND_TYPE_REQUEST_CANCEL_ACTIVITY_TASK,
			Attributes: &commandpb.Command_RequestCancelActivityTaskCommandAttributes{
				RequestCancelActivityTaskCommandAttributes: &commandpb.RequestCancelActivityTaskCommandAttributes{
					ScheduledEventId: event,
				},
			},
		}, enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED, strconv.FormatInt(event, 10)}
	case n < 13 && r.kind%2 == 0:
		return child(of)
	case n < 15:
		return r.signal(of, next)
	case n < 16:
		return r.cancel(of)
	case n < 17:
		name := fmt.Sprintf("m%d", next)
		return decision{&commandpb.Command{
			CommandType: enumspb.COMMAND_TYPE_RECORD_MARKER,
			Attributes: &commandpb.Command_RecordMarkerCommandAttributes{
				RecordMarkerCommandAttributes: &commandpb.RecordMarkerCommandAttributes{MarkerName: name},
			},
		}, enumspb.EVENT_TYPE_MARKER_RECORDED, name}
	case n < 18:
		return decision{&commandpb.Command{
			CommandType: enumspb.COMMAND_TYPE_MODIFY_WORKFLOW_PROPERTIES,
			Attributes: &commandpb.Command_ModifyWorkflowPropertiesCommandAttributes{
				ModifyWorkflowPropertiesCommandAttributes: &commandpb.ModifyWorkflowPropertiesCommandAttributes{
					UpsertedMemo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{"m": payloads("1").Payloads[0]}},
				},
			},
		}, enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED, ""}
	default:
		return timer(of, next)
	}
}

// Retry returns a retry policy of few attempts, or none.
func Retry(of *rand.Rand) *commonpb.RetryPolicy {
	if of.IntN(2) == 0 {
		return nil
	}
	return &commonpb.RetryPolicy{
		MaximumAttempts: int32(1 + of.IntN(3)), InitialInterval: span(of, time.Millisecond, time.Minute),
		BackoffCoefficient: 2, NonRetryableErrorTypes: []string{"Broken"},
	}
}

func activity(of *rand.Rand, next int64) decision {
	id := fmt.Sprintf("a%d", next)
	a := &commandpb.ScheduleActivityTaskCommandAttributes{
		ActivityId: id, ActivityType: &commonpb.ActivityType{Name: ActivityType},
		TaskQueue: &taskqueuepb.TaskQueue{Name: Queue}, Input: payloads(strconv.Quote(id)),
		StartToCloseTimeout: span(of, 100*time.Millisecond, 10*time.Minute), RetryPolicy: Retry(of),
	}
	if a.RetryPolicy == nil { // else it has as many attempts as it wants
		a.RetryPolicy = &commonpb.RetryPolicy{MaximumAttempts: 1}
	}
	if of.IntN(3) == 0 {
		a.ScheduleToCloseTimeout = span(of, time.Second, 2*time.Hour)
	}
	if of.IntN(4) == 0 {
		a.ScheduleToStartTimeout = span(of, 100*time.Millisecond, time.Hour)
	}
	if of.IntN(4) == 0 {
		a.HeartbeatTimeout = span(of, 100*time.Millisecond, time.Minute)
	}
	return decision{&commandpb.Command{
		CommandType: enumspb.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK,
		Attributes:  &commandpb.Command_ScheduleActivityTaskCommandAttributes{ScheduleActivityTaskCommandAttributes: a},
	}, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, id}
}

// child begins a child workflow, of a type that has none itself. Others may have its id.
func child(of *rand.Rand) decision {
	id := fmt.Sprintf("kid-%d", of.IntN(4))
	a := &commandpb.StartChildWorkflowExecutionCommandAttributes{
		WorkflowId: id, WorkflowType: &commonpb.WorkflowType{Name: Name(of.IntN(Types/2)*2 + 1)},
		TaskQueue: &taskqueuepb.TaskQueue{Name: Queue}, Input: Input(of.IntN(2)), RetryPolicy: Retry(of),
		ParentClosePolicy:     enumspb.ParentClosePolicy(of.IntN(4)),
		WorkflowIdReusePolicy: enumspb.WorkflowIdReusePolicy(of.IntN(5)),
	}
	if of.IntN(4) == 0 {
		a.WorkflowRunTimeout = span(of, time.Second, time.Hour)
	}
	if of.IntN(4) == 0 {
		a.WorkflowExecutionTimeout = span(of, time.Second, 2*time.Hour)
	}
	return decision{&commandpb.Command{
		CommandType: enumspb.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION,
		Attributes: &commandpb.Command_StartChildWorkflowExecutionCommandAttributes{
			StartChildWorkflowExecutionCommandAttributes: a,
		},
	}, enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED, id}
}

// WorkflowID returns one of the ids that clients start workflows with.
func WorkflowID(n int) string { return fmt.Sprintf("sdk-%d", n%4) }

// target chooses the run that something is sent to: a child, or any.
func (r *Replay) target(of *rand.Rand) (id string, ofChild bool) {
	if len(r.children) > 0 && of.IntN(2) == 0 {
		return r.children[of.IntN(len(r.children))].key, of.IntN(2) == 0
	}
	if of.IntN(2) == 0 {
		return fmt.Sprintf("kid-%d", of.IntN(4)), false
	}
	return WorkflowID(of.IntN(4)), false
}

func (r *Replay) signal(of *rand.Rand, next int64) decision {
	id, ofChild := r.target(of)
	a := &commandpb.SignalExternalWorkflowExecutionCommandAttributes{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id}, SignalName: "go", ChildWorkflowOnly: ofChild,
		Input: payloads(fmt.Sprintf(`"%s/%x/%d"`, r.run, r.digest, next)),
	}
	return decision{&commandpb.Command{
		CommandType: enumspb.COMMAND_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION,
		Attributes: &commandpb.Command_SignalExternalWorkflowExecutionCommandAttributes{
			SignalExternalWorkflowExecutionCommandAttributes: a,
		},
	}, enumspb.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED, id}
}

func (r *Replay) cancel(of *rand.Rand) decision {
	id, ofChild := r.target(of)
	return decision{&commandpb.Command{
		CommandType: enumspb.COMMAND_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION,
		Attributes: &commandpb.Command_RequestCancelExternalWorkflowExecutionCommandAttributes{
			RequestCancelExternalWorkflowExecutionCommandAttributes: &commandpb.
				RequestCancelExternalWorkflowExecutionCommandAttributes{
				WorkflowId: id, ChildWorkflowOnly: ofChild, Reason: "enough",
			},
		},
	}, enumspb.EVENT_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED, id}
}

// ending ends the run.
func (r *Replay) ending(of *rand.Rand) decision {
	switch n := of.IntN(8); {
	case r.cancelled && n < 4:
		return decision{&commandpb.Command{
			CommandType: enumspb.COMMAND_TYPE_CANCEL_WORKFLOW_EXECUTION,
			Attributes: &commandpb.Command_CancelWorkflowExecutionCommandAttributes{
				CancelWorkflowExecutionCommandAttributes: &commandpb.CancelWorkflowExecutionCommandAttributes{},
			},
		}, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, ""}
	case r.left > 0 && n < 5:
		a := &commandpb.ContinueAsNewWorkflowExecutionCommandAttributes{Input: Input(r.left - 1)}
		if of.IntN(2) == 0 {
			a.WorkflowType = &commonpb.WorkflowType{Name: Name(r.kind + 2)}
		}
		if of.IntN(4) == 0 {
			a.BackoffStartInterval = span(of, time.Millisecond, time.Minute)
		}
		return decision{&commandpb.Command{
			CommandType: enumspb.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION,
			Attributes: &commandpb.Command_ContinueAsNewWorkflowExecutionCommandAttributes{
				ContinueAsNewWorkflowExecutionCommandAttributes: a,
			},
		}, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW, ""}
	case n < 6:
		kind := []string{"Broken", "Fatal", "Other"}[of.IntN(3)]
		return decision{&commandpb.Command{
			CommandType: enumspb.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION,
			Attributes: &commandpb.Command_FailWorkflowExecutionCommandAttributes{
				FailWorkflowExecutionCommandAttributes: &commandpb.FailWorkflowExecutionCommandAttributes{
					Failure: failure(kind),
				},
			},
		}, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, ""}
	default:
		return decision{&commandpb.Command{
			CommandType: enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION,
			Attributes: &commandpb.Command_CompleteWorkflowExecutionCommandAttributes{
				CompleteWorkflowExecutionCommandAttributes: &commandpb.CompleteWorkflowExecutionCommandAttributes{
					Result: payloads(`"done"`),
				},
			},
		}, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, ""}
	}
}
