package main

import (
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/service"
)

// readWorkflow makes a stored definition ready to be looked at, also one of a Go program.
func readWorkflow(d journal.Definition) (*service.Workflow, error) {
	c, err := readShown(d)
	if err != nil {
		return nil, err
	}
	w := &service.Workflow{Definition: c.def, Plan: c.steps(), Words: wordsOf(c)}
	if c.theirs {
		return w, nil
	}
	w.Begin = c.doc.Start
	w.Rerun = func(earlier *core.Run, steps []string, from bool) ([]core.Kept, error) {
		return flow.Rerun(c.doc, earlier, steps, from)
	}
	return w, nil
}

// carriedHere refuses what only a Go program can carry on.
func carriedHere(r *api.Run) error {
	if r.Kind != kindBundle {
		return isTheirs(r.Workflow)
	}
	return nil
}
