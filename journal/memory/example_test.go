package memory_test

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/journal/memory"
)

// ExampleNew shows that a run goes on in the next engine, as it would after a restart of the program with a file.
func ExampleNew() {
	greet := pawl.Define("greet", func(ctx pawl.Context, name string) (string, error) {
		_, err := pawl.Event[bool]("go").Wait(ctx)
		return "Hello, " + name, err
	})
	cfg := pawl.Config{Journal: memory.New(), Workflows: []pawl.Definition{greet}}
	ctx := context.Background()

	first, err := pawl.Open(ctx, cfg)
	if err != nil {
		panic(err)
	}
	run, err := greet.Start(ctx, first, "greet-1", "Ada")
	if err != nil {
		panic(err)
	}
	if err := first.Close(); err != nil {
		panic(err)
	}

	second, err := pawl.Open(ctx, cfg)
	if err != nil {
		panic(err)
	}
	defer second.Close()
	if err := pawl.Event[bool]("go").Send(ctx, second, run.ID, true); err != nil {
		panic(err)
	}
	fmt.Println(pawl.RunOf[string](second, run.ID).Result(ctx))
	// Output: Hello, Ada <nil>
}
