package vet

import (
	"go/ast"
	"go/types"
)

// A role is the purpose of a function inside a body.
type role int

const (
	inBody   role = iota // it is called as a part of the body
	inStep               // it is a step's, and may do what it likes
	inBranch             // it is the body of a branch
	unknown              // its callers are unknown
)

// A place is where a statement is.
type place struct {
	root  ast.Node     // the function that is the body
	bound *ast.FuncLit // the innermost step or branch around it
	role  role         // never inBranch without a bound
}

// inside returns the place of a function that is in this place.
func (c *checker) inside(p place, lit *ast.FuncLit) place {
	switch r := c.roleOf(lit); {
	case p.role == unknown && c.takesContext(lit.Type) && r == inBody:
		return place{root: lit} // a body calls it, directly or not
	case r == inStep, r == inBranch && p.role != inStep:
		p.bound, p.role = lit, r
	case r == unknown && p.role != inStep:
		p.role = unknown
	}
	return p
}

// roleOf returns the role of a function by the callee that takes it, or by its type.
func (c *checker) roleOf(lit *ast.FuncLit) role {
	if r, known := c.roles[lit]; known {
		return r
	}
	if !c.takesContext(lit.Type) && c.takesStandard(lit.Type) {
		return unknown
	}
	return inBody
}

// assignRoles notes the roles of functions that are passed to calls.
func (c *checker) assignRoles(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			for i, arg := range call.Args {
				for _, lit := range c.literals(arg) {
					if r := c.passedRole(call, i, lit); r != inBody && c.roles[lit] != inStep {
						c.roles[lit] = r
					}
				}
			}
		}
		return true
	})
}

// passedRole returns the role that a function gets as an argument of a call.
func (c *checker) passedRole(call *ast.CallExpr, arg int, lit *ast.FuncLit) role {
	f := c.callee(call)
	pawls := f != nil && isPawl(f.Pkg())
	switch {
	case c.takesContext(lit.Type):
		if isOf(f, "Go", "Map") {
			return inBranch
		}
		return inBody
	case c.takesStandard(lit.Type):
		if pawls || c.passesContext(call) {
			return inStep
		}
		return unknown
	case pawls:
		return inBody // a validator, for example
	}
	if f != nil && startsGoroutine[f.FullName()] {
		return unknown
	}
	if kind, block := c.own(call, f); kind != nil {
		return c.useOf(kind, block, arg)
	}
	if c.passesContext(call) {
		return unknown // the function of another package may pass it to a step
	}
	return inBody
}

// own returns the function that is called if its code is in this package.
func (c *checker) own(call *ast.CallExpr, f *types.Func) (*ast.FuncType, *ast.BlockStmt) {
	if f != nil {
		if d := c.decls[f]; d != nil {
			return function(d)
		}
		return nil, nil
	}
	if lits := c.literals(call.Fun); len(lits) == 1 {
		return function(lits[0])
	}
	return nil, nil
}

// useOf looks up what a function does with a function that it gets as an argument: whether a step calls it.
func (c *checker) useOf(kind *ast.FuncType, block *ast.BlockStmt, arg int) role {
	param := c.param(kind, arg)
	if param == nil || c.stack[block] {
		return unknown
	}
	c.stack[block] = true
	defer delete(c.stack, block)
	found := inBody
	var look func(n ast.Node, r role)
	look = func(n ast.Node, r role) {
		ast.Inspect(n, func(m ast.Node) bool {
			switch m := m.(type) {
			case *ast.FuncLit:
				inner := r
				if c.takesStandard(m.Type) || c.roles[m] == inStep {
					inner = inStep
				}
				look(m.Body, inner)
				return false
			case *ast.CallExpr:
				for i, a := range m.Args {
					if id, ok := ast.Unparen(a).(*ast.Ident); ok && c.pass.TypesInfo.Uses[id] == param && r != inStep {
						found = c.passedOn(m, i, found)
					}
				}
			case *ast.Ident:
				if r == inStep && c.pass.TypesInfo.Uses[m] == param {
					found = inStep
				}
			}
			return true
		})
	}
	look(block, inBody)
	return found
}

// passedOn returns the role of a function that a function passes on, given the role found so far.
func (c *checker) passedOn(call *ast.CallExpr, arg int, found role) role {
	next := unknown
	if kind, block := c.own(call, c.callee(call)); kind != nil {
		next = c.useOf(kind, block, arg)
	}
	if next == inBody || found == inStep {
		return found
	}
	return next
}

// param returns the parameter that an argument becomes; all arguments of a variadic one become the last.
func (c *checker) param(kind *ast.FuncType, arg int) types.Object {
	var last *ast.Ident
	n := 0
	for _, field := range kind.Params.List {
		if len(field.Names) == 0 {
			return nil
		}
		for _, name := range field.Names {
			if n == arg {
				return c.pass.TypesInfo.Defs[name]
			}
			last, n = name, n+1
		}
	}
	if last == nil {
		return nil
	}
	return c.pass.TypesInfo.Defs[last]
}
