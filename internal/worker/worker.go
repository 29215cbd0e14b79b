// Package worker executes attempts: processes, Go functions and the small built-in types noop and fail.
//
// A [Pool] takes tasks from an engine, gives each to the [Executor] of its type, and reports how it ended. The built-in
// executors are [Exec], [Noop] and [Fail], beside those of package web; [FuncExecutor] makes one from a Go function.
//
// Time is measured on the monotonic clock, so a wrong wall clock does no harm. Signs of life are reported only as often
// as the limits need. Work is stopped in steps: ask, wait, kill, wait, abandon.
package worker

import (
	"context"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Executor executes the attempts of one task type. Its methods are called concurrently.
type Executor interface {
	// Execute does the work and returns when it is over. When ctx is done, it stops the work and returns when the work
	// is gone. If the work cannot be stopped, it returns with Abandoned set. Without Abandoned it must not return while
	// the work may still have effects. It must not change t, nor keep its byte slices. t is a pointer because of the
	// stacks of thousands of attempts that wait, which would have several copies of it.
	//
	// ctx has no deadline, because an operator may change the attempt's deadline. The engine revokes the attempt when
	// its time is over. Remaining returns that time, as it was known when the attempt started.
	Execute(ctx context.Context, t *core.Task, alive Alive) Result
}

// Instant is an executor whose attempts take no time and have no effects outside. A pool runs them one after the other,
// without a goroutine, a context or signs of life for each. They cannot be revoked.
type Instant interface {
	Executor
	// Do does what Execute does.
	Do(t core.Task) Result
}

// Alive receives an executor's signs of life. Calls are cheap: make one for every line of output. They may be
// concurrent. After Execute has returned they have no effect.
type Alive interface {
	Output()                  // output arrived
	Heartbeat(details []byte) // the work reports that it is alive; details may be nil
}

// Result is how an attempt ended.
type Result struct {
	Output    []byte          // JSON; empty: null
	Failure   *policy.Failure // nil: success
	Abandoned bool            // the work was told to stop and did not
	Killed    bool            // the work was not gone when its grace was over
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
