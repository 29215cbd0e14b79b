package engine

import (
	"slices"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Bodies are the functions that decide for the runs of a kind, outside the machine. The loop calls all methods, so
// they must not block. They may call only these methods of the engine: Do, Consult, Begin and Report.
type Bodies interface {
	// Consult gives a body news of its run, so that the body goes on. It is called before the news is durable. That is
	// safe: a body touches nothing outside, and its decisions take effect only once they are durable. It reports
	// whether the body may decide in a moment.
	Consult(n News) (decides bool)
	// CanBegin reports whether a task could begin now. Example: the task is a function inside a body, and the body has
	// not reached that step yet. Then the attempt does not start, so that none of its limits runs. Engine.Begin reports
	// when it can.
	CanBegin(run core.RunID, workflow, step, taskType string) bool
	// Forget reports that a run's end is durable. Its body is no longer needed.
	Forget(run core.RunID)
	// Reset reports that everything that was not durable is gone, for the runs that live in a partition (see lives).
	// Their bodies must be dropped: what these have decided since is rejected. Runs that have something to decide are
	// consulted again. Bodies that are made from now on belong to the new generation, which is higher than any before.
	Reset(generation int, lives func(core.RunID) bool)
}

// Body is one call of a run's body. Each decision builds on what the body saw and decided before. So once one of its
// decisions is refused, all later ones are rejected.
type Body struct {
	generation int
	stale      atomic.Bool
}

// NewBody returns a body of a generation: the one of the last Bodies.Reset, or 0 if there was none yet.
func NewBody(generation int) *Body { return &Body{generation: generation} }

// Invalidate marks the body as stale: it has acted on a result that was changed. Its pending decisions are rejected.
func (b *Body) Invalidate() { b.stale.Store(true) }

// News is the information for a body about its run.
type News struct {
	Run   core.RunID
	Whole bool   // Steps holds all steps of the run; else those that closed since the last news
	Head  *Head  // set if Whole
	Held  bool   // the body must not go on for now: the run is paused, closing or closed. No other field but Run is set
	Steps []Step // their slices are shared and never changed
}

// Head is the part of its run that a body may see apart from the steps.
type Head struct {
	Workflow, WorkflowID, Key string
	Input                     []byte
	CreatedAt, StartedAt      core.Time
	Execution, Deadline       core.RunLimit
	Parent                    core.Parent
	Chain                     core.Chain
	Updates                   []core.Update         // updates that were accepted, and the latest answers of the chain
	Points                    map[string]core.Point // where branches have published values
	Ends                      uint32                // see core.Run
	Stop                      *core.Stop            // the body is asked to stop; nil if it is not
	Headers                   core.Headers
}

// Step is a step as a body sees it.
type Step struct {
	ID          core.StepID
	Spec        *core.StepSpec
	Phase       core.StepPhase
	Reason      policy.Reason
	Attempts    int // those that count towards maxAttempts
	ScheduledAt core.Time
	EndedAt     core.Time
	Output      []byte
	Failure     *policy.Failure
	Dropped     bool
	Kept        bool   // taken over from an earlier run
	Restarted   bool   // an operator restarted it after it had closed
	UpdateID    string // the update that a wait has taken; empty: none, or one that is forgotten
	Rank        uint32 // see core.Step
}

// NewsOf makes news from a run's state: about the steps that closed, or about everything if closed is nil.
func NewsOf(s *core.Run, closed []core.StepID) News {
	n := News{Run: s.ID}
	if closed == nil {
		n.Whole = true
		n.Head = &Head{
			Workflow: s.Workflow, WorkflowID: s.WorkflowID, Key: s.Key, Input: s.Input, CreatedAt: s.CreatedAt,
			StartedAt: s.StartedAt, Execution: s.Execution, Deadline: s.Deadline, Parent: s.Parent, Chain: s.Chain,
			Stop: s.Stop, Updates: slices.Clone(s.Updates), Points: s.Points(),
			Headers: s.Headers, Ends: s.Ends,
		}
		n.Steps = make([]Step, len(s.Steps))
		for i := range s.Steps {
			n.Steps[i] = stepNews(s, &s.Steps[i])
		}
		return n
	}
	n.Steps = make([]Step, len(closed))
	for i, id := range closed {
		n.Steps[i] = stepNews(s, &s.Steps[id])
	}
	return n
}

func stepNews(r *core.Run, s *core.Step) Step {
	n := Step{
		ID: s.ID, Spec: s.Spec, Phase: s.Phase, Reason: s.Reason, Attempts: s.Counted, ScheduledAt: s.ScheduledAt,
		EndedAt: s.EndedAt, Output: s.Output, Failure: s.Failure, Dropped: s.Dropped, Kept: s.Kept,
		Restarted: s.Restarted, Rank: s.Rank,
	}
	if s.Spec.Update != "" {
		if u := r.TakenBy(s.ID); u != nil {
			n.UpdateID = u.ID
		}
	}
	return n
}
