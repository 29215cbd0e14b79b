package slots

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// AnyWorkers is the interface of all workers: they execute attempts for an engine.
type AnyWorkers interface {
	// Slots returns how many tasks of the type may run at once. 0 means none: the tasks wait in the queue. -1 means any
	// number.
	Slots(queue, taskType string) int
	// Dispatch hands over an attempt whose start is durable. It must not block.
	Dispatch(t core.Task)
	// Revoke stops the work of an attempt that has ended. TaskStopped is reported when the work has ended. For an
	// unknown token it is reported at once.
	Revoke(tok core.Token, why policy.Kind)
}

// Workers execute attempts in the engine's process. worker.Pool and the simulation implement it.
type Workers interface {
	AnyWorkers
	// Do does a task on the spot whose start is not durable yet, if it takes no time and has no effects outside. Such
	// an attempt starts and ends in one batch. If that is not saved, nothing of the attempt has happened. Do returns
	// false if the task is not one of these. Then the task is handed over by Dispatch, once its start is durable.
	Do(t core.Task) (core.TaskEnded, bool)
}

// Placed are workers whose slots are in several places, such as processes. An attempt can begin in one of them only.
type Placed interface {
	AnyWorkers
	// Claim takes a slot for an attempt in its place, and reports whether one was free there. If none was, Engine.Begin
	// reports when it is worth another try. It is called when a slot was free in some place.
	Claim(tok core.Token, workflow, taskType string) bool
	// Unclaim gives back the slot of an attempt that does not start after all. One that was dispatched has its slot
	// until its work is over.
	Unclaim(tok core.Token)
}

// RemoteWorkers are workers in other processes. A worker asks for tasks, and takes as many at once as it has room for,
// of any of the types that it names. So its slots belong to no single type: the matcher reserves a seat before an
// attempt starts, and the task goes to that seat.
//
// Other than workers of this process they outlive the engine. Their attempts go on when the engine is started again.
//
// A process may have several such sets of workers, one for each protocol that workers speak. A queue belongs to the
// first of them that serves it, in the order in which they were added.
type RemoteWorkers interface {
	// Slots counts the seats that are free now. Else it is as for other workers.
	AnyWorkers
	// Serves reports whether workers of this set may take tasks of a queue. It always gives the same answer for a
	// queue, also after the engine was started again.
	Serves(queue string) bool
	// Has reports whether the set knows an attempt.
	Has(tok core.Token) bool
	// Reserve takes a free seat for one attempt. The matcher calls it only where Slots has just counted one.
	Reserve(queue, taskType string) Seat
	// Return gives a seat back whose attempt did not start.
	Return(s Seat)
	// Keep makes an attempt known that the engine has found in its journal when it was opened. It may be known already.
	Keep(t core.Task)
}

// Seat is room for one attempt at a remote worker.
type Seat struct {
	Worker string // the name that is recorded with the attempt
	Secret uint64 // the worker shows it with its reports; not 0
	// Confirms: see core.TaskStarted.
	Confirms bool
}
