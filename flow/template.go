package flow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/tree"
)

// segment is a part of a text: characters that stand for themselves, or an expression.
type segment struct {
	text       string
	expression bool
	offset     int // of an expression's first character in the whole text
}

const opening = "${{"

// segments cuts a text at its expressions. $${{ stands for ${{ itself. open is the place of one that does not end, or -1.
func segments(text string) (parts []segment, open int) {
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			parts = append(parts, segment{text: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); {
		next := strings.Index(text[i:], opening)
		if next < 0 {
			literal.WriteString(text[i:])
			break
		}
		next += i
		if next > i && text[next-1] == '$' {
			literal.WriteString(text[i : next-1])
			literal.WriteString(opening)
			i = next + len(opening)
			continue
		}
		end := closing(text, next+len(opening))
		if end < 0 {
			return nil, next
		}
		literal.WriteString(text[i:next])
		flush()
		parts = append(parts, trimmed(text, next+len(opening), end))
		i = end + 2
	}
	flush()
	return parts, -1
}

func trimmed(text string, from, to int) segment {
	inner := text[from:to]
	left := strings.TrimLeft(inner, " \t\r\n")
	return segment{text: strings.TrimRight(left, " \t\r\n"), expression: true, offset: from + len(inner) - len(left)}
}

// closing finds the }} that ends an expression: not one in quotes, nor the ends of maps in maps.
func closing(text string, from int) int {
	depth := 0
	for i := from; i < len(text); i++ {
		switch c := text[i]; c {
		case '\'', '"', '`':
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' && c != '`' {
					i++
				}
			}
		case '{':
			depth++
		case '}':
			if depth > 0 {
				depth--
			} else if strings.HasPrefix(text[i:], "}}") {
				return i
			}
		}
	}
	return -1
}

func hasExpression(text string) bool { return strings.Contains(text, opening) }

// wholeExpression returns the expression that a text consists of.
func wholeExpression(n *tree.Node) (segment, bool) {
	if n == nil || n.Kind != tree.Text || !hasExpression(n.Text) {
		return segment{}, false
	}
	parts, open := segments(strings.TrimRight(n.Text, "\n"))
	if open >= 0 || len(parts) != 1 || !parts[0].expression {
		return segment{}, false
	}
	return parts[0], true
}

// template is data with expressions in it, compiled.
type template struct {
	at     tree.Pos
	asText bool // what it evaluates to is written as a text
	// listOfTexts: it evaluates to a list, whose items are written as texts.
	listOfTexts bool
	constant    []byte      // JSON; where it holds no expression
	value       any         // the constant as a Go value
	expr        *program    // one expression
	parts       []*template // of a text: constants and expressions
	fields      []namedTemplate
	items       []*template
	object      bool
}

type namedTemplate struct {
	name string
	key  []byte // the name and a colon, as JSON
	t    *template
}

// source is the expression, for messages.
func (t *template) source() string {
	if t.expr == nil {
		return "the template"
	}
	return t.expr.text
}

func (t *template) isConstant() bool { return t.constant != nil }

// evalError is a template that cannot be evaluated, and where.
type evalError struct {
	at   tree.Pos
	text string
	msg  string
}

func (e *evalError) Error() string { return e.msg }

// appendJSON evaluates the template and writes it to buf.
func (t *template) appendJSON(buf []byte, s *scope) ([]byte, error) {
	var err error
	switch {
	case t.constant != nil:
		return append(buf, t.constant...), nil
	case t.parts != nil || t.asText:
		text, err := t.text(s)
		if err != nil {
			return nil, err
		}
		return tree.AppendText(buf, text), nil
	case t.expr != nil:
		v, err := t.eval(s)
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
			if buf, err = f.t.appendJSON(buf, s); err != nil {
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
			if buf, err = item.appendJSON(buf, s); err != nil {
				return nil, err
			}
		}
		return append(buf, ']'), nil
	}
}

func (t *template) appendTexts(buf []byte, v any) ([]byte, error) {
	list, ok := listOf(v)
	if !ok || len(list) == 0 {
		return nil, t.fail(fmt.Errorf("a list of texts is expected, not %s", typeName(v)))
	}
	texts := make([]any, len(list))
	for i, item := range list {
		text, err := tree.TextOf(item)
		if err != nil {
			return nil, t.fail(err)
		}
		texts[i] = text
	}
	return tree.AppendJSON(buf, texts, 0)
}

func (t *template) fail(err error) error {
	var r refusal
	if errors.As(err, &r) {
		return r
	}
	return &evalError{t.at, t.expr.text, err.Error()}
}

// eval evaluates the template to a Go value.
func (t *template) eval(s *scope) (any, error) {
	switch {
	case t.constant != nil:
		return t.value, nil
	case t.parts != nil || t.asText:
		return t.text(s)
	case t.expr != nil:
		v, err := t.expr.run(s)
		if err != nil {
			return nil, t.fail(err)
		}
		return v, nil
	case t.object:
		object := make(map[string]any, len(t.fields))
		for _, f := range t.fields {
			v, err := f.t.eval(s)
			if err != nil {
				return nil, err
			}
			object[f.name] = v
		}
		return object, nil
	default:
		list := make([]any, len(t.items))
		for i, item := range t.items {
			v, err := item.eval(s)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	}
}

// text evaluates the template to a text.
func (t *template) text(s *scope) (string, error) {
	if t.parts != nil {
		var b strings.Builder
		for _, part := range t.parts {
			text, err := part.text(s)
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
	v, err := t.expr.run(s)
	if err != nil {
		return "", t.fail(err)
	}
	text, err := tree.TextOf(v)
	if err != nil {
		return "", t.fail(err)
	}
	return text, nil
}
