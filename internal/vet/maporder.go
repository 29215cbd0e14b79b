package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// checkMapOrder reports a loop over a map whose order affects the run.
func (c *checker) checkMapOrder(loop *ast.RangeStmt, at place) {
	if !c.isUnordered(loop.X) {
		return
	}
	what := c.durableIn(loop.Body, 0)
	if what == "" {
		what = c.appendIn(loop, at)
	}
	if what != "" {
		c.report(loop, mapOrder, "a map has another order when the body is called again, and this loop over it "+what+
			": loop over the sorted keys, slices.Sorted(maps.Keys(m))")
	}
}

// isUnordered reports whether a loop is over a map, or over an iterator that package maps makes from one.
func (c *checker) isUnordered(x ast.Expr) bool {
	if _, ok := types.Unalias(c.pass.TypesInfo.TypeOf(x)).Underlying().(*types.Map); ok {
		return true
	}
	call, ok := ast.Unparen(x).(*ast.CallExpr)
	if !ok {
		return false
	}
	f := c.callee(call)
	return f != nil && f.Pkg() != nil && pathOf(f.Pkg()) == "maps"
}

// durableIn returns which durable call is made below a node, if any.
func (c *checker) durableIn(n ast.Node, depth int) (what string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.FuncLit); ok && c.roleOf(lit) != inBody {
			return false
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || what != "" {
			return what == ""
		}
		if c.isDurable(call) {
			what = "makes durable calls"
			if f := c.callee(call); f != nil {
				what += " (" + display(f) + ")"
			}
			return false
		}
		if lits := c.literals(call.Fun); len(lits) == 1 && depth < 3 {
			what = c.durableIn(lits[0].Body, depth+1)
		}
		return what == ""
	})
	return what
}

// appendIn returns which slice from outside the loop is appended to in it and not sorted afterwards, if any.
func (c *checker) appendIn(loop *ast.RangeStmt, at place) (what string) {
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		s, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for i := range min(len(s.Lhs), len(s.Rhs)) {
			call, ok := ast.Unparen(s.Rhs[i]).(*ast.CallExpr)
			if !ok || s.Tok != token.ASSIGN {
				continue
			}
			id, ok := ast.Unparen(call.Fun).(*ast.Ident)
			b, isBuiltin := c.pass.TypesInfo.Uses[id].(*types.Builtin)
			if !ok || !isBuiltin || b.Name() != "append" {
				continue
			}
			list := s.Lhs[i]
			v, indexed := c.root(list)
			if v != nil && indexed == nil && !within(loop.Body, v.Pos()) && !c.sortedAfter(list, loop.End(), at) {
				what = "appends to " + types.ExprString(list)
			}
		}
		return true
	})
	return what
}

// sortedAfter reports whether a slice is sorted after a place in the code.
func (c *checker) sortedAfter(list ast.Expr, after token.Pos, at place) (found bool) {
	name := types.ExprString(list)
	ast.Inspect(at.root, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || call.Pos() < after {
			return true
		}
		f := c.callee(call)
		if f == nil || f.Pkg() == nil ||
			pathOf(f.Pkg()) != "sort" && !strings.Contains(strings.ToLower(f.Name()), "sort") {
			return true
		}
		ast.Inspect(call, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && types.ExprString(e) == name {
				found = true
			}
			return !found
		})
		return !found
	})
	return found
}
