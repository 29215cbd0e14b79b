package sim

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// known is what is recorded of a step.
type known struct {
	spec   *core.StepSpec
	phase  core.StepPhase
	output []byte
	closed bool
	asked  bool // by a walk
	since  set  // the failed steps that the body had seen when it decided this one
}

// knowledge is what is recorded of a run.
type knowledge struct {
	steps    map[string]*known
	recorded map[string][]*known // by branch, in the order in which they were decided; marks stand in no order
}

func newKnowledge(steps []engine.Step) *knowledge {
	kn := &knowledge{steps: map[string]*known{}, recorded: map[string][]*known{}}
	for i := range steps {
		s := &steps[i]
		if s.Dropped || s.Spec.Hook {
			continue
		}
		k := &known{spec: s.Spec, phase: s.Phase, output: s.Output, closed: s.Phase.Closed()}
		kn.steps[s.Spec.Name] = k
		if s.Spec.Type != body.TypeMark {
			prefix := branchOf(s.Spec.Name)
			kn.recorded[prefix] = append(kn.recorded[prefix], k)
		}
	}
	return kn
}

// branchOf is the part of a step's key that names its branch.
func branchOf(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }

// walk is one walk through a program, from its beginning, over what is recorded: it goes as far as that leads and
// decides what is new on the way. It is what the checks expect of a body, and shares nothing with what executes
// bodies.
type walk struct {
	*knowledge
	decided  []core.Command
	followed map[string]int // by branch: how much of what is recorded it asked for
	changed  string         // what is recorded and what the program asks for instead
}

// progress is how far a branch came.
type progress uint8

const (
	waits progress = iota
	goesOn
	fails
)

// line is one branch of a program's execution.
type line struct {
	prefix string
	seen   uint32 // what it saw last
	begun  map[string]*known
	races  int
	bad    set      // the failed steps that it knows of
	from   []string // the steps for which it fails
}

// set is one of keys. It is copied before it grows, so that several may share it.
type set map[string]bool

func (s set) with(others ...set) set {
	out := set{}
	maps.Copy(out, s)
	for _, other := range others {
		maps.Copy(out, other)
	}
	return out
}

// walkThrough walks through the program and closes the run where it comes to its end.
func (p *program) walkThrough(kn *knowledge, input []byte) *walk {
	w := &walk{knowledge: kn, followed: map[string]int{}}
	root := &line{begun: map[string]*known{}}
	if at := w.run(root, p.main); at != waits {
		c := p.close(at, root.seen, input)
		c.From = root.from
		w.decided = append(w.decided, c)
	}
	return w
}

// run lets a branch do its deeds. One that ends has asked for all that is recorded of it.
func (w *walk) run(st *line, deeds []deed) progress {
	at := w.do(st, deeds)
	if n := w.followed[st.prefix]; at != waits && n < len(w.recorded[st.prefix]) {
		w.changes(w.recorded[st.prefix][n].spec, "the end of the branch")
		return waits
	}
	return at
}

func (w *walk) changes(was *core.StepSpec, is string) {
	if w.changed == "" {
		w.changed = fmt.Sprintf("%s is recorded, the body asks for %s", specText(was), is)
	}
}

func (w *walk) do(st *line, deeds []deed) progress {
	for i := range deeds {
		if at := w.one(st, &deeds[i]); at != goesOn {
			return at
		}
	}
	return goesOn
}

func (w *walk) one(st *line, d *deed) progress {
	switch d.kind {
	case doBranches:
		return w.branches(st, d)
	case doRace:
		return w.race(st, d)
	case doVersion:
		w.mark("version/"+d.name, func() int { return 2 })
		return goesOn
	case doJoin:
		return w.outcome(st, d, st.begun[d.name])
	case doBegin, doStep:
	}
	k := w.ask(st, d)
	switch {
	case k == nil:
		return waits
	case d.kind == doBegin:
		st.begun[d.name] = k
		return goesOn
	default:
		return w.outcome(st, d, k)
	}
}

// ask finds the branch's next recorded step, or decides a new one; nil: something else is recorded.
func (w *walk) ask(st *line, d *deed) *known {
	spec := d.spec
	spec.Name = st.prefix + d.stepName(st.seen)
	if n := w.followed[st.prefix]; n < len(w.recorded[st.prefix]) {
		k := w.recorded[st.prefix][n]
		if !sameStep(k.spec, &spec) {
			w.changes(k.spec, specText(&spec))
			return nil
		}
		w.followed[st.prefix]++
		k.asked, k.since = true, st.bad
		return k
	}
	k := w.steps[spec.Name]
	if k == nil {
		k = &known{spec: &spec}
		w.steps[spec.Name] = k
		w.decided = append(w.decided, core.Schedule{Spec: &spec, Item: -1, Group: core.NoStep, For: d.length})
	}
	k.asked, k.since = true, st.bad
	return k
}

// sameStep reports whether two steps are the same, as far as changed code is told by it.
func sameStep(a, b *core.StepSpec) bool {
	return a.Kind == b.Kind && a.Name == b.Name && a.Type == b.Type && a.Event == b.Event && a.Queue == b.Queue
}

func specText(s *core.StepSpec) string {
	return fmt.Sprintf("%s %q (%s%s on %q)", s.Kind, s.Name, s.Type, s.Event, s.Queue)
}

// outcome waits for a step and takes in what became of it.
func (w *walk) outcome(st *line, d *deed, k *known) progress {
	if !k.closed {
		return waits
	}
	st.seen = see(st.seen, k.phase, k.output)
	st.bad = st.bad.with(k.since)
	if k.phase == core.StepFailed || k.phase == core.StepTimedOut || k.phase == core.StepCancelled {
		st.bad[k.spec.Name] = true
	}
	at := d.after(k.phase)
	if at == fails {
		st.from = append(st.from, k.spec.Name)
	}
	if at != waits {
		return at
	}
	return w.do(st, d.then)
}

func (w *walk) part(st *line, d *deed, i int) (*line, progress) {
	part := &line{prefix: st.prefix + d.partName(i) + "/", seen: st.seen, begun: map[string]*known{}, bad: st.bad}
	at := w.run(part, d.parts[i])
	return part, at
}

func (w *walk) branches(st *line, d *deed) progress {
	all, seen, bad := goesOn, uint32(0), st.bad
	var from []string
	for i := range d.parts {
		part, at := w.part(st, d, i)
		bad, from = bad.with(part.bad), append(from, part.from...)
		seen = seen*31 + part.seen
		if at == waits || (at == fails && all == goesOn) {
			all = at
		}
	}
	if all != waits {
		st.seen, st.bad, st.from = seen, bad, append(st.from, from...)
	}
	return all
}

// race waits for the first of two branches. Which one that was is noted.
func (w *walk) race(st *line, d *deed) progress {
	var parts [2]*line
	var at [2]progress
	for i := range parts {
		parts[i], at[i] = w.part(st, d, i)
	}
	key := st.prefix + "any"
	if st.races++; st.races > 1 {
		key += "#" + strconv.Itoa(st.races)
	}
	first, ok := w.mark(key, func() int {
		for i := range at {
			if at[i] != waits {
				return i
			}
		}
		return -1
	})
	if !ok || at[first] == waits {
		return waits
	}
	st.bad = st.bad.with(parts[first].bad)
	w.steps[key].since = st.bad
	st.seen = parts[first].seen + uint32(first)
	return goesOn
}

// mark finds a recorded decision of the body's, or decides; false: not now.
func (w *walk) mark(key string, decide func() int) (int, bool) {
	if k := w.steps[key]; k != nil {
		k.asked = true
		n, err := strconv.Atoi(string(k.output))
		return n, err == nil
	}
	n := decide()
	if n < 0 {
		return 0, false
	}
	spec := &core.StepSpec{Name: key, Def: -1, Type: body.TypeMark}
	value := strconv.AppendInt(nil, int64(n), 10)
	w.steps[key] = &known{spec: spec, phase: core.StepSucceeded, output: value, closed: true, asked: true}
	w.decided = append(w.decided, core.Mark{Spec: spec, Output: value})
	return n, true
}
