package flow

import (
	"fmt"
	"strings"
)

// Tree is a YAML or JSON file of another format, read with the place of everything in it, and what was found wrong with
// it. It is how a dialect reports errors as this package does: file:line:col, the line, and a caret.
type Tree struct {
	*reports
	root *node
}

// ReadTree reads a file. What makes it unreadable, and keys that stand twice, are reported by Err; Root is absent then.
func ReadTree(name string, src []byte) *Tree {
	t := &Tree{reports: &reports{src: newSource(name, string(src))}}
	if strings.TrimSpace(string(src)) == "" {
		t.Fail(Pos{1, 1}, "", "the file is empty")
		return t
	}
	t.root = read(t.reports, string(src))
	if t.root != nil {
		(&parsing{reports: t.reports}).duplicates(t.root)
	}
	return t
}

// Name is the file's, as errors name it.
func (t *Tree) Name() string { return t.src.name }

// Root is the file's value.
func (t *Tree) Root() Value { return Value{t.root} }

// Fail reports an error at a place. hint says what to do about it and may be empty.
func (t *Tree) Fail(at Pos, hint, format string, args ...any) { t.fail(at, hint, format, args...) }

// Err returns what was reported, an [Errors] sorted by place, or nil.
func (t *Tree) Err() error { return t.err() }

// Place writes a place in the file as file:line:col.
func (t *Tree) Place(at Pos) string { return t.src.place(at) }

// NameProblem says what a name of a flow, a step or a service may not be like; "": nothing.
func NameProblem(name string) string { return nameProblem(name) }

// Field is a field of a mapping.
type Field struct {
	Name  string
	Pos   Pos // of the name
	Value Value
}

// Fields are a mapping's, in the order of the document; nil for everything else.
func (v Value) Fields() []Field {
	if !v.IsMapping() {
		return nil
	}
	fields := make([]Field, len(v.n.fields))
	for i, f := range v.n.fields {
		fields[i] = Field{f.name, f.pos, Value{f.value}}
	}
	return fields
}

// Items are a list's; nil for everything else.
func (v Value) Items() []Value {
	if !v.IsList() {
		return nil
	}
	items := make([]Value, len(v.n.items))
	for i, item := range v.n.items {
		items[i] = Value{item}
	}
	return items
}

// Get returns a field of a mapping; absent where there is none or it is null.
func (v Value) Get(name string) Value {
	if v.n == nil {
		return Value{}
	}
	if f := v.n.get(name); f != nil && f.kind != nodeNull {
		return Value{f}
	}
	return Value{}
}

// At follows a path of field names and list positions as far as it goes.
func (v Value) At(path ...string) Value {
	if v.n == nil {
		return v
	}
	return Value{v.n.at(path)}
}

// Key returns the place of a field's name, or the value's own where there is no such field.
func (v Value) Key(name string) Pos {
	if v.n == nil {
		return Pos{}
	}
	return v.n.key(name)
}

// Text returns a text's characters; false for everything else.
func (v Value) Text() (string, bool) {
	return v.text(), v.n != nil && v.n.kind == nodeText
}

// IsMapping reports whether the value is a mapping.
func (v Value) IsMapping() bool { return v.n != nil && v.n.kind == nodeObject }

// IsList reports whether the value is a list.
func (v Value) IsList() bool { return v.n != nil && v.n.kind == nodeList }

// String describes the value for a message: the text "x", 5, a mapping.
func (v Value) String() string {
	if v.n == nil {
		return fmt.Sprint(nodeNull)
	}
	return describe(v.n)
}

// JSON writes plain data, as [Value.Any] gives it, as JSON; as such it stands for itself in expressions.
func JSON(v any) []byte {
	out, err := appendValue(nil, v, 0)
	if err != nil {
		panic("flow: " + err.Error()) // what Any gives can be written
	}
	return out
}
