package tasks

import (
	"errors"
	"fmt"
	"time"

	commandpb "go.temporal.io/api/command/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
	"github.com/pawl-dev/pawl/internal/temporal/history"
)

// badCommand says what is wrong with a command. The task fails with it, and the workflow goes on.
type badCommand struct {
	cause enumspb.WorkflowTaskFailedCause
	text  string
}

func bad(cause enumspb.WorkflowTaskFailedCause, format string, args ...any) *badCommand {
	return &badCommand{cause, cause.String() + ": " + fmt.Sprintf(format, args...)}
}

// deciding makes core's commands of an answer. Steps that it begins are known to its later commands: a worker may
// begin a timer and cancel it in one answer.
type deciding struct {
	fold      *history.Fold
	next      int64 // the id of the event that the next command becomes
	out       []core.Command
	timer     map[string]string // names of timers that the answer has begun, by their ids; empty: it has cancelled them
	acts      map[string]string // names of activities, by their ids
	at        map[int64]string  // names of activities, by the ids of their events
	namespace string            // the workflow's
	// children are the names of the steps of child workflows, by their ids.
	children map[string]string
}

// commands returns the commands of an answer for core, or what is wrong with the first one that is.
func (r *OfRun) commands(
	q *workflowservice.RespondWorkflowTaskCompletedRequest, l *lease, s *said,
) ([]core.Command, *badCommand) {
	task := r.Fold.Task(l.seen, r.Fold.Final(), l.began, l.identity, l.attempt)
	return decide(r.Namespace(), r.Fold, task.Started, q.Commands, s.becomesEvent)
}

// Decide returns the commands of an answer for core. The history is what its worker knew, without the event with which
// the task began; that is the id of this one. Messages become events if told says so. Errors: the first command that
// makes no sense.
func Decide(
	known *history.Fold, started int64, commands []*commandpb.Command, told func(message string) bool,
) ([]core.Command, error) {
	out, why := decide("", known, started, commands, told)
	if why != nil {
		return nil, errors.New(why.text)
	}
	return out, nil
}

func decide(
	namespace string, known *history.Fold, started int64,
	commands []*commandpb.Command, told func(message string) bool,
) ([]core.Command, *badCommand) {
	d := &deciding{
		namespace: namespace, fold: known, next: started + 2, timer: map[string]string{},
		acts: map[string]string{}, at: map[int64]string{}, children: map[string]string{},
	}
	for i, c := range commands {
		if want := typeOf(c); c.GetCommandType() != want {
			return nil, bad(enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNSPECIFIED,
				"the attributes of a command %s are those of a command %s", c.GetCommandType(), want)
		}
		if proto.Size(c) > largestCommand {
			return nil, bad(causeOf(c.GetCommandType()), "the command exceeds the size limit of 2 MiB")
		}
		if history.Ends(c) && i != len(commands)-1 {
			return nil, bad(enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
				"commands follow one that ends the run")
		}
		if a := c.GetProtocolMessageCommandAttributes(); a != nil {
			if told(a.MessageId) {
				d.next++
			}
			continue
		}
		if why := d.command(c); why != nil {
			return nil, why
		}
		d.next++
	}
	return d.out, nil
}

func (d *deciding) command(c *commandpb.Command) *badCommand {
	switch a := c.GetAttributes().(type) {
	case *commandpb.Command_ScheduleActivityTaskCommandAttributes:
		return d.activity(a.ScheduleActivityTaskCommandAttributes)
	case *commandpb.Command_RequestCancelActivityTaskCommandAttributes:
		return d.cancelActivity(a.RequestCancelActivityTaskCommandAttributes.ScheduledEventId)
	case *commandpb.Command_StartTimerCommandAttributes:
		return d.startTimer(a.StartTimerCommandAttributes)
	case *commandpb.Command_CancelTimerCommandAttributes:
		return d.cancelTimer(a.CancelTimerCommandAttributes.TimerId)
	case *commandpb.Command_StartChildWorkflowExecutionCommandAttributes:
		return d.child(a.StartChildWorkflowExecutionCommandAttributes)
	case *commandpb.Command_SignalExternalWorkflowExecutionCommandAttributes:
		return d.signalRun(a.SignalExternalWorkflowExecutionCommandAttributes)
	case *commandpb.Command_RequestCancelExternalWorkflowExecutionCommandAttributes:
		return d.cancelAnother(a.RequestCancelExternalWorkflowExecutionCommandAttributes)
	case *commandpb.Command_RecordMarkerCommandAttributes:
		if a.RecordMarkerCommandAttributes.MarkerName == "" {
			return bad(enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_RECORD_MARKER_ATTRIBUTES,
				"MarkerName is not set on command")
		}
		return nil
	case *commandpb.Command_UpsertWorkflowSearchAttributesCommandAttributes,
		*commandpb.Command_ModifyWorkflowPropertiesCommandAttributes:
		return nil
	case *commandpb.Command_CompleteWorkflowExecutionCommandAttributes:
		output, err := convert.Bytes(a.CompleteWorkflowExecutionCommandAttributes.Result)
		if err != nil {
			return bad(enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_COMPLETE_WORKFLOW_EXECUTION_ATTRIBUTES, "%v", err)
		}
		return d.close(core.Close{Phase: core.RunSucceeded, Output: output})
	case *commandpb.Command_FailWorkflowExecutionCommandAttributes:
		return d.failRun(a.FailWorkflowExecutionCommandAttributes.Failure)
	case *commandpb.Command_CancelWorkflowExecutionCommandAttributes:
		return d.cancelRun(a.CancelWorkflowExecutionCommandAttributes)
	case *commandpb.Command_ContinueAsNewWorkflowExecutionCommandAttributes:
		return d.continueRun(a.ContinueAsNewWorkflowExecutionCommandAttributes)
	default:
		return bad(enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNSPECIFIED, "%s is not supported", c.GetCommandType())
	}
}

// largestCommand bounds a command: a payload with what is around it.
const largestCommand = largestAnswer + 64<<10

// causeOf returns what is said of a command of a type that cannot be taken.
func causeOf(kind enumspb.CommandType) enumspb.WorkflowTaskFailedCause {
	switch kind {
	case enumspb.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK:
		return enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_SCHEDULE_ACTIVITY_ATTRIBUTES
	case enumspb.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION:
		return enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_START_CHILD_EXECUTION_ATTRIBUTES
	case enumspb.COMMAND_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION:
		return enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_SIGNAL_WORKFLOW_EXECUTION_ATTRIBUTES
	case enumspb.COMMAND_TYPE_RECORD_MARKER:
		return enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_RECORD_MARKER_ATTRIBUTES
	case enumspb.COMMAND_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
		return enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_SEARCH_ATTRIBUTES
	case enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION:
		return enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_COMPLETE_WORKFLOW_EXECUTION_ATTRIBUTES
	case enumspb.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION:
		return enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_FAIL_WORKFLOW_EXECUTION_ATTRIBUTES
	case enumspb.COMMAND_TYPE_CANCEL_WORKFLOW_EXECUTION:
		return enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_CANCEL_WORKFLOW_EXECUTION_ATTRIBUTES
	case enumspb.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION:
		return enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_CONTINUE_AS_NEW_ATTRIBUTES
	default:
		return enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNSPECIFIED
	}
}

// typeOf returns the type of the command that has such attributes.
func typeOf(c *commandpb.Command) enumspb.CommandType {
	switch c.GetAttributes().(type) {
	case *commandpb.Command_ScheduleActivityTaskCommandAttributes:
		return enumspb.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK
	case *commandpb.Command_RequestCancelActivityTaskCommandAttributes:
		return enumspb.COMMAND_TYPE_REQUEST_CANCEL_ACTIVITY_TASK
	case *commandpb.Command_StartTimerCommandAttributes:
		return enumspb.COMMAND_TYPE_START_TIMER
	case *commandpb.Command_CancelTimerCommandAttributes:
		return enumspb.COMMAND_TYPE_CANCEL_TIMER
	case *commandpb.Command_StartChildWorkflowExecutionCommandAttributes:
		return enumspb.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION
	case *commandpb.Command_SignalExternalWorkflowExecutionCommandAttributes:
		return enumspb.COMMAND_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION
	case *commandpb.Command_RequestCancelExternalWorkflowExecutionCommandAttributes:
		return enumspb.COMMAND_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION
	case *commandpb.Command_RecordMarkerCommandAttributes:
		return enumspb.COMMAND_TYPE_RECORD_MARKER
	case *commandpb.Command_UpsertWorkflowSearchAttributesCommandAttributes:
		return enumspb.COMMAND_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES
	case *commandpb.Command_ModifyWorkflowPropertiesCommandAttributes:
		return enumspb.COMMAND_TYPE_MODIFY_WORKFLOW_PROPERTIES
	case *commandpb.Command_CompleteWorkflowExecutionCommandAttributes:
		return enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION
	case *commandpb.Command_FailWorkflowExecutionCommandAttributes:
		return enumspb.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION
	case *commandpb.Command_CancelWorkflowExecutionCommandAttributes:
		return enumspb.COMMAND_TYPE_CANCEL_WORKFLOW_EXECUTION
	case *commandpb.Command_ContinueAsNewWorkflowExecutionCommandAttributes:
		return enumspb.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION
	case *commandpb.Command_ProtocolMessageCommandAttributes:
		return enumspb.COMMAND_TYPE_PROTOCOL_MESSAGE
	default: // one that is not known here is refused by its type
		return c.GetCommandType()
	}
}

// name returns the name of the step that a command begins: what it is, and the id of its event.
func (d *deciding) name(what string) string { return fmt.Sprintf("%s #%d", what, d.next) }

// schedule begins a step with what the worker has said of it.
func (d *deciding) schedule(spec *core.StepSpec, said proto.Message, lasts time.Duration) error {
	input, err := proto.Marshal(said)
	if err != nil {
		return err
	}
	spec.Def, spec.Input = -1, input
	d.out = append(d.out, core.Schedule{Spec: spec, Item: -1, Group: core.NoStep, For: lasts})
	return nil
}

func (d *deciding) activity(said *commandpb.ScheduleActivityTaskCommandAttributes) *badCommand {
	const cause = enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_SCHEDULE_ACTIVITY_ATTRIBUTES
	a := proto.Clone(said).(*commandpb.ScheduleActivityTaskCommandAttributes)
	switch open := d.fold.ActivityOf(a.ActivityId); {
	case a.ActivityId == "":
		return bad(cause, "ActivityId is not set on command")
	case a.GetActivityType().GetName() == "":
		return bad(cause, "ActivityType is not set on command")
	case open != nil && !open.Closed, d.acts[a.ActivityId] != "":
		return bad(enumspb.WORKFLOW_TASK_FAILED_CAUSE_SCHEDULE_ACTIVITY_DUPLICATE_ID,
			"an activity %q is open", a.ActivityId)
	case a.ScheduleToCloseTimeout.AsDuration() <= 0 && a.StartToCloseTimeout.AsDuration() <= 0:
		return bad(cause, "a valid StartToClose or ScheduleToCloseTimeout is not set on command")
	}
	limits, err := convert.Policy(a)
	if err != nil {
		return bad(cause, "%v", err)
	}
	convert.FillActivity(a, d.fold.Start())
	spec := &core.StepSpec{
		Name: d.name(a.ActivityType.Name), Kind: core.KindTask, Queue: convert.QueuePrefix + a.TaskQueue.GetName(),
		Type: a.ActivityType.Name, Policy: limits,
	}
	if key := convert.Priority(d.fold.Start().GetPriority(), a.Priority).GetPriorityKey(); key != 0 {
		spec.Priority = usualPriority - key
	}
	if err := d.schedule(spec, a, 0); err != nil {
		return bad(cause, "%v", err)
	}
	d.acts[a.ActivityId], d.at[d.next] = spec.Name, spec.Name
	return nil
}

// usualPriority is the key of what has no priority. There 1 comes first.
const usualPriority = 3

func (d *deciding) cancelActivity(event int64) *badCommand {
	name := d.at[event]
	if s := d.fold.ScheduledAt(event); s != nil {
		name = s.Name
	}
	if name == "" {
		return bad(enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_REQUEST_CANCEL_ACTIVITY_ATTRIBUTES,
			"no activity was scheduled by event %d", event)
	}
	d.out = append(d.out, core.CancelStep{Key: name, Ask: true})
	return nil
}

func (d *deciding) startTimer(a *commandpb.StartTimerCommandAttributes) *badCommand {
	const cause = enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_START_TIMER_ATTRIBUTES
	lasts := a.StartToFireTimeout.AsDuration()
	switch open := d.fold.TimerOf(a.TimerId); {
	case a.TimerId == "":
		return bad(cause, "TimerId is not set on command")
	case lasts <= 0:
		return bad(cause, "a valid StartToFireTimeout is not set on command")
	case open != nil && !open.Closed, d.timer[a.TimerId] != "":
		return bad(enumspb.WORKFLOW_TASK_FAILED_CAUSE_START_TIMER_DUPLICATE_ID, "a timer %q is open", a.TimerId)
	}
	spec := &core.StepSpec{Name: d.name("timer"), Kind: core.KindSleep}
	if err := d.schedule(spec, a, max(lasts, time.Microsecond)); err != nil {
		return bad(cause, "%v", err)
	}
	d.timer[a.TimerId] = spec.Name
	return nil
}

func (d *deciding) cancelTimer(id string) *badCommand {
	name, begun := d.timer[id]
	if s := d.fold.TimerOf(id); !begun && s != nil {
		name = s.Name
	}
	if name == "" {
		return bad(enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_CANCEL_TIMER_ATTRIBUTES, "there is no timer %q", id)
	}
	d.timer[id] = ""
	d.out = append(d.out, core.CancelStep{Key: name})
	return nil
}

// close ends the run.
func (d *deciding) close(c core.Close) *badCommand {
	d.out = append(d.out, c)
	return nil
}

func (d *deciding) failRun(failure *failurepb.Failure) *badCommand {
	f, err := convert.FailureOf(failure)
	if err != nil {
		return bad(enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_FAIL_WORKFLOW_EXECUTION_ATTRIBUTES, "%v", err)
	}
	return d.close(core.Close{Phase: core.RunFailed, Failure: f})
}

func (d *deciding) cancelRun(a *commandpb.CancelWorkflowExecutionCommandAttributes) *badCommand {
	f, err := convert.Cancelled(a.GetDetails())
	if err != nil {
		return bad(enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_CANCEL_WORKFLOW_EXECUTION_ATTRIBUTES, "%v", err)
	}
	return d.close(core.Close{Phase: core.RunCancelled, Failure: f})
}
