package flow

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/policy"
)

func (p *parsing) steps(doc *node) []*Step {
	n := doc.get("steps")
	if n == nil || n.kind == nodeNull {
		p.lacks(doc, p.withForms(documentKeys), "add steps: with at least one step", "the flow has no steps")
		return nil
	}
	if n.kind != nodeList {
		hint := ""
		if n.kind == nodeObject {
			hint = "write each step as - name: …"
		}
		p.fail(n.pos, hint, "steps is a list, not %s", n.kind)
		return nil
	}
	if len(n.items) == 0 {
		p.fail(n.pos, "", "the flow has no steps")
	}
	if len(n.items) > maxSteps {
		p.fail(n.items[maxSteps].pos, "use forEach, or child flows", "the flow has %d steps, the limit is %d", len(n.items), maxSteps)
		return nil
	}
	steps := make([]*Step, 0, len(n.items))
	for _, item := range n.items {
		if item.kind == nodeNull {
			p.fail(item.pos, "", "a step is a mapping, not nothing")
			continue
		}
		if !p.object(item, "a step", p.withForms(stepKeys)) {
			continue
		}
		s := p.step(item)
		if s.Name == "" {
			if n := item.get("name"); n == nil || n.kind == nodeText || n.kind == nodeNull {
				p.lacks(item, p.withForms(stepKeys), "", "the step has no name")
			}
		}
		steps = append(steps, s)
	}
	return steps
}

func (p *parsing) step(n *node) *Step {
	s := &Step{pos: n.pos}
	if name := n.get("name"); name != nil {
		s.Name, s.pos = p.text(name, "a step's name"), name.pos
		p.name(name, "a step's name")
		if contains(hookKeys, s.Name) {
			p.fail(name.pos, "choose another one", "the name %q is reserved for the hook", s.Name)
		}
	}
	s.Description = p.text(n.get("description"), "description")
	if service := n.get("service"); service != nil {
		s.Service, s.service = p.text(service, "service"), service.pos
	}
	s.Needs, s.needsPos = p.texts(n.get("needs"), "needs")
	if when := n.get("when"); when != nil {
		s.When = p.when(when)
	}
	s.ContinueOn = p.continueOn(n.get("continueOn"))
	s.ForEach = p.forEach(n)
	s.Concurrency, _ = p.whole(n.get("concurrency"), "concurrency", 1, 1_000_000)
	if c := n.get("concurrency"); c != nil && n.get("forEach") == nil {
		p.fail(n.key("concurrency"), "", "concurrency belongs to forEach, and there is none")
	}
	s.Queue = p.text(n.get("queue"), "queue")
	s.Priority = p.priority(n.get("priority"))
	p.action(n, s)
	_, wait := s.Action.(*Wait)
	s.Policy = p.policy(n, wait)
	p.formOfStep(n, s)
	return s
}

// when reads a condition: an expression as a text, or plainly true or false.
func (p *parsing) when(n *node) Value {
	if n.kind == nodeBool {
		return Value{&node{kind: nodeText, pos: n.pos, text: fmt.Sprint(n.scalar), size: 1}}
	}
	if p.text(n, "when"); n.kind != nodeText {
		return Value{}
	}
	return valueOf(n)
}

func (p *parsing) continueOn(n *node) []Ending {
	texts, places := p.texts(n, "continueOn")
	var out []Ending
	for i, text := range texts {
		if !contains(endings, text) {
			hint := nearest.Hint(text, endings)
			if hint == "" {
				hint = "use " + orList(endings)
			}
			p.fail(places[i], hint, "continueOn knows no %q", text)
			continue
		}
		if !slices.Contains(out, Ending(text)) {
			out = append(out, Ending(text))
		}
	}
	return out
}

func (p *parsing) forEach(n *node) Value {
	list := n.get("forEach")
	if list == nil {
		return Value{}
	}
	if _, whole := wholeExpression(list); list.kind != nodeList && !whole {
		p.fail(list.pos, `write a list, or an expression: "${{ input.pages }}"`, "forEach is a list or one expression that gives a list, not %s", describe(list))
		return Value{}
	}
	return valueOf(list)
}

// action reads what the step does: exactly one of the kinds.
func (p *parsing) action(n *node, s *Step) {
	var found []field
	for _, f := range n.fields {
		if contains(kindKeys, f.name) && !slices.ContainsFunc(found, func(o field) bool { return o.name == f.name }) {
			found = append(found, f)
		}
	}
	switch len(found) {
	case 0:
		p.lacks(n, p.withForms(stepKeys), "add one of "+orList(kindKeys), "the step does nothing")
		return
	case 1:
	default:
		p.fail(found[1].pos, "make two steps of it", "a step does one thing; this one has %s and %s", found[0].name, found[1].name)
	}
	v := found[0].value
	s.action = found[0].pos
	switch found[0].name {
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
	case "noop":
		noop := &Noop{}
		if p.object(v, "noop", noopKeys) {
			noop.Output = valueOf(v.get("output"))
		}
		s.Action = noop
	}
}

func (p *parsing) exec(n *node) Action {
	if n.kind == nodeText {
		if n.text == "" {
			p.fail(n.pos, "", "the command is empty")
		}
		return &Exec{Shell: valueOf(n)}
	}
	if n.kind == nodeList {
		n = &node{kind: nodeObject, pos: n.pos, fields: []field{{"command", n.pos, n}}}
	}
	if !p.object(n, "exec", execKeys) {
		if n.kind == nodeNull {
			p.fail(n.pos, "write exec: make all", "exec has no command")
		}
		return &Exec{}
	}
	e := p.execFields(n)
	command, shell := n.get("command"), n.get("shell")
	switch {
	case command == nil && shell == nil:
		p.lacks(n, execKeys, "add command: [program, argument] or shell: a line", "exec has no command")
	case command != nil && shell != nil:
		p.fail(n.key("shell"), "", "exec takes command or shell, not both")
	}
	if command != nil {
		_, whole := wholeExpression(command)
		switch {
		case command.kind == nodeList && len(command.items) == 0:
			p.fail(command.pos, "", "the command is empty")
		case command.kind == nodeText && !whole:
			p.fail(command.pos, "write [program, argument], or shell: for a line of shell", "command is a list, not a text")
		case command.kind != nodeList && !whole:
			p.fail(command.pos, "", "command is a list of texts, not %s", describe(command))
		}
		e.Command = p.textsValue(command, "command")
	}
	e.Shell = p.textValue(shell, "shell")
	e.Stdin = p.textValue(n.get("stdin"), "stdin")
	return e
}

// execFields reads what a step and its settings have in common.
func (p *parsing) execFields(n *node) *Exec {
	return &Exec{
		Env:   p.mapping(n.get("env"), "env"),
		Dir:   p.textValue(n.get("dir"), "dir"),
		Grace: p.duration(n.get("grace"), "grace"),
	}
}

func (p *parsing) http(n *node) Action {
	if n.kind == nodeText {
		return &HTTP{URL: valueOf(n)}
	}
	if !p.object(n, "http", httpKeys) {
		if n.kind == nodeNull {
			p.fail(n.pos, "", "http has no url")
		}
		return &HTTP{}
	}
	h := p.httpFields(n)
	h.Method = p.textValue(n.get("method"), "method")
	h.URL = p.textValue(n.get("url"), "url")
	if n.get("url") == nil {
		p.lacks(n, httpKeys, "", "http has no url")
	}
	h.Query = p.mapping(n.get("query"), "query")
	h.JSON = valueOf(n.get("json"))
	h.Body, h.File = p.textValue(n.get("body"), "body"), p.textValue(n.get("file"), "file")
	var given string
	for _, key := range []string{"json", "body", "file"} {
		switch {
		case n.get(key) == nil:
		case given != "":
			p.fail(n.key(key), "", "http takes json, body or file, not both %s and %s", given, key)
		default:
			given = key
		}
	}
	return h
}

func (p *parsing) httpFields(n *node) *HTTP {
	return &HTTP{Headers: p.mapping(n.get("headers"), "headers"), Expect: p.expect(n.get("expect"))}
}

// expect reads status codes: 200, "2xx", or a list of them.
func (p *parsing) expect(n *node) Value {
	if n == nil || n.kind == nodeNull {
		return Value{}
	}
	list := n
	if n.kind != nodeList {
		list = &node{kind: nodeList, pos: n.pos, items: []*node{n}, size: n.size + 1}
	}
	for _, item := range list.items {
		code, _ := item.scalar.(int)
		t := item.text
		class := item.kind == nodeText && len(t) == 3 && t[0] >= '1' && t[0] <= '5' && (t[1:] == "xx" || t[1:] == "XX")
		if (item.kind != nodeNumber || code < 100 || code > 599) && !class {
			p.fail(item.pos, `write 200 or "2xx"`, "expect takes status codes, not %s", describe(item))
		}
	}
	return valueOf(list)
}

func (p *parsing) task(n *node) Action {
	t := &Task{}
	if n.kind == nodeText {
		t.Type = n.text
		return t
	}
	if p.object(n, "task", taskKeys) {
		t.Type = p.text(n.get("type"), "type")
		t.Queue = p.text(n.get("queue"), "queue")
		t.Input = valueOf(n.get("input"))
	}
	if t.Type == "" && (n.kind == nodeObject || n.kind == nodeNull) {
		p.lacks(n, taskKeys, "name the worker's function: type: SendReceipt", "the task has no type")
	}
	return t
}

func (p *parsing) sleep(n *node) Action {
	s := &Sleep{}
	if n.kind == nodeObject {
		if p.object(n, "sleep", sleepKeys) {
			s.For, s.Until = valueOf(n.get("for")), valueOf(n.get("until"))
		}
		if s.For.IsZero() == s.Until.IsZero() {
			p.lacks(n, sleepKeys, "", "sleep takes for or until")
		}
	} else {
		s.For = valueOf(n)
	}
	p.amount(s.For.n, "sleep", func(v any) error { _, err := policy.DecodeDuration(v); return err })
	p.amount(s.Until.n, "until", func(v any) error {
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
func (p *parsing) amount(n *node, what string, check func(any) error) {
	if n == nil {
		return
	}
	if n.kind == nodeList || n.kind == nodeObject || n.kind == nodeNull || n.kind == nodeBool {
		p.fail(n.pos, "", "%s is a duration, an instant or an expression, not %s", what, describe(n))
		return
	}
	if n.kind == nodeText && hasExpression(n.text) {
		return
	}
	if err := check(n.value()); err != nil {
		p.fail(n.pos, "", "%s: %s", what, err)
	}
}

func (p *parsing) wait(n *node) Action {
	w := &Wait{}
	if n.kind == nodeText {
		w.Event = valueOf(n)
	} else if p.object(n, "wait", waitKeys) {
		w.Event = p.textValue(n.get("event"), "event")
	}
	empty := w.Event.IsZero() || w.Event.text() == "" && w.Event.n.kind == nodeText
	if empty && (n.kind == nodeObject || n.kind == nodeText || n.kind == nodeNull) {
		p.lacks(n, waitKeys, "name the event: event: approved", "the wait names no event")
	}
	return w
}

func (p *parsing) child(n *node) Action {
	c := &Child{}
	if n.kind == nodeText {
		c.Name = valueOf(n)
	} else if p.object(n, "flow", flowKeys) {
		c.Name, c.Input = p.textValue(n.get("name"), "name"), valueOf(n.get("input"))
		if closing := n.get("parentClose"); closing != nil {
			if c.ParentClose = closing.text; closing.kind != nodeText || !contains(parentCloses, closing.text) {
				p.fail(closing.pos, "", "parentClose is cancel, terminate or abandon, not %s", describe(closing))
			}
		}
	}
	if c.Name.text() == "" && (n.kind == nodeObject || n.kind == nodeText || n.kind == nodeNull) {
		p.lacks(n, flowKeys, "name the flow to run: name: audit", "the child flow has no name")
	}
	return c
}

func (p *parsing) failure(n *node) Action {
	f := &Fail{}
	if n.kind == nodeText {
		f.Message = valueOf(n)
		return f
	}
	if !p.object(n, "fail", failKeys) {
		return f
	}
	f.Type, f.Message = p.textValue(n.get("type"), "type"), p.textValue(n.get("message"), "message")
	if code := n.get("code"); code != nil {
		if _, whole := code.scalar.(int); !whole && !hasExpression(code.text) {
			p.fail(code.pos, "", "code is a whole number, not %s", describe(code))
		}
		f.Code = valueOf(code)
	}
	if kind := n.get("kind"); kind != nil {
		kinds := []string{policy.KindError.String(), policy.KindFailed.String()}
		if !contains(kinds, kind.text) && !hasExpression(kind.text) {
			p.fail(kind.pos, "", "kind is error or failed, not %s", describe(kind))
		}
		f.Kind = valueOf(kind)
	}
	f.NonRetryable = p.truth(n.get("nonRetryable"), "nonRetryable")
	f.RetryAfter = p.duration(n.get("retryAfter"), "retryAfter")
	return f
}

// textValue reads a text in which expressions may stand. Numbers and booleans are written as they are in JSON.
func (p *parsing) textValue(n *node, what string) Value {
	if n == nil || n.kind == nodeNull {
		return Value{}
	}
	if n.kind == nodeList || n.kind == nodeObject {
		p.fail(n.pos, "", "%s is a text, not %s", what, n.kind)
		return Value{}
	}
	return valueOf(n)
}

// textsValue checks the items of a list of texts.
func (p *parsing) textsValue(n *node, what string) Value {
	for _, item := range n.items {
		if item.kind == nodeList || item.kind == nodeObject || item.kind == nodeNull {
			p.fail(item.pos, "", "an item of %s is a text, not %s", what, item.kind)
		}
	}
	return valueOf(n)
}

// mapping reads a mapping of texts, or an expression that gives one.
func (p *parsing) mapping(n *node, what string) Value {
	if n == nil || n.kind == nodeNull {
		return Value{}
	}
	if n.kind != nodeObject {
		p.fail(n.pos, "", "%s is a mapping of texts, not %s", what, describe(n))
		return Value{}
	}
	for _, f := range n.fields {
		if f.value.kind == nodeObject || f.value.kind == nodeList && what != "query" {
			p.fail(f.value.pos, "", "%s.%s is a text, not %s", what, f.name, f.value.kind)
		}
	}
	return valueOf(n)
}

func (p *parsing) hooks(n *node) Hooks {
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
		*place.steps = p.hook(n.get(place.name), place.name)
	}
	return h
}

// hook reads a step, or several that run at the same time. A hook without a name is called what it is.
func (p *parsing) hook(n *node, name string) []*Step {
	if n == nil || n.kind == nodeNull {
		return nil
	}
	items := []*node{n}
	if n.kind == nodeList {
		items = n.items
	}
	var steps []*Step
	for i, item := range items {
		if !p.object(item, "a hook's step", p.withForms(hookStepKeys)) {
			continue
		}
		s := p.step(item)
		if s.Name == "" && i == 0 {
			s.Name = name
		} else if s.Name == "" {
			s.Name = fmt.Sprintf("%s-%d", name, i+1)
		}
		steps = append(steps, s)
	}
	return steps
}
