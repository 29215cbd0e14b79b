package body

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// Ready is the work that a session wants done. The shell takes it after each input and carries it out, in the order of
// the fields, before the session gets its next input.
type Ready struct {
	// Start: all of the run is known. The shell calls Session.Start, or Session.Stop where its workflow is not known.
	Start bool
	// Begin are recorded steps that the body has reached: their attempts, which had to wait for their functions, can
	// begin.
	Begin []core.StepID
	// Found are steps that the body has reached and whose functions attempts have requested with Session.Want.
	Found []*Step
	// GiveBack: the body is idle, and has not reached the steps whose functions attempts wait for.
	GiveBack bool
	// Send are inputs for the engine, as one commit. Its answer goes to Session.Answered.
	Send []core.Input
	// Report are ends of attempts for the engine that are not part of a commit.
	Report []core.Input
	// Refused are updates that the body does not accept.
	Refused []Refusal
	// Timers are changes, by timer.
	Timers [timers]TimerChange
	// Wake are branches that go on. Those of a session that is over leave the body.
	Wake []*Branch
	// Rests: the body waits, and not for a worker or an attempt.
	Rests bool
	// Returned: the body has returned, and nothing prevents that any longer.
	Returned bool
	// Stuck explains why the body cannot go on, nil if it can. The shell calls Session.RetryAfter.
	Stuck *Stuck
	// Gone: the session is of no more use, and the table forgets it. Attempts that wait for a function ask its
	// successor.
	Gone bool
	// CallAgain: after the pause the shell asks the engine for whole news of the run, which then make a new session.
	CallAgain bool
	Pause     time.Duration
}

// Timer is one of a session's timers.
type Timer uint8

const (
	TimerTask  Timer = iota // the body has been in the user's code for as long as it may
	TimerFlush              // decisions and ends have waited long enough for branches that compute
	TimerIdle               // all branches have waited long enough to be unwound
	TimerRetry              // a body that was stuck is called again
	TimerTurn               // some bodies of a host that are at work have had their turn
)

// timers is how many a session has.
const timers = int(TimerRetry) + 1

func (t Timer) String() string { return [...]string{"task", "flush", "idle", "retry", "turn"}[t] }

// TimerChange sets or stops a timer.
type TimerChange struct {
	Op    TimerOp
	After time.Duration // the time to it, for TimerSet
}

// TimerOp is an operation on a timer.
type TimerOp uint8

const (
	TimerStays TimerOp = iota
	TimerSet           // it fires once, after the duration from now; an earlier setting is void
	TimerStop          // it does not fire
)

// Stuck explains why a body cannot go on.
type Stuck struct {
	Why             Why
	Run             core.RunID
	Workflow        string
	Recorded, Asked string        // the names, for Changed and Unreadable; Asked also for Unencodable
	Err             error         // the codec's error, for Unreadable and Unencodable
	Limit           time.Duration // the limit, for Overdue
	Stack           string        // the stack of the goroutines that ran, for Overdue, if the shell knows them
}

// Why is a reason for a body not to go on.
type Why uint8

const (
	Changed     Why = iota // its code asks for something else than is recorded
	Overdue                // it did not reach its next step within the task limit
	Unknown                // its workflow is not registered
	Unreadable             // its code cannot read a value that is recorded
	Unencodable            // the codec cannot encode a value for now
)

// Error describes it for developers of the runtime; users get the errors of package pawl.
func (s *Stuck) Error() string {
	switch s.Why {
	case Changed:
		return fmt.Sprintf("the code has changed: recorded is %s, asked for was %s", s.Recorded, s.Asked)
	case Unreadable:
		return fmt.Sprintf("%s cannot be read as %s: %v", s.Recorded, s.Asked, s.Err)
	case Unencodable:
		return fmt.Sprintf("%s cannot be encoded: %v", s.Asked, s.Err)
	case Overdue:
		return fmt.Sprintf("the body did not come to its next step within %s", s.Limit)
	default:
		return fmt.Sprintf("workflow %q is not registered", s.Workflow)
	}
}

// Ready returns the work that came up since the last call, nil if there is none. The value is valid until the next
// call.
func (s *Session) Ready() *Ready {
	if !s.dirty {
		return nil
	}
	wake := s.taken.Wake
	clear(wake)
	s.taken, s.ready, s.dirty = s.ready, Ready{Wake: wake[:0]}, false
	return &s.taken
}

// change returns what is ready so far, to add to it.
func (s *Session) change() *Ready {
	s.dirty = true
	return &s.ready
}

func (s *Session) set(t Timer, after time.Duration) {
	s.armed[t] = true
	s.change().Timers[t] = TimerChange{Op: TimerSet, After: after}
}

func (s *Session) stop(t Timer) {
	if s.armed[t] {
		s.armed[t] = false
		s.change().Timers[t] = TimerChange{Op: TimerStop}
	}
}

func (s *Session) stopTimers() {
	for t := range timers {
		s.stop(Timer(t))
	}
}
