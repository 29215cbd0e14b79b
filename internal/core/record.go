package core

import "github.com/pawl-dev/pawl/policy"

// Record is something that happened, as it is journaled. All records of one Entry share its instant.
//
//sumtype:decl
type Record interface{ record() }

// Entry is the recorded result of one input to one run, at one instant.
type Entry struct {
	Run     RunID
	At      Time
	Records []Record
}

// Ended reports whether the run has ended after the entry; before tells whether it had ended before it. That is needed
// because an ended run may get further entries: work that stops later, or an operator's retry, which opens the run
// again.
func (e *Entry) Ended(before bool) bool {
	ended := before
	for _, rec := range e.Records {
		switch rec.(type) {
		case RunEnded:
			ended = true
		case RunReopened:
			ended = false
		default:
		}
	}
	return ended
}

type (
	// RunCreated is a run's first record.
	//
	//record:1
	RunCreated struct {
		Definition    DefinitionID `code:"1"`
		Workflow      string       `code:"2"`
		WorkflowID    string       `code:"7"`
		Key           string       `code:"8"`
		Input         []byte       `code:"3"`
		StartAt       Time         `code:"9"` // zero: at once
		Execution     RunLimit     `code:"6"`
		Deadline      RunLimit     `code:"5"`
		Parent        Parent       `code:"10"`
		Chain         Chain        `code:"4"`
		Notify        string       `code:"13"`
		Actor, Reason string       `code:"11"`
		Labels        Labels       `code:"14"`
		Queue         RunQueue     `code:"15"`
		Within        []string     `code:"16"` // see Admission
		Admitted      bool         `code:"17"` // it took over the place of the earlier run in the chain
		Headers       Headers      `code:"18"`
		Firing        Time         `code:"19"` // the firing of a timetable that the run is for; zero: when it starts
		Zone          string       `code:"20"` // the time zone of the firing; empty: UTC
	}

	// RunQueued: the start of a delayed run has come, and it waits for its queue. A run without delay waits for it from
	// RunCreated on.
	//
	//record:30
	RunQueued struct{}

	// RunHeld explains why the run's queue does not admit it.
	//
	//record:31
	RunHeld struct{ Held Held }

	// RunStarted: a delayed run began, or one that its queue has admitted; others begin with RunCreated.
	//
	//record:2
	RunStarted struct{ Deadline RunLimit }

	// RunClosing settles the outcome.
	//
	//record:3
	RunClosing struct {
		Phase   RunPhase
		Output  []byte
		Failure *policy.Failure
		From    []StepID // the failed steps from which a body's failure follows; none: it is the body's own
		// SameAs is 1 + the step that has the run's output, which is not recorded again; 0: Output has it.
		SameAs StepID `code:"5,optional"`
	}

	// RunStopping: the run was cancelled or has expired. Until is zero while its work is being stopped. Once that is
	// done, a second such record follows: the body is asked, and has time for its answer until then.
	//
	//record:25
	RunStopping struct {
		Phase   RunPhase
		Failure *policy.Failure
		Until   Time // zero: work is still being stopped
	}

	// RunHooks: the decider was asked for a stage of hooks.
	//
	//record:4
	RunHooks struct{ Stage int }

	// RunEnded writes the terminal phase; output and failure are those of RunClosing, if there was one.
	//
	//record:5
	RunEnded struct {
		Phase   RunPhase
		Failure *policy.Failure // the failure that a termination gives
		Next    RunID           // the chain's next run; zero if there is none
	}

	// RunReopened follows an operator's retry of a closed run.
	//
	//record:6
	RunReopened struct {
		Execution, Deadline RunLimit
		Drop                []StepID // steps to decide again: skipped dependants, reactions of a body, hooks
		Queued              bool     // it waits for its queue again
		Labels              Labels   // a change to the labels that the run has without the dropped steps
		ForHook             bool     // it keeps its outcome, and ends again when a hook of it has ended
		Until               Time     // the run goes on with its compensation, until then at most; zero: with its work
		Keep                []StepID // steps that undid something after a failure, found by their keys
	}

	// PauseBegan and PauseEnded bracket a pause.
	//
	//record:7
	PauseBegan struct{ StopClock bool }
	// PauseEnded carries the run's deadlines, moved if the clock was stopped.
	//
	//record:8
	PauseEnded struct{ Execution, Deadline RunLimit }

	// CancelAsked: nothing new is scheduled from here on.
	//
	//record:9
	CancelAsked struct{ Interrupt bool }

	// SignalKept keeps an event; one that a wait takes is removed by StepEnded.
	//
	//record:10
	SignalKept struct {
		Name, ID string
		Payload  []byte
		Carried  bool // it came with the chain: the earlier run had kept it
		Taken    bool // Carried: a wait of that run took it, and only its id is known
		Back     bool // a retry has dropped the wait that took it: it is the first event of the run again
		Actor    string
		Reason   string
	}

	// StepBegan begins a step; the first attempt of a task is ready with it.
	//
	//record:11
	StepBegan struct {
		Spec            *StepSpec // journaled whole only where Def is -1
		Item            int32
		Group           StepID
		ScheduleToClose Time
		NextAt          Time     // a sleep's end, a wait's deadline
		Deadline        Time     // one that is an instant; it binds from now on
		Until           bool     // NextAt is the planned end of a sleep, as an instant
		ShareKey        string   // the key for its queue's and service's limits for each key; empty: the spec's
		Saw, After      []StepID // a body's knowledge; see Causes
	}

	// StepOmitted records a step that does not run.
	//
	//record:12
	StepOmitted struct {
		Spec     *StepSpec
		Item     int32
		Group    StepID
		Reason   string
		Upstream bool // a step that it needs did not succeed
		Kept     bool // its result was taken over from an earlier run
		Phase    StepPhase
		Output   []byte
		Saw      []StepID // a body's knowledge; see Causes
		After    []StepID
		Labels   Labels          // a change of the run's labels, which the body has decided
		Actor    string          // Kept: the sender of the event that ended the wait
		Failure  *policy.Failure // Kept: that of an item which did not succeed
	}

	// AttemptReady: a further attempt waits for a worker.
	//
	//record:13
	AttemptReady struct{ Step StepID }

	// AttemptHeld: the attempt waits for a limit of a queue or service; HeldNone: no longer.
	//
	//record:26
	AttemptHeld struct {
		Step StepID
		Held Held
	}

	// AttemptStarted: a worker took the attempt.
	//
	//record:14
	AttemptStarted struct {
		Step     StepID
		Worker   string
		Deadline Time  // the step's deadline, set by its first attempt; zero: unchanged
		Child    RunID // KindChild: the run it starts
		// Secret is the secret that a worker in another process sends with its reports; 0: the worker is in the
		// engine's process. It is recorded so that the worker can still report after the engine was started again.
		Secret   uint64
		Confirms bool // see TaskStarted
	}

	// AttemptBeat is a sign of life.
	//
	//record:15
	AttemptBeat struct {
		Step    StepID
		At      Time
		Output  bool
		Details []byte
	}

	// AttemptEnded ends an attempt. NextAt is set where another follows; else a StepEnded does.
	//
	//record:16
	AttemptEnded struct {
		Step      StepID
		Failure   *policy.Failure // nil if it succeeded
		Details   []byte          // the details of a heartbeat that was not recorded before
		Stopping  bool            // its work has been told to stop
		Retry     bool
		NextAt    Time
		Note      string // a broken When expression
		LostAlone int    // how many attempts that were lost while they ran alone count now; see Step
	}

	// AttemptStopped: the work of an ended attempt has ended, or was abandoned.
	//
	//record:17
	AttemptStopped struct {
		Step      StepID
		Abandoned bool
		Killed    bool // it had not ended when its grace was over
	}

	// StepEnded writes a step's terminal phase.
	//
	//record:18
	StepEnded struct {
		Step    StepID
		Phase   StepPhase
		Reason  policy.Reason
		Output  []byte
		Failure *policy.Failure
		Signal  string // the kept event it took
	}

	// StepWarned: the warning of a deadline was given.
	//
	//record:19
	StepWarned struct {
		Step  StepID // NoStep: the run's
		Limit policy.LimitKind
	}

	// StepReset gives a step a fresh budget and deadlines (operator's retry, or resume).
	//
	//record:20
	StepReset struct {
		Step            StepID
		Budget          bool // attempts to 0
		ScheduleToClose Time
		Deadline        Time
		NextAt          Time
		Restart         bool // the step goes from a terminal phase back to scheduled
	}

	// StepPolicy replaces a step's policy.
	//
	//record:21
	StepPolicy struct {
		Step   StepID
		Policy *policy.Policy
	}

	// DeadlineMoved moves a stored deadline.
	//
	//record:22
	DeadlineMoved struct {
		Step  StepID // NoStep: the run's
		Limit policy.LimitKind
		At    Time // zero: removed
	}

	// StatePublished stores the value that the run's body publishes for the readers of the run.
	//
	//record:27
	StatePublished struct {
		Branch, After string // where the body did so; see Point
		Count         int
		Value         []byte
	}

	// UpdateAccepted: the body takes an update, which ends a wait; a StepEnded with the update's input follows.
	//
	//record:28
	UpdateAccepted struct {
		Name, ID string
		Step     StepID
	}

	// UpdateAnswered answers an update.
	//
	//record:29
	UpdateAnswered struct {
		Name, ID string
		Output   []byte
		Failure  *policy.Failure
		Carried  bool // it came with the chain: an earlier run had answered it
	}

	// Turned is the result of a turn; see Turn.
	//
	//record:32
	Turned struct {
		Value []byte // nil: as it was
		Wake  Time
		Took  int
	}

	// BodyAnswered is an answer of a body that is asked in writing; what it has decided follows. See Answer.
	//
	//record:33
	BodyAnswered struct {
		Seen  int    `code:"1"`
		Began Time   `code:"2"`
		Again bool   `code:"4"`
		Meta  []byte `code:"3"`
	}

	// StepCancelAsked: the body has asked the work of the step to stop. No attempt follows the one that runs.
	//
	//record:34
	StepCancelAsked struct{ Step StepID }

	// StepChildBegan: the child run of the step is there.
	//
	//record:35
	StepChildBegan struct{ Step StepID }

	// BodyWaits: the run's body has seen all there is and waits.
	//
	//record:24
	BodyWaits struct{}

	// Operated records an operation; the records of its results follow.
	//
	//record:23
	Operated struct {
		Op            Op
		Step          StepID // NoStep: the run
		Actor, Reason string
	}
)
