package expr

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"

	"github.com/pawl-dev/pawl/internal/nearest"
)

// memberName is the function that takes a key from what a step returned.
const memberName = "$member"

// outputs rewrites steps.a.output.key, so that a key which is not there is an error and not an empty value: else a
// misspelt key would end up as "" in a command. A key may be missing if the expression allows it: before ??, after ?.
// and where it is compared with nil.
type outputs struct{}

func (o *outputs) Visit(at *ast.Node) {
	switch n := (*at).(type) {
	case *ast.BuiltinNode:
		if n.Name == "last" {
			mayBeCut(at)
		}
		mustBeWhole(at)
	case *ast.MemberNode:
		if fromTheEnd(n) {
			mayBeCut(at)
		}
		if key, ok := n.Property.(*ast.StringNode); ok && !n.Method && !n.Optional && ofOutput(n.Node) {
			ast.Patch(at, &ast.CallNode{
				Callee: &ast.IdentifierNode{Value: memberName}, Arguments: []ast.Node{n.Node, key},
			})
		}
	case *ast.ChainNode:
		relax(&n.Node)
	case *ast.BinaryNode:
		_, nothing := n.Right.(*ast.NilNode)
		switch {
		case n.Operator == "??":
			relax(&n.Left)
			mayBeMissing(&n.Left)
		case nothing && (n.Operator == "==" || n.Operator == "!="):
			relax(&n.Left)
		}
	}
}

// ofOutput reports whether the value is a step's output, or a part of it.
func ofOutput(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallNode:
		return isMember(n)
	case *ast.MemberNode:
		key, ok := n.Property.(*ast.StringNode)
		if ok && (key.Value == "output" || key.Value == "outputs") && ofSteps(n.Node) {
			return true
		}
		return ofOutput(n.Node) // an element of a list
	default:
		return false
	}
}

// ofSteps reports whether n is steps.NAME.
func ofSteps(n ast.Node) bool {
	step, ok := n.(*ast.MemberNode)
	if !ok {
		return false
	}
	steps, ok := step.Node.(*ast.IdentifierNode)
	return ok && steps.Value == "steps"
}

func isMember(n *ast.CallNode) bool {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	return ok && (callee.Value == memberName || callee.Value == wholeName)
}

// relax undoes the rewriting of one chain of keys.
func relax(at *ast.Node) {
	switch n := (*at).(type) {
	case *ast.CallNode:
		if isMember(n) {
			relax(&n.Arguments[0])
			ast.Patch(at, &ast.MemberNode{Node: n.Arguments[0], Property: n.Arguments[1]})
		}
	case *ast.MemberNode:
		relax(&n.Node)
	case *ast.ChainNode:
		relax(&n.Node)
	}
}

// mayBeMissing allows each part of a chain of keys to be missing, as if it were written with ?. throughout.
func mayBeMissing(at *ast.Node) {
	if _, ok := (*at).(*ast.MemberNode); !ok {
		return
	}
	for n := *at; ; {
		m, ok := n.(*ast.MemberNode)
		if !ok {
			break
		}
		m.Optional, n = true, m.Node
	}
	ast.Patch(at, &ast.ChainNode{Node: *at})
}

// member takes a key that must be there.
func member(args ...any) (any, error) {
	object, ok := args[0].(map[string]any)
	key, _ := args[1].(string)
	if !ok {
		return runtime.Fetch(args[0], key), nil
	}
	if value, there := object[key]; there {
		return value, nil
	}
	known := slices.Sorted(maps.Keys(object))
	hint := nearest.Hint(key, known)
	switch {
	case hint != "":
	case len(known) == 0:
		hint = "it has none"
	default:
		hint = "it has " + listed(known)
	}
	if _, process := object["stdoutBytes"]; process {
		hint += "; a process writes KEY=VALUE to the file $PAWL_OUTPUT, or JSON to stdout with results: lines"
	}
	return nil, fmt.Errorf("the output has no key %q (%s; where it may be missing, add ?? and a default)", key, hint)
}

// listed names the first few of many keys.
func listed(keys []string) string {
	const most = 12
	if len(keys) > most {
		return strings.Join(keys[:most], ", ") + ", …"
	}
	return strings.Join(keys, ", ")
}
