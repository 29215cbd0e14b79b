package client

import "github.com/pawl-dev/pawl/internal/api"

// Phase is where a run or a step is in its life. A constant text such as "waiting" can be used as one.
type Phase string

// The phases. A run is pending, running, waiting or paused until it ends; a step is pending, scheduled, running,
// backing off or suspended until it ends. Why a step was not tried again is a [policy.Reason]; the limit that ended it
// is a [policy.LimitKind].
const (
	PhasePending    Phase = "pending"     // it has not begun: a run's start is delayed
	PhaseScheduled  Phase = "scheduled"   // a step's attempt waits for a worker
	PhaseRunning    Phase = "running"     // a step's attempt runs; a run does something
	PhaseWaiting    Phase = "waiting"     // all open steps of a run back off, sleep or wait
	PhaseBackingOff Phase = "backing_off" // a step waits for its next attempt
	PhaseSuspended  Phase = "suspended"   // a step sleeps, or waits for an event or a child run
	PhasePaused     Phase = "paused"      // a run is paused
	PhaseSucceeded  Phase = "succeeded"
	PhaseFailed     Phase = "failed"
	PhaseTimedOut   Phase = "timed_out"
	PhaseCancelled  Phase = "cancelled"
	PhaseTerminated Phase = "terminated" // a run was terminated
	PhaseContinued  Phase = "continued"  // a run ended, and the next one of its chain goes on
	PhaseSkipped    Phase = "skipped"    // a step was skipped
)

// Closed reports whether the run or the step has ended.
func (p Phase) Closed() bool { return api.RunPhase(p).Closed() && api.StepPhase(p).Closed() }
