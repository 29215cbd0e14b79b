package main

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Workflows that begin others, send to them, and follow one another.

const (
	kids  = 3
	words = 4 // signals that each child sends
)

// Family begins children, each of which signals it some times, and counts what comes. Each signal comes once, however
// often the server is killed.
func Family(ctx workflow.Context, _ string) (string, error) {
	self := workflow.GetInfo(ctx).WorkflowExecution
	var all []workflow.ChildWorkflowFuture
	for i := range kids {
		kid := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID: fmt.Sprintf("%s-kid-%d", self.ID, i),
		})
		all = append(all, workflow.ExecuteChildWorkflow(kid, Kid, self.ID))
	}
	for _, kid := range all {
		if err := kid.Get(ctx, nil); err != nil {
			return "", err
		}
	}
	heard, n := workflow.GetSignalChannel(ctx, "word"), 0
	for heard.ReceiveAsync(nil) {
		n++
	}
	if n != kids*words {
		return "", fmt.Errorf("%d signals came, and not %d", n, kids*words)
	}
	return "all heard", nil
}

// Kid signals its parent.
func Kid(ctx workflow.Context, parent string) error {
	for range words {
		if err := workflow.SignalExternalWorkflow(ctx, parent, "", "word", nil).Get(ctx, nil); err != nil {
			return err
		}
		if err := workflow.Sleep(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

// Parent cancels its child, and waits until that has undone what it did.
func Parent(ctx workflow.Context, _ string) (string, error) {
	kid, cancel := workflow.WithCancel(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: workflow.GetInfo(ctx).WorkflowExecution.ID + "-kid", WaitForCancellation: true,
	}))
	child := workflow.ExecuteChildWorkflow(kid, Cancelled)
	if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		return "", err
	}
	cancel()
	var asked *temporal.CanceledError
	if err := child.Get(ctx, nil); err != nil && !errors.As(err, &asked) {
		return "", err
	}
	return "undone", nil
}

// Other continues as a workflow of another type.
func Other(ctx workflow.Context, name string) (string, error) {
	return "", workflow.NewContinueAsNewError(ctx, Hello, name)
}
