package core

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// Time is an instant in microseconds since the Unix epoch; zero means none.
type Time = policy.Time

// DefinitionID is the content hash of a workflow definition; a run keeps the one it started with.
type DefinitionID [16]byte

func (id DefinitionID) String() string { return hex.EncodeToString(id[:]) }

// StepID numbers the steps of a run in the order in which they were recorded.
type StepID uint32

// NoStep is the StepID of no step.
const NoStep StepID = 1<<32 - 1

// Token identifies one attempt. A report that carries the token of an attempt that has ended is stale.
type Token struct {
	Run     RunID  `json:"run"`
	Step    StepID `json:"step"`
	Attempt int    `json:"attempt"`
}

// Run is the state of one run: the fold of its records. Only Apply changes it.
type Run struct {
	ID         RunID
	Workflow   string // the definition's name
	Definition DefinitionID
	WorkflowID string // chosen by the caller; empty: the run's id
	Key        string // idempotency key of the start
	Input      []byte // JSON
	Phase      RunPhase
	CreatedAt  Time
	StartAt    Time   // the start of the run, for RunPending
	StartedAt  Time   // when it first began
	Firing     Time   // the firing of a timetable that the run is for; zero: see ScheduledFor
	Zone       string // the time zone of that firing; empty: UTC
	EndedAt    Time

	// Execution and Deadline are the run's stored deadlines, zero if it has none.
	Execution RunLimit // spans the chain
	Deadline  RunLimit // this run

	StartedBy string // the actor of its start; empty: nobody said who

	Parent Parent // the parent of a child run
	Chain  Chain
	Notify string // workflow id of a run that is told of the chain's end; empty if there is none
	Labels Labels
	// Admission is the run's state in the queue into which it was started; nil if it has none.
	Admission *Admission
	// Headers are those that its caller sent; they never change.
	Headers Headers

	Steps   []Step   // the steps by StepID
	Signals []Signal // events that no wait has taken yet, and taken ones that carry an id (without payload)
	Updates []Update // updates that the body has accepted, and the latest answers of the chain
	answers answers
	// Published is the last value that the body published; nil if there is none.
	Published *Published

	Output  []byte // JSON
	Failure *policy.Failure

	Warned       *Warning // the first one since the run began, or was opened again; nil if there is none
	Closing      *Closing // the outcome is settled; hooks run and attempts stop before the run ends
	Stop         *Stop    // the body was asked to stop, or is going to be; kept after the end
	CancelAsked  bool     // nothing new is scheduled
	CancelReason string   // the last one that was assigned
	PausedAt     Time
	StopClock    bool    // paused with clock: stop
	Asked        []Asked // operations on the run and its steps, the first one first
	Next         RunID   // the chain's next run; zero if there is none
	Seq          int     // entries folded so far
	Ends         uint32  // the highest rank of a step's end so far

	def            *Definition
	decider        Decider
	asked          bool              // the decider has been asked about the state as a whole
	wakes          wakes             // open steps by the instant at which each needs attention
	byKey          map[string]StepID // steps by key; built when first asked for
	open           int               // steps that are not closed, hooks included
	retried        int               // open steps that back off or are tried again
	live           int               // steps with a running attempt, or one that is still stopping
	queued         int               // steps whose attempt waits for a worker
	changed        []StepID          // closed since the decider was last asked
	mustWarn       bool              // a new warning, for which the decider of a flow may send a notice
	last           Time              // the instant of the last entry
	failures       *failures         // causes of a body's decisions: the failures they follow from; nil: none
	labelLog       *labelLog         // how the run got its labels; nil: it still has those of its start
	extendedLimits movedLimits       // the limits that operations moved
	signalsTaken   *signalsTaken     // events that waits took, and which wait took which; nil: none did
	turned         bool              // it has had a turn
	answered       int               // answers of a body that is asked in writing
	lastNews       int               // the entry with the last news that such a body has to learn of
	unheard        bool              // there is such news, and the body has not been asked since
	wished         bool              // somebody has asked it to cancel
	// bodyPending: something changed that the run's body has not seen, or it has not reported yet that it waits.
	bodyPending bool
}

// RunLimit is a run's stored deadline and its origin.
type RunLimit struct {
	At     Time
	After  time.Duration // the configured amount, for a fresh budget; zero: configured as an instant
	Warn   Time          // when the warning is due; zero: none, or given
	Lead   time.Duration // how long before the deadline that is; zero if it has no warning
	Origin string
}

// Parent links a child run to the step that started it.
type Parent struct {
	Run     RunID
	Step    StepID
	Attempt int
	Close   CloseChild
	Top     RunID // the run that Run.Top returns of each run of the family
	Depth   int   // how many runs are above this one
}

// Top returns the run that represents the whole family, which is a run with its chain and all their children: the first
// run of the chain at the top.
func (r *Run) Top() RunID {
	switch {
	case r.Parent.Run != (RunID{}):
		return r.Parent.Top
	case r.Chain.First != (RunID{}):
		return r.Chain.First
	default:
		return r.ID
	}
}

// CloseChild specifies what happens to a child run when its parent closes.
type CloseChild uint8

// The parent-close policies.
const (
	ChildCancel CloseChild = iota
	ChildTerminate
	ChildAbandon
)

// Chain links runs that continue one another.
type Chain struct {
	First    RunID // the chain's first run; zero: this one
	Previous RunID // zero: none
	Attempt  int   // the attempt of the run retry policy, from 1
	// AfterFailure: the run before this one failed or timed out. It is the earlier one in the chain; for the first run
	// of a chain, the last one of its workflow, if the definition recalls it; for a retried run, the run itself.
	AfterFailure bool
}

// Signal is an event that reached the run.
type Signal struct {
	Name    string
	ID      string // sender's id, for telling duplicates; may be empty
	Payload []byte // JSON
	At      Time
	Actor   string
	Taken   bool // a wait took it; kept for its id
	Seq     int  // the entry that brought it
}

// Closing is a settled outcome that waits for hooks and for running attempts.
type Closing struct {
	Phase   RunPhase
	Output  []byte
	Failure *policy.Failure
	From    []StepID // as of RunClosing
	Hook    int      // the stage of hooks the decider has been asked for
}

// Step is the state of one step.
type Step struct {
	ID     StepID
	Spec   *StepSpec // shared, immutable
	Item   int32     // index among its group's items, or -1
	Group  StepID    // the group the step is an item of, or NoStep
	Phase  StepPhase
	Reason policy.Reason

	ScheduledAt Time // first scheduling
	EndedAt     Time
	// ScheduleToClose and Deadline are stored instants; zero: none, or not started.
	ScheduleToClose Time
	Deadline        Time
	Warned          Time // the warnings due up to here were given

	Attempt        int    // number of the last attempt, 0 before the first
	Counted        int    // attempts that use up the budget
	Lost           int    // lost attempts in a row
	SuspectsBeside int    // SuspectGroup when the last attempt began
	LostAlone      int    // those of them that count: it was the only suspect that ran, and has made no progress since
	Began          Time   // the first attempt's start; zero: not started
	ReadyAt        Time   // the attempt became ready for a worker
	Started        Time   // the attempt's start; zero: not started
	BeatAt         Time   // the attempt's last heartbeat
	ByteAt         Time   // the attempt's last output
	NextAt         Time   // backing off: the next attempt; sleeping: its end; waiting: the wait's deadline
	Delay          int64  // the last backoff, milliseconds
	Until          bool   // NextAt is the planned end of a sleep, as an instant
	Stopping       bool   // the work of an ended attempt has not stopped yet
	Child          RunID  // the run that a child step's attempt started
	Secret         uint64 // the last attempt's secret: see TaskStarted
	Confirms       bool   // the last attempt confirms its start: see TaskStarted
	Upstream       bool   // skipped because what it needs did not succeed
	Kept           bool   // its result was taken over from an earlier run
	items          int32  // the number of a group's items that are open
	Dropped        bool   // forgotten by a retry of the run: another step took its place
	// Restarted: an operator has put it back to work after it had closed. Decisions that followed from its end may
	// remain.
	Restarted   bool
	CancelAsked bool // the body has asked its work to stop
	// Rank is the place of the step's end among those of the run, from 1, in the order in which the body sees them.
	// 0: it is open, or the body decided its end by itself.
	Rank uint32

	Details        []byte          // the details of the last heartbeat; the next attempt reads them
	extendedLimits movedLimits     // the limits that operations moved
	resumed        uint64          // a hash of them at the start of the attempt
	Output         []byte          // JSON
	Failure        *policy.Failure // the last failure
	Past           Past            // how its attempts went; only for sentences
	PolicyAtStart  *policy.Policy  // the policy when the last attempt began; its worker has this one
	Policy         *policy.Policy  // an operator's replacement; nil: the spec's
	Shared         *Shared         // its key and why it is held; nil: neither is there
}

// StepSpec is the specification of a step in a definition or a command. It is shared between runs and never changed.
type StepSpec struct {
	Name     string // unique in a definition
	Def      int32  // ordinal in the definition, or -1: the spec travels in the record
	Kind     StepKind
	Hook     bool   // runs while the run closes
	Queue    string // task queue; empty: the engine's own workers
	Priority int32  // higher first among waiting attempts
	Type     string // task type: exec, http, noop, fail, or the name of a worker's function
	Event    string // KindWait: the event's name
	// Any are the names of events, in place of Event: the wait takes the first that comes, whichever it is.
	Any      []string
	Update   string // KindWait: the update's name, if it waits for one instead of an event
	Policy   policy.Policy
	Input    []byte // JSON, where the spec travels in the record
	Spread   bool   // KindChild: the child run may live in another partition than this one
	Detached bool   // it goes on when its run is cancelled or expires, as a part of the body's compensation
	Share    *Share // the share whose limits bound its attempts, besides those of its task queue; nil if there is none
}

// Key names the step within its run: its name, and its item if it has one.
func (s *Step) Key() string { return stepKey(s.Spec.Name, s.Item) }

func stepKey(name string, item int32) string {
	if item < 0 {
		return name
	}
	return fmt.Sprintf("%s[%d]", name, item)
}

// Effective returns the policy in force for the step.
func (s *Step) Effective() *policy.Policy {
	if s.Policy != nil {
		return s.Policy
	}
	return &s.Spec.Policy
}
