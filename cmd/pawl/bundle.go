package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// kindBundle is the kind of the definitions that the command line stores: a flow file with what it takes to run it
// elsewhere and later.
const kindBundle = "bundle"

// bundle is a flow as it was started from the command line. It is stored whole with the run, so that a run can be resumed
// anywhere: errors still name the file, commands run in the same directory, child flows are the ones of that day.
type bundle struct {
	Dir      string   `json:"dir,omitempty"` // where the command was called: relative paths count from here
	Flow     source   `json:"flow"`
	Children []source `json:"children,omitempty"` // flows that its steps may start
	Dialect  string   `json:"dialect,omitempty"`  // the system whose document it was made of
}

// source is one flow file.
type source struct {
	File    string  `json:"file"`
	Text    string  `json:"text"`
	Origins origins `json:"origins,omitempty"`
	// Chains are process chains of Steep, for what a run is told to be in its words.
	Chains map[string]string `json:"chains,omitempty"`
}

// compiled is a bundle made ready.
type compiled struct {
	bundle bundle
	doc    *flow.Document
	def    *core.Definition
	theirs bool // a Go program's, to be looked at

	mu      sync.Mutex
	family  map[string]*relative          // the bundle's flows by name, read when a child is first started
	started map[string]journal.Definition // child flows by name: a forEach starts the same one many times
}

// loadBundle reads a flow file, and the flows its steps start from beside it.
func (a *app) loadBundle(path string) (*compiled, error) {
	name, src, err := a.readFile(path)
	if err != nil {
		return nil, asUsage(err)
	}
	b := bundle{Flow: source{File: name, Text: string(src)}}
	if b.Dir, err = os.Getwd(); err != nil {
		return nil, err
	}
	doc, err := parseFlow(name, src)
	if err != nil {
		return nil, asUsage(err)
	}
	if b.Children, err = a.children(doc, b.Flow.Text); err != nil {
		return nil, asUsage(err)
	}
	all := notes(doc)
	for _, c := range b.Children {
		if child, err := parseFlow(c.File, []byte(c.Text)); err == nil {
			all = append(all, notes(child)...)
		}
	}
	a.tellNotes(all, false)
	return b.compile()
}

func (b bundle) compile() (*compiled, error) {
	doc, err := parseFlow(b.Flow.File, []byte(b.Flow.Text))
	if err != nil {
		return nil, asUsage(err)
	}
	def, err := flow.Compile(doc)
	if err != nil {
		return nil, asUsage(err)
	}
	b.Flow.Origins.apply(doc, def)
	return &compiled{bundle: b, doc: doc, def: placed(def, b.Dir)}, nil
}

// definition is the bundle as it is stored.
func (b bundle) definition(name string) (journal.Definition, error) {
	src, err := json.Marshal(b)
	if err != nil {
		return journal.Definition{}, err
	}
	return journal.Definition{ID: flow.ID(src), Kind: kindBundle, Name: name, Source: src}, nil
}

// isWhole tells whether a definition is as it was stored: it is named by the hash of its bytes.
func isWhole(d journal.Definition) error {
	if flow.ID(d.Source) == d.ID {
		return nil
	}
	return fmt.Errorf("%w: the stored text of flow %q is not the one it was started with; restore a backup of the file", journal.ErrCorrupt, d.Name)
}

// readBundle reads a stored definition. What the storage has changed in it is noticed here, and never run.
func readBundle(d journal.Definition) (*compiled, error) {
	if d.Kind != kindBundle {
		return nil, isTheirs(d.Name)
	}
	if err := isWhole(d); err != nil {
		return nil, err
	}
	var b bundle
	if err := json.Unmarshal(d.Source, &b); err != nil {
		return nil, fmt.Errorf("definition %s: %w", d.ID, err)
	}
	return b.compile()
}

func isTheirs(name string) error {
	return fmt.Errorf("workflow %q is a Go program's: this command shows its runs, and that program carries them on", name)
}

// readShown reads a stored definition to look at a run of it, which may be a Go program's.
func readShown(d journal.Definition) (*compiled, error) {
	switch d.Kind {
	case journal.KindGo: // its steps are known from its runs alone, and nothing is decided where runs are shown
		return &compiled{doc: &flow.Document{Name: d.Name}, def: &core.Definition{}, theirs: true}, nil
	case journal.KindFlow:
		if err := isWhole(d); err != nil {
			return nil, err
		}
		var b bundle
		if err := json.Unmarshal(d.Source, &b.Flow); err != nil {
			return nil, fmt.Errorf("definition %s: %w", d.ID, err)
		}
		c, err := b.compile()
		if err != nil {
			return nil, err
		}
		c.theirs = true
		return c, nil
	default:
		return readBundle(d)
	}
}

// steps are what there is to draw of steps that have not begun.
func (c *compiled) steps() []api.PlannedStep {
	out := make([]api.PlannedStep, len(c.doc.Steps))
	for i, s := range c.doc.Steps {
		out[i] = api.PlannedStep{Name: s.Name, Needs: s.Needs}
	}
	return out
}
