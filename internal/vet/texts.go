package vet

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/policy"
)

// checkTexts checks the calls of package pawl, wherever they are: texts that the engine would refuse later, and
// services without limits.
func (c *checker) checkTexts(call *ast.CallExpr) {
	f := c.callee(call)
	if f == nil || !isPawl(f.Pkg()) {
		return
	}
	for i, arg := range call.Args {
		text, constant := c.text(arg)
		if !constant || i >= f.Signature().Params().Len() {
			continue
		}
		switch param := f.Signature().Params().At(i).Type(); {
		case isOf(f, "Retry", "RunRetry") && i == 0:
			if _, err := policy.DecodeRetry(text); err != nil {
				c.report(arg, texts, fmt.Sprintf("pawl.%s gets no policy that the engine can read: %v", f.Name(), err))
			}
		case isAmount(param):
			c.checkDuration(arg, f, text)
		case isOf(f, "Service") && c.services != nil && !slices.Contains(c.services, text):
			c.report(arg, texts, fmt.Sprintf("no Config.Services of this package has a service %q, so nothing limits "+
				"it: name it there", text))
		}
	}
}

// checkStepNames checks that the step name in an option is used elsewhere in the package, if the package has one that
// is spelt nearly the same. Names may be made when the program runs, so without such a similar name nothing is known.
func (c *checker) checkStepNames() {
	var options []ast.Expr
	for _, f := range c.pass.Files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, constant := c.text(n); constant {
					c.words[text]++
				}
			case *ast.CallExpr:
				if isOf(c.callee(n), "ForStep") && len(n.Args) > 0 {
					options = append(options, n.Args[0])
				}
				c.noteSteps(n)
			}
			return true
		})
	}
	for _, e := range options {
		name, constant := c.text(e)
		if !constant || slices.Contains(c.steps, name) || c.words[name] > 1 {
			continue
		}
		if hint := nearest.Hint(name, c.steps); hint != "" {
			c.report(e, texts, fmt.Sprintf("no step of this package has the name %q: %s", name, hint))
		}
	}
}

// noteSteps notes the texts that a call gets beside a Context.
func (c *checker) noteSteps(call *ast.CallExpr) {
	if !c.passesContext(call) {
		return
	}
	for _, arg := range call.Args {
		if text, constant := c.text(arg); constant {
			c.steps = append(c.steps, text)
		}
	}
}

// checkDuration checks a length of time in a text.
func (c *checker) checkDuration(arg ast.Expr, f *types.Func, text string) {
	d, err := duration.Parse(text)
	switch {
	case err != nil:
		c.report(arg, texts, fmt.Sprintf("pawl.%s gets no length of time: %v", f.Name(), err))
	case strings.Trim(text, "0123456789") == "" && d > 0:
		c.report(arg, texts, fmt.Sprintf("pawl.%s gets %q, which is milliseconds: write %sms or %ss", f.Name(), text,
			text, text))
	}
}

// text returns the value of a constant text.
func (c *checker) text(e ast.Expr) (text string, ok bool) {
	v := c.pass.TypesInfo.Types[e].Value
	if v == nil || v.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(v), true
}

// isAmount reports whether a parameter takes a length of time, as a text or a time.Duration.
func isAmount(t types.Type) bool {
	p, ok := t.(*types.TypeParam)
	return ok && named(p.Constraint(), pawlPath, "Amount")
}

// collectServices notes the names of Config.Services. Nothing is known if one is not written as a literal.
func (c *checker) collectServices(lit *ast.CompositeLit) {
	if !named(c.pass.TypesInfo.TypeOf(lit), pawlPath, "Config") || c.dynamic {
		return
	}
	for _, e := range lit.Elts {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok || types.ExprString(field.Key) != "Services" {
			continue
		}
		all, ok := ast.Unparen(field.Value).(*ast.CompositeLit)
		if !ok {
			c.services, c.dynamic = nil, true
			return
		}
		for _, entry := range all.Elts {
			name, constant := c.text(entry.(*ast.KeyValueExpr).Key)
			if !constant {
				c.services, c.dynamic = nil, true
				return
			}
			c.services = append(c.services, name)
		}
	}
}

// encoded are the functions and types of package pawl whose type arguments are written by a codec.
var encoded = []string{"Define", "Step", "Async", "Event", "Update", "Handle", "HandlerRef", "Handler", "Workflow"}

// checkEncoded reports types that no codec can write.
func (c *checker) checkEncoded() {
	for _, id := range sortedIdents(c.pass.TypesInfo.Instances) {
		of := c.pass.TypesInfo.Instances[id]
		obj := c.pass.TypesInfo.Uses[id]
		if obj == nil || !isPawl(obj.Pkg()) || !slices.Contains(encoded, obj.Name()) {
			continue
		}
		for t := range of.TypeArgs.Types() {
			if what := unwritable(t, nil); what != "" {
				c.report(id, texts, fmt.Sprintf("pawl.%s has a value of type %s, and %s cannot be recorded: leave it "+
					"out, or give the type a MarshalJSON", obj.Name(),
					types.TypeString(t, types.RelativeTo(c.pass.Pkg)), what))
				break
			}
		}
	}
}

// unwritable names the part of a type that cannot be written, or returns "" if all can.
func unwritable(t types.Type, above []types.Type) string {
	if slices.ContainsFunc(above, func(o types.Type) bool { return types.Identical(o, t) }) || writesItself(t) {
		return ""
	}
	above = append(above, t)
	switch u := types.Unalias(t).Underlying().(type) {
	case *types.Chan:
		return "a channel"
	case *types.Signature:
		return "a function"
	case *types.Basic:
		if u.Info()&types.IsComplex != 0 {
			return "a complex number"
		}
	case *types.Pointer:
		return unwritable(u.Elem(), above)
	case *types.Slice:
		return unwritable(u.Elem(), above)
	case *types.Array:
		return unwritable(u.Elem(), above)
	case *types.Map:
		return unwritable(u.Elem(), above)
	case *types.Struct:
		for i := range u.NumFields() {
			if f := u.Field(i); f.Exported() && reflect.StructTag(u.Tag(i)).Get("json") != "-" {
				if what := unwritable(f.Type(), above); what != "" {
					return what + " (in the field " + f.Name() + ")"
				}
			}
		}
	}
	return ""
}

// writesItself reports whether a type defines itself how it is written.
func writesItself(t types.Type) bool {
	for _, name := range []string{"MarshalJSON", "MarshalText", "MarshalBinary"} {
		if m, _, _ := types.LookupFieldOrMethod(t, true, nil, name); m != nil {
			return true
		}
	}
	return false
}
