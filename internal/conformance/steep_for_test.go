package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/core"
)

// steepLoops makes up a workflow with for actions. What is read is made before it, wherever it stands: an action in a
// for action may read what was made of that action's own output.
type steepLoops struct {
	t      *rapid.T
	top    modelAction // its actions are the workflow's
	scopes []*loopScope
	next   int
}

// loopScope is the workflow, or a for action in it.
type loopScope struct {
	a             *modelAction
	outer         *loopScope
	single, lists []string // variables of one value, and of several
	ids           []string
	closed        bool // something waits for it: nothing more may be put into it
}

func (w *steepLoops) number(low, high int) int { return rapid.IntRange(low, high).Draw(w.t, "n") }

func (w *steepLoops) name(kind string) string {
	w.next++
	return fmt.Sprintf("%s%d", kind, w.next)
}

// visible gathers what an action in a scope may use.
func (s *loopScope) visible(of func(*loopScope) []string) []string {
	var out []string
	for ; s != nil; s = s.outer {
		out = append(out, of(s)...)
	}
	return out
}

func (s *loopScope) depth() int {
	if s.outer == nil {
		return 0
	}
	return 1 + s.outer.depth()
}

func (w *steepLoops) pick(list []string) string { return list[w.number(0, len(list)-1)] }

func (w *steepLoops) make() {
	w.scopes = []*loopScope{{a: &w.top, single: []string{"text"}, lists: []string{"words"}}}
	for range w.number(2, 9) {
		var open []*loopScope
		for _, s := range w.scopes {
			if !s.closed {
				open = append(open, s)
			}
		}
		s := open[w.number(0, len(open)-1)]
		switch kind := w.number(0, 9); {
		case kind < 3 && s.depth() < 2:
			w.loop(s)
		case kind < 5 && s.outer != nil && s.a.output == "" && len(s.a.actions) > 0:
			w.gather(s)
		default:
			w.execute(s)
		}
	}
}

func (w *steepLoops) execute(s *loopScope) {
	a := &modelAction{base: w.name("a"), fails: w.number(0, 11) == 0}
	a.id = a.base
	for range w.number(0, 2) {
		if id := w.pick(s.visible(func(s *loopScope) []string { return s.single })); !slices.Contains(a.inputs, id) {
			a.inputs = append(a.inputs, id)
		}
	}
	if lists := s.visible(func(s *loopScope) []string { return s.lists }); w.number(0, 3) == 0 {
		a.inputs = append(a.inputs, w.pick(lists))
	}
	w.depend(s, a)
	if w.number(0, 3) > 0 {
		a.output = w.name("v")
		if a.folder = w.number(0, 4) == 0; a.folder {
			s.lists = append(s.lists, a.output)
		} else {
			s.single = append(s.single, a.output)
		}
	}
	s.a.actions, s.ids = append(s.a.actions, a), append(s.ids, a.id)
}

// depend lets an action depend on another one.
func (w *steepLoops) depend(s *loopScope, a *modelAction) {
	ids := s.visible(func(s *loopScope) []string { return s.ids })
	if len(ids) == 0 || w.number(0, 3) > 0 {
		return
	}
	id := w.pick(ids)
	for _, other := range w.scopes {
		for in := s; in != nil; in = in.outer {
			if in == other && other.a.id == id {
				return // it stands in that one
			}
		}
	}
	a.needs = []string{id}
	for _, other := range w.scopes {
		for in := other; in != nil; in = in.outer {
			if in.a.id == id {
				other.closed = true
			}
		}
	}
}

func (w *steepLoops) loop(s *loopScope) {
	a := &modelAction{base: w.name("f"), loop: true, enum: w.name("e")}
	a.id = a.base
	a.input = w.pick(s.visible(func(s *loopScope) []string { return s.lists }))
	for in := s; in != nil; in = in.outer {
		if in.a.output == a.input {
			a.input = "words" // it would be a part of what it goes through
		}
	}
	w.depend(s, a)
	s.a.actions, s.ids = append(s.a.actions, a), append(s.ids, a.id)
	inner := &loopScope{a: a, outer: s, single: []string{a.enum}}
	w.scopes = append(w.scopes, inner)
	w.execute(inner)
}

// gather gives a for action an output.
func (w *steepLoops) gather(s *loopScope) {
	var made []string
	for _, a := range s.a.actions {
		if a.output != "" {
			made = append(made, a.output)
		}
	}
	if len(made) == 0 {
		return
	}
	s.a.yields, s.a.output = w.pick(made), w.name("all")
	s.outer.lists = append(s.outer.lists, s.a.output)
}

// text writes actions as a workflow has them.
func (a *modelAction) text() string {
	fields := []string{"id: " + a.id}
	if len(a.needs) > 0 {
		fields = append(fields, "dependsOn: ["+strings.Join(a.needs, ", ")+"]")
	}
	if a.loop {
		fields = append(fields, "type: for", "input: "+a.input, "enumerator: "+a.enum)
		if a.output != "" {
			fields = append(fields, "output: "+a.output, "yieldToOutput: "+a.yields)
		}
		return "{" + strings.Join(append(fields, "actions: ["+texts(a.actions)+"]"), ", ") + "}"
	}
	service := "file"
	if a.folder {
		service = "folder"
	}
	fields = append(fields, "type: execute", "service: "+service)
	var inputs []string
	for _, id := range a.inputs {
		inputs = append(inputs, "{id: in, var: "+id+"}")
	}
	if inputs != nil {
		fields = append(fields, "inputs: ["+strings.Join(inputs, ", ")+"]")
	}
	if a.output != "" {
		fields = append(fields, "outputs: [{id: out, var: "+a.output+"}]")
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func texts(actions []*modelAction) string {
	lines := make([]string, len(actions))
	for i, a := range actions {
		lines[i] = "\n  " + a.text()
	}
	return strings.Join(lines, ",")
}

const loopServices = `
- {id: file, path: ./file, runtime: other, parameters: [
    {id: in, type: input, cardinality: 0..n}, {id: out, type: output, cardinality: 0..1}]}
- {id: folder, path: ./folder, runtime: other, parameters: [
    {id: in, type: input, cardinality: 0..n},
    {id: out, type: output, cardinality: 0..1, dataType: directory}]}
`

// script lets every action take a second, and lets some fail.
func (a *modelAction) script(into map[string][]try) {
	for _, b := range a.actions {
		into[b.id] = []try{{run: time.Second}}
		if b.fails {
			into[b.id] = []try{{run: time.Second, kind: broken.kind, code: 1, msg: "no"}}
		}
		if b.folder {
			into[b.output+".files"] = []try{{output: `{"files":"tmp/one\ntmp/two"}`}}
		}
		b.script(into)
	}
}

// TestSteepForWaitsForLoop unrolls a for action over the output of another one, item by item, while what is in it waits
// for a third one, which waits for all of the first.
func TestSteepForWaitsForLoop(t *testing.T) {
	c := steepConversion(t, `
api: 4.7.0
name: w
vars: [{id: words, value: [x, y]}, {id: one}, {id: all}]
actions:
  - {id: f1, type: for, input: words, enumerator: e1, output: all, yieldToOutput: one, actions: [
      {id: a1, type: execute, service: file, inputs: [{id: in, var: e1}], outputs: [{id: out, var: one}]},
      {id: a2, type: execute, service: file, dependsOn: a1}]}
  - {id: f2, type: for, input: words, enumerator: e2, dependsOn: f1, actions: [
      {id: b, type: execute, service: file}]}
  - {id: f3, type: for, input: all, enumerator: e3, actions: [
      {id: c, type: execute, service: file, dependsOn: f2, inputs: [{id: in, var: e3}]}]}
`, loopServices, "")
	script := map[string][]try{}
	for _, name := range []string{"a1", "a2", "b", "c"} {
		script[name] = []try{{run: time.Second}}
	}
	perform(t, c, script, nil, func(s *stage, run *core.Run) {
		wantPhase(t, run, core.RunSucceeded)
		if got := run.EndedAt.Std().Sub(s.began); got != 4*time.Second {
			t.Errorf("it takes %s, not 4s: each action a second, one after the other", got)
		}
	}, func(s *stage) { s.slots = 1000 })
}

// TestSteepForGenerated compares workflows with for actions with a model of Steep's generator: how often each action is
// executed, what becomes of the submission, and how long it takes.
func TestSteepForGenerated(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &steepLoops{t: r}
		w.make()
		attempts := w.number(1, 2)
		m, well := newSteepModel(w.top.actions, attempts, true), newSteepModel(w.top.actions, attempts, false)
		text := "api: 4.7.0\nname: w\n"
		if attempts > 1 {
			text += "retries: {processChains: {maxAttempts: 2}}\n"
		}
		text += "vars: [{id: text, value: t}, {id: words, value: [x, y]}]\nactions: [" + texts(w.top.actions) + "]\n"
		r.Log(text)
		status := m.run()
		well.run()
		for chain := range m.made {
			if !well.made[chain] {
				r.Skip("what fails changes the borders of process chains, which are worked out beforehand here")
			}
		}
		script := map[string][]try{}
		w.top.script(script)
		c := steepConversion(r, text, loopServices, "")
		perform(t, c, script, nil, func(s *stage, run *core.Run) {
			times := map[string]int{}
			for _, task := range s.seen {
				if name, _, _ := strings.Cut(task.StepName, "["); !strings.Contains(name, ".") {
					times[name]++
				}
			}
			if got, want := counts(times), counts(m.times); got != want {
				r.Errorf("executed  %s\nin Steep  %s", got, want)
			}
			if got := s.steepStatus(run); got != status {
				r.Errorf("status %s, in Steep %s", got, status)
			}
			if got := run.EndedAt.Std().Sub(s.began); got != m.now {
				r.Errorf("it takes %s, in Steep %s", got, m.now)
			}
		}, func(s *stage) { s.slots = 1000 })
	})
}
