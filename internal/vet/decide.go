package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// checkDropped reports a durable call or a panic whose outcome is ignored.
func (c *checker) checkDropped(n ast.Node) {
	switch n := n.(type) {
	case *ast.ExprStmt:
		call, ok := ast.Unparen(n.X).(*ast.CallExpr)
		if ok && c.recovers(call) {
			c.report(call, dropped, "what recover returns is dropped, so the run goes on after a panic as if nothing "+
				"had happened: leave it out, since a panic fails the run, or return an error that says it")
		}
		if !ok || !c.isDurable(call) {
			return
		}
		switch f := c.callee(call); {
		case c.isFuture(call):
			c.reportUnread(call)
		case isOf(f, "ContinueAsNew"):
			c.report(call, dropped, "pawl.ContinueAsNew ends the run by what it returns: return it from the body")
		case c.lastIsError(call):
			c.report(call, dropped, "the error of "+c.nameOf(call)+" is dropped, also where the run is cancelled: "+
				"return it, or write _ = before the call")
		}
	case *ast.AssignStmt:
		for i := range min(len(n.Lhs), len(n.Rhs)) {
			id, blank := n.Lhs[i].(*ast.Ident)
			call, ok := ast.Unparen(n.Rhs[i]).(*ast.CallExpr)
			if blank && ok && id.Name == "_" && c.isFuture(call) && c.isDurable(call) {
				c.reportUnread(call)
			}
		}
	}
}

// recovers reports whether a call is one of the built-in recover.
func (c *checker) recovers(call *ast.CallExpr) bool {
	id, ok := ast.Unparen(call.Fun).(*ast.Ident)
	return ok && c.pass.TypesInfo.Uses[id] == types.Universe.Lookup("recover")
}

func (c *checker) reportUnread(call *ast.CallExpr) {
	c.report(call, dropped, "nobody reads the future of "+c.nameOf(call)+", so the run may end before its work, and "+
		"its error is lost: wait for it with Get, pawl.All or pawl.Select")
}

func (c *checker) nameOf(call *ast.CallExpr) string {
	if f := c.callee(call); f != nil {
		return display(f)
	}
	return types.ExprString(call.Fun)
}

func (c *checker) isFuture(call *ast.CallExpr) bool {
	return named(c.pass.TypesInfo.TypeOf(call), pawlPath, "Future")
}

// lastIsError reports whether the last result of a call is an error.
func (c *checker) lastIsError(call *ast.CallExpr) bool {
	t := c.pass.TypesInfo.TypeOf(call)
	if all, ok := t.(*types.Tuple); ok && all.Len() > 0 {
		t = all.At(all.Len() - 1).Type()
	}
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// checkShared reports what a body writes to a variable of the package, which all runs and all calls of the body share.
func (c *checker) checkShared(n ast.Node) {
	report := func(e ast.Expr) {
		if v, _ := c.root(e); v != nil && v.Parent() == c.pass.Pkg.Scope() {
			c.report(e, capture, "a body writes "+v.Name()+", a variable of the package, each time it is called "+
				"again, and beside other runs: do it in a step (pawl.Do), or keep the value in the body")
		}
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			for _, left := range n.Lhs {
				report(left)
			}
		}
	case *ast.IncDecStmt:
		report(n.X)
	case *ast.CallExpr:
		f := c.callee(n)
		if f == nil || f.Pkg() == nil || pathOf(f.Pkg()) != "sync/atomic" || strings.HasPrefix(f.Name(), "Load") {
			return
		}
		if sel, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr); ok && f.Signature().Recv() != nil {
			report(sel.X)
		} else if len(n.Args) > 0 {
			if u, ok := ast.Unparen(n.Args[0]).(*ast.UnaryExpr); ok {
				report(u.X)
			}
		}
	}
}

// checkTime reports a decision by the Context's own clock, which runs on while the body is not called.
func (c *checker) checkTime(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		if call := c.methodOfContext(n.Cond, "Err"); call != nil && !c.returnsError(n.Body) {
			c.report(call, clock, "ctx.Err in a workflow's body says at another place that the run stops when the "+
				"body is called again: go by the errors of durable calls, which are recorded")
		}
	case *ast.CallExpr:
		if c.methodOfContext(n, "Deadline") == n {
			c.report(n, clock, "ctx.Deadline in a workflow's body is not recorded, and an operator may change it: "+
				"compare pawl.Now(ctx) with an instant of the input")
		}
	}
}

// methodOfContext finds the call of a method of a pawl.Context in an expression.
func (c *checker) methodOfContext(e ast.Expr, name string) (found *ast.CallExpr) {
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
			if ok && sel.Sel.Name == name && isContext(c.pass.TypesInfo.TypeOf(sel.X)) {
				found = call
			}
		}
		return found == nil
	})
	return found
}

// returnsError reports whether a block returns an error that is not nil: the body ends, as durable calls would end it.
func (c *checker) returnsError(block *ast.BlockStmt) (found bool) {
	ast.Inspect(block, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) > 0 {
			last := r.Results[len(r.Results)-1]
			found = found || !c.pass.TypesInfo.Types[last].IsNil()
		}
		return !found
	})
	return found
}

// checkValue reports a function that must not be called in a body and is passed as a value, such as a clock.
func (c *checker) checkValue(id *ast.Ident) {
	f, ok := c.pass.TypesInfo.Uses[id].(*types.Func)
	if !ok || c.called[id] {
		return
	}
	if b, found := banOf(f); found && (b.check == clock || b.check == random) {
		c.reportBan(id, display(f)+", given on as a value", b)
	}
}

// checkHelper reports a call of a function of this package that takes no Context and does what a body must not do.
func (c *checker) checkHelper(call *ast.CallExpr) {
	f := c.callee(call)
	if what, b := c.banIn(f, 3); what != "" {
		c.report(call, b.check, display(f)+" calls "+what+", which in a workflow's body "+b.why+": "+b.fix)
	}
}

// banIn finds in a function of this package what a body must not call, by the clock or by chance.
func (c *checker) banIn(f *types.Func, depth int) (what string, b ban) {
	d := c.decls[f]
	if f == nil || d == nil || d.Body == nil || depth == 0 || c.takesContext(d.Type) || c.takesStandard(d.Type) {
		return "", ban{}
	}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		if _, inner := n.(*ast.FuncLit); inner || what != "" {
			return false
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		callee := c.callee(call)
		if found, banned := banOf(callee); banned && (found.check == clock || found.check == random) {
			if pos := c.pass.Fset.File(call.Pos()); !c.ignored[pos][pos.Line(call.Pos())] {
				what, b = display(callee), found
			}
			return false
		}
		if callee != f {
			what, b = c.banIn(callee, depth-1)
		}
		return what == ""
	})
	return what, b
}

// checkPointer reports a format that writes an address.
func (c *checker) checkPointer(call *ast.CallExpr) {
	f := c.callee(call)
	if f == nil || f.Pkg() == nil || pathOf(f.Pkg()) != "fmt" {
		return
	}
	for _, arg := range call.Args {
		if text, ok := c.text(arg); ok && strings.Contains(strings.ReplaceAll(text, "%%", ""), "%p") {
			c.report(arg, random, "%p writes another address when the body is called again: write what the pointer "+
				"points to")
		}
	}
}

// checkValidator reports a validator of updates that writes variables of the body: nothing is recorded of an update
// that it refuses.
func (c *checker) checkValidator(call *ast.CallExpr) {
	f := c.callee(call)
	if f == nil || !isPawl(f.Pkg()) || f.Name() != "Handle" || f.Signature().Recv() == nil || len(call.Args) < 2 {
		return
	}
	for _, lit := range c.literals(call.Args[1]) {
		ast.Inspect(lit.Body, func(n ast.Node) bool {
			var written []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					written = n.Lhs
				}
			case *ast.IncDecStmt:
				written = []ast.Expr{n.X}
			}
			for _, e := range written {
				if v, _ := c.root(e); v != nil && !within(lit, v.Pos()) {
					c.report(e, capture, "the validator of an update writes "+v.Name()+", and nothing is recorded of "+
						"an update that it refuses: write it in the handler")
				}
			}
			return true
		})
	}
}

// markCalled notes that an identifier is called, and not given on.
func (c *checker) markCalled(call *ast.CallExpr) {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		c.called[fun] = true
	case *ast.SelectorExpr:
		c.called[fun.Sel] = true
	case *ast.IndexExpr:
		c.markCalled(&ast.CallExpr{Fun: fun.X})
	}
}

// sortedIdents returns identifiers in the order of the source.
func sortedIdents(all map[*ast.Ident]types.Instance) []*ast.Ident {
	out := make([]*ast.Ident, 0, len(all))
	for id := range all {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b *ast.Ident) int { return int(a.Pos() - b.Pos()) })
	return out
}
