package zart_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dialect/zart"
	_ "github.com/pawl-dev/pawl/journal/memory"
)

func Example() {
	ctx := context.Background()
	ship := pawl.Define("ship", func(ctx pawl.Context, id string) (string, error) {
		_, err := pawl.Step(ctx, "weigh", func(ctx context.Context) (int, error) {
			<-ctx.Done() // the scale hangs
			return 0, ctx.Err()
		}, zart.Step(zart.StepAttributes{Timeout: "1s", TimeoutScope: zart.PerAttempt, Retry: "fixed(3, 1s)"}))
		if errors.Is(err, pawl.ErrTimedOut) {
			return id + " goes unweighed: a timeout is terminal", nil
		}
		return "", err
	}, zart.Handler(zart.HandlerAttributes{Timeout: "30m"}))

	eng, err := pawl.Open(ctx, pawl.Config{Database: "memory:"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = eng.Close() }()
	run, err := ship.Start(ctx, eng, "ship-17", "ship-17")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: ship-17 goes unweighed: a timeout is terminal <nil>
}
