package expr

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/internal/tree"
)

// Compiler compiles the expressions of one document, and reports their errors.
type Compiler struct {
	Language *Language
	Source   *tree.Source
	// Report is called for each problem.
	Report func(at tree.Pos, hint, format string, args ...any)
	// Uses is called for each step that an expression names. The name is at an offset in a text.
	Uses func(step StepUse, in *tree.Node, offset int)
	// Refers is called for each placeholder to a secret or a variable of the environment. It returns the error, if
	// there is one.
	Refers func(kind byte, name string) (problem, hint string)
}

// EndIt is the hint for an expression without an end.
const EndIt = `end it with }}; if it has a #, put the text into quotes, since YAML ends it at " #"; ` +
	`$${{ stands for the characters themselves`

// Template compiles data whose texts may contain expressions. vars are the variables they may name; texts means that
// every scalar is written as a text. It returns nil for an absent node.
func (c *Compiler) Template(n *tree.Node, vars Vars, texts bool) *Template {
	if n == nil {
		return nil
	}
	t := &Template{at: n.Pos}
	switch n.Kind {
	case tree.List:
		for _, item := range n.Items {
			t.items = append(t.items, c.Template(item, vars, texts))
		}
	case tree.Mapping:
		t.object = true
		for _, f := range n.Fields {
			if HasExpression(f.Name) {
				c.Report(f.Pos, "", "an expression cannot be a key")
			}
			if texts && f.Value.Kind == tree.Null {
				c.Report(f.Value.Pos, `write "" for an empty text`, "null is no text")
			}
			key := append(tree.AppendText(nil, f.Name), ':')
			t.fields = append(t.fields, namedTemplate{f.Name, key, c.Template(f.Value, vars, texts)})
		}
	case tree.Text:
		return c.text(n, vars, texts)
	default:
		t.value = n.Scalar
		if texts {
			t.value, _ = tree.TextOf(n.Scalar)
		}
		t.constant, _ = tree.AppendJSON(nil, t.value, 0)
		return t
	}
	return t.fold()
}

func (c *Compiler) text(n *tree.Node, vars Vars, texts bool) *Template {
	t := &Template{at: n.Pos}
	if !HasExpression(n.Text) {
		t.value, t.constant = n.Text, tree.AppendText(nil, n.Text)
		return t
	}
	if whole, ok := wholeExpression(n); ok {
		if t.placeholder = c.placeholder(n, whole, vars); t.placeholder != nil {
			return t
		}
		t.asText = texts
		t.expr = c.expression(n, whole, vars)
		t.at = c.Source.Inside(n, whole.offset)
		return t
	}
	parts, open := segments(n.Text)
	if open >= 0 {
		c.Report(c.Source.Inside(n, open), EndIt, "an expression begins here and does not end")
		return t
	}
	t.parts = make([]*Template, 0, len(parts))
	for _, part := range parts {
		switch r := c.placeholder(n, part, vars); {
		case r != nil:
			t.parts = append(t.parts, &Template{at: n.Pos, placeholder: r})
		case part.expression:
			t.parts = append(t.parts, &Template{at: n.Pos, expr: c.expression(n, part, vars)})
		default:
			t.parts = append(t.parts, &Template{value: part.text, constant: tree.AppendText(nil, part.text)})
		}
	}
	if len(t.parts) == 1 && t.parts[0].IsConstant() { // only escaped openings
		return t.parts[0]
	}
	return t
}

// TextList compiles a list of texts, or one expression that evaluates to such a list.
func (c *Compiler) TextList(n *tree.Node, vars Vars) *Template {
	if whole, ok := wholeExpression(n); ok {
		return &Template{at: n.Pos, expr: c.expression(n, whole, vars), listOfTexts: true}
	}
	return c.Template(n, vars, true)
}

// Condition compiles a text that is an expression as a whole, with or without ${{ }} around it. It returns nil if that
// is wrong.
func (c *Compiler) Condition(n *tree.Node, vars Vars) *Program {
	text, offset := n.Text, 0
	if whole, ok := wholeExpression(n); ok {
		text, offset = whole.text, whole.offset
	}
	return c.program(n, text, offset, vars, true)
}

// expression compiles a part of a text.
func (c *Compiler) expression(n *tree.Node, part segment, vars Vars) *Program {
	return c.program(n, part.text, part.offset, vars, false)
}

func (c *Compiler) program(n *tree.Node, text string, offset int, vars Vars, truth bool) *Program {
	p, bad := c.Language.Compile(text, vars, truth)
	if bad != nil {
		c.Report(c.Source.Inside(n, offset+bad.Offset), bad.Hint, "%s", bad.Msg)
		return nil
	}
	for _, use := range p.steps {
		c.Uses(use, n, offset+use.Offset)
	}
	return p
}

// fold makes a constant of a list or an object that holds nothing else.
func (t *Template) fold() *Template {
	for _, f := range t.fields {
		if !f.t.IsConstant() {
			return t
		}
	}
	for _, item := range t.items {
		if !item.IsConstant() {
			return t
		}
	}
	constant, err := t.AppendJSON(nil, nil)
	if err != nil {
		return t
	}
	value, err := t.Eval(nil)
	if err != nil || !json.Valid(constant) {
		return t
	}
	return &Template{at: t.at, constant: constant, value: value}
}

// Object compiles an object field by field.
type Object struct {
	compiler *Compiler
	vars     Vars
	template *Template
}

// Object begins an object in which expressions may name the variables.
func (c *Compiler) Object(vars Vars) *Object {
	return &Object{c, vars, &Template{object: true}}
}

// Add adds a field; a nil template adds nothing.
func (o *Object) Add(name string, t *Template) {
	if t != nil {
		o.template.fields = append(o.template.fields, namedTemplate{name, append(tree.AppendText(nil, name), ':'), t})
	}
}

// Text adds a field whose value is always a text, or a list or mapping of texts.
func (o *Object) Text(name string, v tree.Value) {
	o.Add(name, o.compiler.Template(tree.NodeOf(v), o.vars, true))
}

// Data adds a field that keeps its type.
func (o *Object) Data(name string, v tree.Value) {
	o.Add(name, o.compiler.Template(tree.NodeOf(v), o.vars, false))
}

// Done returns the object. One without expressions is a constant.
func (o *Object) Done() *Template { return o.template.fold() }
