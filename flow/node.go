package flow

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/duration"
)

// nodeKind is what a piece of a document is.
type nodeKind uint8

const (
	nodeNull nodeKind = iota
	nodeBool
	nodeNumber
	nodeText
	nodeList
	nodeObject
)

var nodeKindNames = [...]string{"nothing", "true or false", "a number", "a text", "a list", "a mapping"}

func (k nodeKind) String() string { return nodeKindNames[k] }

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
type node struct {
	kind   nodeKind
	style  textStyle
	pos    Pos
	scalar any     // bool, int, uint64 or float64
	text   string  // nodeText
	items  []*node // nodeList
	fields []field // nodeObject, in the order of the document
	size   int     // nodes in it, itself included, aliases counted as often as they stand
}

type field struct {
	name  string
	pos   Pos
	value *node
}

// get returns a field's value; nil where there is none.
func (n *node) get(name string) *node {
	for i := range n.fields {
		if n.fields[i].name == name {
			return n.fields[i].value
		}
	}
	return nil
}

// at follows a path of field names and list positions as far as it goes.
func (n *node) at(path []string) *node {
	for _, name := range path {
		next := n.get(name)
		if i, err := strconv.Atoi(name); err == nil && n.kind == nodeList && i >= 0 && i < len(n.items) {
			next = n.items[i]
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// key returns the place of a field's name, or the node's own.
func (n *node) key(name string) Pos {
	for i := range n.fields {
		if n.fields[i].name == name {
			return n.fields[i].pos
		}
	}
	return n.pos
}

// value gives the Go value: nil, bool, int, uint64, float64, string, []any or map[string]any.
func (n *node) value() any {
	switch {
	case n == nil:
		return nil
	case n.kind == nodeText:
		return n.text
	case n.kind == nodeList:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.value()
		}
		return list
	case n.kind == nodeObject:
		object := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			object[f.name] = f.value.value()
		}
		return object
	default:
		return n.scalar
	}
}

// Value is a piece of a document that may be any data, in whose strings expressions may stand. The zero Value is
// absent, which is not the same as null.
type Value struct{ n *node }

// V makes a Value from Go data: nil, booleans, numbers, strings, durations, lists, maps with string keys, other Values.
// It panics with other types, as a mistake in the program.
func V(v any) Value { return Value{nodeOf(v)} }

// IsZero reports whether the value is absent.
func (v Value) IsZero() bool { return v.n == nil }

// Any gives the Go value: nil, bool, int, uint64, float64, string, []any or map[string]any.
func (v Value) Any() any { return v.n.value() }

// Pos is where the value stands.
func (v Value) Pos() Pos {
	if v.n == nil {
		return Pos{}
	}
	return v.n.pos
}

// NodeOf returns the node of a value; nil where it is absent.
func NodeOf(v Value) *node { return v.n }

// ValueOf returns the value that a node is; nil is absent.
func ValueOf(n *node) Value { return Value{n} }

func nodeOf(v any) *node {
	switch v := v.(type) {
	case nil:
		return &node{size: 1}
	case Value:
		if v.n == nil {
			return &node{size: 1}
		}
		return v.n
	case bool:
		return &node{kind: nodeBool, scalar: v, size: 1}
	case string:
		return &node{kind: nodeText, text: v, size: 1}
	case time.Duration:
		return &node{kind: nodeText, text: duration.Format(v), size: 1}
	case map[string]any:
		n := &node{kind: nodeObject, size: 1}
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			n.add(name, Pos{}, nodeOf(v[name]))
		}
		return n
	case []any:
		n := &node{kind: nodeList, size: 1}
		for _, item := range v {
			n.push(nodeOf(item))
		}
		return n
	case []string:
		n := &node{kind: nodeList, size: 1}
		for _, item := range v {
			n.push(nodeOf(item))
		}
		return n
	}
	if number := plainNumber(v); number != nil {
		return &node{kind: nodeNumber, scalar: number, size: 1}
	}
	panic(fmt.Sprintf("flow: a document holds no %T", v))
}

func (n *node) add(name string, pos Pos, value *node) {
	n.fields = append(n.fields, field{name, pos, value})
	n.size += value.size
}

func (n *node) push(item *node) {
	n.items = append(n.items, item)
	n.size += item.size
}

// plainNumber brings the number types together: int where it fits, uint64 above, float64 for the rest; nil: no number.
func plainNumber(v any) any {
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
		return plainNumber(uint64(v))
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
func describe(n *node) string {
	switch n.kind {
	case nodeText:
		return fmt.Sprintf("the text %q", shorten(n.text))
	case nodeNumber, nodeBool:
		return fmt.Sprint(n.scalar)
	default:
		return n.kind.String()
	}
}

func shorten(text string) string {
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:59]) + "…"
	}
	return text
}
