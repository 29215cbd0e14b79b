package expr

import (
	"slices"

	"github.com/expr-lang/expr/ast"
)

// usedInput is the part of the input that expressions use.
type usedInput struct {
	keys  []string
	whole int // how often the input is used without a key
}

// member notes a key of the input. The visitor has counted the input itself before.
func (u *usedInput) member(at *ast.MemberNode) {
	input, ok := at.Node.(*ast.IdentifierNode)
	key, isKey := at.Property.(*ast.StringNode)
	if ok && isKey && input.Value == "input" {
		u.key(key.Value)
	}
}

// in notes a key that an expression looks for: 'key' in input.
func (u *usedInput) in(at *ast.BinaryNode) {
	input, ok := at.Right.(*ast.IdentifierNode)
	key, isKey := at.Left.(*ast.StringNode)
	if ok && isKey && at.Operator == "in" && input.Value == "input" {
		u.key(key.Value)
	}
}

func (u *usedInput) key(name string) {
	u.whole--
	if !slices.Contains(u.keys, name) {
		u.keys = append(u.keys, name)
	}
}

func (u *usedInput) add(other usedInput) {
	u.whole += other.whole
	for _, key := range other.keys {
		if !slices.Contains(u.keys, key) {
			u.keys = append(u.keys, key)
		}
	}
}

// UsedInput returns the shape of an input with exactly the keys that the expressions compiled so far use. nil: one of
// them uses the input as a whole, or a variable of the document's own, which may see all of it.
func (l *Language) UsedInput() *Shape {
	if l.used.whole > 0 || len(l.own) > 0 {
		return nil
	}
	s := &Shape{path: "input", keys: l.used.keys, fields: map[string]*Shape{}}
	slices.Sort(s.keys)
	return s
}

// Keys returns the names that a value may have; nil: any.
func (s *Shape) Keys() []string {
	if s == nil {
		return nil
	}
	return s.keys
}
