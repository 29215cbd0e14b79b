package expr

import (
	"fmt"
	"slices"

	"github.com/expr-lang/expr/ast"

	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// Shape is what is known of a value before there is one: the keys that it may have. nil: nothing is known.
type Shape struct {
	path   string // how it is reached: input.address
	keys   []string
	fields map[string]*Shape // nil: any key
	items  *Shape
}

// open are the words of JSON Schema by which a value may have keys that its properties do not list.
var open = []string{
	"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "patternProperties",
	"unevaluatedProperties", "prefixItems",
}

// ShapeOf reads from a JSON Schema which keys a value may have. JSON Schema itself allows more keys than the properties
// list; where an expression uses one, it is misspelt, unless the schema says additionalProperties: true.
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
	}
	return s
}

// shape returns what is known of the value of an expression.
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
	if !ok || at.Optional || s == nil || s.fields == nil || slices.Contains(s.keys, key.Value) {
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
