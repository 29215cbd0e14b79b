package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// fills are methods and functions that write through a pointer argument.
var fills = []string{"Unmarshal", "Decode", "Scan"}

// checkWrites reports what a step or a branch writes to variables of the body around it.
func (c *checker) checkWrites(n ast.Node, at place) {
	if at.role != inStep && at.role != inBranch {
		return
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			for _, left := range n.Lhs {
				c.checkWrite(left, at)
			}
		}
	case *ast.IncDecStmt:
		c.checkWrite(n.X, at)
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			c.checkWrite(n.Key, at)
			c.checkWrite(n.Value, at)
		}
	case *ast.CallExpr:
		c.checkFilled(n, at)
	}
}

// checkFilled reports variables that a call writes.
func (c *checker) checkFilled(call *ast.CallExpr, at place) {
	if id, ok := ast.Unparen(call.Fun).(*ast.Ident); ok {
		if b, ok := c.pass.TypesInfo.Uses[id].(*types.Builtin); ok {
			switch b.Name() {
			case "delete", "clear", "copy":
				// It writes what an index would.
				c.checkWrite(&ast.IndexExpr{X: call.Args[0], Lbrack: call.Lparen, Rbrack: call.Rparen}, at)
			}
			return
		}
	}
	f := c.callee(call)
	if f == nil || !slices.Contains(fills, f.Name()) {
		return
	}
	for _, arg := range call.Args {
		if u, ok := ast.Unparen(arg).(*ast.UnaryExpr); ok && u.Op == token.AND {
			c.checkWrite(u.X, at)
		}
	}
}

// checkWrite reports a write to a variable that is the body's own. A variable that lives longer than one call of the
// body, such as a counter of a test or a field of a method's receiver, is not: no run owns it.
func (c *checker) checkWrite(left ast.Expr, at place) {
	if left == nil {
		return
	}
	v, indexed := c.root(left)
	if v == nil || within(at.bound, v.Pos()) || !within(at.root, v.Pos()) || isReceiver(at.root, v) {
		return
	}
	if at.role == inStep {
		c.report(left, capture, "the step writes "+v.Name()+", a variable of the body, which is lost when the body is "+
			"called again: return the value from the step's function")
		return
	}
	if indexed != nil {
		if _, isMap := types.Unalias(indexed).Underlying().(*types.Map); !isMap {
			return // each branch may have its own element
		}
	}
	c.report(left, capture, "the branch writes "+v.Name()+", a variable of the body, while other code may use it: "+
		"return the value from the branch's function, and take it from the future or from pawl.Map")
}

func isReceiver(root ast.Node, v *types.Var) bool {
	d, ok := root.(*ast.FuncDecl)
	return ok && d.Recv != nil && within(d.Recv, v.Pos())
}
