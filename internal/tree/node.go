package tree

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/duration"
)

// Kind is the kind of a piece of a document.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	Text
	List
	Mapping
)

var kindNames = [...]string{"nothing", "true or false", "a number", "a text", "a list", "a mapping"}

func (k Kind) String() string { return kindNames[k] }

// textStyle is how a text is written. It is needed to find the place of a character inside of the text.
type textStyle uint8

const (
	styleUnknown textStyle = iota
	stylePlain
	styleSingle
	styleDouble
	styleLiteral
)

// Node is a piece of a document, read from YAML or JSON or made from a Go value. It does not change once it is made, so
// documents may share it.
type Node struct {
	Kind   Kind
	style  textStyle
	Pos    Pos
	Scalar any         // the value of a Bool or Number: bool, int, uint64 or float64
	Text   string      // the value of a Text
	words  string      // a Number as the file writes it; empty: not known
	Items  []*Node     // the items of a List
	Fields []NodeField // the fields of a Mapping, in the order of the document
	size   int         // number of nodes in it, itself included; an alias counts each time it is used
}

// NodeField is a field of a mapping.
type NodeField struct {
	Name  string
	Pos   Pos // the place of the name
	Value *Node
}

// AsWritten returns the node with texts in the place of numbers that the file writes in other words than JSON would,
// such as 1.10, 0644 and 1_000. It is for places where a text is wanted.
func (n *Node) AsWritten() *Node {
	if n == nil {
		return nil
	}
	out := *n
	switch n.Kind {
	case Number:
		if text, err := TextOf(n.Scalar); err == nil && n.words != "" && n.words != text {
			return &Node{Kind: Text, style: stylePlain, Pos: n.Pos, Text: n.words, size: 1}
		}
		return n
	case List:
		out.Items = make([]*Node, len(n.Items))
		for i, item := range n.Items {
			out.Items[i] = item.AsWritten()
		}
	case Mapping:
		out.Fields = make([]NodeField, len(n.Fields))
		for i, f := range n.Fields {
			f.Value = f.Value.AsWritten()
			out.Fields[i] = f
		}
	default:
		return n
	}
	return &out
}

// Get returns a field's value; nil if there is none.
func (n *Node) Get(name string) *Node {
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			return n.Fields[i].Value
		}
	}
	return nil
}

// At follows a path of field names and list positions as far as it goes.
func (n *Node) At(path []string) *Node {
	for _, name := range path {
		next := n.Get(name)
		if i, err := strconv.Atoi(name); err == nil && n.Kind == List && i >= 0 && i < len(n.Items) {
			next = n.Items[i]
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// Key returns the place of a field's name, or the node's own if there is no such field.
func (n *Node) Key(name string) Pos {
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			return n.Fields[i].Pos
		}
	}
	return n.Pos
}

// Any returns the Go value: nil, bool, int, uint64, float64, string, []any or map[string]any.
func (n *Node) Any() any {
	switch {
	case n == nil:
		return nil
	case n.Kind == Text:
		return n.Text
	case n.Kind == List:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			list[i] = item.Any()
		}
		return list
	case n.Kind == Mapping:
		object := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			object[f.Name] = f.Value.Any()
		}
		return object
	default:
		return n.Scalar
	}
}

// Value is a part of a document that may be any data, and whose strings may contain expressions. The zero Value is
// absent, which is not the same as null.
type Value struct{ n *Node }

// V makes a Value from Go data: nil, booleans, numbers, strings, durations, lists, maps with string keys, other Values.
// It panics with other types, as a mistake in the program.
func V(v any) Value { return Value{nodeOf(v)} }

// IsZero reports whether the value is absent.
func (v Value) IsZero() bool { return v.n == nil }

// Any returns the Go value: nil, bool, int, uint64, float64, string, []any or map[string]any.
func (v Value) Any() any { return v.n.Any() }

// Pos returns the place of the value.
func (v Value) Pos() Pos {
	if v.n == nil {
		return Pos{}
	}
	return v.n.Pos
}

// NodeOf returns the node of a value; nil if it is absent.
func NodeOf(v Value) *Node { return v.n }

// ValueOf returns the value that a node is; nil is absent.
func ValueOf(n *Node) Value { return Value{n} }

// nodeOf makes a node of Go data.
func nodeOf(v any) *Node {
	switch v := v.(type) {
	case nil:
		return &Node{size: 1}
	case Value:
		if v.n == nil {
			return &Node{size: 1}
		}
		return v.n
	case bool:
		return &Node{Kind: Bool, Scalar: v, size: 1}
	case string:
		return &Node{Kind: Text, Text: v, size: 1}
	case time.Duration:
		return &Node{Kind: Text, Text: duration.Format(v), size: 1}
	case map[string]any:
		n := &Node{Kind: Mapping, size: 1}
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			n.Add(name, Pos{}, nodeOf(v[name]))
		}
		return n
	case []any:
		n := &Node{Kind: List, size: 1}
		for _, item := range v {
			n.Push(nodeOf(item))
		}
		return n
	case []string:
		n := &Node{Kind: List, size: 1}
		for _, item := range v {
			n.Push(nodeOf(item))
		}
		return n
	}
	if number := PlainNumber(v); number != nil {
		return &Node{Kind: Number, Scalar: number, size: 1}
	}
	panic(fmt.Sprintf("a document cannot hold a %T", v))
}

// Add appends a field to a mapping that is being made.
func (n *Node) Add(name string, pos Pos, value *Node) {
	n.Fields = append(n.Fields, NodeField{name, pos, value})
	n.size += value.size
}

// Push appends an item to a list that is being made.
func (n *Node) Push(item *Node) {
	n.Items = append(n.Items, item)
	n.size += item.size
}

// PlainNumber turns the number types of Go into three: int where the number fits, uint64 above, float64 for the rest.
// It returns nil for a text that is not a number.
func PlainNumber(v any) any {
	switch v := v.(type) {
	case int:
		return v
	case int8:
		return int(v)
	case int16:
		return int(v)
	case int32:
		return int(v)
	case int64:
		return int(v)
	case uint:
		return PlainNumber(uint64(v))
	case uint8:
		return int(v)
	case uint16:
		return int(v)
	case uint32:
		return int(v)
	case uint64:
		if v <= math.MaxInt {
			return int(v)
		}
		return v
	case float32:
		return float64(v)
	case float64:
		return v
	}
	return nil
}

// Describe names a node in an error: the text "x", 5, a mapping.
func Describe(n *Node) string {
	switch n.Kind {
	case Text:
		return fmt.Sprintf("the text %q", Shorten(n.Text))
	case Number, Bool:
		return fmt.Sprint(n.Scalar)
	default:
		return n.Kind.String()
	}
}

// Shorten cuts a long text for a message.
func Shorten(text string) string {
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:59]) + "…"
	}
	return text
}

// ParseNumber reads a JSON number: an int or uint64 if it is whole and fits, else a float64, infinite if it is too
// large.
func ParseNumber(written string) any {
	if i, err := strconv.ParseInt(written, 10, 64); err == nil {
		return int(i)
	}
	if u, err := strconv.ParseUint(written, 10, 64); err == nil {
		return u
	}
	f, _ := strconv.ParseFloat(written, 64)
	return f
}

// tooLarge reports whether a number does not fit.
func tooLarge(number any) bool {
	f, ok := number.(float64)
	return ok && math.IsInf(f, 0)
}
