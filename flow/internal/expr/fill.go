package expr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/tree"
)

// maxFilled is how many bytes the texts of one document may have that parameters are put into.
const maxFilled = 16 << 20

// errFilled is returned when parameters make texts too long.
var errFilled = fmt.Errorf("parameters make texts of more than %d MiB", maxFilled>>20)

// Filler puts values in the place of parameters, which texts name as with.NAME in expressions.
type Filler struct {
	// Value returns the value of a parameter, or nil if there is none, which was reported at the place of the text.
	Value  func(name string, in *tree.Node) *tree.Node
	filled int
}

// withName is the text before the name of a parameter.
const withName = "with"

// Fill returns the data with the parameters replaced by their values. A text that is only a parameter becomes its
// value, of whatever type; elsewhere the value becomes a part of the expression.
func (f *Filler) Fill(n *tree.Node) (*tree.Node, error) {
	switch n.Kind {
	case tree.List:
		out := &tree.Node{Kind: tree.List, Pos: n.Pos}
		for _, item := range n.Items {
			filled, err := f.Fill(item)
			if err != nil {
				return nil, err
			}
			out.Push(filled)
		}
		return out, nil
	case tree.Mapping:
		out := &tree.Node{Kind: tree.Mapping, Pos: n.Pos}
		for _, field := range n.Fields {
			filled, err := f.Fill(field.Value)
			if err != nil {
				return nil, err
			}
			out.Add(field.Name, field.Pos, filled)
		}
		return out, nil
	case tree.Text:
		return f.text(n)
	default:
		return n, nil
	}
}

// Condition fills a text as [Filler.Fill] does; the text is an expression also where no ${{ }} is around it.
func (f *Filler) Condition(n *tree.Node) (*tree.Node, error) {
	if n.Kind != tree.Text || HasExpression(n.Text) {
		return f.Fill(n)
	}
	return f.changed(n, f.expression(n.Text, n))
}

func (f *Filler) text(n *tree.Node) (*tree.Node, error) {
	if !HasExpression(n.Text) {
		return n, nil
	}
	if whole, ok := wholeExpression(n); ok {
		if name, ok := parameter(whole.text); ok {
			if value := f.Value(name, n); value != nil {
				return value, nil
			}
			return n, nil
		}
	}
	parts, open := segments(n.Text)
	if open >= 0 {
		return n, nil // which is reported when the text is compiled
	}
	var b strings.Builder
	for _, part := range parts {
		if !part.expression {
			b.WriteString(strings.ReplaceAll(part.text, opening, "$"+opening))
			continue
		}
		name, alone := parameter(part.text)
		if alone {
			if value := f.Value(name, n); value != nil && value.Kind == tree.Text && spliced(value.Text) {
				b.WriteString(value.Text)
				continue
			}
		}
		b.WriteString(opening + " " + f.expression(part.text, n) + " }}")
	}
	return f.changed(n, b.String())
}

// changed returns the node with another text. Its place is the beginning of the text as it was written.
func (f *Filler) changed(n *tree.Node, text string) (*tree.Node, error) {
	if text == n.Text {
		return n, nil
	}
	if f.filled += len(text); f.filled > maxFilled {
		return nil, errFilled
	}
	return &tree.Node{Kind: tree.Text, Pos: n.Pos, Text: text}, nil
}

// spliced reports whether a value can be inserted into a text as it is written: it has expressions of its own, and its
// end does not change the text after it.
func spliced(value string) bool { return HasExpression(value) && !strings.HasSuffix(value, "$") }

// parameter returns the name in an expression that is a parameter and nothing else.
func parameter(text string) (name string, ok bool) {
	name, ok = strings.CutPrefix(text, withName+".")
	return name, ok && name != "" && word(name, 0) == len(name)
}

// expression puts values into an expression. Quoted text stays as it is.
func (f *Filler) expression(text string, in *tree.Node) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\'' || c == '"' || c == '`':
			end := afterQuotes(text, i)
			b.WriteString(text[i:end])
			i = end
		case wordCharacter(c):
			end := word(text, i)
			name := ""
			if text[i:end] == withName && (i == 0 || text[i-1] != '.') && strings.HasPrefix(text[end:], ".") {
				name = text[end+1 : word(text, end+1)]
			}
			if name == "" {
				b.WriteString(text[i:end])
				i = end
				continue
			}
			if value := f.Value(name, in); value != nil {
				b.WriteString("(" + written(value) + ")")
			}
			i = end + 1 + len(name)
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}

// afterQuotes returns where a text in quotes ends that begins at i.
func afterQuotes(text string, i int) int {
	quote := text[i]
	for i++; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote != '`':
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return len(text)
}

// word returns where a word ends that begins at i.
func word(text string, i int) int {
	for i < len(text) && wordCharacter(text[i]) {
		i++
	}
	return i
}

func wordCharacter(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// written writes a value as an expression.
func written(n *tree.Node) string {
	switch n.Kind {
	case tree.Null:
		return "nil"
	case tree.List:
		items := make([]string, len(n.Items))
		for i, item := range n.Items {
			items[i] = written(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case tree.Mapping:
		fields := make([]string, len(n.Fields))
		for i, field := range n.Fields {
			fields[i] = string(tree.AppendText(nil, field.Name)) + ": " + written(field.Value)
		}
		return "{" + strings.Join(fields, ", ") + "}"
	case tree.Text:
		return writtenText(n)
	default:
		return string(tree.JSON(n.Scalar))
	}
}

func writtenText(n *tree.Node) string {
	if whole, ok := wholeExpression(n); ok {
		return whole.text
	}
	parts, open := segments(n.Text)
	if open >= 0 || len(parts) == 0 {
		return string(tree.AppendText(nil, n.Text))
	}
	for i, part := range parts {
		if part.expression {
			parts[i].text = "string(" + part.text + ")"
		} else {
			parts[i].text = string(tree.AppendText(nil, part.text))
		}
	}
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = part.text
	}
	return strings.Join(texts, " + ")
}

// textOf implements the function string. Its texts are those of the library, because stored runs depend on them. A
// value that is not data, such as a time zone, has none: Go would print an address, which differs each time.
func textOf(args ...any) (any, error) {
	if _, err := writtenAs(args[0]); err != nil {
		return nil, errors.New("string: " + err.Error())
	}
	return fmt.Sprint(args[0]), nil
}
