package flow

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/pawl-dev/pawl/internal/nearest"
)

const (
	// maxExpression bounds an expression's text, and with it the recursion of the compiler.
	maxExpression = 16 << 10
	// maxExpressionNodes bounds an expression's syntax tree.
	maxExpressionNodes = 5000
	// maxLoops is how many elements the predicates of one evaluation may look at.
	maxLoops = 5_000_000
	// memoryBudget is how many elements one evaluation may create.
	memoryBudget = 2_000_000
)

// program is a compiled expression. It is immutable and shared.
type program struct {
	text  string
	code  *vm.Program
	vars  varset
	extra []int     // the document's own variables it names, by position
	steps []stepRef // the steps it names
}

type stepRef struct {
	name   string
	def    int32
	offset int // in the text, for errors
}

// problem is what is wrong with an expression, and at which byte of it.
type problem struct {
	offset    int
	msg, hint string
}

// language compiles the expressions of one document. What was compiled once is shared by all that say the same.
type language struct {
	variables []Variable
	steps     map[string]int32
	names     []string // of the steps, for hints
	compiled  map[expressionKey]*expression
}

type expressionKey struct {
	text    string
	allowed varset
	truth   bool
}

type expression struct {
	program *program
	problem *problem
}

// compile makes a program of an expression that may name the allowed variables; truth asks for a boolean.
func (l *language) compile(text string, allowed varset, truth bool) (*program, *problem) {
	key := expressionKey{text, allowed, truth}
	if e, ok := l.compiled[key]; ok {
		return e.program, e.problem
	}
	e := &expression{}
	e.program, e.problem = l.compileNew(text, allowed, truth)
	l.compiled[key] = e
	return e.program, e.problem
}

func (l *language) compileNew(text string, allowed varset, truth bool) (*program, *problem) {
	if strings.TrimSpace(text) == "" {
		return nil, &problem{msg: "the expression is empty"}
	}
	if len(text) > maxExpression {
		return nil, &problem{msg: fmt.Sprintf("the expression has %d characters, the limit is %d", len(text), maxExpression)}
	}
	tree, err := parser.ParseWithConfig(text, grammar)
	if err != nil {
		return nil, problemOf(text, err)
	}
	p := &program{text: text}
	n := &names{language: l, program: p, allowed: allowed}
	ast.Walk(&tree.Node, n)
	if bad := n.finish(); bad != nil {
		return nil, bad
	}
	p.code, err = expr.Compile(text, withConfig(n.environment()))
	if err != nil {
		bad := problemOf(text, err)
		if bad.hint == "" && strings.HasPrefix(bad.msg, "unknown name ") {
			bad.hint = nearest.Hint(strings.TrimPrefix(bad.msg, "unknown name "), l.known(allowed))
		}
		return nil, bad
	}
	if typ := p.code.Node().Type(); truth && typ != nil && typ.Kind() != reflect.Bool && typ.Kind() != reflect.Interface {
		return nil, &problem{msg: "a condition is true or false, this is " + nameOfType(typ)}
	}
	return p, nil
}

// known lists the variables that may be named.
func (l *language) known(allowed varset) []string {
	var known []string
	for i, v := range variables {
		if allowed&(1<<i) != 0 {
			known = append(known, v.name)
		}
	}
	for _, v := range l.variables {
		known = append(known, v.Name)
	}
	return known
}

// grammar is what parsing alone needs; it is only read.
var grammar = newConfig(nil)

// newConfig is the language without what reads a clock and with maps in a fixed order.
func newConfig(env types.Map) *conf.Config {
	c := conf.CreateNew()
	withConfig(env)(c)
	for name := range c.Disabled {
		delete(c.Builtins, name)
	}
	c.Check()
	return c
}

func withConfig(env types.Map) expr.Option {
	return func(c *conf.Config) {
		if env != nil {
			expr.Env(env)(c)
		}
		expr.MaxNodes(maxExpressionNodes)(c)
		expr.DisableBuiltin("now")(c)
		for _, f := range functions {
			if _, builtin := c.Builtins[f.name]; builtin {
				expr.DisableBuiltin(f.name)(c)
			}
			expr.Function(f.name, f.call, f.types...)(c)
		}
		expr.Patch(&bounds{})(c)
	}
}

// names finds out what an expression refers to.
type names struct {
	language *language
	program  *program
	allowed  varset
	followed map[*ast.IdentifierNode]bool // `steps` that a step's name follows
	bare     []*ast.IdentifierNode
	declared map[string]bool
	bad      *problem
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
	}
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
		if v.name == "steps" {
			n.bare = append(n.bare, at)
		}
		return
	}
	for i, v := range n.language.variables {
		if v.Name == at.Value {
			n.program.extra = append(n.program.extra, i)
		}
	}
}

func (n *names) member(at *ast.MemberNode) {
	if name, ok := at.Property.(*ast.StringNode); ok && name.Value == "Local" {
		n.fail(at.Location().From, `name the zone: now.In(timezone("Europe/Berlin"))`, "Local depends on the machine that evaluates it")
	}
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
		if ref.def == def {
			return
		}
	}
	n.program.steps = append(n.program.steps, stepRef{name.Value, def, offset})
}

// unknownStep also recognises steps.my-step, which reads as a subtraction.
func (n *names) unknownStep(at *ast.StringNode) {
	rest := n.program.text[byteOffset(n.program.text, at.Location().From):]
	longest := ""
	for name := range n.language.steps {
		if len(name) > len(longest) && len(name) > len(at.Value) && strings.HasPrefix(rest, name) {
			longest = name
		}
	}
	if longest != "" {
		n.fail(at.Location().From, fmt.Sprintf("write steps['%s']", longest), "the name %s needs quotes in an expression", longest)
		return
	}
	n.fail(at.Location().From, nearest.Hint(at.Value, n.language.names), "there is no step %q", at.Value)
}

func (n *names) fail(at int, hint, format string, args ...any) {
	if n.bad == nil {
		n.bad = &problem{byteOffset(n.program.text, at), fmt.Sprintf(format, args...), hint}
	}
}

func (n *names) finish() *problem {
	for _, at := range n.bare {
		if !n.followed[at] {
			n.fail(at.Location().From, "write steps.charge or steps['my-step']", "steps must be followed by a step's name")
		}
	}
	return n.bad
}

// environment gives the types of what the expression names.
func (n *names) environment() types.Map {
	env := types.Map{loopName: types.TypeOf(func() bool { return true })}
	for i, v := range variables {
		if n.allowed&(1<<i) != 0 {
			env[v.name] = v.typ
		}
	}
	for _, v := range n.language.variables {
		env[v.Name] = types.Any
	}
	if n.allowed&varSteps != 0 {
		steps := make(types.Map, len(n.program.steps))
		for _, ref := range n.program.steps {
			steps[ref.name] = stepType
		}
		env["steps"] = steps
	}
	return env
}

// Names of functions that stand in for what an expression says.
const (
	loopName     = "$loop"
	plusName     = "$plus"
	textPlusName = "$textPlus"
)

// bounds makes every predicate count, so that loops within loops over large lists come to an end, and every sum of
// texts look at its length, so that doubling a text in a loop does.
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
			ast.Patch(at, &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: []ast.Node{n.Left, n.Right}})
		}
	}
}

func isText(n ast.Node) bool { return n.Type() != nil && n.Type().Kind() == reflect.String }

func mayBeText(n ast.Node) bool {
	return n.Type() == nil || n.Type().Kind() == reflect.String || n.Type().Kind() == reflect.Interface
}

var errLoops = fmt.Errorf("the expression looks at more than %d elements", maxLoops)

// machines are reused: a machine's stack is most of what an evaluation allocates.
var machines = sync.Pool{New: func() any { return &vm.VM{MemoryBudget: memoryBudget} }}

// run evaluates the program. Errors are *problem values.
func (p *program) run(s *scope) (any, error) {
	machine, _ := machines.Get().(*vm.VM)
	value, err := machine.Run(p.code, s.environment(p))
	machines.Put(machine)
	if err != nil {
		var r refusal
		if errors.As(err, &r) {
			return nil, r
		}
		return nil, problemOf(p.text, err)
	}
	return value, nil
}

func (p *problem) Error() string { return p.msg }

var typeNames = regexp.MustCompile(`type \*?flow\.(\w+) has no (?:field|method) (\w+)`)

// problemOf reads the library's error.
func problemOf(text string, err error) *problem {
	bad := &problem{msg: err.Error()}
	var e *file.Error
	if errors.As(err, &e) {
		bad = &problem{offset: byteOffset(text, e.From), msg: e.Message}
	}
	if errors.Is(err, errLoops) {
		bad.msg = errLoops.Error()
	}
	switch m := typeNames.FindStringSubmatch(bad.msg); {
	case m != nil:
		known := fieldsOf(m[1])
		bad.msg = fmt.Sprintf("there is no %s in it", m[2])
		if bad.hint = nearest.Hint(m[2], known); bad.hint == "" {
			bad.hint = "known are " + strings.Join(known, ", ")
		}
	case strings.Contains(bad.msg, "time.Time is not callable"):
		bad.msg, bad.hint = "now is a value, not a function", "write now"
	case strings.HasPrefix(bad.msg, "cannot fetch ") && strings.HasSuffix(bad.msg, " from <nil>"):
		field := strings.TrimSuffix(strings.TrimPrefix(bad.msg, "cannot fetch "), " from <nil>")
		bad.msg = fmt.Sprintf("there is no value to take %s from", field)
		bad.hint = "use ?. where it may be missing"
	}
	bad.msg = strings.ReplaceAll(bad.msg, "interface {}", "any")
	return bad
}

// byteOffset converts the library's count of characters.
func byteOffset(text string, runes int) int {
	for i := range text {
		if runes == 0 {
			return i
		}
		runes--
	}
	return len(text)
}
