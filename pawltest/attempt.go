package pawltest

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/client"
)

// Attempts returns the attempts of a step, in their order: when each began and ended in virtual time, how it failed,
// and when the next one follows. It fails the test if the run has no such step.
func (e *Env) Attempts(run, step string) []client.AttemptExplanation {
	e.checkMade()
	e.t.Helper()
	return e.explained(run, step).Attempts
}

// explained returns a step with all of its attempts.
func (e *Env) explained(run, step string) client.StepExplanation {
	e.t.Helper()
	x, err := e.Explain(e.t.Context(), run)
	if err != nil {
		e.t.Fatal(err)
	}
	var known []string
	for _, s := range slices.Backward(x.Steps) { // a retry of the run may have made it again
		if s.Name == step {
			return s
		}
		known = append(known, s.Name)
	}
	slices.Reverse(known)
	e.t.Fatalf("run %s has no step %q, only %q", run, step, known)
	return client.StepExplanation{}
}

// WantStarts fails the test if the attempts of the step have not started just that long after the step was first
// scheduled:
//
//	e.WantStarts("order-1", "charge", 0, time.Second, 3*time.Second) // a second after the first one, two after that
func (e *Env) WantStarts(run, step string, after ...time.Duration) {
	e.checkMade()
	e.t.Helper()
	s := e.explained(run, step)
	var starts []time.Duration
	said := ""
	for _, a := range s.Attempts {
		if a.StartedAt.IsZero() {
			continue // it waits for a worker
		}
		starts = append(starts, a.StartedAt.Sub(s.ScheduledAt))
		said += fmt.Sprintf("\n\tattempt %d at %s: %s", a.Number, a.StartedAt.Sub(s.ScheduledAt), ending(a))
	}
	if !slices.Equal(starts, after) {
		e.t.Errorf("the attempts of step %q of run %s started at %s, want %s%s", step, run, starts, after, said)
	}
}

// ending describes how an attempt ended, in a few words.
func ending(a client.AttemptExplanation) string {
	switch {
	case a.EndedAt.IsZero():
		return "it runs"
	case a.Why != "":
		return a.Why
	default:
		return a.Outcome
	}
}
