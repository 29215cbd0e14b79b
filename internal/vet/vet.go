// Package vet finds code in the bodies of workflows that gives another result when a body is called again.
//
// It recognises a body by its type: a function that takes a pawl.Context. A function that is passed to package pawl, or
// to a call beside a pawl.Context, and takes a context.Context is a step's; one that is passed to pawl.Go or pawl.Map
// is a branch's. For functions of the checked package it looks up whether they pass on to a step what they get.
package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Analyzer is all checks. The category of a report is the name of its check.
var Analyzer = &analysis.Analyzer{
	Name: "pawlvet",
	Doc: `find code in Pawl workflows that gives another result when a body is called again

A workflow's body is called again after a crash or a long wait, and must make the same decisions as before. The checks:

	clock    time.Now, time.Sleep, timers, contexts with a timeout
	random   math/rand, crypto/rand, UUIDs that are not pawl.UUID
	io       the environment, files, processes, the network, databases: outside a step
	parallel go, channels, select, locks, wait groups
	maporder durable calls or append in a loop over a map
	context  a body's Context in a step or in a branch
	capture  a step or a branch that writes variables of the body around it; a body that writes those of the package
	dropped  a durable call whose error, or a future or a panic that, nobody looks at
	texts    retries, lengths of time and services that the engine would refuse, options of a step that is spelt in
	         another way, types that cannot be recorded

A line is left out with a comment on it, or on a line of its own above it: //pawlvet:ignore and the reason.`,
	URL: "https://github.com/pawl-dev/pawl/blob/main/docs/guide/vet.md",
	Run: run,
}

// The checks.
const (
	clock    = "clock"
	random   = "random"
	inOut    = "io"
	parallel = "parallel"
	mapOrder = "maporder"
	context  = "context"
	capture  = "capture"
	dropped  = "dropped"
	texts    = "texts"
	ignore   = "ignore"
)

type checker struct {
	pass    *analysis.Pass
	names   map[types.Object][]*ast.FuncLit // the functions that are assigned to a variable
	decls   map[types.Object]*ast.FuncDecl  // the package's own functions
	roles   map[*ast.FuncLit]role           // roles known from the callee that a function is passed to
	told    map[*ast.Ident]bool             // uses of a Context that need no other report
	ignored map[*token.File]map[int]bool    // lines
	stack   map[ast.Node]bool               // functions that are being looked into
	called  map[*ast.Ident]bool             // functions that are called, and not given on

	words    map[string]int // how often each constant text of the package occurs
	steps    []string       // constant texts that calls get beside a Context: names of steps are among them
	services []string       // those of all Config.Services; nil: none is known
	dynamic  bool           // services are made when the program runs
}

func run(pass *analysis.Pass) (any, error) {
	if isPawl(pass.Pkg) {
		return nil, nil // it makes Contexts, and has its own rules
	}
	c := &checker{
		pass:  pass,
		names: map[types.Object][]*ast.FuncLit{}, decls: map[types.Object]*ast.FuncDecl{},
		roles: map[*ast.FuncLit]role{}, told: map[*ast.Ident]bool{},
		ignored: map[*token.File]map[int]bool{}, stack: map[ast.Node]bool{},
		called: map[*ast.Ident]bool{}, words: map[string]int{},
	}
	for _, f := range pass.Files {
		if err := c.readIgnores(f); err != nil {
			return nil, err
		}
		c.collect(f)
	}
	for _, f := range pass.Files {
		c.assignRoles(f)
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				c.checkTexts(call)
			}
			return true
		})
	}
	c.checkEncoded()
	c.checkStepNames()
	for _, f := range pass.Files {
		ast.Inspect(f, func(n ast.Node) bool {
			if kind, block := function(n); kind != nil && c.takesContext(kind) {
				c.walk(block, place{root: n})
				return false
			}
			return true
		})
	}
	return nil, nil
}

// function returns the parts of a function with a body.
func function(n ast.Node) (*ast.FuncType, *ast.BlockStmt) {
	switch n := n.(type) {
	case *ast.FuncLit:
		return n.Type, n.Body
	case *ast.FuncDecl:
		if n.Body != nil {
			return n.Type, n.Body
		}
	}
	return nil, nil
}

// collect notes the functions that have a name.
func (c *checker) collect(f *ast.File) {
	note := func(name, value ast.Expr) {
		lit, isFunction := ast.Unparen(value).(*ast.FuncLit)
		id, isName := name.(*ast.Ident)
		if isFunction && isName {
			obj := c.pass.TypesInfo.ObjectOf(id)
			c.names[obj] = append(c.names[obj], lit)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i := range min(len(n.Lhs), len(n.Rhs)) {
				note(n.Lhs[i], n.Rhs[i])
			}
		case *ast.ValueSpec:
			for i := range min(len(n.Names), len(n.Values)) {
				note(n.Names[i], n.Values[i])
			}
		case *ast.CompositeLit:
			c.collectServices(n)
		case *ast.FuncDecl:
			c.decls[c.pass.TypesInfo.Defs[n.Name]] = n
		}
		return true
	})
}

// literals returns the functions that an expression may be: a literal, or those assigned to a variable.
func (c *checker) literals(e ast.Expr) []*ast.FuncLit {
	switch e := ast.Unparen(e).(type) {
	case *ast.FuncLit:
		return []*ast.FuncLit{e}
	case *ast.Ident:
		return c.names[c.pass.TypesInfo.Uses[e]]
	default:
		return nil
	}
}

// report reports a mistake, unless its line is ignored.
func (c *checker) report(n ast.Node, category, message string) {
	f := c.pass.Fset.File(n.Pos())
	if !c.ignored[f][f.Line(n.Pos())] {
		c.pass.Report(analysis.Diagnostic{Pos: n.Pos(), End: n.End(), Category: category, Message: message})
	}
}

// takesContext reports whether a function has a parameter that is a pawl.Context.
func (c *checker) takesContext(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool {
		return isContext(c.pass.TypesInfo.TypeOf(p.Type))
	})
}

// takesStandard reports whether a function has a parameter that is a context.Context.
func (c *checker) takesStandard(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool {
		return named(c.pass.TypesInfo.TypeOf(p.Type), "context", "Context")
	})
}
