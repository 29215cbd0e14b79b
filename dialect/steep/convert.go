package steep

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/policy"
)

// Source is one file.
type Source struct {
	Name string // the name in errors
	Text []byte
}

// Sources are the files of a workflow. There may be several of services and of macros, and none of macros.
type Sources struct {
	Workflow         Source
	Services, Macros []Source
}

// The input's properties that name the folders in which files are made.
const (
	tmpPath = "tmpPath" // folder of files that only other actions read
	outPath = "outPath" // folder of outputs with store: true
)

// Convert makes flows of a workflow. The error is a [flow.Errors], each at its place.
func Convert(src Sources) (*dialect.Conversion, error) {
	main := &reader{File: read(src.Workflow.Name, src.Workflow.Text)}
	files := []*form.File{main.File}
	services, macros := map[string]*service{}, map[string]*macro{}
	for _, one := range src.Services {
		file, ok := readConfig(one)
		if files = append(files, file); ok {
			(&reader{File: file}).services(file.Root(), services)
		}
	}
	for _, one := range src.Macros {
		file, ok := readConfig(one)
		if files = append(files, file); ok {
			(&reader{File: file}).macros(file.Root(), macros)
		}
	}
	w := main.workflow(main.Root())
	if _, err := form.Finish(files...); err != nil {
		return nil, err
	}
	circle := includeCircle(macros)
	included := reach(w.actions, macros)
	for _, id := range slices.Sorted(maps.Keys(macros)) {
		m := macros[id]
		known := services
		if !included[id] {
			known = nil // it is checked as Steep does when it starts
		}
		check(m.vars, m.actions, known, macros, m)
	}
	check(w.vars, w.actions, services, macros, nil)
	if _, err := form.Finish(files...); err != nil || circle {
		return nil, err
	}
	c := &converter{
		file: main.File, w: w, services: services, constants: map[string]*variable{},
		chained: map[string]map[string]string{},
	}
	out := c.convert(macros)
	notes, err := form.Finish(files...)
	if err != nil {
		return nil, err
	}
	out.Notes = notes
	if err := compile(out); err != nil {
		return nil, err
	}
	return out, nil
}

// read reads a file. In place of a text, Steep also accepts a number, true or false, and the other way round.
func read(name string, text []byte) *form.File {
	file := form.Read(name, text)
	file.Scalar, file.Number, file.Truth = scalar, quotedNumber, quotedTruth
	return file
}

// reach lists the macros that actions include, directly or through other macros.
func reach(actions []*action, macros map[string]*macro) map[string]bool {
	found := map[string]bool{}
	var visit func(a *action)
	visit = func(a *action) {
		if m := macros[a.macro]; a.kind == kindInclude && m != nil && !found[a.macro] {
			found[a.macro] = true
			walk(m.actions, visit)
		}
	}
	walk(actions, visit)
	return found
}

// compile checks the flows. An error in one of them means that the workflow exceeds a limit of flows.
func compile(c *dialect.Conversion) error {
	for _, doc := range append([]*flow.Document{c.Flow}, c.Children...) {
		if _, err := flow.Compile(doc); err != nil {
			return fmt.Errorf("the workflow makes a flow that is not valid: %w", err)
		}
	}
	return nil
}

// converter makes flows of a workflow that is known to be right.
type converter struct {
	file      *form.File
	w         *workflow
	services  map[string]*service
	constants map[string]*variable
	targets   *targets
	chains    *policy.Retry // the policy of process chains
	flows     form.Namer
	children  []*flow.Document
	linked    [][]*action // the process chains, where each action is a step
	chained   map[string]map[string]string
	paths     bool // files are made
}

func (c *converter) convert(macros map[string]*macro) *dialect.Conversion {
	e := &expander{macros: macros}
	actions := e.actions(c.w.actions)
	for _, v := range slices.Concat(c.w.vars, e.vars) {
		if !v.value.IsZero() {
			c.constants[v.id] = v
		}
	}
	c.targets = newTargets(actions)
	c.chainRetry()
	name := c.w.name
	if name == "" {
		name = "workflow"
	}
	s := c.scope(c.flows.Name(name), actions)
	c.file.Renamed(c.w.in.At("name").Pos(), name, s.doc.Name)
	s.all(actions)
	if c.paths {
		folder := func(name string) map[string]any { return map[string]any{"type": "string", "default": name} }
		s.doc.Input = flow.V(map[string]any{
			"type": "object", "additionalProperties": false,
			"properties": map[string]any{tmpPath: folder("tmp"), outPath: folder("out")},
		})
	}
	return &dialect.Conversion{Flow: s.doc, Children: c.children, Chains: c.chained}
}

// chainRetry reads how process chains are retried: their number of attempts is at least 1, as Steep's is.
func (c *converter) chainRetry() {
	if c.w.chains.IsZero() {
		return
	}
	p, err := Policy(map[string]any{"action": map[string]any{"retries": c.w.chains.Any()}})
	if err != nil {
		c.file.Policy(c.w.chains, below(err, 2))
		return
	}
	if p.Retry.MaxAttempts == 0 {
		p.Retry.MaxAttempts = 1
		c.file.Note(c.w.chains.Key("maxAttempts"),
			"maxAttempts: 0 of process chains means one attempt, as it does in Steep")
	}
	c.chains = form.Tidy(p.Retry)
}

// below takes the first names off a field's path.
func below(err error, n int) error {
	field, ok := err.(*decode.Error) //nolint:errorlint // Policy returns it as it is
	if !ok || len(field.Path) < n {
		return err
	}
	return &decode.Error{Path: field.Path[n:], Msg: field.Msg}
}

// policy reads an action's timeouts and retries over its service's. Each limit is known by the place that sets it.
func (c *converter) policy(a *action, s *service) policy.Policy {
	fields := []string{"retries", "maxInactivity", "maxRuntime", "deadline"}
	p, err := Policy(map[string]any{"service": form.Pick(s.in, fields...), "action": form.Pick(a.in, fields...)})
	if err != nil {
		file, in := s.reader.File, s.in
		if field, ok := err.(*decode.Error); ok && field.Path[0] == "action" { //nolint:errorlint // as above
			file, in = a.file, a.in
		}
		file.Policy(in, below(err, 1))
		return policy.Policy{}
	}
	p.Retry = form.Tidy(p.Retry)
	for _, clock := range clocks {
		if !a.in.Get(clock.field).IsZero() {
			p.Get(clock.kind).Origin = a.file.Origin(a.in, clock.field)
		} else if !s.in.Get(clock.field).IsZero() {
			p.Get(clock.kind).Origin = s.reader.Origin(s.in, clock.field)
		}
	}
	return p
}
