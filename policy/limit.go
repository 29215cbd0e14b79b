package policy

import "time"

// LimitKind names one of the clocks that bound work. If two limits expire at the same instant, the outer one fires. The
// outer limits come first here.
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

// Expire is how a step ends when its limit expires. Zero: as timed out, which is an error for the run.
type Expire uint8

// ExpireCancel ends the step as cancelled.
const ExpireCancel Expire = 1

// Limit is one timeout: an amount, and the effect of its expiry. When the limit's clock starts, the amount becomes a
// deadline, which is an instant.
type Limit struct {
	After    time.Duration // > 0, unless At, Removed or Expr is set
	At       Time          // an absolute instant instead of an amount (LimitDeadline only)
	Retry    bool          // another attempt may follow one that this limit ended
	OnExpire Expire
	Warn     int    // percent of After at which a warning event is recorded; 0 if there is none
	Removed  bool   // "none": removes an inherited limit
	Origin   string // where it was configured ("order.yaml:12:5", "defaults", …)
	Expr     string // the expression of a flow that gives the amount: ${{ input.patience }}
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

// Policy holds how long a step may take and how often it is tried.
type Policy struct {
	Retry *Retry // nil: the default, one attempt
	Limits
}
