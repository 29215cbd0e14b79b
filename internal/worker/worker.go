// Package worker executes attempts: processes, the small built-in types and Go functions. It measures time
// on the monotonic clock from the durations a task carries, reports signs of life no more often than the limits need,
// and stops work by the ladder: ask, wait, kill, wait, abandon.
//
// A [Pool] takes tasks from an engine, gives each to the [Executor] of its type, and reports how it ended. The built-in
// executors are [Exec], [Noop] and [Fail], beside those of package web; [FuncExecutor] makes one of a Go function.
package worker

import (
	"context"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Executor executes the attempts of one task type. Its methods are called concurrently.
type Executor interface {
	// Execute does the work and returns when it is over. When ctx is done it stops the work first, by the executor's own
	// ladder, and returns when the work is gone; where it will not go, it returns with Abandoned. It never returns while
	// the work might still have effects, except with Abandoned. It must not keep t's byte slices.
	//
	// ctx has no deadline, since an operator may move the attempt's: the engine revokes the attempt when its time is
	// over. Remaining tells how long that is, as far as known at the start.
	Execute(ctx context.Context, t core.Task, alive Alive) Result
}

// Instant is an executor whose attempts take no time and touch nothing outside. A pool runs them one after the other
// without a goroutine, a context or signs of life for each; they cannot be revoked.
type Instant interface {
	Executor
	// Do does what Execute does.
	Do(t core.Task) Result
}

// Alive takes an executor's signs of life. It is cheap: call it for every line. It may be called concurrently, and
// after Execute has returned, which has no effect.
type Alive interface {
	Output()                  // output arrived
	Heartbeat(details []byte) // the work says it is alive; details may be nil
}

// Result is how an attempt ended.
type Result struct {
	Output    []byte          // JSON; empty: null
	Failure   *policy.Failure // nil: success
	Abandoned bool            // the work was told to stop and did not go
}

// Reporter takes a worker's reports; the engine implements it. Report does not block for long and never fails: a report
// that comes too late is refused by the run's own state.
type Reporter interface {
	Report(run core.RunID, in core.Input) // TaskEnded, TaskStopped or Beat
}

// Confirmer is a Reporter that says when a report is durable; ended: the attempt has ended before. done must not block.
type Confirmer interface {
	Reporter
	Confirm(run core.RunID, in core.Input, done func(ended bool))
}
