package api

import "context"

// Changes tells what happens in all runs. It is beside Service because only the process that carries the runs on hears
// of it.
type Changes interface {
	// Changes calls fn with what happens in the runs that a query selects, until ctx is done or fn fails. after is
	// the ID of a change that the caller has seen, or "" to begin with now. The first change says where it begins; it
	// has no event. Errors: CodeInvalid, CodeReadOnly (no engine is behind this), CodeLapsed (fn takes so long that
	// changes were dropped), and what fn returned, as it is.
	Changes(ctx context.Context, q Query, after string, fn func(Change) error) error
}

// Change is one event of a run that a query selects before the event or after it.
type Change struct {
	ID string `json:"id"` // the place in the stream, to go on from there
	// Missed: what happened since the place that the caller went on from is not kept any more. It should read again
	// what it shows. It has no event.
	Missed bool        `json:"missed,omitempty"`
	Event  *Event      `json:"event,omitempty"` // nil: the stream begins
	Run    *RunSummary `json:"run,omitempty"`   // the run after the event
	Left   bool        `json:"left,omitempty"`  // the query does not select the run any more
}
