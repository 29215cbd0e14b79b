package api

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/policy"
)

// StepPhase is where a step is in its life.
type StepPhase string

// The step phases. From StepSucceeded on the step has ended.
const (
	StepPending    StepPhase = "pending"     // known, waits for other steps
	StepScheduled  StepPhase = "scheduled"   // an attempt waits for a worker
	StepRunning    StepPhase = "running"     // an attempt runs
	StepBackingOff StepPhase = "backing_off" // waits for its next attempt
	StepSuspended  StepPhase = "suspended"   // sleeps, or waits for an event, a child run or its items
	StepSucceeded  StepPhase = "succeeded"
	StepFailed     StepPhase = "failed"
	StepTimedOut   StepPhase = "timed_out"
	StepCancelled  StepPhase = "cancelled"
	StepSkipped    StepPhase = "skipped"
)

// Closed reports whether the step has ended.
func (p StepPhase) Closed() bool {
	switch p {
	case StepPending, StepScheduled, StepRunning, StepBackingOff, StepSuspended:
		return false
	default:
		return true
	}
}

// The kinds of steps that are not tasks. A task's kind is its type: exec, http, or the name of a worker's function.
const (
	KindSleep = "sleep"
	KindWait  = "wait"
	KindFlow  = "flow"  // a child run
	KindGroup = "group" // the items of a forEach
	KindSend  = "send"  // gives another run an event, or asks it to cancel
)

// Step is the present state of a step, with all of its attempts.
type Step struct {
	Step string `json:"step"`           // its key: its name, of an item with its index: pages[3]
	ID   int    `json:"id"`             // its number in the run, from 0
	Name string `json:"name"`           // as the definition has it
	Item *int   `json:"item,omitempty"` // index among the items of a forEach
	// ItemName is the name of the item for people: the flow's itemName, or the item's text.
	ItemName string `json:"itemName,omitempty"`
	Group    string `json:"group,omitempty"` // the key of an item's forEach
	Items    int    `json:"items,omitempty"` // the number of a forEach's items, those that have not begun included
	// FailedItems is the number of a forEach's items that failed or timed out.
	FailedItems int `json:"failedItems,omitempty"`
	// Folded is how its items stand, where an answer leaves them out.
	Folded *Folded `json:"folded,omitempty"`

	Kind  string `json:"kind"`
	Type  string `json:"type,omitempty"`  // the type of a task; else empty
	Queue string `json:"queue,omitempty"` // the queue of a task; empty: the engine's own workers
	Event string `json:"event,omitempty"` // the event that a wait is for
	// Any are the events of which the first to come ends a wait; empty, and no Event: the end of another step ends it.
	Any    []string `json:"any,omitempty"`
	Update string   `json:"update,omitempty"` // the update that a wait is for
	Actor  string   `json:"actor,omitempty"`  // the sender of the event that ended a wait

	Phase  StepPhase `json:"phase"`
	Status Status    `json:"status"`           // a word for people
	Reason string    `json:"reason,omitempty"` // why it was not tried again
	Why    string    `json:"why,omitempty"`    // why it ended as it did; of an open one, that it is a suspect

	ScheduledAt Time     `json:"scheduledAt,omitzero"`
	ReadyAt     Time     `json:"readyAt,omitzero"`   // its last attempt waits, or waited, for a worker from here on
	StartedAt   Time     `json:"startedAt,omitzero"` // the start of the attempt that runs now
	EndedAt     Time     `json:"endedAt,omitzero"`
	NextAt      Time     `json:"nextAt,omitzero"`  // the next attempt, a sleep's end, a wait's deadline
	Backoff     Duration `json:"backoff,omitzero"` // the delay before the last or the next attempt

	Attempt     int  `json:"attempt,omitempty"`     // number of the last attempt
	MaxAttempts int  `json:"maxAttempts,omitempty"` // 0: any number
	Counted     int  `json:"counted,omitempty"`     // attempts that use up maxAttempts: lost ones do not
	Lost        int  `json:"lost,omitempty"`        // attempts in a row that were lost with their worker
	Stopping    bool `json:"stopping,omitempty"`    // the work of an ended attempt has not stopped yet
	Kept        bool `json:"kept,omitempty"`        // its result was taken over from an earlier run
	Hook        bool `json:"hook,omitempty"`        // it runs because of how the run ends

	ScheduleToClose Time       `json:"scheduleToCloseDeadline,omitzero"`
	Deadline        Time       `json:"deadline,omitzero"`
	Held            *Held      `json:"held,omitempty"`      // the limit of its queue or service that a step waits for
	Deadlines       []Deadline `json:"deadlines,omitempty"` // both, with where they were set
	Binding         *Deadline  `json:"binding,omitempty"`   // the deadline of an open step that comes first
	Says            *Saying    `json:"says,omitempty"`      // the doings of an open step and why, without its name
	Ends            []End      `json:"ends,omitempty"`      // everything that can end it, the first one first
	Ahead           *Ahead     `json:"ahead,omitempty"`     // the future of an open step whose attempts fail
	Bars            []Bar      `json:"bars,omitempty"`      // its spans of time, the ones to come included
	Bounds          []Bound    `json:"bounds,omitempty"`    // the instants that bound it
	AgainAt         Time       `json:"againAt,omitzero"`    // the last time that an operator put it back to work
	// Policy is the one in force. Items of a forEach that succeeded have none here.
	Policy *policy.Policy `json:"policy,omitempty"`

	Failure *policy.Failure `json:"failure,omitempty"`
	// Heartbeat is the value of the last heartbeat that had one: how far the attempt that runs is.
	Heartbeat  json.RawMessage `json:"heartbeat,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	Child      string          `json:"child,omitempty"` // the run its last attempt started
	Dialect    *Words          `json:"dialect,omitempty"`
	Superseded bool            `json:"superseded,omitempty"` // it is of the time before the run was retried
	Attempts   []Attempt       `json:"attempts"`
}

// Ahead is the future of a step if each attempt fails after the usual time.
type Ahead struct {
	Attempts []Planned `json:"attempts,omitempty"` // the next ones, at most 20
	GivesUp  Time      `json:"givesUp,omitzero"`   // when the step ends; absent: it is not known
	Attempt  int       `json:"attempt,omitempty"`  // the last one before that
	Reason   string    `json:"reason,omitempty"`   // why no other attempt follows
	Limit    string    `json:"limit,omitempty"`    // the limit that ends it, or leaves no time
	Soonest  bool      `json:"soonest,omitempty"`  // other runs share a limit, so attempts may begin later
}

// Planned is an attempt that has not begun.
type Planned struct {
	Attempt int  `json:"attempt"`
	From    Time `json:"from"`
	To      Time `json:"to"`
}

// Attempt is one attempt of a step.
type Attempt struct {
	Attempt   int    `json:"attempt"`
	Life      int    `json:"life,omitempty"`   // how often an operator had put the step back to work before
	ReadyAt   Time   `json:"readyAt,omitzero"` // it waited for a worker from here on
	StartedAt Time   `json:"startedAt,omitzero"`
	EndedAt   Time   `json:"endedAt,omitzero"`
	Outcome   string `json:"outcome,omitempty"` // succeeded, or the failure's kind; empty: it is open
	Limit     string `json:"limit,omitempty"`   // the limit that ended it
	Worker    string `json:"worker,omitempty"`
	Child     string `json:"child,omitempty"`     // the run it started
	NextAt    Time   `json:"nextAt,omitzero"`     // the attempt after it
	Why       string `json:"why,omitempty"`       // its failure in a sentence
	Note      string `json:"note,omitempty"`      // the fault of the retry condition
	StoppedAt Time   `json:"stoppedAt,omitzero"`  // when its work was gone, if it ended before that
	Killed    bool   `json:"killed,omitempty"`    // its work did not stop when it was asked, and was killed
	Abandoned bool   `json:"abandoned,omitempty"` // its work did not stop
	Held      *Held  `json:"held,omitempty"`      // the limit that held it last before it started
	// Heartbeats are the last ones that were recorded, at most 50. One in a second is.
	Heartbeats []Time          `json:"heartbeats,omitempty"`
	Failure    *policy.Failure `json:"failure,omitempty"`
}

// Held explains why an attempt that is ready waits though a worker could take it, or why a run has not begun. Its
// limits and deadlines go on meanwhile.
type Held struct {
	Reason  string `json:"reason"` // concurrency, rate, per_key, key_rate, retries or breaker
	Queue   string `json:"queue,omitempty"`
	Service string `json:"service,omitempty"`
	Key     string `json:"key,omitempty"`    // the key, for limits for each key
	Since   Time   `json:"since,omitzero"`   // when it was recorded
	Until   Time   `json:"until,omitzero"`   // no sooner than that; absent: until another attempt ends
	Probes  int    `json:"probes,omitempty"` // the failed probes of a breaker
	Why     string `json:"why"`              // the reason in a sentence, without Until
}
