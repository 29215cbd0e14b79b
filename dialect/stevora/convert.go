package stevora

import (
	"errors"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/dialect/internal/handlers"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Source is one file.
type Source struct {
	Name string // the name in errors
	Text []byte
}

// approvalEvent is the prefix of the events with decisions; the step's name follows.
const approvalEvent = "approval."

// The failure of an approval that has nothing to approve, and the suffix of the name of the step that fails.
const (
	contentMissing = "APPROVAL_CONTENT_MISSING"
	contentCheck   = ".content"
)

// llmHandler is the handler of steps that ask a language model.
const llmHandler = "llm"

// Convert makes a flow of a definition. The error is a [flow.Errors], each at its place.
func Convert(src, handlerFile Source) (*dialect.Conversion, error) {
	r := &reader{form.Read(src.Name, src.Text)}
	hf := form.Read(handlerFile.Name, handlerFile.Text)
	name, description, steps := r.definition(r.Root())
	known := handlers.Read(hf)
	if _, err := form.Finish(r.File, hf); err != nil {
		return nil, err
	}
	c := &converter{
		reader: r, steps: steps, handlers: known,
		doc: &flow.Document{
			Input: flow.V(true),
			File:  src.Name, Description: description, Words: "stevora", Place: r.Place(r.Root().Pos()),
		},
	}
	c.doc.Name = (&form.Namer{}).Name(name)
	r.Renamed(r.Root().At("name").Pos(), name, c.doc.Name)
	var names form.Namer
	for _, s := range steps {
		c.names = append(c.names, names.Name(s.name))
		r.Renamed(s.in.At("name").Pos(), s.name, c.names[s.index])
	}
	for _, s := range steps {
		c.step(s, &names)
	}
	if len(c.updates) > 0 {
		c.doc.Output = flow.V("${{ " + c.state() + " }}")
	}
	notes, err := form.Finish(r.File, hf)
	if err != nil {
		return nil, err
	}
	if _, err := flow.Compile(c.doc); err != nil {
		var errs tree.Errors
		if !errors.As(err, &errs) {
			return nil, err
		}
		for _, e := range errs {
			r.Fail(r.Root().Pos(), e.Hint, "step %q: %s", e.Step, e.Msg)
		}
		_, err = form.Finish(r.File, hf)
		return nil, err
	}
	return &dialect.Conversion{Flow: c.doc, Notes: notes}, nil
}

// converter makes a flow of a definition that is known to be right.
type converter struct {
	*reader
	steps    []*step
	names    []string // the names of the flow's steps
	handlers map[string]*handlers.Handler
	doc      *flow.Document
	walked   []*flow.Step // the definition's steps so far
	updates  []string     // expressions for the values that the steps so far write into the state
}

func (c *converter) ref(i int) string { return "steps[" + form.Expr(c.names[i]) + "]" }

// step makes a step that runs after the one before, if the walk reaches it.
func (c *converter) step(s *step, names *form.Namer) {
	out := &flow.Step{Name: c.names[s.index], Place: c.Place(s.in.Pos())}
	if s.index > 0 {
		out.Needs = []string{c.doc.Steps[len(c.doc.Steps)-1].Name}
		if reach := c.reached(s.index); reach != "" {
			out.When = flow.V(reach)
		}
	}
	p, _ := Policy(form.Pick(s.in, "retry")) // its mistakes are reported before
	if s.kind != typeTask && s.kind != typeLLM {
		c.Ignored(s.in, "nothing is executed that could be tried again", "retry")
	}
	if len(c.updates) >= mostUpdates {
		out.Needs = []string{c.gather(names.Name("state"), out)}
	}
	state := c.state()
	switch s.kind {
	case typeTask, typeLLM:
		c.task(s, out, p, state)
	case typeWait:
		out.Action = &flow.Sleep{For: flow.V(c.milliseconds(s.in, "durationMs", 0))}
		if until := c.Text(s.in, "untilTimestamp"); until != "" {
			out.Action = &flow.Sleep{Until: flow.V(until)}
		}
	case typeCondition:
		c.condition(s, out, state)
	case typeEvent:
		event, _ := s.in.Get("signalType").Text()
		c.wait(s, out, event)
	case typeApproval:
		c.approval(s, out, state, names)
	}
	c.doc.Steps = append(c.doc.Steps, out)
	c.walked = append(c.walked, out)
}

// mostUpdates is how many steps' updates an expression puts together; more would make it longer than it may be.
const mostUpdates = 20

// gather makes a step before another that holds the state so far.
func (c *converter) gather(name string, before *flow.Step) string {
	state := flow.V(map[string]any{"state": "${{ " + c.state() + " }}"})
	c.doc.Steps = append(c.doc.Steps, &flow.Step{
		Name: name, Needs: before.Needs, Place: before.Place, Action: &flow.Noop{Output: state},
	})
	c.updates = []string{"steps[" + form.Expr(name) + "].output.state"}
	return name
}

func (c *converter) task(s *step, out *flow.Step, p policy.Policy, state string) {
	p.Retry = form.Tidy(p.Retry)
	out.Policy = p
	name, at := llmHandler, s.in.Get("type")
	config := filled(form.Pick(s.in, keysOf[typeLLM]...))
	if s.kind == typeTask {
		name, at = c.Text(s.in, "handler"), s.in.Get("handler")
		c.mapping(s.in, "config")
		config = "{}"
		if v := s.in.Get("config"); v.IsMapping() {
			config = form.Expr(v.Any())
		}
	}
	h := c.handlers[name]
	if h == nil {
		c.Fail(at.Pos(), handlers.Nearest(name, c.handlers), "there is no handler %q", name)
		out.Action = &flow.Noop{}
		return
	}
	out.Action = h.Action("let state = " + state + "; " + form.Object(map[string]string{
		"step": form.Expr(s.name), "input": "input ?? {}", "state": "state", "config": config, "attempt": "attempt",
	}))
	c.update(h.Output(out.Name), `type(o.stateUpdates) == "map"`, "o.stateUpdates")
}

// update adds the values that a step writes into the state: from its output o, which is a mapping, if a test holds.
func (c *converter) update(output, test, gives string) {
	if test != "" {
		test = " && " + test
	}
	c.updates = append(c.updates, "(let o = "+output+`; type(o) == "map"`+test+" ? "+gives+" : {})")
}

// state puts together what the steps before have written, the later ones winning.
func (c *converter) state() string {
	if len(c.updates) == 0 {
		return "{}"
	}
	pairs := make([]string, len(c.updates))
	for i, u := range c.updates {
		pairs[i] = "toPairs(" + u + ")"
	}
	if len(pairs) == 1 {
		return "fromPairs(" + pairs[0] + ")"
	}
	return "fromPairs(concat(" + strings.Join(pairs, ", ") + "))"
}

// reached returns the condition under which the walk reaches a step, from the step before it or from a condition that
// names it, or "" if it always does.
func (c *converter) reached(i int) string {
	var ways []string
	if before := c.steps[i-1]; before.kind != typeCondition {
		if c.walked[i-1].When.IsZero() {
			return ""
		}
		ways = append(ways, c.ref(i-1)+`.phase == "succeeded"`)
	}
	for j, s := range c.steps[:i] {
		if s.kind == typeCondition && slices.Contains([]string{c.Text(s.in, "trueStep"), c.Text(s.in, "falseStep")},
			c.steps[i].name) {
			ways = append(ways,
				c.ref(j)+`.phase == "succeeded" && `+c.ref(j)+".output.next == "+form.Expr(c.steps[i].name))
		}
	}
	if len(ways) == 0 {
		c.Note(c.steps[i].in.Pos(), "no step leads to %q, which is skipped, as in Stevora", c.steps[i].name)
		return "false"
	}
	return strings.Join(ways, " || ")
}

// condition works out where the walk goes on: its expression is a path into the state, which is true if JavaScript
// would take its value for true.
func (c *converter) condition(s *step, out *flow.Step, state string) {
	value := lead(state, strings.Split(c.Text(s.in, "expression"), "."))
	next := func(key string) string { return form.Expr(c.Text(s.in, key)) }
	out.Action = &flow.Noop{Output: flow.V(map[string]any{
		"next": "${{ (" + value + `) in [nil, false, 0, ""] ? ` + next("falseStep") + " : " + next("trueStep") + " }}",
	})}
}

// wait waits for an event, whose payload goes into the state.
func (c *converter) wait(s *step, out *flow.Step, event string) {
	out.Action = &flow.Wait{Event: flow.V(form.Literal(event))}
	if after := c.milliseconds(s.in, "timeoutMs", 1); after > 0 {
		out.Policy.Set(policy.LimitWait, &policy.Limit{After: after, Origin: c.Origin(s.in, "timeoutMs")})
	}
	c.update(c.ref(s.index)+".output", "", "o")
}

// approval waits for the event approval.<name>, once there is something to approve.
func (c *converter) approval(s *step, out *flow.Step, state string, names *form.Namer) {
	key := c.Text(s.in, "contentKey")
	check := &flow.Step{
		Name: names.Name(out.Name + contentCheck), Needs: out.Needs, Place: out.Place,
		When: flow.V("(" + state + ")?.[" + form.Expr(key) + "] == nil"),
		Action: &flow.Fail{
			Type:    flow.V(contentMissing),
			Message: flow.V("nothing was written into the state under " + form.Literal(key)),
			Kind:    flow.V("failed"), NonRetryable: true,
		},
	}
	if !out.When.IsZero() {
		reach, _ := out.When.Text()
		missing, _ := check.When.Text()
		check.When = flow.V("(" + reach + ") && " + missing)
	}
	c.doc.Steps = append(c.doc.Steps, check)
	out.Needs = []string{check.Name}
	c.wait(s, out, approvalEvent+s.name)
	// The content that the reviewer has edited replaces the original.
	c.update(c.ref(s.index)+".output", `o.decision == "edited"`, "{"+form.Expr(key)+": o.editedContent}")
	if prompt := s.in.Get("prompt"); !prompt.IsZero() {
		out.Description = c.Text(s.in, "prompt")
	}
}
