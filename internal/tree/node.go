package tree

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/duration"
)

// nodeKind is what a piece of a document is.
type Kind uint8

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

// textStyle is how a text is written, which says where its characters stand.
type textStyle uint8

const (
	styleUnknown textStyle = iota
	stylePlain
	styleSingle
	styleDouble
	styleLiteral
)

// node is a piece of a document, read from YAML or JSON or made from a Go value. It is never changed.
type Node struct {
	Kind   Kind
	style  textStyle
	Pos    Pos
	Scalar any         // bool, int, uint64 or float64
	Text   string      // nodeText
	Items  []*Node     // nodeList
	Fields []NodeField // nodeObject, in the order of the document
	size   int         // nodes in it, itself included, aliases counted as often as they stand
}

type NodeField struct {
	Name  string
	Pos   Pos
	Value *Node
}

// get returns a field's value; nil where there is none.
func (n *Node) Get(name string) *Node {
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			return n.Fields[i].Value
		}
	}
	return nil
}

// at follows a path of field names and list positions as far as it goes.
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

// key returns the place of a field's name, or the node's own.
func (n *Node) Key(name string) Pos {
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			return n.Fields[i].Pos
		}
	}
	return n.Pos
}

// value gives the Go value: nil, bool, int, uint64, float64, string, []any or map[string]any.
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

// Value is a piece of a document that may be any data, in whose strings expressions may stand. The zero Value is
// absent, which is not the same as null.
type Value struct{ n *Node }

// V makes a Value from Go data: nil, booleans, numbers, strings, durations, lists, maps with string keys, other Values.
// It panics with other types, as a mistake in the program.
func V(v any) Value { return Value{nodeOf(v)} }

// IsZero reports whether the value is absent.
func (v Value) IsZero() bool { return v.n == nil }

// Any gives the Go value: nil, bool, int, uint64, float64, string, []any or map[string]any.
func (v Value) Any() any { return v.n.Any() }

// Pos is where the value stands.
func (v Value) Pos() Pos {
	if v.n == nil {
		return Pos{}
	}
	return v.n.Pos
}

// NodeOf returns the node of a value; nil where it is absent.
func NodeOf(v Value) *Node { return v.n }

// ValueOf returns the value that a node is; nil is absent.
func ValueOf(n *Node) Value { return Value{n} }

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
	panic(fmt.Sprintf("flow: a document holds no %T", v))
}

func (n *Node) Add(name string, pos Pos, value *Node) {
	n.Fields = append(n.Fields, NodeField{name, pos, value})
	n.size += value.size
}

func (n *Node) Push(item *Node) {
	n.Items = append(n.Items, item)
	n.size += item.size
}

// plainNumber brings the number types together: int where it fits, uint64 above, float64 for the rest; nil: no number.
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

// describe names a value in an error.
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

func Shorten(text string) string {
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:59]) + "…"
	}
	return text
}
