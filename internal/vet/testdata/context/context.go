package context

import (
	"context"

	"github.com/pawl-dev/pawl"
)

func save(context.Context) error { return nil }

func body(ctx pawl.Context, items []string) (int, error) {
	err := pawl.Do(ctx, "save", func(context.Context) error {
		return save(ctx) // want `ctx is the body's Context, which does not end with the step's attempt: use the context.Context that the step's function gets`
	})
	if err != nil {
		return 0, err
	}
	err = pawl.Do(ctx, "nested", func(own context.Context) error {
		if c, ok := own.(pawl.Context); ok { // want `a step's context is never a pawl.Context`
			_ = c
		}
		pawl.Logger(ctx).Info("working", "run", pawl.Info(ctx).ID)
		return pawl.Do(ctx, "inner", save) // want `pawl.Do is a durable call, which a step's function cannot make: make it in the body`
	})
	if err != nil {
		return 0, err
	}
	later := pawl.Async(ctx, "later", func(context.Context) (int, error) { return 1, nil })
	one := func(own context.Context) error {
		_, err := later.Get(ctx) // want `pawl.Future.Get is a durable call`
		later.Cancel()           // want `pawl.Future.Cancel is a durable call`
		return err
	}
	if err := pawl.Do(ctx, "one", one); err != nil {
		return 0, err
	}
	scope, cancel := pawl.WithCancel(ctx)
	defer cancel()
	all, err := pawl.Map(scope, "all", 0, items, func(own pawl.Context, item string) (int, error) {
		if err := pawl.Do(scope, item, save); err != nil { // want `scope is not the Context of this branch`
			return 0, err
		}
		inner := pawl.Go(own, "inner", func(pawl.Context) (int, error) {
			return later.Get(own) // want `own is not the Context of this branch, .*: use the Context that the branch's function gets`
		})
		return inner.Get(own)
	})
	return len(all), err
}

type flow struct{}

// step passes what it gets to a step.
func (flow) step(ctx pawl.Context, name string, fn func(ctx context.Context) error) error {
	return pawl.Do(ctx, name, fn)
}

func (f flow) body(ctx pawl.Context, _ string) (int, error) {
	var undo pawl.Compensations
	undo.Add(ctx, "undo", func(context.Context) error { return save(ctx) }) // want `ctx is the body's Context`
	err := f.step(ctx, "a", func(context.Context) error {
		return save(ctx) // want `ctx is the body's Context`
	})
	if err != nil {
		return 0, undo.Run(ctx)
	}
	// What only takes a Context is called by the body itself.
	twice := func(c pawl.Context) error { return pawl.Do(ctx, "twice", save) }
	return 0, twice(ctx)
}
