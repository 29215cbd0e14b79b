package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Adds adds what updates bring, each with an activity, until it is told to end. It rejects what is negative.
func Adds(ctx workflow.Context) (int, error) {
	total, over := 0, false
	add := func(ctx workflow.Context, n int) (int, error) {
		var text string
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, usual), Greet, "add").Get(ctx, &text)
		if err != nil {
			return 0, err
		}
		total += n
		return total, nil
	}
	positive := workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, n int) error {
		if n < 0 {
			return temporal.NewApplicationError("it is negative", "Negative")
		}
		return nil
	}}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, "add", add, positive); err != nil {
		return 0, err
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
		over = true
	})
	err := workflow.Await(ctx, func() bool { return over && workflow.AllHandlersFinished(ctx) })
	return total, err
}

// update sends an update until there is an outcome, with one id: the server may be away.
func update(ctx context.Context, c client.Client, id, name string, n int) (out int, err error) {
	for {
		h, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			UpdateID: name, WorkflowID: id, UpdateName: "add", Args: []any{n},
			WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = h.Get(ctx, &out)
		}
		var rejected *temporal.ApplicationError
		if err == nil || errors.As(err, &rejected) || ctx.Err() != nil {
			return out, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func updates(ctx context.Context, c client.Client, id string) error {
	err := again(ctx, func() error {
		first := c.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
			ID: id, TaskQueue: queue, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		}, Adds)
		_, err := c.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
			StartWorkflowOperation: first, UpdateOptions: client.UpdateWorkflowOptions{
				UpdateID: "first", UpdateName: "add", Args: []any{1}, WaitForStage: client.WorkflowUpdateStageAccepted,
			},
		})
		return err
	})
	if err != nil {
		return err
	}
	for i := range 3 {
		if _, err := update(ctx, c, id, fmt.Sprint("more-", i), 1); err != nil {
			return err
		}
		var rejected *temporal.ApplicationError
		_, err := update(ctx, c, id, fmt.Sprint("no-", i), -1)
		if !errors.As(err, &rejected) || rejected.Type() != "Negative" {
			return fmt.Errorf("an update that is to be rejected: %w", err)
		}
	}
	if err := sent(ctx, func() error { return c.SignalWorkflow(ctx, id, "", "end", nil) }); err != nil {
		return err
	}
	total := 0
	if err := result(ctx, c.GetWorkflow(ctx, id, ""), &total); err != nil || total != 4 {
		return fmt.Errorf("it counted %d, %w", total, err)
	}
	return nil
}

// resets resets a run that has ended to its first task: the event that came later is applied again.
func resets(ctx context.Context, c client.Client, id string) error {
	if err := signals(ctx, c, id); err != nil {
		return err
	}
	var made *workflowservice.ResetWorkflowExecutionResponse
	var first int64
	err := again(ctx, func() (err error) {
		first, err = firstTask(ctx, c, id)
		return err
	})
	if err != nil {
		return err
	}
	err = again(ctx, func() (err error) {
		made, err = c.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
			Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id}, Reason: "again",
			WorkflowTaskFinishEventId: first, RequestId: "reset-" + id,
		})
		return err
	})
	if err != nil {
		return err
	}
	var got string
	if err := result(ctx, c.GetWorkflow(ctx, id, made.RunId), &got); err != nil || got != "signalled" {
		return fmt.Errorf("after the reset it gave %q, %w", got, err)
	}
	return nil
}

// firstTask returns the id of the event that ends the first workflow task of a run.
func firstTask(ctx context.Context, c client.Client, id string) (int64, error) {
	events := c.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return 0, err
		}
		if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			return e.EventId, nil
		}
	}
	return 0, errors.New("no workflow task was answered")
}
