package vet

import (
	"go/ast"
	"go/token"
	"go/types"
)

// Statements that a body must not have.
var (
	goStatement = ban{parallel, goroutine.why, goroutine.fix}
	channel     = ban{
		parallel, "depends on goroutines whose order the run does not record",
		"wait for futures (pawl.Go, pawl.Async), or for an event from outside (pawl.Event.Wait)",
	}
	selection = ban{
		parallel, "takes by chance what is ready first",
		"use pawl.Select on futures, which records which one it was",
	}
)

// walk checks everything below a node.
func (c *checker) walk(n ast.Node, at place) {
	if n == nil {
		return
	}
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.FuncLit); ok {
			c.walk(lit.Body, c.inside(at, lit))
			return false
		}
		if n == nil {
			return false
		}
		c.checkWrites(n, at)
		switch at.role {
		case inStep:
			c.checkInStep(n, at)
		case inBranch, inBody:
			return c.checkDeciding(n, at)
		case unknown: // it may be a step's
		}
		return true
	})
}

// checkDeciding checks a node of a body or a branch. It reports whether the nodes below have to be checked, too.
func (c *checker) checkDeciding(n ast.Node, at place) bool {
	c.checkDropped(n)
	c.checkShared(n)
	c.checkTime(n)
	switch n := n.(type) {
	case *ast.CallExpr:
		c.markCalled(n)
		if !c.checkCall(n) {
			c.checkHelper(n)
			c.checkPointer(n)
			c.checkValidator(n)
		}
	case *ast.GoStmt:
		c.reportBan(n, "a go statement", goStatement)
		return false // one report is enough
	case *ast.SendStmt:
		c.reportBan(n, "a channel send", channel)
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			c.reportBan(n, "a channel receive", channel)
		}
	case *ast.SelectStmt:
		c.reportBan(n, "a select", selection)
		for _, clause := range n.Body.List {
			for _, s := range clause.(*ast.CommClause).Body {
				c.walk(s, at)
			}
		}
		return false
	case *ast.RangeStmt:
		if _, ok := types.Unalias(c.pass.TypesInfo.TypeOf(n.X)).Underlying().(*types.Chan); ok {
			c.reportBan(n, "a loop over a channel", channel)
		}
		c.checkMapOrder(n, at)
	case *ast.Ident:
		c.checkReader(n)
		c.checkValue(n)
		if at.role == inBranch && c.isOuterContext(n, at) {
			c.report(n, context, n.Name+" is not the Context of this branch, so its calls would be mixed up with "+
				"others: use the Context that the branch's function gets")
		}
	}
	return true
}

// checkInStep checks a node of a step's function.
func (c *checker) checkInStep(n ast.Node, at place) {
	switch n := n.(type) {
	case *ast.CallExpr:
		c.checkDurableInStep(n, at)
	case *ast.Ident:
		if !c.told[n] && c.isOuterContext(n, at) {
			c.report(n, context, n.Name+" is the body's Context, which does not end with the step's attempt: use the "+
				"context.Context that the step's function gets")
		}
	case *ast.TypeAssertExpr:
		if n.Type != nil && isContext(c.pass.TypesInfo.TypeOf(n.Type)) {
			c.report(n, context, "a step's context is never a pawl.Context, since a step makes no durable calls: "+
				"make them in the body, before the step or after it")
		}
	}
}

// checkDurableInStep reports a durable call in a step.
func (c *checker) checkDurableInStep(call *ast.CallExpr, at place) {
	f := c.callee(call)
	plain := isOf(f, "Info", "Logger")
	if !plain && !isOf(f, "Now") && !c.isDurable(call) {
		return
	}
	own := c.passesContext(call) // the Context is of a workflow that is defined in the step
	for _, arg := range call.Args {
		if id, ok := ast.Unparen(arg).(*ast.Ident); ok && c.isOuterContext(id, at) {
			own, c.told[id] = false, true
		}
	}
	switch {
	case own, plain:
		return
	case isOf(f, "Now"):
		c.report(call, clock, "pawl.Now in a step's function depends on how far the body is: use time.Now here, or "+
			"call pawl.Now in the body, before the step")
		return
	}
	name := "this"
	if f != nil {
		name = display(f)
	}
	c.report(call, context, name+" is a durable call, which a step's function cannot make: make it in the "+
		"body, before the step or after it, or begin a branch (pawl.Go) instead of the step")
}

// isOuterContext reports whether it is a variable that holds a pawl.Context and is not of the function it is used in.
func (c *checker) isOuterContext(id *ast.Ident, at place) bool {
	v, ok := c.pass.TypesInfo.Uses[id].(*types.Var)
	return ok && !v.IsField() && isContext(v.Type()) && !within(at.bound, v.Pos())
}

func within(n ast.Node, p token.Pos) bool { return n.Pos() <= p && p < n.End() }
