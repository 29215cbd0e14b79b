package flow

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/tree"
)

func (p *parsing) steps(doc *tree.Node) []*Step {
	n := doc.Get("steps")
	if n == nil || n.Kind == tree.Null {
		p.missing(doc, p.withForms(documentKeys), "add steps: with at least one step", "the flow has no steps")
		return nil
	}
	if n.Kind != tree.List {
		hint := ""
		if n.Kind == tree.Mapping {
			hint = "write each step as - name: …"
		}
		p.Fail(n.Pos, hint, "steps is a list, not %s", n.Kind)
		return nil
	}
	if len(n.Items) == 0 {
		p.Fail(n.Pos, "", "the flow has no steps")
	}
	if len(n.Items) > maxSteps {
		p.Fail(n.Items[maxSteps].Pos, "use forEach, or child flows", "the flow has %d steps, the limit is %d",
			len(n.Items), maxSteps)
		return nil
	}
	steps := make([]*Step, 0, len(n.Items))
	for _, item := range n.Items {
		if item.Kind == tree.Null {
			p.Fail(item.Pos, "", "a step is a mapping, not nothing")
			continue
		}
		if !p.object(item, "a step", p.withForms(stepKeys)) {
			continue
		}
		whole, with := p.expand(item)
		if whole == nil {
			whole = &tree.Node{Kind: tree.Mapping, Pos: item.Pos} // so that what needs it is not wrong, too
			whole.Add("name", item.Key("name"), nodeOr(item.Get("name"), item.Pos))
			whole.Add("noop", item.Pos, &tree.Node{Pos: item.Pos})
		}
		s := p.step(whole)
		s.with = with
		if s.Name == "" {
			if n := item.Get("name"); n == nil || n.Kind == tree.Text || n.Kind == tree.Null {
				p.missing(item, p.withForms(stepKeys), "", "the step has no name")
			}
		}
		steps = append(steps, s)
	}
	return steps
}

// nodeOr returns the node, or an absent node at a place.
func nodeOr(n *tree.Node, at tree.Pos) *tree.Node {
	if n == nil {
		return &tree.Node{Pos: at}
	}
	return n
}

func (p *parsing) step(n *tree.Node) *Step {
	s := &Step{pos: n.Pos}
	if name := n.Get("name"); name != nil {
		s.Name, s.pos = p.text(name, "a step's name"), name.Pos
		p.name(name, "a step's name")
		if contains(hookKeys, s.Name) {
			p.Fail(name.Pos, "choose another one", "the name %q is reserved for the hook", s.Name)
		}
	}
	s.Description = p.text(n.Get("description"), "description")
	if service := n.Get("service"); service != nil {
		s.Service, s.service = p.text(service, "service"), service.Pos
	}
	s.Needs, s.needsPos = p.texts(n.Get("needs"), "needs")
	s.Trigger = p.trigger(n)
	if when := n.Get("when"); when != nil {
		s.When = p.when(when)
	}
	s.ContinueOn = p.continueOn(n.Get("continueOn"))
	s.ForEach = p.items(n, "forEach")
	s.Matrix = matrixOf(p, n)
	s.ItemName = p.textValue(n.Get("itemName"), "itemName")
	s.More = p.items(n, "more")
	if each := n.Get("each"); each != nil {
		s.Each, s.each = p.text(each, "each"), each.Pos
	}
	s.Concurrency, _ = p.whole(n.Get("concurrency"), "concurrency", 1, 1_000_000)
	if c := n.Get("concurrency"); c != nil && !listed(n) && n.Get("each") == nil {
		p.Fail(n.Key("concurrency"), "", "concurrency limits the items of a forEach, and the step has none")
	}
	s.Queue = p.text(n.Get("queue"), "queue")
	s.Priority = p.priority(n.Get("priority"))
	s.Key = tree.ValueOf(n.Get("key"))
	p.action(n, s)
	p.withoutEffect(n, s)
	_, wait := s.Action.(*Wait)
	s.Policy = p.policy(n, wait)
	p.formOfStep(n, s)
	return s
}

// listed reports whether a step has items of its own.
func listed(step *tree.Node) bool { return step.Get("forEach") != nil || step.Get("matrix") != nil }

// when reads a condition: an expression as a text, or plainly true or false.
func (p *parsing) when(n *tree.Node) tree.Value {
	if n.Kind == tree.Bool {
		return tree.ValueOf(&tree.Node{Kind: tree.Text, Pos: n.Pos, Text: fmt.Sprint(n.Scalar)})
	}
	if p.text(n, "when"); n.Kind != tree.Text {
		return tree.Value{}
	}
	return tree.ValueOf(n)
}

func (p *parsing) continueOn(n *tree.Node) []Ending {
	if notList(p, n) {
		return nil
	}
	texts, places := p.texts(n, "continueOn")
	var out []Ending
	for i, text := range texts {
		if !contains(endings, text) {
			p.Fail(places[i], endingHint(text), "continueOn knows no %q", text)
			continue
		}
		if !slices.Contains(out, Ending(text)) {
			out = append(out, Ending(text))
		}
	}
	return out
}

// items reads a list, or an expression that gives one.
func (p *parsing) items(n *tree.Node, key string) tree.Value {
	list := n.Get(key)
	if list == nil {
		return tree.Value{}
	}
	if whole := expr.IsExpression(list); list.Kind != tree.List && !whole {
		p.Fail(list.Pos, listHint(list),
			"%s is a list or one expression that gives a list, not %s", key, tree.Describe(list))
		return tree.Value{}
	}
	return tree.ValueOf(list)
}

// amount checks a duration or an instant that may also be an expression.
func (p *parsing) amount(n *tree.Node, what string, check func(any) error) {
	if n == nil {
		return
	}
	if n.Kind == tree.List || n.Kind == tree.Mapping || n.Kind == tree.Null || n.Kind == tree.Bool {
		p.Fail(n.Pos, "", "%s is a duration, an instant or an expression, not %s", what, tree.Describe(n))
		return
	}
	if n.Kind == tree.Text && expr.HasExpression(n.Text) {
		return
	}
	if p.bare(n, what) {
		return
	}
	if err := check(n.Any()); err != nil {
		p.Fail(n.Pos, "", "%s: %s", what, err)
	}
}

// textValue reads a text that may contain expressions. Numbers and booleans are written as they are in JSON.
func (p *parsing) textValue(n *tree.Node, what string) tree.Value {
	if n == nil || n.Kind == tree.Null {
		return tree.Value{}
	}
	if n.Kind == tree.List || n.Kind == tree.Mapping {
		p.Fail(n.Pos, "", "%s is a text, not %s", what, n.Kind)
		return tree.Value{}
	}
	return tree.ValueOf(n)
}

// textsValue checks the items of a list of texts.
func (p *parsing) textsValue(n *tree.Node, what string) tree.Value {
	for _, item := range n.Items {
		if item.Kind == tree.List || item.Kind == tree.Mapping || item.Kind == tree.Null {
			p.Fail(item.Pos, "", "an item of %s is a text, not %s", what, item.Kind)
		}
	}
	return tree.ValueOf(n.AsWritten())
}

// mapping reads a mapping of texts, or an expression that gives one.
func (p *parsing) mapping(n *tree.Node, what string) tree.Value {
	if n == nil || n.Kind == tree.Null {
		return tree.Value{}
	}
	if n.Kind != tree.Mapping {
		p.Fail(n.Pos, "", "%s is a mapping of texts, not %s", what, tree.Describe(n))
		return tree.Value{}
	}
	for _, f := range n.Fields {
		if f.Value.Kind == tree.Mapping || f.Value.Kind == tree.List && what != "query" {
			p.Fail(f.Value.Pos, "", "%s.%s is a text, not %s", what, f.Name, f.Value.Kind)
		}
	}
	return tree.ValueOf(n.AsWritten())
}

func (p *parsing) hooks(n *tree.Node) Hooks {
	var h Hooks
	if !p.object(n, "hooks", hookKeys) {
		return h
	}
	for _, place := range []struct {
		name  string
		steps *[]*Step
	}{
		{"onSuccess", &h.OnSuccess},
		{"onFailure", &h.OnFailure},
		{"onTimeout", &h.OnTimeout},
		{"onCancel", &h.OnCancel},
		{"onExit", &h.OnExit},
	} {
		*place.steps = p.hook(n.Get(place.name), place.name)
	}
	return h
}

// hook reads a step, or several that run at the same time. A hook without a name is called what it is.
func (p *parsing) hook(n *tree.Node, name string) []*Step {
	if n == nil || n.Kind == tree.Null {
		return nil
	}
	items := []*tree.Node{n}
	if n.Kind == tree.List {
		items = n.Items
	}
	var steps []*Step
	for i, item := range items {
		if !p.object(item, "a hook's step", p.withForms(hookStepKeys)) {
			continue
		}
		whole, with := p.expand(item)
		if whole == nil || whole != item && !p.object(whole, "a hook's step", p.withForms(hookStepKeys)) {
			continue
		}
		s := p.step(whole)
		s.with = with
		if s.Name == "" && i == 0 {
			s.Name = name
		} else if s.Name == "" {
			s.Name = fmt.Sprintf("%s-%d", name, i+1)
		}
		steps = append(steps, s)
	}
	return steps
}
