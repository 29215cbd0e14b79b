package main

import (
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
)

type (
	bundle   = flowkind.Bundle
	source   = flowkind.Source
	compiled = workflows.Compiled
)

// loadBundle reads a flow file, and the flows its steps start from beside it.
func (a *app) loadBundle(path string) (*compiled, error) {
	name, src, err := a.readFile(path)
	if err != nil {
		return nil, asUsage(err)
	}
	b, doc, err := a.files().Bundle(name, src, a.files().Beside(name))
	if err != nil {
		return nil, asUsage(err)
	}
	all := notes(doc)
	for _, c := range b.Children {
		if child, err := a.parseFlow(c.File, []byte(c.Text)); err == nil {
			all = append(all, notes(child)...)
		}
	}
	a.tellNotes(all, false)
	w, err := workflows.Compile(b)
	return w, asUsage(err)
}
