package flow

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/internal/worker/mail"
	"github.com/pawl-dev/pawl/internal/worker/web"
)

// Plugin adds flows to a process: it carries on their runs, and executes their steps with exec and http. Each engine of
// the process has its own flows; see [Flows.Plugin] for one that shares them.
func Plugin() kind.Plugin { return new(Flows).Plugin() }

// Executors returns the executors of tasks that need no handler: exec, http, mail, noop and fail.
func Executors(cfg worker.ExecConfig) map[string]worker.Executor {
	out := worker.Builtin(cfg)
	out["http"] = web.NewHTTP(web.HTTPConfig{Secrets: cfg.SecretsOf, Trace: cfg.Trace, Reach: cfg.Reach})
	out["mail"] = mail.New(mail.Config{Secrets: cfg.SecretsOf})
	return out
}

// carrier compiles stored flows and finds child flows.
type carrier struct {
	journal    journal.Journal
	registered func(name string) (journal.Definition, error)
	flows      *Flows
}

func (k *carrier) compile(d journal.Definition) (*core.Definition, error) {
	f, err := k.flows.Get(d)
	if err != nil {
		return nil, err
	}
	if missing := f.NeedsProgram(); k.registered == nil && missing != nil {
		theirs := *f.Definition
		theirs.Elsewhere = true
		return &theirs, nil //nolint:nilerr // what is missing here, its program has
	}
	return f.Definition, nil
}

// resolve finds the workflow that a child step names.
func (k *carrier) resolve(parent core.DefinitionID, name string) (journal.Definition, error) {
	f := k.flows.find(parent)
	if f == nil {
		d, err := k.journal.Definition(context.Background(), parent)
		if err == nil {
			f, err = k.flows.Get(d)
		}
		if err != nil {
			return journal.Definition{}, err
		}
	}
	d, found, err := f.Child(name)
	if found || err != nil {
		return d, err
	}
	if k.registered == nil {
		return journal.Definition{}, f.noSuchChild()
	}
	d, err = k.registered(name)
	if err != nil && f.Bundle.Dir != "" {
		err = fmt.Errorf("%w; %w", f.noSuchChild(), err)
	}
	return d, err
}

// NeedsProgram returns why only the program that defined the flow can carry its runs on: its steps start workflows that
// are registered there; nil: everything that it starts is in its bundle.
func (f *Flow) NeedsProgram() error {
	if f.Bundle.Dir != "" {
		return nil // the command stored it, with all files beside it
	}
	names, any := childNames(f.Document)
	if any {
		return fmt.Errorf("workflow %q is a Go program's and starts others whose names are worked out: "+
			"only that program carries its runs on", f.Document.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if _, found, _ := f.Child(name); !found {
			return fmt.Errorf("workflow %q is a Go program's and starts %q, which is registered there: "+
				"only that program carries its runs on", f.Document.Name, name)
		}
	}
	return nil
}
