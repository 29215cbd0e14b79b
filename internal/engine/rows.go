package engine

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// rows collects which rows of the view a run's entries change. Rows of steps are made from the state later. Rows of
// attempts are collected here, because the state has only the last attempt of each step.
type rows struct {
	steps    []core.StepID     // steps that changed; a step may be listed twice
	made     []journal.StepRow // the rows of a run that was set aside, made from a state that could still be trusted
	nextStep core.StepID       // the id of the next step that is recorded
	attempts []attempt         // attempts that are open, or changed since the view was written
	index    map[core.StepID]int
	stored   bool // the view may have rows of the run
}

type attempt struct {
	row     journal.AttemptRow
	changed bool
}

// Rows returns what the view must have of a run with that history: its row, steps and attempts. A check of a journal
// compares them with what the view has. The error is a panic of the definition's code.
func Rows(id core.RunID, partition int, def *core.Definition, h journal.History) (v journal.View, err error) {
	defer catchPanic("its history was folded", nil, &err)
	r := &run{state: core.Restore(id, def, nil)}
	for i := range h.Entries {
		r.state.Fold(h.Entries[i])
		r.rows.note(r.state, &h.Entries[i], nil)
	}
	v.Runs = []journal.RunRow{r.row(partition, h.Applied)}
	r.rows.moveTo(r.state, &v)
	return v, nil
}

// RowOf returns the row of a run in a state, without its partition and its batch.
func RowOf(s *core.Run) journal.RunRow { return (&run{state: s}).row(0, 0) }

// manyAttempts is how many attempts there must be before an index is faster than a search.
const manyAttempts = 16

// note adds an entry that is already in the state s. tell, if it is not nil, is called with the records for observers,
// and with the row of an attempt.
func (w *rows) note(s *core.Run, e *core.Entry, tell func(core.Record, *attempt)) {
	if tell == nil {
		tell = func(core.Record, *attempt) {}
	}
	for i, record := range e.Records {
		switch rec := record.(type) {
		case core.StepBegan:
			id := w.nextStep
			w.nextStep++
			w.touch(id)
			if s.Steps[id].Spec.Kind == core.KindTask {
				w.open(s, id, 1, e.At)
			}
		case core.StepOmitted:
			w.touch(w.nextStep)
			w.nextStep++
		case core.AttemptReady:
			w.touch(rec.Step)
			w.open(s, rec.Step, s.Steps[rec.Step].Attempt-laterAttempts(e.Records[i+1:], rec.Step), e.At)
		case core.AttemptStarted:
			w.touch(rec.Step)
			if s.Steps[rec.Step].Spec.Kind != core.KindTask {
				w.open(s, rec.Step, s.Steps[rec.Step].Attempt-laterAttempts(e.Records[i+1:], rec.Step), e.At)
			}
			if a := w.find(rec.Step); a != nil {
				a.row.Started, a.row.Worker, a.changed = e.At, rec.Worker, true
				tell(record, a)
			}
		case core.AttemptHeld:
			tell(record, w.find(rec.Step))
		case core.RunCreated, core.RunStarted, core.RunEnded:
			tell(record, nil)
		case core.AttemptEnded:
			w.touch(rec.Step)
			if a := w.find(rec.Step); a != nil {
				a.end(e.At, rec)
				tell(record, a)
			}
		case core.AttemptStopped:
			w.touch(rec.Step)
		case core.StepEnded:
			w.touch(rec.Step)
			if rec.Failure != nil {
				tell(record, nil)
			}
		case core.StepReset:
			w.touch(rec.Step)
		case core.StepPolicy:
			w.touch(rec.Step)
		case core.DeadlineMoved:
			w.touch(rec.Step)
		default:
		}
	}
}

func (a *attempt) end(at core.Time, rec core.AttemptEnded) {
	a.row.Ended, a.row.Outcome, a.changed = at, "succeeded", true
	if f := rec.Failure; f != nil {
		a.row.Outcome, a.row.Limit, a.row.Message = f.Kind.String(), f.Limit, f.Message
	}
}

// laterAttempts counts the attempts of a step that begin in the rest of an entry. The state has the number of the
// last one; the number of an earlier one follows from the count.
func laterAttempts(rest []core.Record, step core.StepID) int {
	// An attempt begins twice in one entry if a child cannot start and is tried again at once. Those records are
	// next to each other, so a short look ahead is enough.
	const near = 64
	n := 0
	for _, rec := range rest[:min(len(rest), near)] {
		switch rec := rec.(type) {
		case core.AttemptReady:
			if rec.Step == step {
				n++
			}
		case core.AttemptStarted:
			if rec.Step == step && rec.Child != (core.RunID{}) {
				n++
			}
		default:
		}
	}
	return n
}

// touch marks a step's row as changed.
func (w *rows) touch(id core.StepID) {
	if id == core.NoStep {
		return
	}
	if w.steps == nil {
		w.steps = make([]core.StepID, 0, manyAttempts)
	}
	if n := len(w.steps); n == 0 || w.steps[n-1] != id {
		w.steps = append(w.steps, id)
	}
}

// touchAll marks the rows of all steps as changed.
func (w *rows) touchAll(s *core.Run) {
	for i := range s.Steps {
		w.steps = append(w.steps, s.Steps[i].ID)
	}
}

// open adds the row of a new attempt.
func (w *rows) open(s *core.Run, step core.StepID, number int, at core.Time) {
	row := journal.AttemptRow{Run: s.ID, Step: step, Attempt: number, ReadyAt: at}
	if w.attempts == nil { // growing one by one would copy all of them again and again
		w.attempts = make([]attempt, 0, min(cap(s.Steps), manyAttempts))
	}
	w.attempts = append(w.attempts, attempt{row, true})
	if w.index != nil {
		w.index[step] = len(w.attempts) - 1
	} else if len(w.attempts) > manyAttempts {
		w.buildIndex()
	}
}

func (w *rows) buildIndex() {
	w.index = make(map[core.StepID]int, len(w.attempts))
	for i := range w.attempts {
		w.index[w.attempts[i].row.Step] = i
	}
}

// find returns the last attempt of a step if it is open.
func (w *rows) find(step core.StepID) *attempt {
	if w.index != nil {
		if i, ok := w.index[step]; ok && w.attempts[i].row.Ended == 0 {
			return &w.attempts[i]
		}
		return nil
	}
	for i := len(w.attempts) - 1; i >= 0; i-- {
		if a := &w.attempts[i]; a.row.Step == step {
			if a.row.Ended != 0 {
				return nil
			}
			return a
		}
	}
	return nil
}

// moveTo moves the changed rows to the view. Attempts that are still open are kept.
func (w *rows) moveTo(s *core.Run, v *journal.View) {
	v.Steps = append(v.Steps, w.made...)
	v.Steps = w.appendSteps(v.Steps, s)
	w.steps, w.made, w.stored = w.steps[:0], nil, true
	kept := w.attempts[:0]
	for i := range w.attempts {
		a := w.attempts[i]
		if a.changed {
			v.Attempts = append(v.Attempts, a.row)
		}
		if a.row.Ended == 0 {
			a.changed = false
			kept = append(kept, a)
		}
	}
	w.attempts, w.index = kept, nil
	if len(kept) > manyAttempts {
		w.buildIndex()
	}
}

// appendSteps appends the rows of the steps that have changed.
func (w *rows) appendSteps(out []journal.StepRow, s *core.Run) []journal.StepRow {
	w.sortSteps()
	for _, id := range w.steps {
		out = append(out, stepRow(s, &s.Steps[id]))
	}
	return out
}

// sortSteps orders the steps that have changed and lists each once.
func (w *rows) sortSteps() {
	slices.Sort(w.steps)
	w.steps = slices.Compact(w.steps)
}

// makeSteps returns the rows of the steps that have changed. It leaves out one that cannot be made.
func (w *rows) makeSteps(s *core.Run) []journal.StepRow {
	w.sortSteps()
	out := make([]journal.StepRow, 0, len(w.steps))
	for _, id := range w.steps {
		_ = guard("a row was made", func() { out = append(out, stepRow(s, &s.Steps[id])) })
	}
	return out
}

// forget drops the rows that the view has already. It is called after the history that the view has was folded.
func (w *rows) forget() {
	w.steps, w.stored = nil, true
	w.attempts = slices.DeleteFunc(w.attempts, func(a attempt) bool { return a.row.Ended != 0 })
	for i := range w.attempts {
		w.attempts[i].changed = false
	}
	w.index = nil
	if len(w.attempts) > manyAttempts {
		w.buildIndex()
	}
}

func stepRow(s *core.Run, st *core.Step) journal.StepRow {
	row := journal.StepRow{
		Run: s.ID, Step: st.ID, Name: st.Spec.Name, Kind: st.Spec.Kind,
		Phase: st.Phase, Reason: st.Reason, Attempt: st.Attempt,
		ScheduledAt: st.ScheduledAt, EndedAt: st.EndedAt, NextAt: st.NextAt, Deadline: st.ScheduleToClose,
	}
	if st.Item >= 0 {
		row.Name = st.Key()
	}
	if d := st.Deadline; d != 0 && (row.Deadline == 0 || d < row.Deadline) {
		row.Deadline = d
	}
	if st.Failure != nil {
		row.Message = st.Failure.Message
	}
	return row
}
