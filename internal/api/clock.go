package api

import "context"

// Clock is a clock that moves only when somebody moves it. It is separate from Service because nearly all engines have
// a clock that runs.
type Clock interface {
	// Clock returns the state of the clock. Errors: CodeReadOnly (the clock runs).
	Clock(ctx context.Context) (ClockState, error)
	// MoveClock moves the clock forward. Everything that is due on the way happens at its instant. Errors: CodeInvalid,
	// CodeConflict (somebody else moves it), CodeReadOnly.
	MoveClock(ctx context.Context, m ClockMove) (ClockState, error)
}

// ClockMove specifies how far a clock is moved: one of its fields.
type ClockMove struct {
	By   Duration `json:"by,omitzero" doc:"Length by which the clock moves, such as 1h."`
	To   Time     `json:"to,omitzero" doc:"Instant to move to."`
	Next bool     `json:"next,omitempty" doc:"Set to move to the next instant at which a run does something by itself."`
	End  bool     `json:"end,omitempty" doc:"Until nothing happens by itself any more."`
	// AtMost bounds End. Default: 366 days.
	AtMost Duration `json:"atMost,omitzero" doc:"end: by this time at most; default 8784h."`
}

// ClockState is what a clock shows.
type ClockState struct {
	Now   Time `json:"now"`
	Next  Time `json:"next,omitzero"`      // when a run next does something on its own; zero: never
	Live  int  `json:"live,omitempty"`     // attempts that execute; the clock is stopped meanwhile
	More  bool `json:"more,omitempty"`     // the bound was reached after End, and there is more to come
	Moved bool `json:"moved,omitempty"`    // the clock was moved
	Steps int  `json:"instants,omitempty"` // the number of instants on the way at which something was due
}
