package steep

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/flow"
)

// launcher makes the folders of the outputs, up to --, and becomes the service's program.
const launcher = `while [ "$1" != -- ]; do mkdir -p "$1" || exit; shift; done; shift; exec "$@"`

// execStep runs a service's program. hand gives a value as the step can read it.
func (s *scope) execStep(u *unit, step *flow.Step, a *action, hand func(id string, v *value) *value) {
	svc := s.services[a.service]
	step.Description = svc.description
	step.Policy = s.policy(a, svc)
	args := []argument{word(svc.path)}
	var folders, counts []argument
	for _, p := range svc.params {
		given := 0
		count := &counter{}
		for i, in := range a.params(p.output) {
			if in.id != p.id {
				continue
			}
			given++
			if p.output {
				made := hand(in.v.id, s.known[in.v.id])
				args = append(args, labelled(p, made)...)
				if p.dataType != typeDirectory {
					made = hand(in.v.id+"/", s.known[in.v.id].folder())
				}
				folders = append(folders, argument{value: made})
				continue
			}
			v := hand(in.v.id+"#"+strconv.Itoa(i), s.input(u, p, in))
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
	step.Action = &flow.Exec{Command: command(args)}
}

func (a *action) params(output bool) []*param {
	if output {
		return a.outputs
	}
	return a.inputs
}

func labelled(p *serviceParam, v *value) []argument {
	if p.label == "" {
		return []argument{{value: v}}
	}
	return []argument{word(p.label), {value: v}}
}

// outputs names the files of an action's outputs.
func (s *scope) outputs(u *unit, a *action, name string) {
	for _, p := range s.services[a.service].params {
		nth := 0
		for _, out := range a.outputs {
			if out.id == p.id && p.output {
				nth++
				s.known[out.v.id] = s.output(u, p, out, name, nth)
			}
		}
	}
}

// output names the file of an output. In a for action the names end with the number of the iteration.
func (s *scope) output(u *unit, p *serviceParam, out *param, name string, nth int) *value {
	s.paths = true
	name += "." + p.id
	if nth > 1 {
		name += fmt.Sprintf(".%d", nth)
	}
	file := &value{shape: shapeOne, maker: u}
	if strings.HasPrefix(out.prefix, "/") {
		file.parts = []part{{text: out.prefix}, {expr: "run.id"}, {text: "." + name}}
	} else {
		base := tmpPath
		if out.store {
			base = outPath
		}
		file.parts = []part{{expr: "input." + base}, {text: "/"}, {expr: "run.id"}, {text: "/" + out.prefix + name}}
	}
	if last := &file.parts[len(file.parts)-1]; u.loop == nil {
		last.text += p.suffix
	} else {
		last.text += "."
		file.parts = append(file.parts, part{expr: "string(steps[" + literal(u.loop.step.Name) + "].index)"})
		if p.suffix != "" {
			file.parts = append(file.parts, part{text: p.suffix})
		}
	}
	switch p.dataType {
	case typeDirectory:
		file.kind = directory
	case typeFileOrEmptyList:
		file.kind = optionalFile
	}
	return file
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

// check leaves the command as it is if the number of values, counted when the step begins, is within the parameter's
// cardinality, and otherwise makes the step fail.
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

// input gives the value that a parameter gets of an input. What the same process chain has made is handed over as its
// path.
func (s *scope) input(u *unit, p *serviceParam, in *param) *value {
	v := s.lookup(in.v)
	switch {
	case v.kind == directory && s.sameChain(u, in.v):
	case p.dataType == typeDirectory && v.kind == directory: // the folder itself
	case p.dataType == typeDirectory && v.shape != shapeOne:
		in.v.file.Fail(in.v.pos, "give it the output of an action that makes a directory, or a path",
			"the input %q is a directory, and variable %q holds a list of files", in.id, in.v.id)
	default:
		v = s.inside(s.contents(in.v), u.loop)
	}
	u.needs(s.needs(v, u)...)
	return v
}

// arguments writes a value for a command line: each of its texts after the label. For true or false it writes the label
// alone, or nothing.
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

// truth are the texts that mean true.
var truth = map[string]bool{"true": true, "yes": true, "on": true, "y": true, "t": true}

// chainStep starts the flow of a process chain, whose runs are retried. Its actions follow one another. What they read
// and the names of the files that they write are handed over, so a further run writes the same files.
func (s *scope) chainStep(u *unit) {
	doc := &flow.Document{File: s.file.Name(), Name: s.flows.Name(s.doc.Name + "." + u.step.Name)}
	doc.Defaults.Priority = s.w.priority
	retry := *s.chains
	doc.Retry = &retry
	vars := map[string]any{}
	hand := func(id string, v *value) *value {
		if !v.constant.IsZero() {
			return v
		}
		vars[id] = v.template()
		return &value{expr: "input.vars[" + literal(id) + "]", shape: v.shape, kind: v.kind}
	}
	var names form.Namer
	for i, a := range u.actions {
		step := &flow.Step{Name: names.Name(a.label), Place: a.file.Place(a.in.Pos())}
		if i > 0 {
			step.Needs = []string{doc.Steps[i-1].Name}
		}
		s.execStep(u, step, a, hand)
		doc.Steps = append(doc.Steps, step)
	}
	s.children = append(s.children, doc)
	input := map[string]any{}
	if len(vars) > 0 {
		input["vars"] = vars
	}
	u.step.Action = &flow.Child{Name: flow.V(doc.Name), Input: flow.V(input)}
}
