package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/journal"
)

// relative is a flow that another one may start.
type relative struct {
	source
	place  int                   // among the bundle's flows
	starts map[string]*flow.Step // by name
	any    bool                  // an expression makes the name of one that it starts
}

// child finds the flow that a step starts by name.
func (c *compiled) child(name string) (journal.Definition, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d, ok := c.started[name]; ok {
		return d, nil
	}
	if c.family == nil {
		c.family = c.bundle.family()
		c.started = map[string]journal.Definition{}
	}
	if c.family[name] == nil {
		if err := c.bundle.unreadable(name); err != nil {
			return journal.Definition{}, err
		}
		return journal.Definition{}, fmt.Errorf("no file beside %s holds a flow of that name; found: %s", c.bundle.Flow.File,
			strings.Join(slices.Sorted(maps.Keys(c.family)), ", "))
	}
	d, err := c.bundle.child(name, c.family).definition(name)
	if err == nil {
		c.started[name] = d
	}
	return d, err
}

// family reads the flows of a bundle, each once. One that cannot be read lies beside the flow and was taken along; only
// what is asked for must be right.
func (b bundle) family() map[string]*relative {
	all := map[string]*relative{}
	for i, s := range append([]source{b.Flow}, b.Children...) {
		doc, err := parseFlow(s.File, []byte(s.Text))
		if err != nil {
			continue
		}
		if all[doc.Name] == nil {
			names, any := childNames(doc)
			all[doc.Name] = &relative{s, i, names, any}
		}
	}
	return all
}

// child is the bundle of one of the flows: with it goes what it can start in its turn, and no more. The flows of a large
// workflow start few others each, so that all of them together take no more room than a few times the workflow.
func (b bundle) child(name string, family map[string]*relative) bundle {
	out := bundle{Dir: b.Dir, Flow: family[name].source, Dialect: b.Dialect}
	reached, any := reachable(name, family)
	if any {
		all := append([]source{b.Flow}, b.Children...)
		out.Children = slices.Delete(all, family[name].place, family[name].place+1)
		return out
	}
	places := []int{}
	for other := range reached {
		if other != name {
			places = append(places, family[other].place)
		}
	}
	slices.Sort(places)
	for _, i := range places {
		if i == 0 {
			out.Children = append(out.Children, b.Flow)
		} else {
			out.Children = append(out.Children, b.Children[i-1])
		}
	}
	return out
}

// reachable lists the flows that one starts, and those that they start, itself among them; any is set where one of them
// makes a name by an expression.
func reachable(name string, family map[string]*relative) (names map[string]bool, any bool) {
	names = map[string]bool{name: true}
	for open := []string{name}; len(open) > 0; {
		r := family[open[0]]
		open = open[1:]
		any = any || r.any
		for started := range r.starts {
			if !names[started] && family[started] != nil {
				names[started] = true
				open = append(open, started)
			}
		}
	}
	return names, any
}

// children reads the flows that a flow's steps may start: of the files beside it those that are named, where the names
// are written down.
func (a *app) children(doc *flow.Document, text string) ([]source, error) {
	wanted, any := childNames(doc)
	if len(wanted) == 0 && !any {
		return nil, nil
	}
	if doc.File == "stdin" {
		return nil, errors.New("a flow from the standard input cannot start child flows: there is no directory to find them in")
	}
	b := bundle{Flow: source{File: doc.File, Text: text}}
	for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(doc.File), pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range files {
			if filepath.Clean(path) == filepath.Clean(doc.File) {
				continue
			}
			if _, src, err := a.readFile(path); err == nil { // else it is no file, or not ours to read
				b.Children = append(b.Children, source{File: path, Text: string(src)})
			}
		}
	}
	family := b.family()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if family[name] != nil {
			continue
		}
		if err := b.unreadable(name); err != nil {
			return nil, err
		}
		return nil, doc.ErrorAt(wanted[name], "found: "+strings.Join(slices.Sorted(maps.Keys(family)), ", "),
			"no file beside this one holds a flow %q", name)
	}
	return b.child(doc.Name, family).Children, nil
}

// unreadable is why the file that seems to hold a flow cannot be read; nil: no file does.
func (b bundle) unreadable(name string) error {
	for _, s := range b.Children {
		if _, err := parseFlow(s.File, []byte(s.Text)); err != nil && strings.Contains(s.Text, "name: "+name) {
			return err
		}
	}
	return nil
}

// childNames lists the flows that a document's steps start, with the first step that starts each; any is set where an
// expression makes a name.
func childNames(doc *flow.Document) (names map[string]*flow.Step, any bool) {
	names = map[string]*flow.Step{}
	for s := range doc.AllSteps() {
		child, ok := s.Action.(*flow.Child)
		if !ok {
			continue
		}
		if name, _ := child.Name.Any().(string); strings.Contains(name, "${{") {
			any = true
		} else if names[name] == nil {
			names[name] = s
		}
	}
	return names, any
}
