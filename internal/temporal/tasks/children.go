package tasks

import (
	commandpb "go.temporal.io/api/command/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
	"github.com/pawl-dev/pawl/internal/temporal/history"
)

// child begins a child workflow.
func (d *deciding) child(said *commandpb.StartChildWorkflowExecutionCommandAttributes) *badCommand {
	const cause = enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_START_CHILD_EXECUTION_ATTRIBUTES
	a := proto.Clone(said).(*commandpb.StartChildWorkflowExecutionCommandAttributes)
	switch {
	case a.WorkflowId == "":
		return bad(cause, "WorkflowId is not set on command")
	case len(a.WorkflowId) > maxID:
		return bad(cause, "WorkflowId length exceeds limit")
	case a.GetWorkflowType().GetName() == "":
		return bad(cause, "WorkflowType is not set on command")
	case d.isOther(a.Namespace):
		return bad(cause, "there is no namespace %q here", a.Namespace)
	}
	if a.RetryPolicy != nil {
		a.RetryPolicy = convert.FillRetry(a.RetryPolicy)
	}
	if a.TaskQueue.GetName() == "" {
		a.TaskQueue = d.fold.Start().GetTaskQueue()
	}
	if _, err := convert.Rules(convert.ChildStart(a, d.fold.Start())); err != nil {
		return bad(cause, "%v", err)
	}
	spec := &core.StepSpec{Name: d.name(a.WorkflowType.Name), Kind: core.KindChild}
	if err := d.schedule(spec, a, 0); err != nil {
		return bad(cause, "%v", err)
	}
	d.children[a.WorkflowId] = spec.Name
	return nil
}

// maxID bounds the ids that workers choose.
const maxID = 1000

// isOther reports whether a worker names another namespace than that of its workflow.
func (d *deciding) isOther(namespace string) bool { return namespace != "" && namespace != d.namespace }

// signalRun sends an event to another run.
func (d *deciding) signalRun(a *commandpb.SignalExternalWorkflowExecutionCommandAttributes) *badCommand {
	const cause = enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_SIGNAL_WORKFLOW_EXECUTION_ATTRIBUTES
	payload, err := convert.Signal(a.Input, a.Header)
	switch {
	case err != nil:
		return bad(cause, "%v", err)
	case a.SignalName == "":
		return bad(cause, "SignalName is not set on command")
	case d.isOther(a.Namespace):
		return bad(cause, "there is no namespace %q here", a.Namespace)
	}
	return d.send(cause, history.SendSignal, a, core.Sent{
		WorkflowID: a.GetExecution().GetWorkflowId(), OfChild: a.ChildWorkflowOnly, Name: a.SignalName,
		Payload: payload,
	}, a.GetExecution().GetRunId())
}

// cancelAnother asks another run to cancel.
func (d *deciding) cancelAnother(a *commandpb.RequestCancelExternalWorkflowExecutionCommandAttributes) *badCommand {
	const cause = enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_ATTRIBUTES
	if d.isOther(a.Namespace) {
		return bad(cause, "there is no namespace %q here", a.Namespace)
	}
	return d.send(cause, history.SendCancel, a, core.Sent{
		WorkflowID: a.WorkflowId, OfChild: a.ChildWorkflowOnly, Cancel: true, Reason: a.Reason,
	}, a.RunId)
}

// send begins a step that sends something to a run: to one of that id, to a child, or to the open one.
func (d *deciding) send(
	cause enumspb.WorkflowTaskFailedCause, how string, said proto.Message, what core.Sent, run string,
) *badCommand {
	if what.WorkflowID == "" {
		return bad(cause, "WorkflowId is not set on command")
	}
	if run != "" {
		id, err := core.ParseRunID(run)
		if err != nil {
			return bad(cause, "Invalid RunId set on command")
		}
		what.Run = id
	}
	what.Actor = d.fold.WorkflowID
	cmd := core.SendTo{What: what}
	if what.OfChild { // a run that a reset made has children that name the run before it as their parent
		cmd.What.Run = core.RunID{}
		cmd.ChildOf = d.children[what.WorkflowID]
		if s := d.fold.ChildOf(what.WorkflowID); s != nil && cmd.ChildOf == "" {
			cmd.ChildOf = s.Name
		}
	}
	input, err := proto.Marshal(said)
	if err != nil {
		return bad(cause, "%v", err)
	}
	cmd.Spec = &core.StepSpec{Name: d.name(how), Def: -1, Kind: core.KindSend, Type: how, Input: input}
	d.out = append(d.out, cmd)
	return nil
}
