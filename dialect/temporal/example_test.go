package temporal_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dialect/temporal"
	_ "github.com/pawl-dev/pawl/journal/memory"
)

func Example() {
	ctx := context.Background()
	calls := 0
	order := pawl.Define("order", func(ctx pawl.Context, id string) (string, error) {
		return pawl.Step(ctx, "charge", func(context.Context) (string, error) {
			if calls++; calls < 3 {
				return "", errors.New("the bank is busy")
			}
			return fmt.Sprintf("%s charged at attempt %d", id, calls), nil
		}, temporal.Activity(temporal.ActivityOptions{
			StartToCloseTimeout: 10 * time.Second,
			RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Millisecond, MaximumAttempts: 5},
		}))
	}, temporal.Workflow(temporal.WorkflowOptions{WorkflowRunTimeout: time.Hour}))

	eng, err := pawl.Open(ctx, pawl.Config{Database: "memory:"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = eng.Close() }()
	run, err := order.Start(ctx, eng, "order-42", "order-42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: order-42 charged at attempt 3 <nil>
}

// ExampleWorkflow shows that wrong options are reported by the names of their fields, before anything runs.
func ExampleWorkflow() {
	order := pawl.Define("order", func(pawl.Context, string) (string, error) { return "", nil },
		temporal.Workflow(temporal.WorkflowOptions{WorkflowRunTimeout: -time.Second}))
	fmt.Println(order.Err())
	// Output: pawl: workflow "order": workflowRunTimeout: -1s is negative
}
