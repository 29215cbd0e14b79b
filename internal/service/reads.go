package service

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/trail"
)

// source is where histories are read from: an engine or a file.
type source interface {
	Entries(ctx context.Context, id core.RunID, after int) ([]core.Entry, error)
	Watch(ctx context.Context, id core.RunID, after int, fn func(core.Entry) error) error
	List(ctx context.Context, q journal.Query) (journal.Page, error)
	Lookup(ctx context.Context, idOrWorkflowID string) (core.RunID, error)
	Definition(ctx context.Context, id core.DefinitionID) (journal.Definition, error)
}

// reads is the part of a service that only reads.
type reads struct {
	src       source
	now       func() core.Time
	workflows *workflows
	follows   follows
	paces     paces
	// problems returns why bodies cannot go on, by run. nil: nothing is known.
	problems func() map[core.RunID]error
	// unserved reports whether no worker comes for the tasks of a type in a queue. nil: nothing is known.
	unserved func(queue, taskType string) bool
	// waits returns why attempts wait until somebody acts, by run. nil: nothing is known.
	waits func(ctx context.Context) (map[core.RunID]error, error)
	// line returns how a run stands in the line of its queue. nil: nothing is known.
	line   func(ctx context.Context, run core.RunID) (line core.Line, waits bool)
	rests  Rests // nil: somebody carries all runs on
	shared bool  // the runs belong to one of several nodes
	// lazy is set if reading a history again is expensive. Then a trail that a watcher keeps counts as up to date.
	lazy bool
}

func newReads(src source, read Read, now func() core.Time, lazy bool) *reads {
	w := &workflows{read: read, from: src.Definition, known: map[core.DefinitionID]*known{}}
	return &reads{src: src, now: now, workflows: w, lazy: lazy}
}

func (r *reads) Run(ctx context.Context, name string) (*api.Run, error) {
	return newestRun(ctx, name, r.run)
}

// run reads the run that a name means now.
func (r *reads) run(ctx context.Context, name string) (*api.Run, error) {
	id, err := r.find(ctx, name)
	if err != nil {
		return nil, err
	}
	var out *api.Run
	err = r.with(ctx, name, id, func(f *followed) error {
		out = r.snapshot(ctx, f)
		return nil
	})
	return out, err
}

// snapshot returns a followed run in its present state, with the words of the system for which it was made.
func (r *reads) snapshot(ctx context.Context, f *followed) *api.Run {
	f.trail.Known = trail.Known{Plan: f.workflow.Plan, Unserved: r.unserved}
	if r.problems != nil {
		if problem := r.problems()[f.id]; problem != nil {
			f.trail.Known.Problem = problem.Error()
		}
	}
	if r.line != nil && f.trail.Run.InQueue() {
		if line, waits := r.line(ctx, f.id); waits {
			f.trail.Known.Line = &line
		}
	}
	out := f.trail.Snapshot(r.now())
	out.Kind = f.kind
	out.Resting = r.rests != nil && !out.Phase.Closed() && r.rests(ctx, f.id, f.trail.Run.Top)
	words := f.workflow.Words
	if words == nil {
		return out
	}
	said := words.Run(f.trail, r.childOf(ctx))
	out.Dialect = &said
	return out
}

// Rests reports whether no process carries an open run on; top returns the run that represents its family.
type Rests func(ctx context.Context, run core.RunID, top func() core.RunID) bool

// KnowResting tells a service which runs no process carries on. Call it before the first request.
func (r *reads) KnowResting(rests Rests) { r.rests = rests }

// topOf returns the run that represents the family of a run.
func (r *reads) topOf(ctx context.Context, id core.RunID) (top core.RunID) {
	err := r.with(ctx, id.String(), id, func(f *followed) error {
		top = f.trail.Run.Top()
		return nil
	})
	if err != nil {
		return id // it was removed meanwhile
	}
	return top
}

func summaryOf(row *journal.RunRow) api.RunSummary {
	s := api.RunSummary{
		Run: row.ID.String(), Workflow: row.Workflow, WorkflowID: row.WorkflowID, Key: row.Key,
		Phase: api.RunPhase(row.Phase.String()), CreatedAt: api.Time(row.CreatedAt), EndedAt: api.Time(row.EndedAt),
		Deadline: api.Time(row.Deadline), Message: row.Message, Labels: row.Labels.Map(), Retrying: row.Retrying,
	}
	if row.Wake > 1 { // 1: at once
		s.Wake = api.Time(row.Wake)
	}
	s.Stopping = !row.Phase.Closed() && row.Message == core.StoppingMessage
	if row.Wake == journal.WakeSetAside && !row.Phase.Closed() {
		s.Problem = row.Message
	}
	if row.Parent != (core.RunID{}) {
		s.Parent = row.Parent.String()
	}
	if row.Definition != (core.DefinitionID{}) {
		s.Definition = row.Definition.String()
	}
	s.Status = s.StatusNow()
	return s
}

func (r *reads) Definition(ctx context.Context, id string) (api.Definition, error) {
	key, err := definitionID(id)
	if err != nil {
		return api.Definition{}, err
	}
	d, err := r.src.Definition(ctx, key)
	if err != nil {
		return api.Definition{}, wrap(err)
	}
	return api.Definition{ID: id, Kind: d.Kind, Name: d.Name, Source: string(d.Source)}, nil
}

func asError(err error, target **api.Error) bool { return errors.As(err, target) }

// absent reports whether an error means that something does not exist.
func absent(err error) bool {
	return errors.Is(err, journal.ErrNotFound) || errors.Is(err, api.Sentinel(api.CodeNotFound))
}
