package service

import (
	"context"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/trail"
)

// Prepared is a stored definition that is ready to explain its runs and to start new ones.
type Prepared struct {
	Definition *core.Definition
	Plan       []api.PlannedStep // its steps, without hooks
	Words      Words             // the words of the system whose document it was made from; nil if it was not
	// Begin checks the input of a run that somebody starts. It returns what the workflow defines about the start:
	// its limits, and the input with its defaults. It is nil if only the program that has the workflow's code can
	// start it.
	Begin func(input []byte) (core.Start, error)
	// Rerun chooses which results a new run takes from an earlier one. steps run again; if from is set, the steps
	// that depend on them run again too, and without names all that failed. It is nil if no steps can be chosen.
	Rerun func(earlier *core.Run, steps []string, from bool) ([]core.Kept, error)
	// Text is compared by Continue of another workflow.
	Text any
	// Continue chooses the results that a new run of this workflow, with an input, takes from an earlier run. The named
	// steps run again, with from also what needs them; without names those that failed. was is the text of that run's
	// workflow, input the new run's. It is nil if only the workflow's own program could tell.
	Continue func(earlier *core.Run, was any, input []byte, steps []string, from bool) ([]core.Kept, error)
}

// Read makes a stored definition ready to use. It must be safe for concurrent use. The service keeps what it
// returns.
type Read func(d journal.Definition) (*Prepared, error)

// Words are the words of another system for a run, its steps and its events.
type Words interface {
	// Run returns the words for a run. child reads the run that the last attempt of a step of parent started; it
	// returns nil if that run cannot be read.
	Run(t *trail.Trail, child func(parent *trail.Trail, step core.StepID) (*trail.Trail, *Prepared)) api.Words
	// Step returns the words for a step.
	Step(s *core.Step) api.Words
	// Event returns the name of an event, "" if it has none.
	Event(e core.Event) string
}

// workflows reads stored definitions, each once.
type workflows struct {
	read  Read
	from  func(ctx context.Context, id core.DefinitionID) (journal.Definition, error)
	mu    sync.Mutex
	known map[core.DefinitionID]*known
}

// known is a definition that was read.
type known struct {
	kind     string
	workflow *Prepared
}

// maxKnown is how many definitions are kept in memory.
const maxKnown = 1000

// of returns the workflow of a run. first is the run's first entry.
func (w *workflows) of(ctx context.Context, first core.Entry) (*known, error) {
	for _, rec := range first.Records {
		created, ok := rec.(core.RunCreated)
		if !ok {
			continue
		}
		k, err := w.get(ctx, created.Definition)
		if err != nil {
			return nil, fmt.Errorf("run %s: its workflow %q: %w", first.Run, created.Workflow, err)
		}
		return k, nil
	}
	return nil, fmt.Errorf("%w: run %s: its history does not begin with its start", journal.ErrCorrupt, first.Run)
}

func (w *workflows) get(ctx context.Context, id core.DefinitionID) (*known, error) {
	if k := w.find(id); k != nil {
		return k, nil
	}
	d, err := w.from(ctx, id)
	if err != nil {
		return nil, err
	}
	return w.keep(d)
}

// given returns the workflow of a definition that a caller gives. Only its first start reads it.
func (w *workflows) given(d journal.Definition) (*known, error) {
	if k := w.find(d.ID); k != nil {
		return k, nil
	}
	return w.keep(d)
}

// find returns the workflow of a definition that was read, or nil if it was not.
func (w *workflows) find(id core.DefinitionID) *known {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[id]
}

// keep reads a definition and keeps it in memory.
func (w *workflows) keep(d journal.Definition) (*known, error) {
	made, err := w.read(d)
	if err != nil {
		return nil, err
	}
	k := &known{d.Kind, made}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.known) >= maxKnown {
		clear(w.known)
	}
	w.known[d.ID] = k
	return k, nil
}

// wrap makes an *api.Error of any error. The text does not change.
func wrap(err error) error {
	var own *api.Error
	if err == nil || asError(err, &own) {
		return err
	}
	return &api.Error{Code: engine.CodeOf(err), Err: err}
}
