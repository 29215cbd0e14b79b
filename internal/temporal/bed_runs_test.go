package temporal

import (
	"cmp"
	"fmt"
	"strings"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// commandOfRuns makes a command of a worker that is about another run. It reports whether there is one of that name.
func commandOfRuns(c *commandpb.Command, what, name string, o options) bool {
	switch what {
	case "child":
		c.CommandType = enumspb.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION
		a := &commandpb.StartChildWorkflowExecutionCommandAttributes{
			WorkflowId: name, WorkflowType: &commonpb.WorkflowType{Name: "Child"}, Input: values(name),
			TaskQueue: &taskqueuepb.TaskQueue{Name: cmp.Or(o["queue"], "kids")}, WorkflowRunTimeout: duration(o["run"]),
			WorkflowExecutionTimeout: duration(o["execution"]), CronSchedule: strings.ReplaceAll(o["cron"], "_", " "),
			ParentClosePolicy: enumspb.ParentClosePolicy(
				enumspb.ParentClosePolicy_value["PARENT_CLOSE_POLICY_"+strings.ToUpper(o["close"])]),
			WorkflowIdReusePolicy: enumspb.WorkflowIdReusePolicy(
				enumspb.WorkflowIdReusePolicy_value["WORKFLOW_ID_REUSE_POLICY_"+strings.ToUpper(o["reuse"])]),
		}
		if _, is := o["retry"]; is {
			a.RetryPolicy = retry(o)
		}
		c.Attributes = &commandpb.Command_StartChildWorkflowExecutionCommandAttributes{
			StartChildWorkflowExecutionCommandAttributes: a,
		}
	case "signal-run":
		c.CommandType = enumspb.COMMAND_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION
		a := &commandpb.SignalExternalWorkflowExecutionCommandAttributes{
			Execution:  &commonpb.WorkflowExecution{WorkflowId: name, RunId: o["id"]},
			SignalName: "hello", Input: values("signal"), ChildWorkflowOnly: o["child"] != "",
		}
		c.Attributes = &commandpb.Command_SignalExternalWorkflowExecutionCommandAttributes{
			SignalExternalWorkflowExecutionCommandAttributes: a,
		}
	case "cancel-run":
		c.CommandType = enumspb.COMMAND_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION
		c.Attributes = &commandpb.Command_RequestCancelExternalWorkflowExecutionCommandAttributes{
			RequestCancelExternalWorkflowExecutionCommandAttributes: &commandpb.
				RequestCancelExternalWorkflowExecutionCommandAttributes{
				WorkflowId: name, RunId: o["id"], ChildWorkflowOnly: o["child"] != "", Reason: "enough",
			},
		}
	case "new-as":
		c.CommandType = enumspb.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION
		a := &commandpb.ContinueAsNewWorkflowExecutionCommandAttributes{
			WorkflowType: &commonpb.WorkflowType{Name: name}, Input: values("next"),
			TaskQueue: &taskqueuepb.TaskQueue{Name: o["queue"]}, WorkflowRunTimeout: duration(o["run"]),
			WorkflowTaskTimeout: duration(o["task"]), BackoffStartInterval: duration(o["delay"]),
		}
		if _, is := o["retry"]; is {
			a.RetryPolicy = retry(o)
		}
		c.Attributes = &commandpb.Command_ContinueAsNewWorkflowExecutionCommandAttributes{
			ContinueAsNewWorkflowExecutionCommandAttributes: a,
		}
	default:
		return false
	}
	return true
}

// look looks at the newest run of a workflow id.
func (b *bed) look(id string) {
	b.left[b.run] = b.known
	b.id = id
	b.next()
	b.known = b.left[b.run]
}

// family tells who started the run, and whom it has started.
func (b *bed) family() string {
	b.Helper()
	out, err := b.server.DescribeWorkflowExecution(b.Context(), &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: Namespace, Execution: b.named(),
	})
	if err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	info := out.WorkflowExecutionInfo
	fmt.Fprintf(&text, "family: %s, parent %q, root %q\n", info.Status, info.ParentExecution.GetWorkflowId(),
		info.RootExecution.GetWorkflowId())
	for _, c := range out.PendingChildren {
		fmt.Fprintf(&text, "family: child %q of event %d, %s\n", c.WorkflowId, c.InitiatedId, c.ParentClosePolicy)
	}
	return text.String()
}

// remove removes a run: the newest one of a workflow id, or the one that is tried.
func (b *bed) remove(words []string) error {
	x := b.named()
	if len(words) > 0 {
		x = &commonpb.WorkflowExecution{WorkflowId: words[0]}
	}
	_, err := b.server.DeleteWorkflowExecution(b.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowExecution: x,
	})
	return err
}
