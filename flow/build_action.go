package flow

import (
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// action compiles what a step does into the payload its worker reads.
func (b *builder) action(p *plan, s *Step, vars varset) {
	switch a := s.Action.(type) {
	case *Exec:
		settings := b.settings(s)
		if settings.Exec != nil {
			a = overExec(settings.Exec, a)
		}
		p.payload = b.exec(a, vars)
	case *HTTP:
		settings := b.settings(s)
		if settings.HTTP != nil {
			a = overHTTP(settings.HTTP, a)
		}
		p.payload = b.http(a, vars)
	case *Task:
		p.payload = b.template(tree.NodeOf(a.Input), vars, false)
		if a.Type == "" && b.Source == nil {
			b.stepFail(s.pos, "", "the task has no type")
		}
	case *Sleep:
		p.sleep = b.sleep(a, vars&^(varAttempt|varCode|varFailure))
	case *Wait:
		event := b.template(tree.NodeOf(a.Event), vars&^(varAttempt|varCode|varFailure), true)
		if event != nil && event.isConstant() {
			p.spec.Event, _ = event.value.(string)
		} else {
			p.event = event
		}
	case *Child:
		o := b.object(vars)
		o.text("name", a.Name)
		o.data("input", a.Input)
		if a.ParentClose != "" {
			o.data("close", tree.V(a.ParentClose))
		}
		p.payload = o.done()
	case *Fail:
		p.payload = b.failure(a, vars)
	case *Noop:
		if a.Output.IsZero() {
			p.payload = b.template(&tree.Node{}, vars, false)
			return
		}
		o := b.object(vars)
		o.data("output", a.Output)
		p.payload = o.done()
	}
}

func (b *builder) exec(a *Exec, vars varset) *template {
	o := b.object(vars)
	if whole, ok := wholeExpression(tree.NodeOf(a.Command)); ok {
		o.add("command", &template{at: tree.NodeOf(a.Command).Pos, expr: b.expression(tree.NodeOf(a.Command), whole, vars), listOfTexts: true})
	} else if !a.Command.IsZero() {
		o.text("command", a.Command)
	} else {
		o.text("shell", a.Shell)
	}
	o.text("env", a.Env)
	o.text("dir", a.Dir)
	o.text("stdin", a.Stdin)
	o.milliseconds("grace", a.Grace)
	return o.done()
}

func (b *builder) http(a *HTTP, vars varset) *template {
	o := b.object(vars)
	o.text("method", a.Method)
	o.text("url", a.URL)
	o.text("headers", a.Headers)
	o.text("query", a.Query)
	o.data("json", a.JSON)
	o.text("body", a.Body)
	o.text("file", a.File)
	o.data("expect", a.Expect)
	return o.done()
}

func (b *builder) failure(a *Fail, vars varset) *template {
	o := b.object(vars)
	o.text("type", a.Type)
	o.text("message", a.Message)
	o.data("code", a.Code)
	o.text("kind", a.Kind)
	if a.NonRetryable {
		o.data("nonRetryable", tree.V(true))
	}
	o.milliseconds("retryAfter", a.RetryAfter)
	return o.done()
}

func (b *builder) sleep(a *Sleep, vars varset) *sleepPlan {
	amount, until := a.For, false
	if amount.IsZero() {
		amount, until = a.Until, true
	}
	if amount.IsZero() {
		return nil // reported when it was read
	}
	return &sleepPlan{until, b.template(tree.NodeOf(amount), vars, false)}
}

// end computes until when a sleep lasts, where that is an instant, or for how long.
func (p *sleepPlan) end(s *scope) (until core.Time, length time.Duration, err error) {
	v, err := p.amount.eval(s)
	if err != nil {
		return 0, 0, err
	}
	fail := func(msg string) error {
		e := &evalError{at: p.amount.at, msg: msg}
		if p.amount.expr != nil {
			e.text = p.amount.expr.text
		}
		return e
	}
	if at, ok := v.(time.Time); ok {
		return policy.At(at), 0, nil
	}
	if text, ok := v.(string); ok && (p.until || len(text) > 10 && text[4] == '-') {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return 0, 0, fail(text + " is not an RFC 3339 instant such as 2030-01-31T18:00:00Z")
		}
		return policy.At(at), 0, nil
	}
	if p.until {
		return 0, 0, fail("until takes an instant, not " + typeName(v))
	}
	if f, ok := v.(float64); ok && f == float64(int64(f)) {
		v = int64(f)
	}
	d, err := policy.DecodeDuration(v)
	if err != nil {
		return 0, 0, fail(err.Error())
	}
	return 0, d, nil
}

// objectBuilder collects the fields of a payload.
type objectBuilder struct {
	*builder
	vars varset
	t    *template
}

func (b *builder) object(vars varset) *objectBuilder {
	return &objectBuilder{b, vars, &template{object: true}}
}

func (o *objectBuilder) add(name string, t *template) {
	if t != nil {
		o.t.fields = append(o.t.fields, namedTemplate{name, append(tree.AppendText(nil, name), ':'), t})
	}
}

// text adds a field that is a text whatever it evaluates to, or a list or mapping of such.
func (o *objectBuilder) text(name string, v tree.Value) {
	if !v.IsZero() {
		o.add(name, o.template(tree.NodeOf(v), o.vars, true))
	}
}

// data adds a field that keeps its type.
func (o *objectBuilder) data(name string, v tree.Value) {
	if !v.IsZero() {
		o.add(name, o.template(tree.NodeOf(v), o.vars, false))
	}
}

func (o *objectBuilder) milliseconds(name string, d *time.Duration) {
	if d != nil {
		o.data(name, tree.V(int(*d/time.Millisecond)))
	}
}

// done folds a payload without expressions into its bytes.
func (o *objectBuilder) done() *template { return fold(o.t) }

// template compiles data in whose strings expressions may stand; texts asks that every scalar in it be written as text.
// Nil is returned for what is absent.
func (b *builder) template(n *tree.Node, vars varset, texts bool) *template {
	if n == nil {
		return nil
	}
	t := &template{at: n.Pos}
	switch n.Kind {
	case tree.List:
		for _, item := range n.Items {
			t.items = append(t.items, b.template(item, vars, texts))
		}
	case tree.Mapping:
		t.object = true
		for _, f := range n.Fields {
			if hasExpression(f.Name) {
				b.stepFail(f.Pos, "", "an expression cannot be a key")
			}
			key := append(tree.AppendText(nil, f.Name), ':')
			t.fields = append(t.fields, namedTemplate{f.Name, key, b.template(f.Value, vars, texts)})
		}
	case tree.Text:
		return b.textTemplate(n, vars, texts)
	default:
		t.value = n.Scalar
		if texts {
			t.value, _ = tree.TextOf(n.Scalar)
		}
		t.constant, _ = tree.AppendJSON(nil, t.value, 0)
		return t
	}
	return fold(t)
}

// fold makes constants of lists and objects that hold nothing else.
func fold(t *template) *template {
	for _, f := range t.fields {
		if !f.t.isConstant() {
			return t
		}
	}
	for _, item := range t.items {
		if !item.isConstant() {
			return t
		}
	}
	constant, err := t.appendJSON(nil, nil)
	if err != nil {
		return t
	}
	value, err := t.eval(nil)
	if err != nil || !json.Valid(constant) {
		return t
	}
	return &template{at: t.at, constant: constant, value: value}
}

func (b *builder) textTemplate(n *tree.Node, vars varset, texts bool) *template {
	t := &template{at: n.Pos}
	if !hasExpression(n.Text) {
		t.value, t.constant = n.Text, tree.AppendText(nil, n.Text)
		return t
	}
	if whole, ok := wholeExpression(n); ok {
		t.asText = texts
		t.expr = b.expression(n, whole, vars)
		t.at = b.Source.Inside(n, whole.offset)
		return t
	}
	parts, open := segments(n.Text)
	if open >= 0 {
		b.stepFail(b.Source.Inside(n, open), "end it with }}, or write $${{ for the characters themselves", "an expression begins here and does not end")
		return t
	}
	t.parts = make([]*template, 0, len(parts))
	for _, part := range parts {
		if part.expression {
			t.parts = append(t.parts, &template{at: n.Pos, expr: b.expression(n, part, vars)})
		} else {
			t.parts = append(t.parts, &template{value: part.text, constant: tree.AppendText(nil, part.text)})
		}
	}
	if len(t.parts) == 1 && t.parts[0].isConstant() { // only escaped openings
		return t.parts[0]
	}
	return t
}

// expression compiles a segment of a text.
func (b *builder) expression(n *tree.Node, part segment, vars varset) *program {
	return b.program(n, part.text, part.offset, vars, false)
}

// condition compiles a text that is an expression as a whole, with or without ${{ }} around it.
func (b *builder) condition(n *tree.Node, vars varset) *program {
	text, offset := n.Text, 0
	if whole, ok := wholeExpression(n); ok {
		text, offset = whole.text, whole.offset
	}
	return b.program(n, text, offset, vars, true)
}

func (b *builder) program(n *tree.Node, text string, offset int, vars varset, truth bool) *program {
	p, bad := b.def.language.compile(text, vars, truth)
	if bad != nil {
		b.stepFail(b.Source.Inside(n, offset+bad.offset), bad.hint, "%s", bad.msg)
		return nil
	}
	if b.ordinal >= 0 {
		for _, ref := range p.steps {
			b.refs = append(b.refs, reference{b.ordinal, ref.def, n, offset + ref.offset, ref.name})
		}
	}
	return p
}

// policies compiles the retry conditions of what steps share, which do not know the steps before.
func (b *builder) policies() {
	shared := []policy.Policy{b.doc.Defaults.Policy}
	for _, s := range b.doc.Services {
		shared = append(shared, s.Policy)
	}
	for _, p := range shared {
		b.retryCondition(p.Retry, (varsTask|varsItem)&^varSteps)
	}
	b.retryCondition(b.doc.Retry, (varsRun|varAttempt|varCode|varFailure)&^varNow)
	for i, s := range b.doc.Steps {
		b.step, b.ordinal = s.Name, int32(i)
		vars := varsTask
		if !s.ForEach.IsZero() {
			vars |= varsItem
		}
		b.retryCondition(s.Policy.Retry, vars)
	}
	h := &b.doc.Hooks
	for _, steps := range [][]*Step{h.OnSuccess, h.OnFailure, h.OnTimeout, h.OnCancel, h.OnExit} {
		for _, s := range steps {
			b.step, b.ordinal = s.Name, -1
			b.retryCondition(s.Policy.Retry, varsHook)
		}
	}
}

func (b *builder) retryCondition(r *policy.Retry, vars varset) {
	if r == nil || r.When == "" {
		return
	}
	n := b.doc.whens[r]
	if n == nil {
		n = &tree.Node{Kind: tree.Text, Text: r.When}
	}
	if p := b.condition(n, vars); p != nil {
		b.def.whens[r.When] = p
	}
}

// upstream checks that what a step uses has ended before it begins.
func (b *builder) upstream() {
	if !b.acyclic {
		return
	}
	b.visited = make([]int32, len(b.doc.Steps))
	from := int32(-1)
	for _, ref := range b.refs {
		if contains32(b.def.plans[ref.from].needs, ref.to) {
			continue
		}
		if ref.from != from {
			from = ref.from
			b.visit(from)
		}
		if b.visited[ref.to] == from+1 {
			continue
		}
		b.step = b.doc.Steps[ref.from].Name
		at := b.Source.Inside(ref.in, ref.offset)
		if ref.to == ref.from {
			b.stepFail(at, "", "step %q uses its own result", ref.name)
			continue
		}
		b.stepFail(at, "add "+ref.name+" to its needs", "steps.%s is used but not needed by %q", ref.name, b.step)
	}
}

func contains32(list []int32, v int32) bool {
	for _, item := range list {
		if item == v {
			return true
		}
	}
	return false
}

// visit marks all that a step needs, directly or not.
func (b *builder) visit(def int32) {
	next := []int32{def}
	for len(next) > 0 {
		last := next[len(next)-1]
		next = next[:len(next)-1]
		for _, need := range b.def.plans[last].needs {
			if b.visited[need] != def+1 {
				b.visited[need] = def + 1
				next = append(next, need)
			}
		}
	}
}
