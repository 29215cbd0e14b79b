package expr

import (
	"fmt"
	"maps"
	"slices"

	"github.com/expr-lang/expr/ast"

	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// Shape is what is known about a value before it exists: the keys that it may have. nil: nothing is known.
type Shape struct {
	path   string // how it is reached: input.address
	keys   []string
	fields map[string]*Shape // nil: any key
	items  *Shape
	kind   string   // the type that the schema names; empty: none, or several
	absent []string // keys that may be missing: neither required, nor with a default
}

// open are the words of JSON Schema by which a value may have keys that its properties do not list.
var open = []string{
	"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "patternProperties",
	"unevaluatedProperties", "prefixItems",
}

// ShapeOf reads from a JSON Schema which keys a value may have. JSON Schema itself allows more keys than the properties
// list; a key that an expression uses must be listed, unless the schema says additionalProperties: true.
func ShapeOf(path string, schema *tree.Node) *Shape {
	if schema == nil || schema.Kind != tree.Mapping {
		return nil
	}
	for _, f := range schema.Fields {
		if slices.Contains(open, f.Name) {
			return nil
		}
	}
	s := &Shape{path: path}
	if kind := schema.Get("type"); kind != nil {
		s.kind = kind.Text
	}
	if items := schema.Get("items"); items != nil {
		s.items = ShapeOf(path+"[]", items)
	}
	properties, more := schema.Get("properties"), schema.Get("additionalProperties")
	if properties == nil || properties.Kind != tree.Mapping || more != nil && more.Scalar != false {
		return s
	}
	s.fields = map[string]*Shape{}
	for _, f := range properties.Fields {
		s.keys = append(s.keys, f.Name)
		s.fields[f.Name] = ShapeOf(path+"."+f.Name, f.Value)
		if f.Value.Get("default") == nil && !requires(schema, f.Name) {
			s.absent = append(s.absent, f.Name)
		}
	}
	return s
}

// requires reports whether a key is required by a schema.
func requires(schema *tree.Node, key string) bool {
	required := schema.Get("required")
	return required != nil && slices.ContainsFunc(required.Items, func(n *tree.Node) bool { return n.Text == key })
}

// Unknown calls report for each key in a value that is not allowed, in a fixed order.
func (s *Shape) Unknown(path string, v any, report func(path, hint string)) {
	if s == nil {
		return
	}
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			s.items.Unknown(fmt.Sprintf("%s[%d]", path, i), item, report)
		}
	case map[string]any:
		if s.fields == nil {
			return
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := path + "." + key
			if slices.Contains(s.keys, key) {
				s.fields[key].Unknown(at, v[key], report)
				continue
			}
			report(at, s.hint(key))
		}
	}
}

// hint returns what may be meant by a key that a value cannot have.
func (s *Shape) hint(key string) string {
	if hint := nearest.Hint(key, s.keys); hint != "" {
		return hint
	}
	if len(s.keys) == 0 {
		return "there are no keys"
	}
	return "known are " + listed(s.keys)
}

// shape returns the known shape of an expression's value.
func (n *names) shape(at ast.Node) *Shape {
	switch at := at.(type) {
	case *ast.IdentifierNode:
		if at.Value == "input" {
			return n.language.Input
		}
	case *ast.ChainNode:
		return n.shape(at.Node)
	case *ast.MemberNode:
		s := n.shape(at.Node)
		if s == nil {
			return nil
		}
		if key, ok := at.Property.(*ast.StringNode); ok {
			return s.fields[key.Value]
		}
		return s.items
	}
	return nil
}

// checkKey reports a key that the input cannot have. What ?. asks for may be missing.
func (n *names) checkKey(at *ast.MemberNode) {
	key, ok := at.Property.(*ast.StringNode)
	s := n.shape(at.Node)
	if !ok || s == nil || s.fields == nil {
		return
	}
	if slices.Contains(s.absent, key.Value) {
		n.program.absent = append(n.program.absent, s.path+"."+key.Value)
	}
	if at.Optional || slices.Contains(s.keys, key.Value) {
		return
	}
	hint := nearest.Hint(key.Value, s.keys)
	if hint == "" {
		hint = fmt.Sprintf("known are %s; or let the schema of %s say additionalProperties: true",
			listed(s.keys), s.path)
	}
	if len(s.keys) == 0 {
		hint = "list it in the properties of " + s.path
	}
	n.fail(key.Location().From, hint, "%s has no key %q", s.path, key.Value)
}

// asked notes which keys of the input an expression checks before it uses them: those on the left of ??, compared with
// nil, or tested with in.
func (n *names) asked(at *ast.BinaryNode) {
	_, nothing := at.Right.(*ast.NilNode)
	switch key, isKey := at.Left.(*ast.StringNode); {
	case at.Operator == "in" && isKey:
		if s := n.shape(at.Right); s != nil {
			n.program.asked = append(n.program.asked, s.path+"."+key.Value)
		}
	case at.Operator == "??" || nothing && (at.Operator == "==" || at.Operator == "!="):
		left := at.Left
		if chain, ok := left.(*ast.ChainNode); ok {
			left = chain.Node
		}
		for m, ok := left.(*ast.MemberNode); ok; m, ok = m.Node.(*ast.MemberNode) {
			key, isKey := m.Property.(*ast.StringNode)
			if s := n.shape(m.Node); s != nil && isKey {
				n.program.asked = append(n.program.asked, s.path+"."+key.Value)
			}
		}
	}
}

// Absent lists the keys of the input that the expression uses although a run may not have them.
func (p *Program) Absent() []string {
	return slices.DeleteFunc(slices.Clone(p.absent), p.Asks)
}

// Asks reports whether the expression asks for a key of the input that may not be there.
func (p *Program) Asks(key string) bool { return slices.Contains(p.asked, key) }
