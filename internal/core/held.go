package core

import "fmt"

// Share names the queue and the service whose limits bound a step's attempts, together with those of other steps and
// runs. The limits are the engine's or the definition's.
type Share struct {
	Queue   string // the queue, besides the task queue, of a step that needs no worker of its own; or empty
	Service string // empty: none
	Key     string // limits for each key count the attempts with this one; empty is a key as well
}

// Shared is the present state of a step towards such limits.
type Shared struct {
	Key   string // decided when the step began; empty: the Share's
	Held  Held
	Since Time // when Held was recorded
}

// Held explains why an attempt that is ready waits though a worker could take it. Being held stops no clock: the limits
// and deadlines of the step go on.
type Held struct {
	Reason  HeldReason // HeldNone: it is not held
	Service bool       // Name is a service; else a queue
	Name    string
	Key     string // where the reason is a limit for each key
	Until   Time   // the earliest end of the hold; zero: when another attempt ends
	Probes  int    // HeldBreaker: the probes that have failed since the breaker opened
}

// HeldReason is the limit that holds an attempt, or a run.
type HeldReason uint8

// The reasons. Their numbers are in journals, their names in histories.
const (
	HeldNone HeldReason = iota
	HeldConcurrency
	HeldRate
	HeldKeyConcurrency
	HeldKeyRate
	HeldRetries
	HeldBreaker
)

var heldNames = [...]string{"", "concurrency", "rate", "per_key", "key_rate", "retries", "breaker"}

func (r HeldReason) String() string { return name(heldNames[:], r) }

// Place returns the name of the queue or service; "" where nothing is held.
func (h Held) Place() string {
	switch {
	case h.Reason == HeldNone:
		return ""
	case h.Service:
		return "service " + h.Name
	default:
		return "queue " + h.Name
	}
}

// Why explains for people why it is held, or returns "" if it is not. It leaves Until out: that instant passes while
// nothing is recorded, since another one may go first when it has come.
func (h Held) Why() string {
	why := ""
	switch h.Reason {
	case HeldNone:
		return ""
	case HeldConcurrency:
		why = "its concurrency is used up"
	case HeldRate:
		why = "its rate is used up"
	case HeldKeyConcurrency:
		why = fmt.Sprintf("the concurrency of its key %q is used up", h.Key)
	case HeldKeyRate:
		why = fmt.Sprintf("the rate of its key %q is used up", h.Key)
	case HeldRetries:
		why = "its retries have used up their shared budget"
	case HeldBreaker:
		why = "its last attempts have failed, and a probe goes first"
		if h.Probes > 0 {
			why += fmt.Sprintf(" (%d failed so far)", h.Probes)
		}
	}
	return "held by " + h.Place() + ": " + why
}

// Line is how a run stands in the line of its queue.
type Line struct {
	Ahead   SomeRuns // the runs that begin before it
	Holders SomeRuns // those that have the places it waits for; none: it waits for something else
}

// SomeRuns are runs, of which the first ones are named.
type SomeRuns struct {
	N     int
	Named []NamedRun
}

// NamedRun is a run with the name that its caller chose, or none.
type NamedRun struct {
	Run        RunID
	WorkflowID string
}

// ShareKey returns the key under which limits for each key count the step's attempts.
func (s *Step) ShareKey() string {
	switch {
	case s.Shared != nil && s.Shared.Key != "":
		return s.Shared.Key
	case s.Spec.Share != nil:
		return s.Spec.Share.Key
	default:
		return ""
	}
}

// HeldNow returns why the step's attempt is held.
func (s *Step) HeldNow() Held {
	if s.Shared == nil || s.Phase != StepScheduled {
		return Held{}
	}
	return s.Shared.Held
}

// hold notes why the attempt is held. What others may have been given is replaced, never changed.
func (s *Step) hold(h Held, at Time) {
	next := Shared{Held: h, Since: at}
	if h.Reason == HeldNone {
		next = Shared{}
	}
	if s.Shared != nil {
		next.Key = s.Shared.Key
	}
	s.Shared = nil
	if next != (Shared{}) {
		s.Shared = &next
	}
}

// release notes that the attempt is no longer held.
func (s *Step) release() {
	if s.Shared != nil && s.Shared.Held.Reason != HeldNone {
		s.hold(Held{}, 0)
	}
}

// taskHeld records why an attempt waits though a worker could take it.
func (m *machine) taskHeld(in TaskHeld) error {
	s, err := m.attempt("hold of an attempt", in.Step, in.Attempt, StepScheduled)
	if err != nil {
		return err
	}
	if s.HeldNow() != in.Held {
		m.emit(AttemptHeld{Step: s.ID, Held: in.Held})
	}
	return nil
}
