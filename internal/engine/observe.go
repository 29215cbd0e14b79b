package engine

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// Observer gets the data for metrics and traces. Its functions are called by the loop: they must not block, and must
// not call the engine.
type Observer struct {
	// Recorded is called for a record that is durable now: RunCreated, RunStarted, RunEnded, AttemptHeld,
	// AttemptStarted, AttemptEnded, or StepEnded with a failure. Records that a process does not report before it dies
	// are not reported later.
	Recorded func(o *Observation)
	// Fired is called for a run that was due at an instant and is woken now.
	Fired func(due, now core.Time)
	// Committed is called for a batch that the journal has taken.
	Committed func(took time.Duration, entries, bytes int)
}

// Observation is a record with the relevant data of its run and step.
type Observation struct {
	Record core.Record
	At     core.Time
	Run    Head // the run without Input, Updates, Points and Stop
	ID     core.RunID
	Step   string // its key; empty: the record is about the run
	Spec   *core.StepSpec
	// Attempt is the attempt of the record. Its row may lack what happened in an earlier process.
	Attempt journal.AttemptRow
	Failure *policy.Failure // the failure of a run that has ended
}

// BeginsRun reports whether the run begins with the record. One that waits, for its start or for its queue, begins
// later than it is created. One that is retried, and may wait for its queue again, has begun before.
func (o *Observation) BeginsRun() bool {
	switch rec := o.Record.(type) {
	case core.RunCreated:
		return rec.StartAt == 0 && (rec.Queue.Name == "" || rec.Admitted)
	case core.RunStarted:
		return o.Run.StartedAt == o.At
	default:
		return false
	}
}

// observe keeps the data of a transition's entry for an observer, until its batch is durable.
func (l *pipeline) observe(r *run, e *core.Entry, rec core.Record, row *attempt) {
	s := r.state
	o := Observation{
		Record: rec, At: e.At, ID: s.ID,
		Run: Head{
			Workflow: s.Workflow, WorkflowID: s.WorkflowID, Key: s.Key, CreatedAt: s.CreatedAt, StartedAt: s.StartedAt,
			Execution: s.Execution, Deadline: s.Deadline, Parent: s.Parent, Chain: s.Chain, Headers: s.Headers,
		},
	}
	step := core.NoStep
	switch rec := rec.(type) {
	case core.RunEnded:
		o.Failure = s.Failure
	case core.AttemptHeld:
		step = rec.Step
	case core.AttemptStarted:
		step = rec.Step
	case core.AttemptEnded:
		step = rec.Step
	case core.StepEnded:
		step = rec.Step
	default:
	}
	if step != core.NoStep {
		st := &s.Steps[step]
		o.Step, o.Spec = st.Key(), st.Spec
	}
	if row != nil {
		o.Attempt = row.row
	}
	l.open.observed = append(l.open.observed, o)
}

// tell gives the observer the durable data.
func (o *Observer) tell(b *batch) {
	for i := range b.observed {
		o.Recorded(&b.observed[i])
	}
}
