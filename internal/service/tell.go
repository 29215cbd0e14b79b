package service

import (
	"bytes"
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/trail"
)

// Told is the content of a run's entry for readers.
type Told struct {
	Workflow   string
	WorkflowID string
	Labels     map[string]string
	Events     []api.Event
	// Before and After are the run's rows before the entry and after it. Where the entry begins the run, Before is
	// zero.
	Before, After journal.RunRow
	Words         *api.Words // the words of the run's own system, after the entry; nil if it has none
}

// Describer converts entries, which come in the order of a feed, to events with the numbers that they have in the
// history of their run. It is not safe for concurrent use.
type Describer struct {
	from *reads
	runs map[core.RunID]*telling
}

// mostTold is how many runs a Describer keeps in memory. The history of another one is read again with its next entry.
const mostTold = 4096

// telling is a run with its last entry that was described.
type telling struct {
	trail *trail.Trail
	words Words
	row   journal.RunRow // the row after the last entry
	// ahead is how many more entries equal to last were described already, see [Describer.resume].
	ahead int
	last  []byte
}

// Describer returns a new Describer for the engine's runs.
func (s *Embedded) Describer() *Describer {
	return &Describer{from: s.reads, runs: map[core.RunID]*telling{}}
}

// Describe converts the next entry of a run to events. Errors: CodeNotFound (the run was deleted), and those of a run
// whose workflow cannot be read.
func (t *Describer) Describe(ctx context.Context, e core.Entry) (out Told, err error) {
	defer func() {
		if v := recover(); v != nil { // the code of a definition concerns its own runs only
			delete(t.runs, e.Run)
			err = &api.Error{
				Code:    api.CodeInternal,
				Message: fmt.Sprintf("run %s cannot be described: its code panicked: %v", e.Run, v),
			}
		}
	}()
	r := t.runs[e.Run]
	var events []core.Event
	switch {
	case r == nil:
		if r, events, err = t.resume(ctx, e); err != nil {
			return Told{}, wrap(err)
		}
		t.keep(e.Run, r)
	case r.ahead > 0 && bytes.Equal(r.last, core.AppendEntry(nil, &e)):
		r.ahead--
	default:
		r.ahead = 0
		events = r.trail.Fold(e)
	}
	run := r.trail.Run
	out = Told{Workflow: run.Workflow, WorkflowID: run.WorkflowID, Labels: run.Labels.Map(), Before: r.row}
	r.row = engine.RowOf(run)
	out.After = r.row
	for _, ev := range events {
		told := trail.Event(ev)
		if r.words != nil {
			told.Dialect = r.words.Event(ev)
		}
		out.Events = append(out.Events, told)
	}
	if r.words != nil {
		words := r.words.Run(r.trail, t.from.childOf(ctx))
		out.Words = &words
	}
	if run.Phase.Closed() {
		delete(t.runs, e.Run) // few have further entries
	}
	return out, nil
}

// Passes reports whether an error of Describe says nothing about the entry: the storage does not answer at present, or
// the partition goes to another process. Then the entry is to be described again.
func Passes(err error) bool {
	switch api.CodeOf(err) {
	case api.CodeStalled, api.CodeClosed, api.CodeUncertain, api.CodeHeld, api.CodeFenced, api.CodeCancelled:
		return true
	default:
		return false
	}
}

// keep keeps a run in memory. Where there are too many, any of them go.
func (t *Describer) keep(id core.RunID, r *telling) {
	for other := range t.runs {
		if len(t.runs) < mostTold {
			break
		}
		delete(t.runs, other)
	}
	t.runs[id] = r
}

// resume returns a run that is not in memory, and the events of its entry e. If equal entries follow e, their events
// are among them: only the history shows which of them e is, and a repeated event does no harm.
func (t *Describer) resume(ctx context.Context, e core.Entry) (*telling, []core.Event, error) {
	entries := []core.Entry{e}
	if !begins(e) {
		var err error
		if entries, err = t.from.src.Entries(ctx, e.Run, 0); err != nil {
			return nil, nil, err
		}
	}
	if len(entries) == 0 {
		return nil, nil, noSuchRun(e.Run.String())
	}
	k, err := t.from.workflows.of(ctx, entries[0])
	if err != nil {
		return nil, nil, err
	}
	r := &telling{trail: trail.New(e.Run, k.workflow.Definition), words: k.workflow.Words}
	encoded := core.AppendEntry(nil, &e)
	first, last := -1, -1
	for i := range entries {
		if entries[i].At == e.At && bytes.Equal(encoded, core.AppendEntry(nil, &entries[i])) {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return nil, nil, noSuchRun(e.Run.String())
	}
	var events []core.Event
	for i := range entries[:last+1] {
		if i == first && i > 0 {
			r.row = engine.RowOf(r.trail.Run)
		}
		if told := r.trail.Fold(entries[i]); i >= first {
			events = append(events, told...)
		}
	}
	if r.ahead = last - first; r.ahead > 0 {
		r.last = encoded
	}
	return r, events, nil
}

// begins reports whether an entry is the first one of its run.
func begins(e core.Entry) bool {
	for _, rec := range e.Records {
		if _, ok := rec.(core.RunCreated); ok {
			return true
		}
	}
	return false
}
