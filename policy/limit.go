package policy

import "time"

// LimitKind names one of the clocks that bound work. The order is the order of precedence at one instant: of two
// limits due together the outer one, which stands first here, fires.
type LimitKind uint8

// The limits, outermost first.
const (
	LimitNone            LimitKind = iota
	LimitExecution                 // the chain of runs
	LimitRun                       // one run
	LimitScheduleToClose           // the step, from its first scheduling
	LimitDeadline                  // the step, from its first attempt's start
	LimitScheduleToStart           // one attempt, until a worker takes it
	LimitStartToClose              // one attempt, from its start
	LimitHeartbeat                 // silence of heartbeats
	LimitInactivity                // silence of output
	LimitWait                      // an event wait, from its registration
	LimitTask                      // a worker advancing a body
)

// Expire says how a step ends whose limit ended it.
type Expire uint8

// What an expiry does to the step.
const (
	ExpireFail   Expire = iota // timed_out: an error for the run
	ExpireCancel               // cancelled
)

// Limit is one timeout: an amount, and what its expiry does. A clock and a Limit make a deadline.
type Limit struct {
	After    time.Duration // > 0, unless At or Removed is set
	At       Time          // an absolute instant instead of an amount (LimitDeadline only)
	Retry    bool          // whether an attempt this limit ended may be followed by another
	OnExpire Expire
	Warn     int    // percent of After at which a warning event is recorded; 0: none
	Removed  bool   // "none": takes an inherited limit away
	Origin   string // where it was configured ("order.yaml:12:5", "defaults", …)
}

// Limits are a step's timeouts; nil means unlimited.
type Limits struct {
	ScheduleToStart *Limit
	StartToClose    *Limit
	ScheduleToClose *Limit
	Deadline        *Limit
	Heartbeat       *Limit
	Inactivity      *Limit
	Wait            *Limit
}

// Policy is everything that says how long a step may take and how often it is tried.
type Policy struct {
	Retry *Retry // nil: the default, one attempt
	Limits
}
