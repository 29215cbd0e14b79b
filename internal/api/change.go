package api

import "context"

// Changes reports what happens in all runs. It is separate from Service because only the process that carries the runs
// on learns of it.
type Changes interface {
	// Changes calls fn with the changes of the runs that a query selects, until ctx is done or fn fails. after is the
	// ID of a change that the caller has seen, or "" to begin with now. The first change has no event: it gives the
	// place of the beginning. Errors: CodeInvalid, CodeReadOnly (no engine is behind this), CodeLapsed (fn took so long
	// that changes were dropped), and the error of fn, unchanged.
	Changes(ctx context.Context, q Query, after string, fn func(Change) error) error
}

// Change is one event of a run that a query selects before the event or after it.
type Change struct {
	ID string `json:"id"` // the place in the stream, to go on from there
	// Missed: the changes since the caller's place are no longer kept. It should read again what it shows. It has no
	// event.
	Missed bool        `json:"missed,omitempty"`
	Event  *Event      `json:"event,omitempty"` // nil: the stream begins
	Run    *RunSummary `json:"run,omitempty"`   // the run after the event
	Left   bool        `json:"left,omitempty"`  // the query no longer selects the run
}
