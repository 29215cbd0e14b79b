// Package fine has nothing to report.
package fine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// attempt passes the function on to a step through another function.
func attempt(ctx pawl.Context, name string, fn func() error) error {
	return again(ctx, name, fn)
}

func again(ctx pawl.Context, name string, fn func() error) error {
	return pawl.Do(ctx, name, func(context.Context) error { return fn() })
}

func body(ctx pawl.Context, in []string) (int, error) {
	if err := attempt(ctx, "sleep", func() error {
		time.Sleep(time.Second)
		return nil
	}); err != nil {
		return 0, err
	}
	slices.SortFunc(in, func(a, b string) int { return len(a) - len(b) })
	load := func(ctx context.Context) (int, error) {
		<-time.After(time.Second)
		return 1, ctx.Err()
	}
	loaded := pawl.Async(ctx, "load", load)
	pages, err := pawl.Map(ctx, "pages", 2, in, func(ctx pawl.Context, page string) (int, error) {
		n, err := pawl.Step(ctx, "page", func(ctx context.Context) (int, error) {
			var mu sync.Mutex
			mu.Lock()
			defer mu.Unlock()
			sum := 0
			for i := range 3 {
				sum += i
			}
			return sum, ctx.Err()
		})
		n++
		return n, err
	})
	n, loadErr := loaded.Get(ctx)
	var once sync.Once
	once.Do(func() { n += len(pages) })
	return n, errors.Join(err, loadErr)
}

// define defines a workflow in the step of another one, whose Context is its own.
func define(ctx pawl.Context, eng *pawl.Engine) error {
	return pawl.Do(ctx, "define", func(context.Context) error {
		return eng.Register(pawl.Define("inner", func(ctx pawl.Context, _ int) (int, error) {
			return pawl.Step(ctx, "s", func(ctx context.Context) (int, error) { return 1, ctx.Err() })
		}))
	})
}
