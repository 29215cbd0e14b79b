package expr

import (
	"fmt"

	"github.com/expr-lang/expr/ast"
)

// wholeName is the function that takes what a process has printed, and that fails if the output has only its end.
const wholeName = "$whole"

// keptOfStream is how much of each stream of a process its output has, in bytes.
const keptOfStream = 4 << 10

// takesWhole is set for functions that make parts of a text: of a text without its beginning they make wrong ones.
var takesWhole = map[string]bool{"split": true, "splitAfter": true, "fromJSON": true}

// mustBeWhole lets the text of a call that takes it apart fail if it is cut: split(steps.a.output.stdout, "\n").
func mustBeWhole(at *ast.Node) {
	call, ok := (*at).(*ast.BuiltinNode)
	if ok && takesWhole[call.Name] && len(call.Arguments) > 0 {
		ast.Walk(&call.Arguments[0], &streams{from: memberName, to: wholeName})
	}
}

// mayBeCut allows an expression that takes the last part alone: last(split(…)), split(…)[-1].
func mayBeCut(at *ast.Node) {
	ast.Walk(at, &streams{from: wholeName, to: memberName})
}

// streams replaces the function that takes stdout or stderr from an output.
type streams struct{ from, to string }

func (s *streams) Visit(at *ast.Node) {
	switch n := (*at).(type) {
	case *ast.MemberNode: // which may be missing: steps.a.output.stdout ?? ''
		if s.to == wholeName && isStream(n.Property) && ofOutput(n.Node) {
			ast.Patch(at, &ast.CallNode{
				Callee:    &ast.IdentifierNode{Value: wholeName},
				Arguments: []ast.Node{&ast.ChainNode{Node: n.Node}, n.Property, &ast.BoolNode{Value: true}},
			})
		}
	case *ast.CallNode:
		callee, named := n.Callee.(*ast.IdentifierNode)
		switch {
		case !named || callee.Value != s.from || len(n.Arguments) < 2 || !isStream(n.Arguments[1]):
		case len(n.Arguments) == 3:
			ast.Patch(at, &ast.MemberNode{Node: n.Arguments[0], Property: n.Arguments[1], Optional: true})
		default:
			n.Callee = &ast.IdentifierNode{Value: s.to}
		}
	}
}

func isStream(n ast.Node) bool {
	key, ok := n.(*ast.StringNode)
	return ok && (key.Value == "stdout" || key.Value == "stderr")
}

// fromTheEnd reports whether an element of a list is counted from its end.
func fromTheEnd(at *ast.MemberNode) bool {
	switch n := at.Property.(type) {
	case *ast.IntegerNode:
		return n.Value < 0
	case *ast.UnaryNode:
		return n.Operator == "-"
	default:
		return false
	}
}

// whole takes what a process has printed. With a third argument it may be missing.
func whole(args ...any) (any, error) {
	object, _ := args[0].(map[string]any)
	key, _ := args[1].(string)
	if bytes, ok := number(object[key+"Bytes"]); ok && bytes > keptOfStream {
		return nil, fmt.Errorf("%s has %d bytes, and the output keeps only its last %d (what later steps need whole "+
			"goes to the file $PAWL_OUTPUT)", key, bytes, keptOfStream)
	}
	if len(args) > 2 {
		return object[key], nil
	}
	return member(args...)
}

// number returns a number of decoded JSON.
func number(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case float64:
		return int64(n), true
	default:
		return 0, false
	}
}
