package steep

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/flow"
)

// launcher makes the folders of the outputs, up to --, and becomes the service's program.
const launcher = `while [ "$1" != -- ]; do mkdir -p "$1" || exit; shift; done; shift; exec "$@"`

// execStep runs a service's program.
func (s *scope) execStep(u *unit, a *action) {
	svc := s.services[a.service]
	u.step.Description = svc.description
	u.step.Policy = s.policy(a, svc)
	args := []argument{word(svc.path)}
	var folders, counts []argument
	for _, p := range svc.params {
		given, list := 0, a.inputs
		count := &counter{}
		if p.output {
			list = a.outputs
		}
		for _, in := range list {
			if in.id != p.id {
				continue
			}
			given++
			if p.output {
				made, folder := s.output(u, p, in, given)
				args = append(args, labelled(p, made)...)
				folders = append(folders, argument{value: folder})
				continue
			}
			v := s.input(u, p, in)
			count.add(v)
			args = append(args, s.arguments(p, v)...)
		}
		counts = append(counts, count.check(a, svc, p)...)
		if given == 0 && !p.output && p.low == 1 && p.high == 1 && !p.value.IsZero() {
			args = append(args, s.arguments(p, constantValue(p.value))...)
		}
	}
	if len(folders) > 0 {
		start := append([]argument{word("/bin/sh"), word("-c"), word(launcher), word(svc.id)}, folders...)
		args = append(append(start, word("--")), args...)
	}
	args = append(args, counts...)
	u.step.Action = &flow.Exec{Command: command(args)}
}

func labelled(p *serviceParam, v *value) []argument {
	if p.label == "" {
		return []argument{{value: v}}
	}
	return []argument{word(p.label), {value: v}}
}

// output names the file of an output, and the folder that must exist.
func (s *scope) output(u *unit, p *serviceParam, out *param, nth int) (file, folder *value) {
	s.paths = true
	name := u.step.Name + "." + p.id
	if nth > 1 {
		name += fmt.Sprintf(".%d", nth)
	}
	name += p.suffix
	file = &value{shape: shapeOne, needs: []string{u.step.Name}}
	if strings.HasPrefix(out.prefix, "/") {
		file.parts = []part{{text: out.prefix}, {expr: "run.id"}, {text: "." + name}}
	} else {
		base := tmpPath
		if out.store {
			base = outPath
		}
		file.parts = []part{{expr: "input." + base}, {text: "/"}, {expr: "run.id"}, {text: "/" + out.prefix + name}}
	}
	folder = file.folder()
	switch p.dataType {
	case typeDirectory:
		file.kind, folder = directory, file
	case typeFileOrEmptyList:
		file.kind = optionalFile
	}
	s.known[out.v.id] = file
	return file, folder
}

// counter counts the values that a parameter is given.
type counter struct {
	known int
	lists []string // expressions of lists
}

func (c *counter) add(v *value) {
	switch {
	case !v.constant.IsZero():
		c.known += len(flat(v.constant))
	case v.shape == shapeOne:
		c.known++
	default:
		c.lists = append(c.lists, "len(flatten(["+v.expression()+"]))")
	}
}

// check adds nothing to the command where what is counted when the step begins is within the parameter's cardinality,
// and fails the step where it is not.
func (c *counter) check(a *action, svc *service, p *serviceParam) []argument {
	if len(c.lists) == 0 || p.low == 0 && p.high == unbounded {
		return nil
	}
	n := "(" + strings.Join(append(c.lists, strconv.Itoa(c.known)), " + ") + ")"
	test := fmt.Sprintf("%s >= %d", n, p.low)
	if p.high != unbounded {
		test += fmt.Sprintf(" && %s <= %d", n, p.high)
	}
	before := fmt.Sprintf("%s: parameter %q of service %q is given ", a.file.Place(a.in.Pos()), p.id, svc.id)
	after := " times; its cardinality is " + p.bounds()
	return []argument{{list: true, value: &value{
		expr: fmt.Sprintf("%s ? [] : fail(%s + string(%s) + %s)", test, literal(before), n, literal(after)),
	}}}
}

// input gives the value that a parameter gets of an input.
func (s *scope) input(u *unit, p *serviceParam, in *param) *value {
	v := s.lookup(in.v)
	switch {
	case p.dataType == typeDirectory && v.kind == directory: // the folder itself
	case p.dataType == typeDirectory && v.shape != shapeOne:
		in.v.file.Fail(in.v.pos, "give it the output of an action that makes a directory, or a path",
			"the input %q is a directory, and variable %q holds a list of files", in.id, in.v.id)
	default:
		v = s.contents(in.v)
	}
	u.needs(v.needs...)
	return v
}

// arguments writes a value as a command line has it: each of its texts after the label. Of true or false there is the
// label alone, or nothing.
func (s *scope) arguments(p *serviceParam, v *value) []argument {
	if !v.constant.IsZero() {
		var args []argument
		for _, item := range flat(v.constant) {
			text, _ := item.(string)
			if p.dataType != typeBoolean {
				args = append(args, labelled(p, &value{constant: flow.V(text), shape: shapeOne})...)
			} else if p.label != "" && truth[strings.ToLower(text)] {
				args = append(args, word(p.label))
			}
		}
		return args
	}
	label := literal(p.label)
	expr := v.expression()
	switch {
	case p.dataType == typeBoolean && p.label == "":
		return nil
	case p.dataType == typeBoolean:
		expr = fmt.Sprintf(`map(filter(flatten([%s]), lower(string(#)) in ["true", "yes", "on", "y", "t"]), %s)`,
			expr, label)
	case v.shape == shapeOne:
		return labelled(p, v)
	case p.label == "" && v.shape == shapeMany:
	case p.label == "":
		expr = "flatten([" + expr + "])"
	default:
		expr = fmt.Sprintf("flatten(map(flatten([%s]), [%s, #]))", expr, label)
	}
	return []argument{{value: &value{expr: expr}, list: true}}
}

// truth are the ways to say true.
var truth = map[string]bool{"true": true, "yes": true, "on": true, "y": true, "t": true}

// chainStep starts the flow of a process chain, whose runs are retried.
func (s *scope) chainStep(u *unit) {
	inner := s.converter.scope(s, s.flows.Name(s.doc.Name+"."+u.step.Name), u.actions)
	retry := *s.chains
	inner.doc.Retry = &retry
	inner.all(false)
	outputs := map[string]any{}
	for _, a := range u.actions {
		for _, id := range makes(a) {
			made := inner.known[id]
			outputs[id] = made.template()
			s.known[id] = &value{
				expr:  "steps[" + literal(u.step.Name) + "].output[" + literal(id) + "]",
				shape: made.shape, kind: made.kind, needs: []string{u.step.Name},
			}
		}
	}
	if len(outputs) > 0 {
		inner.doc.Output = flow.V(outputs)
	}
	s.children = append(s.children, inner.doc)
	u.step.Action = &flow.Child{Name: flow.V(inner.doc.Name), Input: flow.V(s.hand(u, inner))}
}

// hand puts together what a child flow is given: the folders, and the variables that it reads.
func (s *scope) hand(u *unit, inner *scope) map[string]any {
	vars := map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(inner.imports)) {
		vars[id] = inner.imports[id].template()
		u.needs(inner.imports[id].needs...)
	}
	u.needs(inner.outerNeeds...)
	s.paths = true
	input := map[string]any{tmpPath: "${{ input." + tmpPath + " }}", outPath: "${{ input." + outPath + " }}"}
	if len(vars) > 0 {
		input["vars"] = vars
	}
	return input
}
