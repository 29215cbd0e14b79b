package api

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/policy"
)

// Types of events that programs treat specially.
const (
	EventAttemptStarted   = "attempt.started"   // Child names the run it started, if it did
	EventAttemptHeartbeat = "attempt.heartbeat" // there may be many of them
	EventAttemptEnded     = "attempt.ended"
	EventAttemptLost      = "attempt.lost" // it died with its worker
)

// Event is one thing that happened to a run. The same history always gives the same events with the same numbers.
type Event struct {
	Seq        int             `json:"seq"` // the number in the run, from 1
	Time       Time            `json:"time"`
	OffsetMs   int64           `json:"offsetMs"` // milliseconds since the run was created
	Run        string          `json:"run"`
	Type       string          `json:"type"`
	Step       string          `json:"step,omitempty"`     // the step's key; empty if it is about the run
	ItemName   string          `json:"itemName,omitempty"` // the name of the item that the step is
	Attempt    int             `json:"attempt,omitempty"`
	Phase      string          `json:"phase,omitempty"` // the phase it ended in
	Reason     string          `json:"reason,omitempty"`
	Limit      string          `json:"limit,omitempty"`      // the limit it is about
	Deadline   Time            `json:"deadline,omitzero"`    // when that limit ends
	NextAt     Time            `json:"nextAt,omitzero"`      // the next attempt, a sleep's end, a delayed start
	DurationMs int64           `json:"durationMs,omitempty"` // the time that an attempt took, in milliseconds
	Worker     string          `json:"worker,omitempty"`
	Child      string          `json:"child,omitempty"` // child run that an attempt started, or the chain's next run
	Name       string          `json:"name,omitempty"`
	Actor      string          `json:"actor,omitempty"`
	Why        string          `json:"why,omitempty"` // the actor's reason, or what was wrong with a retry condition
	Failure    *policy.Failure `json:"failure,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`    // input, output, payload, a heartbeat's details
	Text       string          `json:"text,omitempty"`    // the event in a sentence
	Dialect    string          `json:"dialect,omitempty"` // its name in the system whose document the run was made of
}
