package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
)

type (
	bundle = flowkind.Bundle
	source = flowkind.Source
)

// compiled is a stored workflow made ready: a flow with its bundle, or what can be shown of a Go function.
type compiled struct {
	bundle bundle
	doc    *flow.Document
	def    *core.Definition
	flow   *flowkind.Flow // nil: a Go function's, to be looked at
}

// loadBundle reads a flow file, and the flows its steps start from beside it.
func (a *app) loadBundle(path string) (*compiled, error) {
	name, src, err := a.readFile(path)
	if err != nil {
		return nil, asUsage(err)
	}
	b, doc, err := a.bundleOf(name, src, a.beside(name))
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
	return compile(b)
}

// bundleOf makes a bundle of the text of a flow file, and of the flows its steps start from beside it. read returns the
// files that its templates come from.
func (s streams) bundleOf(name string, src []byte, read reader) (b bundle, doc *flow.Document, err error) {
	b = bundle{Flow: source{File: name, Text: string(src)}}
	if b.Dir, err = os.Getwd(); err != nil {
		return b, nil, err
	}
	if doc, err = flowkind.Parse(name, string(src), read); err != nil {
		return b, nil, err
	}
	b.Flow.Files = doc.Files()
	b, err = s.withChildren(b, doc)
	return b, doc, err
}

// withChildren adds the flows that a flow's steps may start: those that they name, or all files beside it if a name is
// an expression.
func (s streams) withChildren(b bundle, doc *flow.Document) (bundle, error) {
	if !flowkind.HasChildren(doc) {
		return b, nil
	}
	if doc.File == "stdin" {
		return b, errors.New("a flow from the standard input cannot start child flows: there is no directory " +
			"to find them in")
	}
	for _, path := range s.flowFiles(filepath.Dir(doc.File)) {
		if filepath.Clean(path) == filepath.Clean(doc.File) {
			continue
		}
		if _, src, err := s.readFile(path); err == nil { // else it is not a file, or not ours to read
			child := source{File: path, Text: string(src)}
			if doc, err := s.parseFlow(path, src); err == nil {
				child.Files = doc.Files()
			}
			b.Children = append(b.Children, child)
		}
	}
	if err := b.Circle(doc); err != nil {
		return b, err
	}
	return b.Choose(doc)
}

// flowFiles lists the files of a folder that may be flows; one that cannot be read has none.
func (s streams) flowFiles(dir string) []string {
	if info, err := os.Stat(dir); err == nil {
		s.note(dir, info)
	}
	var paths []string
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, name := range names {
		switch filepath.Ext(name.Name()) {
		case ".yaml", ".yml", ".json":
			paths = append(paths, filepath.Join(dir, name.Name()))
		}
	}
	return paths
}

// compile makes a bundle ready.
func compile(b bundle) (*compiled, error) { return ready(flowkind.New(b)) }

func ready(f *flowkind.Flow, err error) (*compiled, error) {
	if err != nil {
		return nil, asUsage(err)
	}
	return &compiled{bundle: f.Bundle, doc: f.Document, def: f.Definition, flow: f}, nil
}

// readOnlyError is the error of a run that only a Go program can carry on.
type readOnlyError struct{ error }

// readOnly returns an error for a workflow whose runs only a Go program can carry on.
func (c *compiled) readOnly() error {
	err := needsProgram(journal.Definition{Name: c.doc.Name})
	if c.flow != nil {
		err = c.flow.NeedsProgram()
	}
	if err == nil {
		return nil
	}
	return &readOnlyError{err}
}

// stored reads a stored definition to look at a run of it, which may be a Go program's.
func (a *app) stored(d journal.Definition) (*compiled, error) {
	// its steps are known from its runs alone, and nothing is decided where runs are shown
	if d.Kind == journal.KindGo {
		return &compiled{doc: &flow.Document{Name: d.Name}, def: &core.Definition{HasBody: true}}, nil
	}
	f, err := a.flows.Get(d)
	if errors.Is(err, journal.ErrCorrupt) {
		return nil, err
	}
	return ready(f, err)
}

// steps returns what can be drawn of steps that have not begun.
func (c *compiled) steps() []api.PlannedStep {
	out := make([]api.PlannedStep, len(c.doc.Steps))
	for i, s := range c.doc.Steps {
		needs := s.Needs
		if s.Each != "" {
			needs = append([]string{s.Each}, needs...)
		}
		out[i] = api.PlannedStep{Name: s.Name, Needs: needs}
	}
	return out
}
