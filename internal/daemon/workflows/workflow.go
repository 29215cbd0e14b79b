// Package workflows makes stored definitions ready: flows to be carried on and shown, in the words of the system that
// they come from, and workflows of Go programs to be shown.
package workflows

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/catalog"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/kind/schedule"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// Compiled is a stored workflow made ready: a flow with its bundle, or what can be shown of a Go function.
type Compiled struct {
	Bundle flowkind.Bundle
	Doc    *flow.Document
	Def    *core.Definition
	Flow   *flowkind.Flow // nil: a Go function's, to be looked at
	// Schedule: it is the workflow of schedules.
	Schedule bool
}

// Compile makes a bundle ready.
func Compile(b flowkind.Bundle) (*Compiled, error) { return ready(flowkind.New(b)) }

func ready(f *flowkind.Flow, err error) (*Compiled, error) {
	if err != nil {
		return nil, err
	}
	return &Compiled{Bundle: f.Bundle, Doc: f.Document, Def: f.Definition, Flow: f}, nil
}

// Store keeps compiled definitions, so that each is compiled once.
type Store struct{ flowkind.Flows }

// Keep keeps a workflow that was compiled, and returns the definition that is stored with its runs.
func (s *Store) Keep(w *Compiled) (api.Definition, error) {
	d, err := w.Bundle.Definition(w.Doc.Name)
	if err != nil {
		return api.Definition{}, err
	}
	s.Flows.Keep(d.ID, w.Flow)
	return api.Definition{ID: d.ID.String(), Kind: d.Kind, Name: d.Name, Source: string(d.Source)}, nil
}

// Get reads a stored definition to show a run of it, which may be a Go program's.
func (s *Store) Get(d journal.Definition) (*Compiled, error) {
	if shown := kind.TraitsOf(d.Kind).Shown; shown != nil {
		return &Compiled{Doc: &flow.Document{Name: d.Name}, Def: shown}, nil
	}
	if d.Kind == schedule.Name {
		def, err := schedule.Compile(d)
		return &Compiled{Doc: &flow.Document{Name: d.Name}, Def: def, Schedule: true}, err
	}
	return ready(s.Flows.Get(d))
}

// Read makes a stored definition ready for a service, also one of a Go program.
func (s *Store) Read(d journal.Definition) (*service.Prepared, error) {
	if d.Kind == schedule.Name {
		return schedule.Read(d)
	}
	w, err := s.Get(d)
	if err != nil {
		return nil, err
	}
	out := &service.Prepared{Definition: w.Def, Plan: w.steps(), Words: wordsOf(w)}
	if w.Flow == nil {
		return out, nil
	}
	out.Begin = w.Doc.Start
	out.Rerun = func(earlier *core.Run, steps []string, from bool) ([]core.Kept, error) {
		return flow.Rerun(w.Doc, earlier, steps, from)
	}
	out.Text = w.Doc
	out.Continue = func(earlier *core.Run, was any, input []byte, steps []string, from bool) ([]core.Kept, error) {
		old, ok := was.(*flow.Document)
		if !ok {
			return nil, fmt.Errorf("run %s is not one of a flow", earlier.ID)
		}
		return flow.Continue(w.Doc, old, earlier, input, steps, from)
	}
	return out, nil
}

// steps returns what can be drawn of steps that have not begun.
func (w *Compiled) steps() []api.PlannedStep {
	out := make([]api.PlannedStep, len(w.Doc.Steps))
	for i, s := range w.Doc.Steps {
		needs := s.Needs
		if s.Each != "" {
			needs = append([]string{s.Each}, needs...)
		}
		out[i] = api.PlannedStep{Name: s.Name, Needs: needs}
		if wait, ok := s.Action.(*flow.Wait); ok {
			out[i].Watches = wait.Steps
		}
	}
	return out
}

// ReadOnlyError is the error of a run that only a Go program can carry on.
type ReadOnlyError struct{ error }

// ReadOnly returns an error for a workflow whose runs only a Go program can carry on.
func (w *Compiled) ReadOnly() error {
	if w.Schedule {
		return nil
	}
	err := fmt.Errorf("workflow %q is a Go program's: only that program carries its runs on", w.Doc.Name)
	if w.Flow != nil {
		err = w.Flow.NeedsProgram()
	}
	if err == nil {
		return nil
	}
	return &ReadOnlyError{err}
}

// Applied returns the flows of a database that were applied. A flow whose name is not that of its document is refused.
func Applied(j journal.Journal) *catalog.Catalog {
	return catalog.New(j, checkApplied, func() api.Time { return api.At(time.Now()) })
}

// checkApplied refuses a definition that cannot be started by its name.
func checkApplied(d api.Definition) error {
	stored, err := service.Definition(d)
	if err != nil {
		return err
	}
	f, err := flowkind.Read(stored)
	if err == nil && f.Document.Name != d.Name {
		err = fmt.Errorf("the definition is of flow %q, and not of %q", f.Document.Name, d.Name)
	}
	if err != nil {
		return &api.Error{Code: api.CodeInvalid, Message: err.Error(), Err: err}
	}
	return nil
}

// Lint looks for suspicious settings in a flow that this machine carries on, alone or as one of several nodes.
func Lint(doc *flow.Document, cluster bool) []flow.Finding {
	found := flow.Lint(doc, policy.At(time.Now()))
	if !worker.HasPipefail() {
		found = append(found, flow.LintPipes(doc)...)
	}
	if cluster {
		found = append(found, flow.LintNodes(doc)...)
	}
	return found
}
