package expr

import (
	"fmt"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/types"

	"github.com/pawl-dev/pawl/internal/nearest"
)

// names finds out which variables and steps an expression names.
type names struct {
	language *Language
	program  *Program
	allowed  Vars
	followed map[*ast.IdentifierNode]bool // `steps` that a step's name follows
	bare     []*ast.IdentifierNode
	input    usedInput
	declared map[string]bool
	bad      *Problem
}

func (n *names) Visit(at *ast.Node) {
	switch at := (*at).(type) {
	case *ast.IdentifierNode:
		n.identifier(at)
	case *ast.VariableDeclaratorNode:
		if n.declared == nil {
			n.declared = map[string]bool{}
		}
		n.declared[at.Name] = true
	case *ast.MemberNode:
		n.member(at)
	case *ast.CallNode:
		n.call(at)
	case *ast.BinaryNode:
		n.asked(at)
		n.input.in(at)
	}
	n.truths(*at)
}

func (n *names) identifier(at *ast.IdentifierNode) {
	for i, v := range variables {
		if v.name != at.Value {
			continue
		}
		if n.allowed&(1<<i) == 0 {
			n.fail(at.Location().From, v.where, "%s is not known here", v.name)
		}
		n.program.vars |= 1 << i
		switch v.name {
		case "steps":
			n.bare = append(n.bare, at)
		case "input":
			n.input.whole++
		}
		return
	}
	n.checkPlaceholder(at)
	for i, v := range n.language.own {
		if v == at.Value {
			n.program.own = append(n.program.own, ownUse{v, i})
		}
	}
}

func (n *names) member(at *ast.MemberNode) {
	if name, ok := at.Property.(*ast.StringNode); ok && name.Value == "Local" {
		n.fail(at.Location().From, `name the zone: now.In(timezone("Europe/Berlin"))`,
			"Local depends on the machine that evaluates it")
	}
	n.checkKey(at)
	n.input.member(at)
	n.items(at)
	steps, ok := at.Node.(*ast.IdentifierNode)
	if !ok || steps.Value != "steps" {
		return
	}
	name, ok := at.Property.(*ast.StringNode)
	if !ok {
		return
	}
	if n.followed == nil {
		n.followed = map[*ast.IdentifierNode]bool{}
	}
	n.followed[steps] = true
	def, known := n.language.steps[name.Value]
	if !known {
		n.unknownStep(name)
		return
	}
	offset := byteOffset(n.program.text, name.Location().From)
	for _, ref := range n.program.steps {
		if ref.Number == def {
			return
		}
	}
	n.program.steps = append(n.program.steps, StepUse{Name: name.Value, Number: def, Offset: offset})
}

// items notes that an expression names the items of a step: steps.NAME.items.
func (n *names) items(at *ast.MemberNode) {
	step, ok := at.Node.(*ast.MemberNode)
	property, isText := at.Property.(*ast.StringNode)
	if !ok || !isText || property.Value != "items" || !ofSteps(at.Node) {
		return
	}
	if name, ok := step.Property.(*ast.StringNode); ok {
		for i := range n.program.steps {
			if n.program.steps[i].Name == name.Value {
				n.program.steps[i].items = true
				n.language.nameItems(n.program.steps[i].Number)
			}
		}
	}
}

// unknownStep reports an unknown step, also for steps.my-step, which reads as a subtraction.
func (n *names) unknownStep(at *ast.StringNode) {
	rest := n.program.text[byteOffset(n.program.text, at.Location().From):]
	longest := ""
	for name := range n.language.steps {
		if len(name) > len(longest) && len(name) > len(at.Value) && strings.HasPrefix(rest, name) {
			longest = name
		}
	}
	if longest != "" {
		n.fail(at.Location().From, fmt.Sprintf("write steps['%s']", longest),
			"the name %s needs quotes in an expression", longest)
		return
	}
	n.fail(at.Location().From, nearest.Hint(at.Value, n.language.names), "there is no step %q", at.Value)
}

func (n *names) fail(at int, hint, format string, args ...any) {
	if n.bad == nil {
		n.bad = &Problem{byteOffset(n.program.text, at), fmt.Sprintf(format, args...), hint}
	}
}

func (n *names) finish() *Problem {
	for _, at := range n.bare {
		if !n.followed[at] {
			n.fail(at.Location().From, "write steps.charge or steps['my-step']",
				"steps must be followed by a step's name")
		}
	}
	n.language.used.add(n.input)
	return n.bad
}

// environment gives the types of the variables of the expression.
func (n *names) environment() types.Map {
	env := types.Map{loopName: types.TypeOf(func() bool { return true })}
	for i, v := range variables {
		if n.allowed&(1<<i) != 0 {
			env[v.name] = v.typ
		}
	}
	for _, v := range n.language.own {
		env[v] = types.Any
	}
	if n.allowed&VarSteps != 0 {
		steps := make(types.Map, len(n.program.steps))
		for _, ref := range n.program.steps {
			steps[ref.Name] = stepType
		}
		env["steps"] = steps
	}
	return env
}
