package main

import (
	"context"
	"fmt"

	"github.com/rogpeppe/go-internal/testscript"
	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// sdk asks a server as Temporal's SDKs do. It is a command of scripts: `sdk ADDRESS start ID` starts a workflow, `sdk
// ADDRESS work` is a worker that ends one, and `sdk ADDRESS end ID` prints how it has ended.
func sdk(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: sdk ADDRESS start|work|end [ID]")
	}
	conn, err := grpc.NewClient(args[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	ts.Check(err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := sdkCall(ctx, workflowservice.NewWorkflowServiceClient(conn), args[1:])
	if neg == (err == nil) {
		ts.Fatalf("sdk %v: %v", args, err)
	}
	_, err = ts.Stdout().Write([]byte(out))
	ts.Check(err)
}

func sdkCall(ctx context.Context, c workflowservice.WorkflowServiceClient, args []string) (string, error) {
	const namespace = "default"
	queue := &taskqueuepb.TaskQueue{Name: "desk"}
	switch args[0] {
	case "start":
		started, err := c.StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{
			Namespace: namespace, WorkflowId: args[1], WorkflowType: &commonpb.WorkflowType{Name: "hello"},
			TaskQueue: queue, RequestId: args[1],
		})
		return started.GetRunId() + "\n", err
	case "work":
		task, err := c.PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{
			Namespace: namespace, TaskQueue: queue, Identity: "script",
		})
		if err != nil {
			return "", err
		}
		done := &commandpb.CompleteWorkflowExecutionCommandAttributes{}
		_, err = c.RespondWorkflowTaskCompleted(ctx, &workflowservice.RespondWorkflowTaskCompletedRequest{
			Namespace: namespace, TaskToken: task.TaskToken, Commands: []*commandpb.Command{{
				CommandType: enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION,
				Attributes: &commandpb.Command_CompleteWorkflowExecutionCommandAttributes{
					CompleteWorkflowExecutionCommandAttributes: done,
				},
			}},
		})
		return task.WorkflowExecution.GetWorkflowId() + "\n", err
	default:
		history, err := c.GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
			Namespace: namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: args[1]},
			WaitNewEvent: true, HistoryEventFilterType: enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
		})
		var out string
		for _, e := range history.GetHistory().GetEvents() {
			out += fmt.Sprintln(e.EventType)
		}
		return out, err
	}
}
