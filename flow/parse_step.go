package flow

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
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

// withoutEffect refuses settings that only tasks have on a step that is not a task.
func (p *parsing) withoutEffect(n *tree.Node, s *Step) {
	what := "a loop"
	switch s.Action.(type) {
	case nil:
		if !listed(n) {
			return // it does nothing, which is reported
		}
	case *Sleep:
		what = "a sleep"
	case *Wait:
		what = "a wait"
	case *Child:
		what = "a child flow"
	default:
		return
	}
	for _, key := range []string{"queue", "priority", "key"} {
		if v := n.Get(key); v != nil && v.Kind != tree.Null {
			p.Fail(n.Key(key), "leave it out", "%s is not a task of a worker, so %s has no effect", what, key)
		}
	}
}

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

// action reads the step's action: exactly one of the kinds.
func (p *parsing) action(n *tree.Node, s *Step) {
	var found []tree.NodeField
	for _, f := range n.Fields {
		if contains(kindKeys, f.Name) && !slices.ContainsFunc(found,
			func(o tree.NodeField) bool { return o.Name == f.Name }) {
			found = append(found, f)
		}
	}
	switch len(found) {
	case 0:
		if listed(n) {
			return // a loop
		}
		p.missing(n, p.withForms(stepKeys), "add one of "+orList(kindKeys), "the step does nothing")
		return
	case 1:
	default:
		p.Fail(found[1].Pos, "make two steps of it", "a step does one thing; this one has %s and %s", found[0].Name,
			found[1].Name)
	}
	v := found[0].Value
	s.action = found[0].Pos
	switch found[0].Name {
	case "exec":
		s.Action = p.exec(v)
	case "http":
		s.Action = p.http(v)
	case "task":
		s.Action = p.task(v)
	case "sleep":
		s.Action = p.sleep(v)
	case "wait":
		s.Action = p.wait(v)
	case "flow":
		s.Action = p.child(v)
	case "fail":
		s.Action = p.failure(v)
	case "mail":
		s.Action = p.mail(v)
	case "noop":
		noop := &Noop{}
		if p.object(v, "noop", noopKeys) {
			noop.Output = tree.ValueOf(v.Get("output"))
		}
		s.Action = noop
	}
}

func (p *parsing) task(n *tree.Node) Action {
	t := &Task{}
	if n.Kind == tree.Text {
		t.Type = n.Text
		refuseOwnType(p, n)
		return t
	}
	if p.object(n, "task", taskKeys) {
		t.Type = p.text(n.Get("type"), "type")
		refuseOwnType(p, n.Get("type"))
		t.Queue = p.text(n.Get("queue"), "queue")
		t.Input = tree.ValueOf(n.Get("input"))
		t.ArtifactsFrom, t.artifactsPos = p.texts(n.Get("artifactsFrom"), "artifactsFrom")
	}
	if t.Type == "" && (n.Kind == tree.Mapping || n.Kind == tree.Null) {
		p.missing(n, taskKeys, "name the worker's function: type: SendReceipt", "the task has no type")
	}
	return t
}

// ownTypes are the task types of the other keys of a step. No worker serves them under that name, and their payloads
// are checked below their keys.
var ownTypes = []string{"exec", "http", "noop", "mail", "fail"}

// refuseOwnType refuses a task's type that is Pawl's own.
func refuseOwnType(p *parsing, n *tree.Node) {
	if n != nil && contains(ownTypes, n.Text) {
		p.Fail(n.Pos, fmt.Sprintf("write %s: in place of task:", n.Text), ownType, n.Text)
	}
}

const ownType = "the type %q of a task is Pawl's own, not a worker's"

func (p *parsing) sleep(n *tree.Node) Action {
	s := &Sleep{}
	if n.Kind == tree.Mapping {
		if p.object(n, "sleep", sleepKeys) {
			s.For, s.Until = tree.ValueOf(n.Get("for")), tree.ValueOf(n.Get("until"))
		}
		if s.For.IsZero() == s.Until.IsZero() {
			p.missing(n, sleepKeys, "", "sleep takes for or until")
		}
	} else {
		s.For = tree.ValueOf(n)
	}
	p.amount(tree.NodeOf(s.For), "sleep", func(v any) error { _, err := decode.Duration(v); return err })
	p.amount(tree.NodeOf(s.Until), "until", func(v any) error {
		text, _ := v.(string)
		_, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return fmt.Errorf("%v is not an RFC 3339 instant such as 2030-01-31T18:00:00Z", v)
		}
		return nil
	})
	return s
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

func (p *parsing) wait(n *tree.Node) Action {
	w := &Wait{}
	if n.Kind == tree.Text {
		w.Event = tree.ValueOf(n)
	} else if p.object(n, "wait", waitKeys) {
		w.Event = p.textValue(n.Get("event"), "event")
		if list := n.Get("any"); list != nil {
			if n.Get("event") != nil {
				p.Fail(n.Key("any"), "write all of them in any", "a wait has event or any, not both")
			}
			firstOf(p, list, w)
			return w
		}
	}
	event, isText := w.Event.Text()
	if (w.Event.IsZero() || isText && event == "") &&
		(n.Kind == tree.Mapping || n.Kind == tree.Text || n.Kind == tree.Null) {
		p.missing(n, waitKeys, "name the event: event: approved", "the wait names no event")
	}
	return w
}

// firstOf reads what a wait ends with the first of: names of events, and steps.
func firstOf(p *parsing, n *tree.Node, w *Wait) {
	if n.Kind != tree.List || len(n.Items) < 2 {
		p.Fail(n.Pos, "any: [approved, rejected]",
			"any is a list of two or more events or steps, of which the first counts")
		return
	}
	for _, item := range n.Items {
		switch {
		case item.Kind == tree.Text && item.Text != "":
			w.Any = append(w.Any, tree.ValueOf(item))
		case item.Kind != tree.Mapping:
			p.Fail(item.Pos, "", "an item of any is the name of an event, {event: NAME} or {step: NAME}, not %s",
				tree.Describe(item))
		case !p.object(item, "an item of any", firstKeys):
		case len(item.Fields) != 1:
			p.missing(item, firstKeys, "", "an item of any is one event or one step")
		case item.Get("step") != nil:
			if name := p.text(item.Get("step"), "step"); name != "" {
				w.Steps, w.stepsPos = append(w.Steps, name), append(w.stepsPos, item.Get("step").Pos)
			}
		default:
			if event := p.textValue(item.Get("event"), "event"); !event.IsZero() {
				w.Any = append(w.Any, event)
			}
		}
	}
}

func (p *parsing) child(n *tree.Node) Action {
	c := &Child{}
	if n.Kind == tree.Text {
		c.Name = tree.ValueOf(n)
	} else if p.object(n, "flow", flowKeys) {
		c.Name, c.Input = p.textValue(n.Get("name"), "name"), tree.ValueOf(n.Get("input"))
		if closing := n.Get("parentClose"); closing != nil {
			if c.ParentClose = closing.Text; closing.Kind != tree.Text || !contains(parentCloses, closing.Text) {
				p.Fail(closing.Pos, "", "parentClose is cancel, terminate or abandon, not %s", tree.Describe(closing))
			}
		}
		c.Spread = p.truth(n.Get("spread"), "spread")
	}
	name, _ := c.Name.Text()
	if name == "" && (n.Kind == tree.Mapping || n.Kind == tree.Text || n.Kind == tree.Null) {
		p.missing(n, flowKeys, "name the flow to run: name: audit", "the child flow has no name")
	}
	return c
}

func (p *parsing) failure(n *tree.Node) Action {
	f := &Fail{}
	if n.Kind == tree.Text {
		f.Message = tree.ValueOf(n)
		return f
	}
	if !p.object(n, "fail", failKeys) {
		return f
	}
	f.Type, f.Message = p.textValue(n.Get("type"), "type"), p.textValue(n.Get("message"), "message")
	if code := n.Get("code"); code != nil {
		if _, whole := code.Scalar.(int); !whole && !expr.HasExpression(code.Text) {
			p.Fail(code.Pos, "", "code is a whole number, not %s", tree.Describe(code))
		}
		f.Code = tree.ValueOf(code)
	}
	if kind := n.Get("kind"); kind != nil {
		kinds := []string{policy.KindError.String(), policy.KindFailed.String(), policy.KindTimeout.String()}
		if !contains(kinds, kind.Text) && !expr.HasExpression(kind.Text) {
			p.Fail(kind.Pos, "", "kind is error, failed or timeout, not %s", tree.Describe(kind))
		}
		f.Kind = tree.ValueOf(kind)
	}
	f.NonRetryable = p.truth(n.Get("nonRetryable"), "nonRetryable")
	f.RetryAfter = p.duration(n.Get("retryAfter"), "retryAfter")
	return f
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
	return tree.ValueOf(n)
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
	return tree.ValueOf(n)
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
