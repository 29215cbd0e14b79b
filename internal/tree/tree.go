// Package tree reads YAML and JSON files and keeps the place of everything in them, so that an error can name the
// line and the column and show the line with a caret. It also writes YAML and JSON.
//
// Files come from people: the reader limits their size, their nesting, and the expansion of aliases.
package tree

// Tree is a file that was read, with its errors.
type Tree struct {
	*Reports
	root *Node
}

// Read reads a file. Err returns what makes it unreadable, and keys that are given twice. The Root of a file that
// cannot be read is absent.
func Read(name string, src []byte) *Tree {
	t := &Tree{Reports: &Reports{Source: NewSource(name, string(src))}}
	t.root = Parse(t.Reports, string(src))
	if t.root == nil && t.Err() == nil {
		t.Fail(Pos{1, 1}, "", "the file is empty")
	}
	return t
}

// duplicates reports every key that is given twice in one mapping. A mapping that several aliases share is visited each
// time, and reported once.
func duplicates(r *Reports, n *Node) {
	for _, item := range n.Items {
		duplicates(r, item)
	}
	if len(n.Fields) == 0 {
		return
	}
	seen := make(map[string]Pos, len(n.Fields))
	for _, f := range n.Fields {
		if first, twice := seen[f.Name]; twice && first != f.Pos {
			r.Fail(f.Pos, "", "%q is given twice; the first one is on line %d", f.Name, first.Line)
		} else {
			seen[f.Name] = f.Pos
		}
		duplicates(r, f.Value)
	}
}

// Name returns the name of the file, as errors give it.
func (t *Tree) Name() string { return t.Source.Name }

// Root returns the value that the file holds.
func (t *Tree) Root() Value { return Value{t.root} }

// Place writes a place in the file as file:line:col.
func (t *Tree) Place(at Pos) string { return t.Source.Place(at) }

// Field is a field of a mapping.
type Field struct {
	Name  string
	Pos   Pos // the place of the name
	Value Value
}

// Fields returns the fields of a mapping in the order of the document; nil for everything else.
func (v Value) Fields() []Field {
	if !v.IsMapping() {
		return nil
	}
	fields := make([]Field, len(v.n.Fields))
	for i, f := range v.n.Fields {
		fields[i] = Field{f.Name, f.Pos, Value{f.Value}}
	}
	return fields
}

// Items returns the items of a list; nil for everything else.
func (v Value) Items() []Value {
	if !v.IsList() {
		return nil
	}
	items := make([]Value, len(v.n.Items))
	for i, item := range v.n.Items {
		items[i] = Value{item}
	}
	return items
}

// Get returns a field of a mapping, or an absent value if there is none or it is null.
func (v Value) Get(name string) Value {
	if v.n == nil {
		return Value{}
	}
	if f := v.n.Get(name); f != nil && f.Kind != Null {
		return Value{f}
	}
	return Value{}
}

// At follows a path of field names and list positions as far as it goes.
func (v Value) At(path ...string) Value {
	if v.n == nil {
		return v
	}
	return Value{v.n.At(path)}
}

// Key returns the place of a field's name, or the value's own if there is no such field.
func (v Value) Key(name string) Pos {
	if v.n == nil {
		return Pos{}
	}
	return v.n.Key(name)
}

// Text returns the characters of a text; false for everything else.
func (v Value) Text() (string, bool) {
	if v.n == nil || v.n.Kind != Text {
		return "", false
	}
	return v.n.Text, true
}

// IsMapping reports whether the value is a mapping.
func (v Value) IsMapping() bool { return v.n != nil && v.n.Kind == Mapping }

// IsList reports whether the value is a list.
func (v Value) IsList() bool { return v.n != nil && v.n.Kind == List }

// String describes the value for a message: the text "x", 5, a mapping.
func (v Value) String() string {
	if v.n == nil {
		return Null.String()
	}
	return Describe(v.n)
}

// JSON writes plain data, as [Value.Any] gives it, as JSON, which is a literal in expressions.
func JSON(v any) []byte {
	out, err := AppendJSON(nil, v, 0)
	if err != nil {
		panic("tree: " + err.Error()) // every value that Any returns can be written
	}
	return out
}
