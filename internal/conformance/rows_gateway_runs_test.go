package conformance

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawl-dev/pawl/internal/temporal"
)

func init() {
	rows["W7"] = gatewayChildren
	rows["W8"] = gatewaySends
	rows["W9"] = gatewayChains
}

// children is the task queue of child workflows.
var children = &taskqueuepb.TaskQueue{Name: "kids"}

func childCommand(
	id string, change func(a *commandpb.StartChildWorkflowExecutionCommandAttributes),
) *commandpb.Command {
	a := &commandpb.StartChildWorkflowExecutionCommandAttributes{
		WorkflowId: id, WorkflowType: &commonpb.WorkflowType{Name: "Child"}, TaskQueue: children,
	}
	if change != nil {
		change(a)
	}
	return &commandpb.Command{
		CommandType: enumspb.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION,
		Attributes: &commandpb.Command_StartChildWorkflowExecutionCommandAttributes{
			StartChildWorkflowExecutionCommandAttributes: a,
		},
	}
}

// endCommand makes a command that ends a workflow: complete, fail, cancel or new.
func endCommand(how string) *commandpb.Command {
	c := &commandpb.Command{}
	switch how {
	case "complete":
		c.CommandType = enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION
		c.Attributes = &commandpb.Command_CompleteWorkflowExecutionCommandAttributes{
			CompleteWorkflowExecutionCommandAttributes: &commandpb.CompleteWorkflowExecutionCommandAttributes{
				Result: &commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: []byte("done")}}},
			},
		}
	case "fail":
		c.CommandType = enumspb.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION
		c.Attributes = &commandpb.Command_FailWorkflowExecutionCommandAttributes{
			FailWorkflowExecutionCommandAttributes: &commandpb.FailWorkflowExecutionCommandAttributes{
				Failure: gatewayFailure("fail", "Wrong"),
			},
		}
	case "cancel":
		c.CommandType = enumspb.COMMAND_TYPE_CANCEL_WORKFLOW_EXECUTION
		c.Attributes = &commandpb.Command_CancelWorkflowExecutionCommandAttributes{
			CancelWorkflowExecutionCommandAttributes: &commandpb.CancelWorkflowExecutionCommandAttributes{},
		}
	case "new":
		c.CommandType = enumspb.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION
		a := &commandpb.ContinueAsNewWorkflowExecutionCommandAttributes{}
		c.Attributes = &commandpb.Command_ContinueAsNewWorkflowExecutionCommandAttributes{
			ContinueAsNewWorkflowExecutionCommandAttributes: a,
		}
	}
	return c
}

// answerOn takes a workflow task of a queue and answers it.
func (g *gateway) answerOn(queue *taskqueuepb.TaskQueue, c ...*commandpb.Command) {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), 2*time.Second)
	defer cancel()
	task, err := g.front.PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: temporal.Namespace, TaskQueue: queue,
	})
	if err == nil {
		_, err = g.front.RespondWorkflowTaskCompleted(ctx, &workflowservice.RespondWorkflowTaskCompletedRequest{
			TaskToken: task.TaskToken, Commands: c,
		})
	}
	if err != nil {
		g.Fatal(err)
	}
	synctest.Wait()
}

// end ends the newest run of a workflow id: its worker does so, an operator, or its run timeout.
func (g *gateway) end(id string, queue *taskqueuepb.TaskQueue, how string) {
	g.Helper()
	switch how {
	case "terminate":
		_, err := g.front.TerminateWorkflowExecution(g.Context(), &workflowservice.TerminateWorkflowExecutionRequest{
			WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id},
		})
		if err != nil {
			g.Fatal(err)
		}
	case "timeout":
		<-time.After(time.Minute)
	default:
		g.answerOn(queue, endCommand(how))
	}
	synctest.Wait()
}

// of returns the history of the newest run of a workflow id, without the events of workflow tasks.
func (g *gateway) of(id string) []*historypb.HistoryEvent {
	g.Helper()
	out, err := g.front.GetWorkflowExecutionHistory(g.Context(), &workflowservice.GetWorkflowExecutionHistoryRequest{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id},
	})
	if err != nil {
		g.Fatal(err)
	}
	return slices.DeleteFunc(out.History.Events, func(e *historypb.HistoryEvent) bool {
		return strings.HasPrefix(e.EventType.String(), "WorkflowTask")
	})
}

// newest tells the last event of the newest run of a workflow id.
func (g *gateway) newest(id string) string {
	g.Helper()
	events := g.of(id)
	e := events[len(events)-1]
	out := e.EventType.String()
	for _, more := range []string{
		e.GetChildWorkflowExecutionFailedEventAttributes().GetRetryState().String(),
		e.GetChildWorkflowExecutionTimedOutEventAttributes().GetRetryState().String(),
		e.GetStartChildWorkflowExecutionFailedEventAttributes().GetCause().String(),
		e.GetSignalExternalWorkflowExecutionFailedEventAttributes().GetCause().String(),
		e.GetRequestCancelExternalWorkflowExecutionFailedEventAttributes().GetCause().String(),
	} {
		if more != "Unspecified" {
			out += " " + more
		}
	}
	return out
}

// gatewayChildren shows what a parent hears of the end of its child, and a child of the end of its parent.
func gatewayChildren(t *testing.T) {
	for _, c := range []struct {
		ends     string // how the runs of the child's chain end
		attempts int32
		want     string
	}{
		{"complete", 0, "ChildWorkflowExecutionCompleted"},
		{"fail", 0, "ChildWorkflowExecutionFailed RetryPolicyNotSet"},
		{"fail fail", 2, "ChildWorkflowExecutionFailed MaximumAttemptsReached"},
		{"fail complete", 2, "ChildWorkflowExecutionCompleted"},
		{"new new complete", 0, "ChildWorkflowExecutionCompleted"},
		{"cancel", 0, "ChildWorkflowExecutionCanceled"},
		{"terminate", 0, "ChildWorkflowExecutionTerminated"},
		{"timeout", 0, "ChildWorkflowExecutionTimedOut RetryPolicyNotSet"},
	} {
		onGateway(t, &workflowservice.StartWorkflowExecutionRequest{}, nil, "", func(g *gateway) {
			g.answer(childCommand("kid", func(a *commandpb.StartChildWorkflowExecutionCommandAttributes) {
				a.WorkflowRunTimeout = durationpb.New(time.Minute)
				if c.attempts > 0 {
					a.RetryPolicy = &commonpb.RetryPolicy{MaximumAttempts: c.attempts}
				}
			}))
			synctest.Wait()
			if got := g.newest("w"); got != "ChildWorkflowExecutionStarted" {
				g.Fatalf("the child is there, and the parent hears %s", got)
			}
			for i, how := range strings.Fields(c.ends) {
				if i > 0 {
					<-time.After(time.Second)
				}
				g.end("kid", children, how)
			}
			if got := g.newest("w"); got != c.want {
				g.Errorf("the child ends with %s: the parent hears %s, not %s", c.ends, got, c.want)
			}
		})
	}
	for _, c := range []struct {
		close enumspb.ParentClosePolicy
		ends  string
		want  string
	}{
		{enumspb.PARENT_CLOSE_POLICY_UNSPECIFIED, "complete fail timeout new", "WorkflowExecutionTerminated"},
		{enumspb.PARENT_CLOSE_POLICY_TERMINATE, "complete fail timeout terminate", "WorkflowExecutionTerminated"},
		{enumspb.PARENT_CLOSE_POLICY_ABANDON, "complete fail timeout terminate new", "WorkflowExecutionStarted"},
		{
			enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL, "complete fail timeout terminate new",
			"WorkflowExecutionCancelRequested",
		},
	} {
		for _, how := range strings.Fields(c.ends) {
			start := &workflowservice.StartWorkflowExecutionRequest{WorkflowRunTimeout: durationpb.New(time.Minute)}
			onGateway(t, start, nil, "", func(g *gateway) {
				g.answer(childCommand("kid", func(a *commandpb.StartChildWorkflowExecutionCommandAttributes) {
					a.ParentClosePolicy = c.close
				}))
				synctest.Wait()
				g.end("w", gatewayQueue, how)
				if got := g.newest("kid"); got != c.want {
					g.Errorf("%s: the parent ends with %s, and the child hears %s, not %s", c.close, how, got, c.want)
				}
			})
		}
	}
	gatewayChildIDs(t)
}

// gatewayChildIDs shows what the start of a child becomes whose workflow id another run has, or had.
func gatewayChildIDs(t *testing.T) {
	const started, refused = "ChildWorkflowExecutionStarted", "StartChildWorkflowExecutionFailed WorkflowAlreadyExists"
	const older = enumspb.WORKFLOW_ID_REUSE_POLICY_TERMINATE_IF_RUNNING //nolint:staticcheck // older programs say it so
	for _, c := range []struct {
		reuse enumspb.WorkflowIdReusePolicy
		other string // how the other run has ended; empty: it is open
		want  string
	}{
		{enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, "", refused},
		{enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, "complete", started},
		{enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY, "complete", refused},
		{enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY, "fail", started},
		{enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY, "terminate", started},
		{enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, "fail", refused},
		{older, "", started},
		{older, "complete", started},
	} {
		onGateway(t, &workflowservice.StartWorkflowExecutionRequest{}, nil, "", func(g *gateway) {
			g.answer(childCommand("other", nil))
			synctest.Wait()
			if c.other != "" {
				g.end("other", children, c.other)
			}
			g.answer(childCommand("other", func(a *commandpb.StartChildWorkflowExecutionCommandAttributes) {
				a.WorkflowIdReusePolicy = c.reuse
			}))
			synctest.Wait()
			if got := g.newest("w"); got != c.want && !(c.reuse == older && got == "ChildWorkflowExecutionTerminated") {
				g.Errorf("%s, the other run %q: the parent hears %s, not %s", c.reuse, c.other, got, c.want)
			}
		})
	}
}

// sendCommand makes a command that sends a signal, or a request to cancel.
func sendCommand(signal bool, id, run string, onlyChild bool) *commandpb.Command {
	if signal {
		return &commandpb.Command{
			CommandType: enumspb.COMMAND_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION,
			Attributes: &commandpb.Command_SignalExternalWorkflowExecutionCommandAttributes{
				SignalExternalWorkflowExecutionCommandAttributes: &commandpb.
					SignalExternalWorkflowExecutionCommandAttributes{
					Execution:  &commonpb.WorkflowExecution{WorkflowId: id, RunId: run},
					SignalName: "hello", ChildWorkflowOnly: onlyChild,
				},
			},
		}
	}
	return &commandpb.Command{
		CommandType: enumspb.COMMAND_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION,
		Attributes: &commandpb.Command_RequestCancelExternalWorkflowExecutionCommandAttributes{
			RequestCancelExternalWorkflowExecutionCommandAttributes: &commandpb.
				RequestCancelExternalWorkflowExecutionCommandAttributes{
				WorkflowId: id, RunId: run, ChildWorkflowOnly: onlyChild,
			},
		},
	}
}

// gatewaySends shows that a signal, or a request to cancel, to another run is delivered once, or the sender hears why
// not.
func gatewaySends(t *testing.T) {
	const nobody = "0199d2c3-1a2b-7cde-9f01-0a0b0c0d0e0f"
	for _, signal := range []bool{true, false} {
		delivered, heard := "ExternalWorkflowExecutionSignaled", enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
		refused := "SignalExternalWorkflowExecutionFailed ExternalWorkflowExecutionNotFound"
		if !signal {
			delivered = "ExternalWorkflowExecutionCancelRequested"
			heard = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED
			refused = "RequestCancelExternalWorkflowExecutionFailed ExternalWorkflowExecutionNotFound"
		}
		for _, c := range []struct {
			id, run   string
			onlyChild bool
			ended     bool // the receiver has ended
			want      string
		}{
			{id: "kid", want: delivered},
			{id: "kid", onlyChild: true, want: delivered},
			{id: "kid", run: "its", want: delivered},
			{id: "other", want: delivered},
			{id: "other", onlyChild: true, want: refused},
			{id: "kid", ended: true, want: refused},
			{id: "kid", ended: true, onlyChild: true, want: refused},
			{id: "kid", run: nobody, want: refused},
			{id: "nobody", want: refused},
		} {
			onGateway(t, &workflowservice.StartWorkflowExecutionRequest{}, nil, "", func(g *gateway) {
				_, err := g.front.StartWorkflowExecution(g.Context(), &workflowservice.StartWorkflowExecutionRequest{
					WorkflowId: "other", WorkflowType: &commonpb.WorkflowType{Name: "Other"},
					TaskQueue: &taskqueuepb.TaskQueue{Name: "others"},
				})
				if err != nil {
					g.Fatal(err)
				}
				g.answer(childCommand("kid", nil))
				synctest.Wait()
				if c.ended {
					g.end("kid", children, "complete")
				}
				if c.run == "its" {
					c.run = g.of("kid")[0].GetWorkflowExecutionStartedEventAttributes().OriginalExecutionRunId
				}
				g.answer(sendCommand(signal, c.id, c.run, c.onlyChild))
				synctest.Wait()
				if got := g.newest("w"); got != c.want {
					g.Errorf("sent to %s %s: the sender hears %s, not %s", c.id, c.run, got, c.want)
				}
				got, want := 0, 0
				if c.want == delivered {
					want = 1
				}
				for _, id := range []string{"kid", "other"} {
					for _, e := range g.of(id) {
						if e.EventType == heard {
							got++
						}
					}
				}
				if got != want {
					g.Errorf("sent to %s %s: it came %d times, not %d", c.id, c.run, got, want)
				}
			})
		}
	}
}

// gatewayChains shows what the runs of a chain are told of those before them.
func gatewayChains(t *testing.T) {
	start := &workflowservice.StartWorkflowExecutionRequest{
		CronSchedule: "*/10 * * * *", RetryPolicy: &commonpb.RetryPolicy{MaximumAttempts: 2},
	}
	onGateway(t, start, nil, "", func(g *gateway) {
		first := ""
		for i, c := range []struct {
			end       string
			initiator enumspb.ContinueAsNewInitiator
			attempt   int32
			backoff   time.Duration
			result    bool // the chain has a result already
			failure   bool // the run before has failed
		}{
			// The clock stands at a firing.
			{"fail", enumspb.CONTINUE_AS_NEW_INITIATOR_UNSPECIFIED, 1, 10 * time.Minute, false, false},
			{"fail", enumspb.CONTINUE_AS_NEW_INITIATOR_RETRY, 2, time.Second, false, true},
			{"complete", enumspb.CONTINUE_AS_NEW_INITIATOR_CRON_SCHEDULE, 1, 10*time.Minute - time.Second, false, true},
			{"fail", enumspb.CONTINUE_AS_NEW_INITIATOR_CRON_SCHEDULE, 1, 10 * time.Minute, true, false},
			{"cancel", enumspb.CONTINUE_AS_NEW_INITIATOR_RETRY, 2, time.Second, true, true},
		} {
			a := g.of("w")[0].GetWorkflowExecutionStartedEventAttributes()
			if i == 0 {
				first = a.OriginalExecutionRunId
			}
			if a.Initiator != c.initiator || a.Attempt != c.attempt || a.FirstExecutionRunId != first {
				g.Errorf("run %d: %s, attempt %d, after %s", i, a.Initiator, a.Attempt, a.FirstExecutionRunId)
			}
			if d := a.FirstWorkflowTaskBackoff.AsDuration(); d != c.backoff {
				g.Errorf("run %d begins after %s, not %s", i, d, c.backoff)
			}
			if result, failure := a.LastCompletionResult != nil, a.ContinuedFailure != nil; result != c.result ||
				failure != c.failure {
				g.Errorf("run %d: it knows a result: %t, a failure: %t", i, result, failure)
			}
			<-time.After(c.backoff)
			synctest.Wait()
			g.end("w", gatewayQueue, c.end)
		}
		if got := g.newest("w"); got != "WorkflowExecutionCanceled" {
			g.Errorf("the last run of the chain is not cancelled, but %s", got)
		}
	})
}
