// Package texts has texts that the engine would refuse, and types that cannot be recorded.
package texts

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

var config = pawl.Config{Services: map[string]policy.QueueLimits{"bank": {Concurrency: 3}}}

const nap = "90s"

func save(context.Context) error { return nil }

func body(ctx pawl.Context, in string) (int, error) {
	_ = pawl.Do(ctx, "a", save, pawl.Retry("exponental(5, 1s)")) // want `pawl.Retry gets no policy that the engine can read`
	_ = pawl.Do(ctx, "b", save, pawl.Timeout("5 minuten"))       // want `pawl.Timeout gets no length of time`
	_ = pawl.Sleep(ctx, "c", "10")                               // want `pawl.Sleep gets "10", which is milliseconds`
	_ = pawl.Do(ctx, "d", save, pawl.Service("bnak"))            // want `no Config.Services of this package has a service "bnak"`
	_ = pawl.Do(ctx, "e", save, pawl.Service("bank"), pawl.Retry("fixed(3, 1s)"), pawl.Timeout(time.Minute))
	_ = pawl.Do(ctx, "f", save, pawl.Service(in), pawl.Retry(in), pawl.Timeout(in))
	return 0, pawl.Sleep(ctx, "g", nap)
}

type order struct {
	Lines []line
	Done  chan struct{}
}

type line struct {
	Name  string
	Then  func() `json:"-"`
	inner chan int
	Next  *line
}

type own struct{ Then func() }

func (own) MarshalJSON() ([]byte, error) { return nil, nil }

var (
	_ = pawl.Define("w", body, pawl.RunRetry("twice"), pawl.RunTimeout("soon"))    // want `pawl.RunRetry gets no policy` `pawl.RunTimeout gets no length`
	_ = pawl.Define("x", func(pawl.Context, order) (int, error) { return 0, nil }) // want `pawl.Define has a value of type order, and a channel \(in the field Done\) cannot be recorded`
	_ = pawl.Define("y", func(pawl.Context, line) (own, error) { return own{}, nil })
	_ = pawl.Define("z", func(pawl.Context, int) (func(), error) { return nil, nil }) // want `pawl.Define has a value of type func\(\), and a function cannot be recorded`
)

// steps names its steps in two ways.
func steps(ctx pawl.Context, _ int) (int, error) {
	if err := pawl.Do(ctx, "charge", nothing); err != nil {
		return 0, err
	}
	return 0, pawl.Do(ctx, fmt.Sprintf("load-%d", 1), nothing)
}

func nothing(context.Context) error { return nil }

const ship = "ship"

var _ = pawl.Define("steps", steps,
	pawl.ForStep("chrage", pawl.Timeout("1m")), // want `no step of this package has the name "chrage": did you mean "charge"\?`
	pawl.ForStep("charge", pawl.Timeout("1m")), pawl.ForStep("load-1", pawl.Timeout("1m")),
	pawl.ForStep(ship, pawl.Timeout("1m")))

const paid pawl.Event[complex128] = "paid" // want `pawl.Event has a value of type complex128, and a complex number`
