package core

import (
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// Input is something that happens to a run.
//
//sumtype:decl
type Input interface{ input() }

type (
	// Start creates the run. It is the first input, on an empty Run whose ID is set.
	Start struct {
		Definition DefinitionID
		Workflow   string
		WorkflowID string
		Key        string // idempotency key
		Input      []byte
		At         Time   // when the run starts; zero: now
		Firing     Time   // the firing of a timetable that the run is for, which may have passed; zero: when it starts
		Zone       string // the time zone of the firing; empty: UTC
		// Execution and Run bound the run by durations; ExecutionAt and RunAt by instants, which win. Zero: none.
		Execution, Run     *policy.Limit
		ExecutionAt, RunAt RunLimit
		Parent             Parent
		Chain              Chain
		Keep               []Kept   // results of an earlier run that this one does not repeat
		Signals            []Signal // the events that the run before it in the chain knew
		Updates            []Update // updates that they have answered
		Notify             string   // workflow id of a run that gets the event SignalEnded when the chain has ended
		Actor, Reason      string
		Labels             Labels
		Queue              RunQueue // the queue; without a name: the definition's
		Within             []string // queues in which the runs above it have places
		Admitted           bool     // it takes over the place in its queue from the earlier run of the chain
		Headers            Headers
	}

	// Admitted: the run's queue admits it, and it begins.
	Admitted struct{}

	// NotAdmitted explains why the run's queue does not admit it.
	NotAdmitted struct{ Held Held }

	// Commands are a body's decisions. With Waits the body decides nothing more until another step closes. It
	// may be out of date when it arrives: Closed is how many closed steps the body knew of. If more steps have closed
	// since, or a step was restarted, Waits is ignored: the body learns of that, and decides again.
	Commands struct {
		Commands []Command
		Waits    bool
		Closed   int
		Stopping bool // the body knows that its run stops
	}

	// TaskStarted: a worker takes the attempt that waits.
	TaskStarted struct {
		Step    StepID
		Attempt int
		Worker  string
		Secret  uint64 // the worker in another process shows it with its reports; 0: the worker is in this process
		// Confirms: that worker has promised to report that it has the task, and to report something at least every
		// minute while it has it. So if nothing comes, the task is known to be lost on its way.
		Confirms bool
	}

	// TaskHeld explains why a waiting attempt is not taken, though a worker could take it.
	TaskHeld struct {
		Step    StepID
		Attempt int
		Held    Held
	}

	// TaskEnded is a worker's report: Failure nil means success. A lost attempt has a failure of KindLost.
	TaskEnded struct {
		Step    StepID
		Attempt int
		Output  []byte
		Failure *policy.Failure
		Details []byte // the details of the last heartbeat, where it was not reported before
	}

	// TaskStopped: the work of an attempt which had ended before (a limit, a cancel) has ended, or was abandoned
	// because it did not.
	//
	//content:6
	TaskStopped struct {
		Step      StepID
		Attempt   int
		Abandoned bool
		Killed    bool // it had not ended when its grace was over
	}

	// Beat is a sign of life of an attempt: a heartbeat, or output. At is when it was given, not later than now.
	Beat struct {
		Step    StepID
		Attempt int
		At      Time // zero: now
		Output  bool // output rather than a heartbeat
		Details []byte
	}

	// SignalReceived delivers an event.
	//
	//content:7
	SignalReceived struct {
		Name    string
		ID      string // a second delivery with the same id changes nothing
		Payload []byte
		Actor   string
		Reason  string
	}

	// ExpectedSignal delivers an event, but is refused if no step of the definition can wait for it. The body of a Go
	// function may wait for any name.
	ExpectedSignal struct{ Event SignalReceived }

	// ChildEnded reports the end of a child run.
	//
	//content:5
	ChildEnded struct {
		Step    StepID
		Attempt int
		Child   RunID
		Phase   RunPhase // RunPending: it could not be started, and Failure says why
		Output  []byte
		Failure *policy.Failure
	}

	// ChildBegan reports that the child run of a step is there.
	//
	//content:12
	ChildBegan struct {
		Step    StepID
		Attempt int
	}

	// SendEnded reports what became of what a step has sent: Failure says why it could not be delivered; nil: it was.
	//
	//content:14
	SendEnded struct {
		Step    StepID
		Failure *policy.Failure
	}

	// Operation is what an operator or a client does to a run; see Op.
	Operation struct {
		Op            Op
		Step          StepID           // the step that the operation is for
		Output        []byte           // OpComplete
		Failure       *policy.Failure  // OpFail
		Policy        *policy.Policy   // OpSetPolicy
		Limit         policy.LimitKind // OpExtend: which deadline
		By            time.Duration    // OpExtend: by how much, or
		To            Time             // OpExtend: until when; FarFuture removes the deadline
		StopClock     bool             // OpPause
		Actor, Reason string
	}

	// Tick: time has passed. Everything that is due happens.
	Tick struct{}

	// Recovered: the engine that ran the run's attempts is gone; attempts without a surviving worker are lost.
	Recovered struct {
		Alive map[Token]bool // attempts that a surviving worker still heartbeats
		// Reached are the attempts at workers in other processes that can report to this engine. So they go on.
		Reached map[Token]bool
	}
)

func (Start) input()          {}
func (Admitted) input()       {}
func (NotAdmitted) input()    {}
func (Commands) input()       {}
func (TaskStarted) input()    {}
func (TaskHeld) input()       {}
func (TaskEnded) input()      {}
func (TaskStopped) input()    {}
func (Beat) input()           {}
func (SignalReceived) input() {}
func (ExpectedSignal) input() {}
func (ChildEnded) input()     {}
func (ChildBegan) input()     {}
func (SendEnded) input()      {}
func (Operation) input()      {}
func (Tick) input()           {}
func (Recovered) input()      {}

// Kept is a step result that a rerun takes over from an earlier run.
type Kept struct {
	Def    int32
	Name   string
	Item   int32
	Phase  StepPhase
	Output []byte
	Actor  string // the sender of the event that ended a wait
	// Failure is the failure of an item that did not succeed, for a step that goes on without it.
	Failure *policy.Failure
	// Group is the number of the item's step in the list of kept results, from 1; 0: the step is not kept.
	Group int
	Spec  *StepSpec // where Def is -1: the spec the earlier run recorded
}

// Op is an operation on a run or a step.
type Op uint8

// The operations.
const (
	OpCancelGracefully Op = iota // running attempts finish
	OpCancel                     // running attempts are told to stop
	OpTerminate
	OpPause
	OpResume
	OpRetryRun  // the failed steps from which the failure of the run follows
	OpRetryStep // a failed or timed-out step: fresh budget, fresh deadlines
	OpSkip
	OpComplete
	OpFail
	OpNow // ends a backoff early
	OpSetPolicy
	OpExtend
)

var opNames = [...]string{
	"cancel_gracefully", "cancel", "terminate", "pause", "resume", "retry_run", "retry_step", "skip", "complete",
	"fail", "now", "set_policy", "extend",
}

func (o Op) String() string { return name(opNames[:], o) }

// MarshalText gives the operation's name.
func (o Op) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText accepts an operation's name.
func (o *Op) UnmarshalText(b []byte) error { return parseName(opNames[:], string(b), o) }
