package api

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/policy"
)

// RunPhase is where a run is in its life.
type RunPhase string

// The run phases. From RunSucceeded on the run has ended.
const (
	RunPending    RunPhase = "pending" // its start is delayed, or it waits for its queue
	RunRunning    RunPhase = "running"
	RunWaiting    RunPhase = "waiting" // nothing executes: all open steps back off, sleep or wait
	RunPaused     RunPhase = "paused"
	RunSucceeded  RunPhase = "succeeded"
	RunFailed     RunPhase = "failed"
	RunTimedOut   RunPhase = "timed_out"
	RunCancelled  RunPhase = "cancelled"
	RunTerminated RunPhase = "terminated"
	RunContinued  RunPhase = "continued" // the next run of its chain goes on
)

// RunPhases returns all run phases, those of open runs first.
func RunPhases() []RunPhase {
	return []RunPhase{
		RunPending, RunRunning, RunWaiting, RunPaused, RunSucceeded, RunFailed, RunTimedOut,
		RunCancelled, RunTerminated,
		RunContinued,
	}
}

// Closed reports whether the run has ended.
func (p RunPhase) Closed() bool {
	switch p {
	case RunPending, RunRunning, RunWaiting, RunPaused:
		return false
	default:
		return true
	}
}

// Code returns the code for how the run ended. It is empty if the run is open or has succeeded.
func (p RunPhase) Code() Code {
	switch p {
	case RunFailed:
		return CodeFailed
	case RunTimedOut:
		return CodeTimedOut
	case RunCancelled:
		return CodeRunCancelled
	case RunTerminated:
		return CodeRunTerminated
	default:
		return ""
	}
}

// RunSummary is a run in a list.
type RunSummary struct {
	Run        string   `json:"run"`
	Workflow   string   `json:"workflow"`
	WorkflowID string   `json:"workflowId,omitempty"`
	Key        string   `json:"key,omitempty"`
	Phase      RunPhase `json:"phase"`
	Status     Status   `json:"status"` // a word for people
	CreatedAt  Time     `json:"createdAt"`
	EndedAt    Time     `json:"endedAt,omitzero"`
	Deadline   Time     `json:"deadline,omitzero"` // the earlier of the run's deadlines
	Wake       Time     `json:"wake,omitzero"`     // when it next does something on its own
	Parent     string   `json:"parent,omitempty"`
	Message    string   `json:"message,omitempty"` // why it ended badly, or what holds it in its queue
	Problem    string   `json:"problem,omitempty"` // why an open run cannot go on until somebody acts
	Definition string   `json:"definition,omitempty"`

	Labels map[string]string `json:"labels,omitempty"` // the values that the run can be searched by

	Retrying bool `json:"retrying,omitempty"` // a step backs off or is tried again; only in a list
	// Resting: no process carries the run on, so its steps do not start, and its limits do not fire until one does.
	Resting  bool    `json:"resting,omitempty"`
	Stopping bool    `json:"stopping,omitempty"` // work of it was told to stop and is not gone; hooks wait for that
	Says     *Saying `json:"says,omitempty"`     // its doings and why, or its end
	Then     *Saying `json:"then,omitempty"`     // its future if it goes on like this
	Ends     []End   `json:"ends,omitempty"`     // everything that can end it, the first one first; a list has a few
	// Unfinished: it has ended, and what it does at a bad end did not succeed: what that undoes is not undone.
	Unfinished bool `json:"unfinished,omitempty"`
	// ExpectedEnd is set in a list for open runs that will miss their deadlines: the expected end at the pace of their
	// workflow, or when the run next does something on its own, whichever is later.
	ExpectedEnd Time `json:"expectedEnd,omitzero"`
}

// Run is a run at one moment, with everything that explains it.
type Run struct {
	RunSummary
	Kind        string            `json:"kind,omitempty"` // the kind of its definition: who can carry it on
	Input       json.RawMessage   `json:"input,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"` // the headers that its caller sent along
	Output      json.RawMessage   `json:"output,omitempty"`
	Execution   Time              `json:"executionDeadline,omitzero"`
	RunLimit    Time              `json:"runDeadline,omitzero"`
	Deadlines   []Deadline        `json:"deadlines,omitempty"` // both, with where they were set
	Binding     *Deadline         `json:"binding,omitempty"`   // the one that counts down now; a stopped clock has none
	State       json.RawMessage   `json:"state,omitempty"`     // the value that its body published last
	StateAt     Time              `json:"stateAt,omitzero"`    // when it did
	StartAt     Time              `json:"startAt,omitzero"`    // the time of a delayed start
	StartedAt   Time              `json:"startedAt,omitzero"`
	Queue       *RunQueue         `json:"queue,omitempty"`   // the queue that it was started into
	QueuedAt    Time              `json:"queuedAt,omitzero"` // the time since which it waits in its queue
	Held        *Held             `json:"held,omitempty"`    // the limit of the queue that holds it
	PausedAt    Time              `json:"pausedAt,omitzero"`
	Closing     RunPhase          `json:"closing,omitempty"` // the end it will have; set while hooks run and work stops
	CancelAsked bool              `json:"cancelAsked,omitempty"`
	// ScheduledAt is the firing that it is for, of a run that a schedule started, and Zone its time zone.
	ScheduledAt Time   `json:"scheduledAt,omitzero"`
	Zone        string `json:"zone,omitempty"`
	// CompensateUntil: it was cancelled or has expired, and its body undoes its work, until then at the latest.
	CompensateUntil Time   `json:"compensateUntil,omitzero"`
	Cron            string `json:"cron,omitempty"`
	Attempt         int    `json:"attempt,omitempty"` // number in its chain under the run retry policy, from 1
	First           string `json:"first,omitempty"`   // the first run of its chain; empty: this one
	Previous        string `json:"previous,omitempty"`
	Next            string `json:"next,omitempty"`        // the next run of its chain
	NextFrom        Time   `json:"nextFrom,omitzero"`     // when that would begin if this one ended now
	Notify          string `json:"notify,omitempty"`      // workflow id of a run that awaits its chain's end
	ParentClose     string `json:"parentClose,omitempty"` // the fate of a child run when its parent ends
	Why             string `json:"why,omitempty"`         // why it ended as it did
	// ClockStoppedAt: it is paused, and its own deadlines have been stopped since then.
	ClockStoppedAt Time            `json:"clockStoppedAt,omitzero"`
	Bounds         []Bound         `json:"bounds,omitempty"` // the instants of its own limits
	Failure        *policy.Failure `json:"failure,omitempty"`
	Retryable      bool            `json:"retryable,omitempty"` // it has ended, and a retry would be accepted
	Dialect        *Words          `json:"dialect,omitempty"`
	Steps          []*Step         `json:"steps"` // only to be read: the next call may return the same ones
	// Partial: it contains only what has changed. Its other steps, input and plan are as they were.
	Partial    bool          `json:"partial,omitempty"`
	Operations []Audit       `json:"operations"`
	Events     int           `json:"events"`         // number of its last event: Watch goes on from there
	Plan       []PlannedStep `json:"plan,omitempty"` // the steps of its definition, without hooks
	AsOf       *Event        `json:"asOf,omitempty"` // it is as it was right after this event; absent: as it is
}

// RunQueue is the queue that a run is started into, and the run's key and priority there.
type RunQueue struct {
	Name     string `json:"name"`
	Key      string `json:"key,omitempty"`
	Priority int32  `json:"priority,omitempty"`
	// Ahead is how many runs begin before it, while it waits; missing: it does not wait, or nobody can tell.
	Ahead *int `json:"ahead,omitempty"`
}

// PlannedStep is a step of a definition. The step may not have begun yet.
type PlannedStep struct {
	Name  string   `json:"name"`
	Needs []string `json:"needs,omitempty"`
	// Watches are the steps of which the first end ends it, if it is a wait. Sentences use it; callers do not get it.
	Watches []string `json:"-"`
}

// Words are the words of another system for a run or a step. A run has them if it was made from a document of that
// system, or from a flow that is written in its words.
type Words struct {
	System  string `json:"system,omitempty"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
	Retries *int   `json:"retries,omitempty"`
}

// Deadline is an instant that limits a run or a step, and its origin.
type Deadline struct {
	Limit  string   `json:"limit"`
	At     Time     `json:"at,omitzero"`      // absent: its clock stands
	Left   Duration `json:"left,omitzero"`    // the remaining time, while its clock is stopped
	Origin string   `json:"origin,omitempty"` // where it was set: order.yaml:12:5
	After  Duration `json:"after,omitzero"`   // the length that was set; zero: an instant was
	From   Time     `json:"from,omitzero"`    // when its clock started
}

// Audit is one operation that was carried out.
type Audit struct {
	At        Time   `json:"at"`
	Operation string `json:"operation"`
	Step      string `json:"step,omitempty"` // empty: of the run
	Actor     string `json:"actor,omitempty"`
	Reason    string `json:"reason,omitempty"`
	StopClock bool   `json:"stopClock,omitempty"` // the pause let the run's own deadlines stand still
	Deadlines []Move `json:"deadlines,omitempty"` // those it set
}

// Move is a deadline that an operation set.
type Move struct {
	Limit string `json:"limit"`
	At    Time   `json:"at,omitzero"` // zero: it was taken away
}
