// Package expr is the language of expressions in flow documents: it compiles them, knows which variables are allowed
// where, limits the cost of an evaluation, and fills data that contains expressions (a [Template]).
//
// An expression does not see a clock, chance or the machine it runs on: the same run gives the same value each time
// it is evaluated.
package expr

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/pawl-dev/pawl/internal/nearest"
)

const (
	// maxExpression limits an expression's text, and with it the recursion of the compiler.
	maxExpression = 16 << 10
	// maxExpressionNodes bounds an expression's syntax tree.
	maxExpressionNodes = 5000
	// maxLoops is how many elements the predicates of one evaluation may look at.
	maxLoops = 5_000_000
	// memoryBudget is how many elements one evaluation may create.
	memoryBudget = 2_000_000
)

// Language compiles the expressions of one document. Expressions with the same text share one program.
type Language struct {
	own      []string // the names of the document's own variables
	steps    map[string]int32
	names    []string // names of the steps, for hints
	compiled map[key]*result

	// Input is the known shape of the input, to find misspelt keys; nil: nothing is known.
	Input *Shape

	used  usedInput
	items map[int32]bool // the steps whose items expressions name
}

type key struct {
	text    string
	allowed Vars
	truth   bool
}

type result struct {
	program *Program
	problem *Problem
}

// New returns a language with its own variables besides those that every document has. Its steps are added by
// [Language.AddStep].
func New(own []string) *Language {
	return &Language{own: own, steps: map[string]int32{}, compiled: map[key]*result{}}
}

// AddStep adds a step to which expressions may refer. number identifies the step in a [Scope].
func (l *Language) AddStep(name string, number int32) {
	l.steps[name] = number
	l.names = append(l.names, name)
}

// Step returns the number of a step; false if there is none of that name.
func (l *Language) Step(name string) (int32, bool) {
	number, ok := l.steps[name]
	return number, ok
}

// Steps returns the names of the steps in the order in which they were added.
func (l *Language) Steps() []string { return l.names }

// UsesItems reports whether an expression that was compiled names the items of a step.
func (l *Language) UsesItems(step int32) bool { return l.items[step] }

func (l *Language) nameItems(step int32) {
	if l.items == nil {
		l.items = map[int32]bool{}
	}
	l.items[step] = true
}

// Clone returns the same language with a memory of its own: programs are shared by many runs, and compiling adds to the
// memory.
func (l *Language) Clone() *Language {
	clone := *l
	clone.compiled, clone.used, clone.items = map[key]*result{}, usedInput{}, maps.Clone(l.items)
	return &clone
}

// Program is a compiled expression. It does not change and is shared.
type Program struct {
	text  string
	code  *vm.Program
	vars  Vars
	own   []ownUse  // the document's own variables it names
	steps []StepUse // the steps it names

	absent []string // keys of the input it names that may not be there: input.dir
	asked  []string // those it asks for before it uses them
	unsure []string // those that must be true or false
}

// Text returns the expression.
func (p *Program) Text() string { return p.text }

// Steps returns the steps that the expression names.
func (p *Program) Steps() []StepUse { return p.steps }

type ownUse struct {
	name  string
	index int
}

// StepUse is a step that an expression names.
type StepUse struct {
	Name   string
	Number int32
	Offset int // offset in the expression's text

	items bool // the expression names the step's items
}

// Problem is an error of an expression, and the byte at which it is.
type Problem struct {
	Offset    int
	Msg, Hint string
}

func (p *Problem) Error() string { return p.Msg }

// Compile makes a program of an expression that may name the allowed variables. truth asks for an expression that is
// true or false.
func (l *Language) Compile(text string, allowed Vars, truth bool) (*Program, *Problem) {
	k := key{text, allowed, truth}
	if r, ok := l.compiled[k]; ok {
		return r.program, r.problem
	}
	r := &result{}
	r.program, r.problem = l.compileNew(text, allowed, truth)
	l.compiled[k] = r
	return r.program, r.problem
}

func (l *Language) compileNew(text string, allowed Vars, truth bool) (*Program, *Problem) {
	if strings.TrimSpace(text) == "" {
		return nil, &Problem{Msg: "the expression is empty"}
	}
	if len(text) > maxExpression {
		return nil, &Problem{Msg: fmt.Sprintf("the expression has %d characters, the limit is %d", len(text),
			maxExpression)}
	}
	tree, err := parser.ParseWithConfig(text, grammar)
	if err != nil {
		return nil, problemOf(text, err)
	}
	p := &Program{text: text}
	n := &names{language: l, program: p, allowed: allowed}
	ast.Walk(&tree.Node, n)
	if bad := n.finish(); bad != nil {
		return nil, bad
	}
	if truth {
		if bad := n.notTruth(tree.Node); bad != nil {
			return nil, bad
		}
	}
	env := n.environment()
	// The library checks an expression once more after each rewriting, and then skips the arguments of a call whose
	// type it knows. So the whole expression is checked as it was written.
	if _, err = checker.Check(tree, newConfig(env)); err != nil {
		return nil, l.unknownName(text, problemOf(text, err), allowed)
	}
	p.code, err = expr.Compile(text, withConfig(env), expr.Patch(&outputs{}))
	if err != nil {
		return nil, l.unknownName(text, problemOf(text, err), allowed)
	}
	if typ := p.code.Node().Type(); truth && typ != nil && typ.Kind() != reflect.Bool &&
		typ.Kind() != reflect.Interface {
		return nil, &Problem{Msg: "a condition is true or false, this is " + nameOfType(typ)}
	}
	return p, nil
}

// unknownName adds to the problem of a name that does not exist which one may be meant.
func (l *Language) unknownName(text string, bad *Problem, allowed Vars) *Problem {
	if name, ok := strings.CutPrefix(bad.Msg, "unknown name "); ok && bad.Hint == "" {
		known := l.known(allowed)
		own := others[name]
		switch after := text[min(bad.Offset+len(name), len(text)):]; {
		case strings.HasPrefix(strings.TrimSpace(after), "("):
			bad.Hint = called(name)
		case slices.Contains(known, own):
			bad.Hint = "write " + own
		}
		if bad.Hint == "" {
			bad.Hint = nearest.Hint(name, known)
		}
	}
	return bad
}

// known lists the variables that may be named.
func (l *Language) known(allowed Vars) []string {
	var known []string
	for i, v := range variables {
		if allowed&(1<<i) != 0 {
			known = append(known, v.name)
		}
	}
	if allowed&VarPlaceholders != 0 {
		known = append(known, "secrets", "env")
	}
	return append(known, l.own...)
}

// grammar is the configuration of the parser; it is only read.
var grammar = newConfig(nil)

// newConfig makes the configuration of the language: nothing in it reads a clock, and maps have a fixed order.
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

// machines are reused: a machine's stack is most of what an evaluation allocates.
var machines = sync.Pool{New: func() any { return &vm.VM{MemoryBudget: memoryBudget} }}

// Run evaluates the program. Errors are *[Problem] values, or a [Refusal].
func (p *Program) Run(s Scope) (any, error) {
	machine, _ := machines.Get().(*vm.VM)
	value, err := machine.Run(p.code, p.environment(s))
	machines.Put(machine)
	if err != nil {
		var r Refusal
		if errors.As(err, &r) {
			return nil, r
		}
		return nil, problemOf(p.text, err)
	}
	return value, nil
}

// Truth evaluates a condition.
func (p *Program) Truth(s Scope) (bool, error) {
	v, err := p.Run(s)
	if err != nil {
		return false, err
	}
	truth, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("a condition is true or false, this is %s", TypeName(v))
	}
	return truth, nil
}
