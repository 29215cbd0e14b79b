package steep

import (
	"strings"

	"github.com/pawl-dev/pawl/dialect/internal/form"
)

// maxExpanded bounds what includes blow a small workflow up to.
const maxExpanded = 20_000

// expander replaces include actions by the macros' actions.
type expander struct {
	macros map[string]*macro
	vars   []*variable // the variables of the macros, renamed
	count  int
	over   bool
}

// actions expands a list. Each include gives its macro's inner names its own ones, as $include$macro$name.
func (e *expander) actions(actions []*action) []*action {
	out := make([]*action, 0, len(actions))
	for _, a := range actions {
		if e.count++; e.count > maxExpanded {
			if !e.over {
				a.file.Fail(a.in.Pos(), "split the workflow", "the macros expand to more than %d actions", maxExpanded)
			}
			e.over = true
			return out
		}
		switch a.kind {
		case kindFor:
			b := *a
			b.actions = e.actions(a.actions)
			out = append(out, &b)
		case kindInclude:
			out = append(out, e.actions(e.include(a, e.macros[a.macro]))...)
		default:
			out = append(out, a)
		}
	}
	return out
}

// inclusion is the macro as one include action uses it.
type inclusion struct {
	prefix  string
	label   string
	inputs  map[string]*variable
	outputs map[string]*variable
	needs   []*variable
}

func (e *expander) include(a *action, m *macro) []*action {
	in := &inclusion{
		prefix: "$" + strings.TrimLeft(a.id, "$") + "$" + m.id + "$", inputs: map[string]*variable{},
		outputs: map[string]*variable{}, needs: a.dependsOn, label: a.label,
	}
	m.use()
	for _, p := range m.params {
		if !p.output && !p.value.IsZero() {
			in.inputs[p.id] = &variable{value: p.value, file: m.file, pos: p.pos}
		}
	}
	for _, p := range a.inputs {
		in.inputs[p.id] = p.v
	}
	for _, p := range a.outputs {
		in.outputs[p.id] = p.v
	}
	for _, v := range m.vars {
		e.vars = append(e.vars, in.rename(v))
	}
	return in.actions(m.actions)
}

// use notes the parts of an included macro that have no counterpart.
func (m *macro) use() {
	if m.used {
		return
	}
	m.used = true
	m.file.Documents(m.in, "name", "description")
	for _, p := range m.params {
		m.file.Documents(p.in, "name", "description")
	}
}

func (in *inclusion) rename(v *variable) *variable {
	if v == nil || v.id == "" {
		return v
	}
	renamed := *v
	renamed.id = in.prefix + v.id
	return &renamed
}

func (in *inclusion) read(v *variable) *variable {
	if v == nil || v.id == "" {
		return v
	}
	if given := in.inputs[v.id]; given != nil {
		return given
	}
	return in.rename(v)
}

func (in *inclusion) write(v *variable) *variable {
	if v == nil {
		return nil
	}
	if given := in.outputs[v.id]; given != nil {
		return given
	}
	return in.rename(v)
}

func (in *inclusion) actions(actions []*action) []*action {
	out := make([]*action, len(actions))
	for i, a := range actions {
		b := *a
		b.id, b.label = in.prefix+a.id, in.label+"."+a.label
		b.inputs = in.params(a.inputs, in.read)
		b.outputs = in.params(a.outputs, in.write)
		b.input, b.output, b.enumerator = in.read(a.input), in.write(a.output), in.rename(a.enumerator)
		b.yieldToOutput, b.yieldToInput = in.write(a.yieldToOutput), in.write(a.yieldToInput)
		b.dependsOn = nil
		for _, need := range a.dependsOn {
			b.dependsOn = append(b.dependsOn, in.rename(need))
		}
		b.dependsOn = append(b.dependsOn, in.needs...)
		b.actions = in.actions(a.actions)
		out[i] = &b
	}
	return out
}

func (in *inclusion) params(params []*param, change func(*variable) *variable) []*param {
	out := make([]*param, len(params))
	for i, p := range params {
		changed := *p
		changed.v = change(p.v)
		out[i] = &changed
	}
	return out
}

// targets finds the actions that a name in dependsOn means: one, or all those that replaced an include.
type targets struct {
	byID     map[string]*action
	includes map[string][]*action // the actions of each include, by the prefix of their names
}

func newTargets(actions []*action) *targets {
	t := &targets{map[string]*action{}, map[string][]*action{}}
	t.add(actions, "")
	return t
}

// add takes note of actions. Whatever depends on an include waits for the outermost actions that replaced it: a for
// action among them covers the actions in it.
func (t *targets) add(actions []*action, outer string) {
	for _, a := range actions {
		t.byID[a.id] = a
		for i := 1; i < len(a.id) && strings.HasPrefix(a.id, "$"); i++ {
			if a.id[i] == '$' && !strings.HasPrefix(outer, a.id[:i+1]) {
				t.includes[a.id[1:i]] = append(t.includes[a.id[1:i]], a)
			}
		}
		t.add(a.actions, a.id)
	}
}

func (t *targets) find(id string) []*action {
	if a := t.byID[id]; a != nil {
		return []*action{a}
	}
	return t.includes[strings.TrimLeft(id, "$")]
}

// literal writes a constant as an expression.
func literal(v any) string {
	return form.Expr(v)
}
