package expr

import (
	"slices"

	"github.com/expr-lang/expr/ast"
)

// notTruth returns what is wrong with a value that is never true or false, as the input's schema says; nil: nothing. A
// boolean that a run need not have is noted.
func (n *names) notTruth(at ast.Node) *Problem {
	s := n.shape(at)
	if s != nil && s.kind == "boolean" {
		n.unsure(at, s)
	}
	if s == nil || s.kind == "" || s.kind == "boolean" {
		return nil
	}
	word, hint := kindWords[s.kind], ""
	switch s.kind {
	case "string":
		hint = "write " + at.String() + " != ''"
	case "integer", "number":
		hint = "write " + at.String() + " != 0"
	case "array":
		hint = "write len(" + at.String() + ") > 0"
	}
	return &Problem{
		Offset: byteOffset(n.program.text, start(at)), Msg: "a condition is true or false, this is " + word,
		Hint: hint,
	}
}

// unsure notes a boolean of the input that may not be there.
func (n *names) unsure(at ast.Node, s *Shape) {
	if chain, ok := at.(*ast.ChainNode); ok {
		at = chain.Node
	}
	m, isMember := at.(*ast.MemberNode)
	if !isMember {
		return
	}
	key, isKey := m.Property.(*ast.StringNode)
	if of := n.shape(m.Node); of != nil && isKey && slices.Contains(of.absent, key.Value) {
		n.program.unsure = append(n.program.unsure, s.path)
	}
}

// Unsure lists the keys of the input that must be true or false in the expression, although a run may not have them.
func (p *Program) Unsure() []string {
	return slices.DeleteFunc(slices.Clone(p.unsure), p.Asks)
}

// start returns where a value begins, such as that of a key with all before its dot.
func start(at ast.Node) int {
	switch at := at.(type) {
	case *ast.ChainNode:
		return start(at.Node)
	case *ast.MemberNode:
		return start(at.Node)
	default:
		return at.Location().From
	}
}

// kindWords are the words for the types of JSON Schema.
var kindWords = map[string]string{
	"string": "a text", "integer": "a number", "number": "a number", "array": "a list", "object": "an object",
	"boolean": "a boolean", "null": "null",
}

// truths reports parts of an expression that are not true or false where that is needed.
func (n *names) truths(at ast.Node) {
	var parts []ast.Node
	switch at := at.(type) {
	case *ast.BinaryNode:
		switch at.Operator {
		case "&&", "||", "and", "or":
			parts = []ast.Node{at.Left, at.Right}
		case "==", "!=":
			n.compared(at, at.Left, at.Right)
			n.compared(at, at.Right, at.Left)
		}
	case *ast.UnaryNode:
		if at.Operator == "!" || at.Operator == "not" {
			parts = []ast.Node{at.Node}
		}
	case *ast.ConditionalNode:
		parts = []ast.Node{at.Cond}
	}
	for _, part := range parts {
		if bad := n.notTruth(part); bad != nil && n.bad == nil {
			n.bad = bad
		}
	}
}

// compared reports a comparison of a part of the input with a value of another type, which it never equals.
func (n *names) compared(at *ast.BinaryNode, value, with ast.Node) {
	s := n.shape(value)
	if s == nil || kindWords[s.kind] == "" {
		return
	}
	kind := ""
	switch with.(type) {
	case *ast.StringNode:
		kind = "a text"
	case *ast.IntegerNode, *ast.FloatNode:
		kind = "a number"
	case *ast.BoolNode:
		kind = "a boolean"
	}
	if kind == "" || kind == kindWords[s.kind] {
		return
	}
	hint := "write " + value.String()
	text, isText := with.(*ast.StringNode)
	switch no := isText && text.Value == "false"; {
	case s.kind != "boolean":
		hint = ""
	case no == (at.Operator == "=="):
		hint = "write not " + value.String()
	}
	n.fail(start(value), hint, "%s is %s, and never equals %s", value, kindWords[s.kind], kind)
}
