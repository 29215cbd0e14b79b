package core

// RunPhase is where a run is in its life.
type RunPhase uint8

// The run phases. Those from RunSucceeded on are terminal.
const (
	RunPending RunPhase = iota // created, its start is delayed
	RunRunning
	RunWaiting // nothing executes: all open steps back off, sleep or wait
	RunPaused
	RunSucceeded
	RunFailed
	RunTimedOut
	RunCancelled
	RunTerminated
	RunContinued // followed by the next run of its chain
)

var runPhaseNames = [...]string{
	"pending", "running", "waiting", "paused", "succeeded", "failed", "timed_out", "cancelled", "terminated",
	"continued",
}

// Closed reports whether the phase is terminal.
func (p RunPhase) Closed() bool { return p >= RunSucceeded }

// Failed reports whether the run ended badly and nobody stopped it.
func (p RunPhase) Failed() bool { return p == RunFailed || p == RunTimedOut }

func (p RunPhase) String() string { return name(runPhaseNames[:], p) }

// MarshalText gives the phase's name.
func (p RunPhase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText accepts a phase's name.
func (p *RunPhase) UnmarshalText(b []byte) error { return parseName(runPhaseNames[:], string(b), p) }

// StepPhase is where a step is in its life.
type StepPhase uint8

// The step phases. Those from StepSucceeded on are terminal.
const (
	StepPending    StepPhase = iota // known, waiting for other steps
	StepScheduled                   // an attempt is ready for a worker
	StepRunning                     // an attempt runs
	StepBackingOff                  // waits for its next attempt
	StepSuspended                   // sleeps, or waits for an event, a child run or its items
	StepSucceeded
	StepFailed
	StepTimedOut
	StepCancelled
	StepSkipped
)

var stepPhaseNames = [...]string{
	"pending", "scheduled", "running", "backing_off", "suspended",
	"succeeded", "failed", "timed_out", "cancelled", "skipped",
}

// Closed reports whether the phase is terminal.
func (p StepPhase) Closed() bool { return p >= StepSucceeded }

func (p StepPhase) String() string { return name(stepPhaseNames[:], p) }

// MarshalText gives the phase's name.
func (p StepPhase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText accepts a phase's name.
func (p *StepPhase) UnmarshalText(b []byte) error { return parseName(stepPhaseNames[:], string(b), p) }

// StepKind is the kind of work of a step.
type StepKind uint8

// The step kinds that the machine distinguishes. Everything a worker executes is KindTask, whatever its task type.
const (
	KindTask  StepKind = iota // handed to a worker
	KindSleep                 // ends at an instant
	KindWait                  // ends with an event
	KindChild                 // ends with a child run
	KindGroup                 // ends when the decider says so: the items of a forEach
	KindSend                  // ends when another run has what it sends, or cannot have it; see Sent
)

var stepKindNames = [...]string{"task", "sleep", "wait", "flow", "group", "send"}

func (k StepKind) String() string { return name(stepKindNames[:], k) }

// MarshalText gives the kind's name.
func (k StepKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText accepts a kind's name.
func (k *StepKind) UnmarshalText(b []byte) error { return parseName(stepKindNames[:], string(b), k) }
