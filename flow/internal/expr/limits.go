package expr

import (
	"fmt"
	"reflect"

	"github.com/expr-lang/expr/ast"
)

// Names of functions that replace operations of an expression.
const (
	loopName     = "$loop"
	plusName     = "$plus"
	textPlusName = "$textPlus"
)

// bounds rewrites an expression so that its evaluation ends. Every predicate counts the elements it looks at, for loops
// within loops over large lists, and every sum of texts checks its length, for a text that is doubled in a loop.
type bounds struct{}

func (*bounds) Visit(at *ast.Node) {
	switch n := (*at).(type) {
	case *ast.PredicateNode:
		count := &ast.CallNode{Callee: &ast.IdentifierNode{Value: loopName}}
		n.Node = &ast.SequenceNode{Nodes: []ast.Node{count, n.Node}}
	case *ast.BinaryNode:
		if n.Operator == "+" && mayBeText(n.Left) && mayBeText(n.Right) {
			name := plusName
			if isText(n.Left) && isText(n.Right) {
				name = textPlusName
			}
			ast.Patch(at, &ast.CallNode{
				Callee:    &ast.IdentifierNode{Value: name},
				Arguments: []ast.Node{n.Left, n.Right},
			})
		}
	}
}

func isText(n ast.Node) bool { return n.Type() != nil && n.Type().Kind() == reflect.String }

func mayBeText(n ast.Node) bool {
	return n.Type() == nil || n.Type().Kind() == reflect.String || n.Type().Kind() == reflect.Interface
}

var errLoops = fmt.Errorf("the expression looks at more than %d elements", maxLoops)
