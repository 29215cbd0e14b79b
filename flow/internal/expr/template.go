package expr

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pawl-dev/pawl/internal/tree"
)

// Template is compiled data with expressions in it.
type Template struct {
	at     tree.Pos
	asText bool // the result is written as a text
	// listOfTexts: it evaluates to a list, whose items are written as texts.
	listOfTexts bool
	constant    []byte       // JSON; set if it contains no expression
	value       any          // the constant as a Go value
	expr        *Program     // one expression
	placeholder *placeholder // one placeholder
	parts       []*Template  // only of a text: constants and expressions
	fields      []namedTemplate
	items       []*Template
	object      bool
	host        bool // the text names the host of a URL
}

type namedTemplate struct {
	name string
	key  []byte // the name and a colon, as JSON
	t    *Template
}

// source returns the expression, for messages.
func (t *Template) source() string {
	if t.expr == nil {
		return "the template"
	}
	return t.expr.text
}

// Place returns where the template is.
func (t *Template) Place() tree.Pos { return t.at }

// Constant returns the JSON of a template without expressions; false for every other.
func (t *Template) Constant() ([]byte, bool) { return t.constant, t.constant != nil }

// IsConstant reports whether the template holds no expression.
func (t *Template) IsConstant() bool { return t.constant != nil }

// Programs calls yield for each expression in the template.
func (t *Template) Programs(yield func(*Program)) {
	if t == nil {
		return
	}
	if t.expr != nil {
		yield(t.expr)
	}
	for _, parts := range [][]*Template{t.parts, t.items} {
		for _, part := range parts {
			part.Programs(yield)
		}
	}
	for _, f := range t.fields {
		f.t.Programs(yield)
	}
}

// Error explains why an expression cannot be evaluated, or what is wrong with its value.
type Error struct {
	Text string // the expression
	Msg  string
}

func (e *Error) Error() string { return e.Msg }

// Wrong makes an error about what the template evaluated to.
func (t *Template) Wrong(format string, args ...any) error {
	return &Error{Text: t.source(), Msg: fmt.Sprintf(format, args...)}
}

// AppendJSON evaluates the template and appends it to buf as JSON.
func (t *Template) AppendJSON(buf []byte, s Scope) ([]byte, error) {
	var err error
	switch {
	case t.constant != nil:
		return append(buf, t.constant...), nil
	case t.parts != nil || t.asText || t.placeholder != nil:
		text, err := t.Text(s)
		if err != nil {
			return nil, err
		}
		return tree.AppendText(buf, text), nil
	case t.expr != nil:
		v, err := t.Eval(s)
		if err != nil {
			return nil, err
		}
		if t.listOfTexts {
			return t.appendTexts(buf, v)
		}
		if buf, err = tree.AppendJSON(buf, v, 0); err != nil {
			return nil, t.fail(err)
		}
		return buf, nil
	case t.object:
		buf = append(buf, '{')
		for i, f := range t.fields {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = append(buf, f.key...)
			if buf, err = f.t.AppendJSON(buf, s); err != nil {
				return nil, err
			}
		}
		return append(buf, '}'), nil
	default:
		buf = append(buf, '[')
		for i, item := range t.items {
			if i > 0 {
				buf = append(buf, ',')
			}
			if buf, err = item.AppendJSON(buf, s); err != nil {
				return nil, err
			}
		}
		return append(buf, ']'), nil
	}
}

func (t *Template) appendTexts(buf []byte, v any) ([]byte, error) {
	list, ok := ListOf(v)
	if !ok || len(list) == 0 {
		return nil, t.fail(fmt.Errorf("a list of texts is expected, not %s", TypeName(v)))
	}
	texts := make([]any, len(list))
	for i, item := range list {
		text, err := writtenAs(item)
		if err != nil {
			return nil, t.fail(fmt.Errorf("item %d: %w", i, err))
		}
		texts[i] = text
	}
	return tree.AppendJSON(buf, texts, 0)
}

func (t *Template) fail(err error) error {
	var r Refusal
	if errors.As(err, &r) {
		return r
	}
	return &Error{t.expr.text, err.Error()}
}

// Eval evaluates the template to a Go value.
func (t *Template) Eval(s Scope) (any, error) {
	switch {
	case t.constant != nil:
		return t.value, nil
	case t.parts != nil || t.asText || t.placeholder != nil:
		return t.Text(s)
	case t.expr != nil:
		v, err := t.expr.Run(s)
		if err != nil {
			return nil, t.fail(err)
		}
		return v, nil
	default:
		return t.collect(func(t *Template) (any, error) { return t.Eval(s) })
	}
}

// collect makes the object or the list of a template, from what value returns for each of its parts.
func (t *Template) collect(value func(*Template) (any, error)) (any, error) {
	if t.object {
		object := make(map[string]any, len(t.fields))
		for _, f := range t.fields {
			v, err := value(f.t)
			if err != nil {
				return nil, err
			}
			object[f.name] = v
		}
		return object, nil
	}
	list := make([]any, len(t.items))
	for i, item := range t.items {
		v, err := value(item)
		if err != nil {
			return nil, err
		}
		list[i] = v
	}
	return list, nil
}

// Text evaluates the template to a text.
func (t *Template) Text(s Scope) (string, error) {
	if t.parts != nil {
		var b strings.Builder
		for _, part := range t.parts {
			text, err := part.Text(s)
			if err != nil {
				return "", err
			}
			b.WriteString(text)
		}
		return b.String(), nil
	}
	if t.constant != nil {
		return tree.TextOf(t.value)
	}
	if t.placeholder != nil {
		return s.Placeholder(t.placeholder.kind, t.placeholder.name), nil
	}
	v, err := t.expr.Run(s)
	if err != nil {
		return "", t.fail(err)
	}
	text, err := writtenAs(v)
	if err == nil && t.host {
		err = hostOnly(text)
	}
	if err != nil {
		return "", t.fail(err)
	}
	return text, nil
}

// errNull is returned because a text would have a gap: an empty word in a command makes another command.
var errNull = errors.New("it is null, not a text; where the value may be missing, add ?? and a default")

// writtenAs returns the text of a value. Null has none.
func writtenAs(v any) (string, error) {
	if isNull(v) {
		return "", errNull
	}
	return tree.TextOf(v)
}

// isNull reports whether a value is null, also a step or a failure that is not there.
func isNull(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}
