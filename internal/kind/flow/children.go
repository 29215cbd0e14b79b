package flow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/journal"
)

// member is one of the flows of a bundle, with the flows that it may start itself.
type member struct {
	Source
	index  int                   // index in Bundle.sources
	starts map[string]*flow.Step // the first step that starts each flow, by the flow's name
	any    bool                  // an expression makes the name of one that it starts
}

// sources returns the bundle's flow and its children.
func (b Bundle) sources() []Source { return append([]Source{b.Flow}, b.Children...) }

// Child returns the definition of a flow that the bundle holds; false: it holds none of that name. The error is that of
// a file which seems to hold the flow and cannot be read.
func (f *Flow) Child(name string) (journal.Definition, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d, ok := f.started[name]; ok {
		return d, true, nil
	}
	if f.members == nil {
		f.members = f.Bundle.members()
		f.started = map[string]journal.Definition{}
	}
	if f.members[name] == nil {
		return journal.Definition{}, false, f.Bundle.unreadable(name)
	}
	d, err := f.Bundle.child(name, f.members).Definition(name)
	if err == nil {
		f.started[name] = d
	}
	return d, true, err
}

// noSuchChild returns the error for a flow that the bundle does not hold.
func (f *Flow) noSuchChild() error {
	return fmt.Errorf("no file beside %s holds a flow of that name; found: %s", f.Bundle.Flow.File,
		strings.Join(slices.Sorted(maps.Keys(f.Bundle.members())), ", "))
}

// Choose returns the bundle with those of its children that the flow can start, directly or through others. A missing
// child that a step names is an error at that step.
func (b Bundle) Choose(doc *flow.Document) (Bundle, error) {
	wanted, _ := childNames(doc)
	members := b.members()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if members[name] != nil {
			continue
		}
		if err := b.unreadable(name); err != nil {
			return b, err
		}
		return b, doc.ErrorAt(wanted[name], "found: "+strings.Join(slices.Sorted(maps.Keys(members)), ", "),
			"no file beside this one holds a flow %q", name)
	}
	return b.child(doc.Name, members), nil
}

// HasChildren reports whether steps of the document start other flows.
func HasChildren(doc *flow.Document) bool {
	wanted, any := childNames(doc)
	return len(wanted) > 0 || any
}

// members reads the flows of a bundle, each once. A child that cannot be read is left out: it was included because it
// was there, and only a requested one must be right.
func (b Bundle) members() map[string]*member {
	all := map[string]*member{}
	for i, s := range b.sources() {
		doc, err := s.parse()
		if err != nil {
			continue
		}
		if all[doc.Name] == nil {
			names, any := childNames(doc)
			all[doc.Name] = &member{s, i, names, any}
		}
	}
	return all
}

// child returns the bundle of one of the flows, with exactly the flows that it can start, directly or through others.
// The flows of a large workflow start few others each, so that all their bundles together take only a few times the
// room of the workflow.
func (b Bundle) child(name string, members map[string]*member) Bundle {
	all, own := b.sources(), members[name]
	out := Bundle{Dir: b.Dir, Flow: own.Source, Dialect: b.Dialect}
	reached, any := reachable(name, members)
	if any {
		out.Children = slices.Delete(all, own.index, own.index+1)
		return out
	}
	var indexes []int
	for other := range reached {
		if other != name {
			indexes = append(indexes, members[other].index)
		}
	}
	slices.Sort(indexes)
	for _, i := range indexes {
		out.Children = append(out.Children, all[i])
	}
	return out
}

// reachable lists the flows that one starts, and those that they start, including itself; any is set if one of them
// makes a name by an expression.
func reachable(name string, members map[string]*member) (names map[string]bool, any bool) {
	names = map[string]bool{name: true}
	for open := []string{name}; len(open) > 0; {
		m := members[open[0]]
		open = open[1:]
		any = any || m.any
		for started := range m.starts {
			if !names[started] && members[started] != nil {
				names[started] = true
				open = append(open, started)
			}
		}
	}
	return names, any
}

// unreadable returns why the file that seems to hold a flow cannot be read; nil: no file seems to.
func (b Bundle) unreadable(name string) error {
	for _, s := range b.Children {
		if _, err := s.parse(); err != nil && strings.Contains(s.Text, "name: "+name) {
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
