package core

import "github.com/pawl-dev/pawl/policy"

// Effect is something that the shell must do because of what was recorded.
//
//sumtype:decl
type Effect interface{ effect() }

type (
	// Offer puts an attempt into a task queue. It may be matched with a worker before its records are durable, since
	// the match (TaskStarted) joins the same batch.
	Offer struct {
		Step    StepID
		Attempt int
		Queue   string
		Type    string
		Prio    int32
		Group   int // how many suspects like it may run at once; 0 if it is no suspect
	}

	// Withdraw takes an attempt that no worker has taken out of its queue.
	Withdraw struct {
		Step    StepID
		Attempt int
	}

	// Dispatch hands an attempt to the worker that took it, once the start is durable.
	Dispatch struct{ Task Task }

	// Revoke tells a worker to stop an attempt that has ended; it answers with TaskStopped.
	Revoke struct {
		Step    StepID
		Attempt int
		Reason  policy.Kind // KindTimeout or KindCancelled
	}

	// StartChild starts the child run of a step (a second start of the same child changes nothing).
	StartChild struct {
		Step    StepID
		Attempt int
		Child   RunID
		Payload []byte // the payload that Decider.Task returned
		// Execution is the instant the child inherits.
		Execution RunLimit
	}

	// StopChild applies Op to a child run.
	StopChild struct {
		Child RunID
		Op    Op
	}

	// BoundChild changes the deadline that a child run has from this one, from one instant to another; zero if there is
	// none.
	BoundChild struct {
		Child   RunID
		Was, Is Time
	}

	// Send sends a message to another run. It is made durable with its cause.
	Send struct{ Message Message }

	// Closed: the run has ended. Callers are answered, a parent is told, a chain goes on.
	Closed struct {
		Phase RunPhase
		Next  *Start // the chain's next run, with its start instant
	}
)

func (Offer) effect()      {}
func (Withdraw) effect()   {}
func (Dispatch) effect()   {}
func (Revoke) effect()     {}
func (StartChild) effect() {}
func (StopChild) effect()  {}
func (BoundChild) effect() {}
func (Send) effect()       {}
func (Closed) effect()     {}
func (Consult) effect()    {}

// Task is one attempt in a worker's hands. Durations are what is left of each clock when the task is handed over; the
// worker measures them on its own monotonic clock. Zero means unbounded.
type Task struct {
	Token    Token
	Top      RunID  // the top of the run's family, see Run.Top
	StepName string // the step's key
	Workflow string
	Type     string
	Queue    string
	Payload  []byte // JSON, by task type
	// Count is the attempt's number within its budget, from 1 (Token.Attempt counts lost and earlier ones too).
	Count                 int
	Deadline              Time             // the effective deadline, the earliest of all that apply
	Bound                 policy.LimitKind // the limit that deadline comes from
	Heartbeat, Inactivity int64            // microseconds it may be silent before the limit, or its warning, comes
	Details               []byte           // the details of the previous attempt's last heartbeat
	Headers               Headers          // the run's headers
	// Announce: the attempt before was lost. A worker reports a Beat and begins when that is durable, so that an
	// attempt which never began does not count among the lost ones that stop a step.
	Announce bool
	Secret   uint64 // see TaskStarted
	Confirms bool   // see TaskStarted
	Group    int    // as of the Offer
}
