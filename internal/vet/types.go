package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

const pawlPath = "github.com/pawl-dev/pawl"

// isPawl reports whether it is the package pawl, or the variant of it that its tests use.
func isPawl(p *types.Package) bool { return p != nil && pathOf(p) == pawlPath }

// pathOf returns the import path without the note about tests that go vet adds.
func pathOf(p *types.Package) string {
	path, _, _ := strings.Cut(p.Path(), " [")
	return path
}

func isContext(t types.Type) bool { return named(t, pawlPath, "Context") }

// named reports whether it is that type, or a pointer to it.
func named(t types.Type, path, name string) bool {
	if t == nil {
		return false
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Name() == name && n.Obj().Pkg() != nil && pathOf(n.Obj().Pkg()) == path
}

// callee returns the called function or method, or nil if it is only known when the program runs.
func (c *checker) callee(call *ast.CallExpr) *types.Func {
	f, _ := typeutil.Callee(c.pass.TypesInfo, call).(*types.Func)
	if f == nil {
		return nil
	}
	return f.Origin()
}

// display formats a function as people write it: time.Now, http.Client.Do.
func display(f *types.Func) string {
	name := f.Name()
	if recv := f.Signature().Recv(); recv != nil {
		t := recv.Type()
		if p, ok := types.Unalias(t).(*types.Pointer); ok {
			t = p.Elem()
		}
		if n, ok := types.Unalias(t).(*types.Named); ok {
			name = n.Obj().Name() + "." + name
		}
	}
	if f.Pkg() == nil {
		return name
	}
	return f.Pkg().Name() + "." + name
}

// passesContext reports whether a call has an argument that is a pawl.Context.
func (c *checker) passesContext(call *ast.CallExpr) bool {
	for _, arg := range call.Args {
		if isContext(c.pass.TypesInfo.TypeOf(arg)) {
			return true
		}
	}
	return false
}

// isOf reports whether it is one of these functions of package pawl, not a method.
func isOf(f *types.Func, names ...string) bool {
	return f != nil && isPawl(f.Pkg()) && f.Signature().Recv() == nil && slices.Contains(names, f.Name())
}

// isDurable reports whether a call may make a decision of the run, so that its place among others matters.
func (c *checker) isDurable(call *ast.CallExpr) bool {
	f := c.callee(call)
	if isOf(f, "Info", "Logger", "Now") {
		return false
	}
	if f != nil && f.Signature().Recv() != nil {
		recv := f.Signature().Recv().Type()
		if named(recv, pawlPath, "Compensations") && f.Name() == "Add" || // the order in which things are undone
			named(recv, pawlPath, "Future") && f.Name() == "Cancel" {
			return true
		}
	}
	sig, _ := types.Unalias(c.pass.TypesInfo.TypeOf(call.Fun)).(*types.Signature)
	if sig == nil {
		return false
	}
	for p := range sig.Params().Variables() {
		if isContext(p.Type()) {
			return true
		}
	}
	return false
}

// root returns the variable that an expression begins with: x in x.list[i].name. The result indexed is the type of
// the value that an index picks from last, if one does.
func (c *checker) root(e ast.Expr) (v *types.Var, indexed types.Type) {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.Ident:
			v, _ = c.pass.TypesInfo.Uses[x].(*types.Var)
			return v, indexed
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			if indexed == nil {
				indexed = c.pass.TypesInfo.TypeOf(x.X)
			}
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		default:
			return nil, nil
		}
	}
}
