package steep

import (
	"math"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
)

// shape describes how many values a variable holds.
type shape uint8

const (
	shapeAny  shape = iota // known when the flow runs
	shapeOne               // a text, a number, true or false
	shapeMany              // a list of such
)

// fileKind describes what is at an output's path.
type fileKind uint8

const (
	plainValue   fileKind = iota
	directory             // the files in it
	optionalFile          // the file, if there is one
)

// value is the known value of a variable in one flow: a constant, a text with expressions in it, or an expression.
type value struct {
	constant tree.Value
	parts    []part // the parts of a generated file name
	expr     string
	shape    shape
	kind     fileKind
	needs    []string // steps that must have ended
	of       *loop    // the loop that yields it
	maker    *unit    // the unit that writes the file: its process chain must have ended
}

// part is a piece of a text: characters, or an expression.
type part struct{ text, expr string }

// expression gives the value as an expression.
func (v *value) expression() string {
	switch {
	case !v.constant.IsZero():
		return literal(v.constant.Any())
	case v.parts == nil:
		return v.expr
	}
	pieces := make([]string, len(v.parts))
	for i, p := range v.parts {
		if pieces[i] = p.expr; p.expr == "" {
			pieces[i] = literal(p.text)
		}
	}
	return strings.Join(pieces, " + ")
}

// template gives the value as a document holds it.
func (v *value) template() tree.Value {
	switch {
	case !v.constant.IsZero():
		return literals(v.constant.Any())
	case v.parts == nil:
		return flow.V("${{ " + v.expr + " }}")
	}
	var b strings.Builder
	for _, p := range v.parts {
		if p.expr != "" {
			b.WriteString("${{ " + p.expr + " }}")
		} else {
			b.WriteString(form.Literal(p.text))
		}
	}
	return flow.V(b.String())
}

// literals writes constants so that no expression is found in them.
func literals(v any) tree.Value {
	switch v := v.(type) {
	case string:
		return flow.V(form.Literal(v))
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = literals(item)
		}
		return flow.V(list)
	default:
		return flow.V(v)
	}
}

// folder returns the folder of a generated file.
func (v *value) folder() *value {
	last := len(v.parts) - 1
	cut := strings.LastIndexByte(v.parts[last].text, '/')
	for cut < 0 && last > 0 { // the name begins with an expression
		last--
		cut = strings.LastIndexByte(v.parts[last].text, '/')
	}
	parts := append([]part{}, v.parts[:last]...)
	if text := v.parts[last].text[:max(cut, 0)]; text != "" {
		parts = append(parts, part{text: text})
	}
	return &value{parts: parts, shape: shapeOne}
}

// constantValue returns the value of a constant variable: every scalar in it is the text that a command line would
// have.
func constantValue(v tree.Value) *value {
	if v.IsList() {
		return &value{constant: flow.V(texts(v.Any())), shape: shapeMany}
	}
	return &value{constant: flow.V(texts(v.Any())), shape: shapeOne}
}

func texts(v any) any {
	items, ok := v.([]any)
	if !ok {
		return scalar(v)
	}
	list := make([]any, len(items))
	for i, item := range items {
		list[i] = texts(item)
	}
	return list
}

// scalar returns the text for a value, as Steep writes it.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return floatText(v)
	default:
		return literal(v)
	}
}

// floatText writes a number with a fraction as Steep does: 1.0 and not 1, and beyond the usual sizes 1.0E7.
func floatText(f float64) string {
	if size := math.Abs(f); f != 0 && (size < 1e-3 || size >= 1e7) {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		sign := strings.TrimPrefix(exponent[:1], "+")
		return mantissa + "E" + sign + strings.TrimLeft(exponent[1:], "0")
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// argument is a piece of a command line: one text, or a list that an expression gives.
type argument struct {
	value *value
	list  bool
}

func word(text string) argument {
	return argument{value: &value{constant: flow.V(text), shape: shapeOne}}
}

// command joins arguments into a list of texts if their number is known, and otherwise into one expression.
func command(args []argument) tree.Value {
	dynamic := false
	for _, a := range args {
		dynamic = dynamic || a.list
	}
	if !dynamic {
		list := make([]any, len(args))
		for i, a := range args {
			list[i] = a.value.template()
		}
		return flow.V(list)
	}
	var lists, words []string
	flush := func() {
		if words != nil {
			lists = append(lists, "["+strings.Join(words, ", ")+"]")
			words = nil
		}
	}
	for _, a := range args {
		if a.list {
			flush()
			lists = append(lists, a.value.expr)
		} else {
			words = append(words, a.value.expression())
		}
	}
	flush()
	return flow.V("${{ concat(" + strings.Join(lists, ", ") + ") }}")
}
