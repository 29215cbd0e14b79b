package flow

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// The keys of a matrix that are not axes.
const (
	matrixInclude = "include"
	matrixExclude = "exclude"
)

// axisName matches the name of an axis, which expressions use as item.NAME.
var axisName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// matrixOf reads a matrix: lists by the names of their axes, with combinations that are added or left out.
func matrixOf(p *parsing, step *tree.Node) tree.Value {
	n := step.Get("matrix")
	if n == nil || n.Kind == tree.Null {
		return tree.Value{}
	}
	if n.Kind != tree.Mapping {
		p.Fail(n.Pos, "write matrix: {os: [linux, mac], version: [1, 2]}",
			"matrix is a mapping from axes to lists, not %s", tree.Describe(n))
		return tree.Value{}
	}
	if step.Get("forEach") != nil {
		p.Fail(step.Key("matrix"), "keep one of them", "a step has forEach or matrix, not both")
	}
	axes := axesOf(n)
	if len(axes) == 0 {
		p.Fail(n.Pos, "add one: os: [linux, mac]", "the matrix has no axes")
	}
	for _, f := range n.Fields {
		switch {
		case f.Name == matrixInclude || f.Name == matrixExclude:
			combinations(p, f, axes)
		case !axisName.MatchString(f.Name):
			p.Fail(f.Pos, "", "the name of an axis, %q, has letters, digits and _ only, a letter or _ first: "+
				"expressions use it as item.NAME", tree.Shorten(f.Name))
		case f.Value.Kind == tree.List && len(f.Value.Items) == 0:
			p.Fail(f.Value.Pos, "", "the axis %s is empty, so the matrix has no combinations", f.Name)
		case f.Value.Kind != tree.List && !expr.IsExpression(f.Value):
			p.Fail(f.Value.Pos, "write "+f.Name+": [a, b]",
				"the axis %s is a list or one expression that gives a list, not %s", f.Name, tree.Describe(f.Value))
		}
	}
	return tree.ValueOf(n)
}

// listHint suggests what to write in place of a value that is not a list.
func listHint(n *tree.Node) string {
	if n.Kind == tree.Text && strings.Contains(n.Text, "${{") && !strings.Contains(n.Text, "}}") {
		return expr.EndIt
	}
	return `write a list, or an expression: "${{ input.pages }}"`
}

// combinations checks a list of combinations that are added or left out.
func combinations(p *parsing, f tree.NodeField, axes []string) {
	if expr.IsExpression(f.Value) || f.Value.Kind == tree.Null {
		return
	}
	if f.Value.Kind != tree.List {
		p.Fail(f.Value.Pos, "write "+f.Name+": [{"+axes1(axes)+": …}]", "%s is a list of combinations, not %s", f.Name,
			tree.Describe(f.Value))
		return
	}
	for _, item := range f.Value.Items {
		if item.Kind != tree.Mapping || len(item.Fields) == 0 {
			p.Fail(item.Pos, "write {"+axes1(axes)+": …}", "a combination is a mapping from axes to values, not %s",
				tree.Describe(item))
			continue
		}
		for _, key := range item.Fields {
			if f.Name == matrixExclude && !slices.Contains(axes, key.Name) {
				hint := nearest.Hint(key.Name, axes)
				if hint == "" {
					hint = "the axes are " + orList(axes)
				}
				p.Fail(key.Pos, hint, "the matrix has no axis %q", key.Name)
			}
		}
	}
}

func axes1(axes []string) string {
	if len(axes) == 0 {
		return "os"
	}
	return axes[0]
}

// axesOf returns the names of a matrix's axes, in their order.
func axesOf(matrix *tree.Node) []string {
	var axes []string
	for _, f := range matrix.Fields {
		if f.Name != matrixInclude && f.Name != matrixExclude && !slices.Contains(axes, f.Name) {
			axes = append(axes, f.Name)
		}
	}
	return axes
}

// hasList reports whether a step runs for several items of its own, or is a loop.
func hasList(s *Step) bool { return !s.ForEach.IsZero() || !s.Matrix.IsZero() }

// product returns the combinations of a matrix, in the way of GitHub Actions: the last axis changes first; those that
// exclude matches are left out; an entry of include is added to the combinations that it fits, or is a combination of
// its own.
func product(p *plan, matrix any) ([]any, error) {
	m, ok := matrix.(map[string]any)
	if !ok {
		return nil, p.list.Wrong("a matrix is expected, not %s", expr.TypeName(matrix))
	}
	combined := []map[string]any{{}}
	for _, axis := range p.axes {
		values, ok := expr.ListOf(m[axis])
		if !ok {
			return nil, p.list.Wrong("the axis %s is a list, not %s", axis, expr.TypeName(m[axis]))
		}
		if len(combined)*len(values) > maxItems {
			return nil, p.list.Wrong("the matrix has more than %d combinations", maxItems)
		}
		next := make([]map[string]any, 0, len(combined)*len(values))
		for _, c := range combined {
			for _, v := range values {
				next = append(next, with(c, axis, v))
			}
		}
		combined = next
	}
	excluded, err := entries(p, m, matrixExclude)
	if err != nil {
		return nil, err
	}
	combined = slices.DeleteFunc(combined, func(c map[string]any) bool {
		return slices.ContainsFunc(excluded, func(e map[string]any) bool { return fits(c, e, nil) })
	})
	included, err := entries(p, m, matrixInclude)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(combined)
	for _, e := range included {
		found := false
		for i, c := range combined {
			if fits(c, e, p.axes) {
				found = true
				for key, v := range e {
					out[i] = with(out[i], key, v)
				}
			}
		}
		if !found {
			out = append(out, e)
		}
	}
	list := make([]any, len(out))
	for i, c := range out {
		list[i] = c
	}
	return list, nil
}

// entries returns the combinations that a matrix adds or leaves out.
func entries(p *plan, m map[string]any, key string) ([]map[string]any, error) {
	if m[key] == nil {
		return nil, nil
	}
	list, ok := expr.ListOf(m[key])
	if !ok {
		return nil, p.list.Wrong("%s is a list of combinations, not %s", key, expr.TypeName(m[key]))
	}
	out := make([]map[string]any, len(list))
	for i, v := range list {
		if out[i], ok = v.(map[string]any); !ok {
			return nil, p.list.Wrong("%s is a list of mappings; number %d is %s", key, i+1, expr.TypeName(v))
		}
	}
	return out, nil
}

// fits reports whether a combination has the values of another one; of those only the axes count, where they are given.
func fits(c, e map[string]any, axes []string) bool {
	for key, v := range e {
		if axes != nil && !slices.Contains(axes, key) {
			continue
		}
		if have, there := c[key]; !there || !same(have, v) {
			return false
		}
	}
	return true
}

// same compares values of an expression and of a file, which may have numbers of other types.
func same(a, b any) bool {
	return reflect.DeepEqual(a, b) || fmt.Sprint(a) == fmt.Sprint(b) && expr.TypeName(a) == expr.TypeName(b)
}

func with(c map[string]any, key string, v any) map[string]any {
	out := make(map[string]any, len(c)+1)
	for k, old := range c {
		out[k] = old
	}
	out[key] = v
	return out
}
