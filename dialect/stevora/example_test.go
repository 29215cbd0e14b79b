package stevora_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dialect/stevora"
	_ "github.com/pawl-dev/pawl/journal/memory"
	"github.com/pawl-dev/pawl/pawlflow"
)

// call is what a handler gets of the walk.
type call struct {
	Step    string         `json:"step"`
	Input   map[string]any `json:"input"`
	State   map[string]any `json:"state"`
	Attempt int            `json:"attempt"`
}

// result is what a handler gives back to it.
type result struct {
	StateUpdates map[string]any `json:"stateUpdates"`
}

// ExampleConvert runs a definition whose handlers are Go functions.
func ExampleConvert() {
	c, err := stevora.Convert(stevora.Source{
		Name: "order.json",
		Text: []byte(`{"name": "order", "version": "1", "steps": [
  {"type": "task", "name": "price", "handler": "price"},
  {"type": "condition", "name": "large", "expression": "large", "trueStep": "review", "falseStep": "charge"},
  {"type": "task", "name": "review", "handler": "review"},
  {"type": "task", "name": "charge", "handler": "charge", "retry": {"maxAttempts": 3, "backoffMs": 100}}]}`),
	},
		stevora.Source{Name: "handlers.yaml", Text: []byte(`
handlers:
  price:  {task: {queue: shop, type: Price}}
  review: {task: {queue: shop, type: Review}}
  charge: {task: {queue: shop, type: Charge}}
`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	order := pawlflow.Define[map[string]any, map[string]any](c.Flow)
	ctx := context.Background()
	eng, err := pawl.Open(ctx, pawl.Config{Database: "memory:", Workflows: []pawl.Definition{order}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = eng.Close() }()
	err = eng.Serve("shop", 4,
		pawl.Handle("Price", func(_ context.Context, c call) (result, error) {
			return result{map[string]any{"cents": c.Input["pieces"].(float64) * 450, "large": false}}, nil
		}),
		pawl.Handle("Review", func(context.Context, call) (result, error) {
			return result{},
				errors.New("nobody asked for it")
		}),
		pawl.Handle("Charge", func(_ context.Context, c call) (result, error) {
			if c.Attempt < 3 {
				return result{}, errors.New("the bank is busy")
			}
			return result{map[string]any{"charged": fmt.Sprint(c.State["cents"], " cents at attempt ", c.Attempt)}}, nil
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := order.Start(ctx, eng, "order-42", map[string]any{"pieces": 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := run.Result(ctx)
	fmt.Println(out["charged"], err)
	// Output: 900 cents at attempt 3 <nil>
}
