package clock

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
)

var remind = pawl.Define("remind", func(ctx pawl.Context, at time.Time) (time.Time, error) {
	begun := time.Now()        // want `time.Now in a workflow's body gives another instant .*: use pawl.Now\(ctx\)`
	time.Sleep(1)              // want `time.Sleep in a workflow's body .*: use pawl.Sleep`
	_ = time.Since(at)         // want `time.Since in a workflow's body .*: use pawl.Now\(ctx\).Sub`
	_ = time.Until(at)         // want `time.Until in a workflow's body .*: use t.Sub\(pawl.Now\(ctx\)\)`
	_ = time.NewTimer(1)       // want `time.NewTimer in a workflow's body waits by a clock .*: use pawl.Sleep`
	_ = time.Tick(1)           // want `time.Tick in`
	time.AfterFunc(1, func() { // want `time.AfterFunc in a workflow's body starts a goroutine`
		_ = time.Now()
	})
	_, stop := context.WithTimeout(ctx, 1) // want `context.WithTimeout in a workflow's body ends by a clock .*: give the step pawl.Timeout`
	defer stop()
	if err := pawl.Do(ctx, "mail", func(ctx context.Context) error {
		time.Sleep(1)
		_ = time.Now()
		return ctx.Err()
	}); err != nil {
		return begun, err
	}
	return late(ctx, "x"), nil
})

// late is a part of a body, since it takes its Context.
func late(ctx pawl.Context, _ string) time.Time {
	now := func() time.Time { return time.Now() } // want `time.Now in`
	_, _ = pawl.Go(ctx, "branch", func(ctx pawl.Context) (int, error) {
		return time.Now().Day(), nil // want `time.Now in`
	}).Get(ctx)
	return now()
}

type reminder struct{ since time.Time }

func (r *reminder) body(ctx pawl.Context, in string) (bool, error) {
	defer func() { _ = time.Now() }() // want `time.Now in`
	return pawl.Now(ctx).After(r.since), nil
}

// elsewhere is no part of a body.
func elsewhere() time.Time { return time.Now() }

// work is the function of a step.
func work(ctx context.Context) (time.Time, error) { return time.Now(), ctx.Err() }

func inStep(ctx pawl.Context) {
	_ = pawl.Do(ctx, "step", func(context.Context) error {
		_ = pawl.Now(ctx) // want `pawl.Now in a step's function depends on how far the body is: use time.Now here`
		return nil
	})
}
