package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/core"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/journal"
	"github.com/pawl-dev/pawl/policy"
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
	File string `json:"file"`
	Text string `json:"text"`
}

// compiled is a bundle made ready.
type compiled struct {
	bundle bundle
	doc    *flow.Document
	def    core.Definition

	mu    sync.Mutex
	found map[string]journal.Definition // child flows by name: a forEach starts the same one many times
}

// loadBundle reads a flow file, and the flows its steps start from beside it.
func (a *app) loadBundle(path string) (*compiled, error) {
	name, src, err := a.readFile(path)
	if err != nil {
		return nil, asUsage(err)
	}
	b := bundle{Flow: source{name, string(src)}}
	if b.Dir, err = os.Getwd(); err != nil {
		return nil, err
	}
	doc, err := parseFlow(name, src)
	if err != nil {
		return nil, asUsage(err)
	}
	if b.Children, err = a.children(name, doc); err != nil {
		return nil, asUsage(err)
	}
	a.tellNotes(notes(doc))
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
	return &compiled{bundle: b, doc: doc, def: placed{def, b.Dir, b.Dialect}}, nil
}

// definition is the bundle as it is stored.
func (b bundle) definition(name string) (journal.Definition, error) {
	src, err := json.Marshal(b)
	if err != nil {
		return journal.Definition{}, err
	}
	return journal.Definition{ID: flow.ID(src), Kind: kindBundle, Name: name, Source: src}, nil
}

// readBundle reads a stored definition. It is named by the hash of its bytes, so what the storage has changed in them is
// noticed here, and never run.
func readBundle(d journal.Definition) (*compiled, error) {
	if d.Kind != kindBundle {
		return nil, fmt.Errorf("workflow %q is written in %s: this command runs flows only; resume it with the program that started it", d.Name, d.Kind)
	}
	if flow.ID(d.Source) != d.ID {
		return nil, fmt.Errorf("%w: the stored text of flow %q is not the one it was started with; restore a backup of the file", journal.ErrCorrupt, d.Name)
	}
	var b bundle
	if err := json.Unmarshal(d.Source, &b); err != nil {
		return nil, fmt.Errorf("definition %s: %w", d.ID, err)
	}
	return b.compile()
}

// child finds the flow that a step starts by name.
func (c *compiled) child(name string) (journal.Definition, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d, ok := c.found[name]; ok {
		return d, nil
	}
	d, err := c.search(name)
	if err == nil {
		if c.found == nil {
			c.found = map[string]journal.Definition{}
		}
		c.found[name] = d
	}
	return d, err
}

func (c *compiled) search(name string) (journal.Definition, error) {
	candidates := append([]source{c.bundle.Flow}, c.bundle.Children...)
	var names []string
	for i, s := range candidates {
		doc, err := parseFlow(s.File, []byte(s.Text))
		if err != nil {
			continue // it was read along because it lies beside the flow; only the one that is asked for must be right
		}
		if doc.Name != name {
			names = append(names, doc.Name)
			continue
		}
		others := slices.Delete(slices.Clone(candidates), i, i+1)
		return bundle{Dir: c.bundle.Dir, Flow: s, Children: others}.definition(name)
	}
	return journal.Definition{}, fmt.Errorf("no file beside %s holds a flow of that name (found: %s)", c.bundle.Flow.File, strings.Join(names, ", "))
}

// children reads the flows that doc's steps may start: files beside it, and of those only the ones named, where the names
// are written down.
func (a *app) children(file string, doc *flow.Document) ([]source, error) {
	wanted, any := childNames(doc)
	if len(wanted) == 0 && !any {
		return nil, nil
	}
	if file == "stdin" {
		return nil, errors.New("a flow from the standard input cannot start child flows: there is no directory to find them in")
	}
	var out []source
	docs := []*flow.Document{doc}
	found := []string{doc.Name}
	for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(file), pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range files {
			if filepath.Clean(path) == filepath.Clean(file) {
				continue
			}
			_, src, err := a.readFile(path)
			if err != nil {
				continue // not a file, or not ours to read
			}
			child, err := parseFlow(path, src)
			if err != nil {
				if slices.ContainsFunc(wanted, func(name string) bool { return strings.Contains(string(src), "name: "+name) }) {
					return nil, err
				}
				continue
			}
			found = append(found, child.Name)
			docs, out = append(docs, child), append(out, source{path, string(src)})
		}
	}
	for _, name := range wanted {
		if !slices.Contains(found, name) {
			return nil, fmt.Errorf("%s starts flow %q, and no file beside it holds one of that name; found: %s", file, name, strings.Join(found, ", "))
		}
	}
	reached, any := reachable(docs)
	if any {
		return out, nil
	}
	var kept []source
	for i, child := range docs[1:] {
		if reached[child.Name] {
			kept = append(kept, out[i])
		}
	}
	return kept, nil
}

// reachable lists the flows that the first one starts, and those that they start; dynamic is set where one of them makes
// a name by an expression.
func reachable(docs []*flow.Document) (names map[string]bool, dynamic bool) {
	names = map[string]bool{docs[0].Name: true}
	for again := true; again && !dynamic; {
		again = false
		for _, doc := range docs {
			if !names[doc.Name] {
				continue
			}
			started, any := childNames(doc)
			dynamic = dynamic || any
			for _, name := range started {
				again = again || !names[name]
				names[name] = true
			}
		}
	}
	return names, dynamic
}

// childNames lists the flows that a document's steps start; dynamic is set where an expression makes a name.
func childNames(doc *flow.Document) (names []string, dynamic bool) {
	h := &doc.Hooks
	for _, steps := range [][]*flow.Step{doc.Steps, h.OnSuccess, h.OnFailure, h.OnTimeout, h.OnCancel, h.OnExit} {
		for _, s := range steps {
			child, ok := s.Action.(*flow.Child)
			if !ok {
				continue
			}
			name, _ := child.Name.Any().(string)
			if strings.Contains(name, "${{") {
				dynamic = true
			} else if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, dynamic
}

// steps is the tree to draw.
func (c *compiled) steps() []live.Step {
	out := make([]live.Step, len(c.doc.Steps))
	for i, s := range c.doc.Steps {
		out[i] = live.Step{Name: s.Name, Needs: s.Needs}
	}
	return out
}

// placed is a flow that belongs to a directory: what its steps name relative to no place, they name relative to that one.
type placed struct {
	core.Definition
	dir     string
	dialect string
}

func (p placed) Decider(r *core.Run) core.Decider {
	return placedDecider{p.Definition.Decider(r), p.dir}
}

// Bounds passes the flow's limits on.
func (p placed) Bounds() (execution, run, deadline *policy.Limit) {
	if b, ok := p.Definition.(core.Bounded); ok {
		return b.Bounds()
	}
	return nil, nil, nil
}

// CheckInput passes the check of a child run's input on.
func (p placed) CheckInput(input []byte) ([]byte, error) {
	if c, ok := p.Definition.(core.Checked); ok {
		return c.CheckInput(input)
	}
	return input, nil
}

type placedDecider struct {
	core.Decider
	dir string
}

// Tolerated passes on which failures the flow does not mind.
func (d placedDecider) Tolerated(r *core.Run, s *core.Step) bool {
	t, ok := d.Decider.(interface {
		Tolerated(r *core.Run, s *core.Step) bool
	})
	return ok && t.Tolerated(r, s)
}

// MatchRun passes the condition of the run retry policy on.
func (d placedDecider) MatchRun(r *core.Run, when string, f *policy.Failure, now core.Time) policy.Match {
	m, ok := d.Decider.(core.RunMatcher)
	if !ok {
		return policy.Match{Error: "the flow cannot evaluate conditions on runs"}
	}
	return m.MatchRun(r, when, f, now)
}

// Task gives a process its directory and an upload its file.
func (d placedDecider) Task(r *core.Run, s *core.Step, now core.Time) ([]byte, *policy.Failure) {
	payload, failure := d.Decider.Task(r, s, now)
	if failure != nil || d.dir == "" || s.Spec.Kind != core.KindTask {
		return payload, failure
	}
	switch s.Spec.Type {
	case "exec":
		return d.place(payload, "dir", true), nil
	case "http":
		return d.place(payload, "file", false), nil
	default:
		return payload, nil
	}
}

func (d placedDecider) place(payload []byte, key string, always bool) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil {
		return payload
	}
	var path string
	if json.Unmarshal(fields[key], &path) != nil {
		path = ""
	}
	if (path == "" && !always) || filepath.IsAbs(path) {
		return payload
	}
	text, err := json.Marshal(filepath.Join(d.dir, path))
	if err != nil {
		return payload
	}
	fields[key] = text
	if out, err := json.Marshal(fields); err == nil {
		return out
	}
	return payload
}
