package sim

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// typeMark is the type of a step that only notes what a body has decided.
const typeMark = "mark"

// known is what a body knows of a step.
type known struct {
	spec      *core.StepSpec
	id        core.StepID
	phase     core.StepPhase
	endedAt   core.Time
	output    []byte
	closed    bool
	confirmed bool // its end is durable, or on its way with the news of it
	asked     bool // by a walk
}

// knowledge is what a body knows of its run.
type knowledge struct {
	steps    map[string]*known
	recorded map[string][]*known // by strand, in the order in which they were decided; marks stand in no order
}

func newKnowledge(steps []engine.Step) *knowledge {
	kn := &knowledge{steps: map[string]*known{}, recorded: map[string][]*known{}}
	for i := range steps {
		s := &steps[i]
		if s.Dropped || s.Spec.Hook {
			continue
		}
		k := &known{spec: s.Spec, id: s.ID, phase: s.Phase, endedAt: s.EndedAt, output: s.Output, closed: s.Phase.Closed(), confirmed: s.Phase.Closed()}
		kn.steps[s.Spec.Name] = k
		if s.Spec.Type != typeMark {
			prefix := strandOf(s.Spec.Name)
			kn.recorded[prefix] = append(kn.recorded[prefix], k)
		}
	}
	return kn
}

// strandOf is the part of a step's key that names its strand.
func strandOf(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }

// walk is one walk through a program, from its beginning, over what is known: it goes as far as that leads and decides what is
// new on the way.
type walk struct {
	*knowledge
	slow     func(strand string) bool // whether a strand computes still instead of deciding something new; nil: none does
	lags     bool                     // one does
	decided  []core.Command
	came     []core.StepID  // recorded local steps that are open and that no walk asked for before
	followed map[string]int // by strand: how much of what is recorded it asked for
	changed  string         // what is recorded and what the program asks for instead
}

// progress is how far a strand came.
type progress uint8

const (
	waits progress = iota
	goesOn
	fails
)

// strand is one line of a program's execution.
type strand struct {
	prefix string
	seen   uint32 // what it saw last
	begun  map[string]*known
}

// walkThrough walks through the program and closes the run where it comes to its end.
func (p *program) walkThrough(kn *knowledge, input []byte, slow func(string) bool) *walk {
	w := &walk{knowledge: kn, slow: slow, followed: map[string]int{}}
	root := &strand{begun: map[string]*known{}}
	at := w.run(root, p.main)
	if at == waits {
		return w
	}
	if slow != nil && slow("") {
		w.lags = true
		return w
	}
	var in struct {
		N int `json:"n"`
	}
	_ = json.Unmarshal(input, &in)
	c := core.Close{Phase: core.RunSucceeded, Output: fmt.Appendf(nil, `{"seen":%d}`, root.seen)}
	switch {
	case at == fails || p.fails:
		c = core.Close{Phase: core.RunFailed, Failure: &policy.Failure{Kind: policy.KindFailed, Type: "body", Message: strconv.Itoa(int(root.seen))}}
	case p.again && in.N > 4:
		c = core.Close{Phase: core.RunContinued, Output: fmt.Appendf(nil, `{"n":%d,"list":[]}`, in.N-1)}
	}
	w.decided = append(w.decided, c)
	return w
}

// run lets a strand do its deeds. One that ends has asked for all that is recorded of it.
func (w *walk) run(st *strand, deeds []deed) progress {
	at := w.do(st, deeds)
	if n := w.followed[st.prefix]; at != waits && n < len(w.recorded[st.prefix]) {
		w.changes(w.recorded[st.prefix][n].spec, "the end of the strand")
		return waits
	}
	return at
}

func (w *walk) changes(was *core.StepSpec, is string) {
	if w.changed == "" {
		w.changed = fmt.Sprintf("%s is recorded, the body asks for %s", specText(was), is)
	}
}

func (w *walk) do(st *strand, deeds []deed) progress {
	for i := range deeds {
		if at := w.one(st, &deeds[i]); at != goesOn {
			return at
		}
	}
	return goesOn
}

func (w *walk) one(st *strand, d *deed) progress {
	switch d.kind {
	case doStrands:
		return w.strands(st, d)
	case doRace:
		return w.race(st, d)
	case doVersion:
		_, ok := w.mark(st, st.prefix+d.name+"!", func() int { return 2 })
		if !ok {
			return waits
		}
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

// ask finds the strand's next recorded step, or decides a new one; nil: not now.
func (w *walk) ask(st *strand, d *deed) *known {
	key := st.prefix + d.name
	if d.told {
		key += "." + strconv.Itoa(int(st.seen%3))
	}
	spec := d.spec
	spec.Name = key
	if n := w.followed[st.prefix]; n < len(w.recorded[st.prefix]) {
		k := w.recorded[st.prefix][n]
		if !sameStep(k.spec, &spec) {
			w.changes(k.spec, specText(&spec))
			return nil
		}
		w.followed[st.prefix]++
		if !k.asked && !k.closed && spec.Type == typeLocal {
			w.came = append(w.came, k.id)
		}
		k.asked = true
		return k
	}
	k := w.steps[key]
	switch {
	case k != nil:
	case w.slow != nil && w.slow(st.prefix):
		w.lags = true
		return nil
	default:
		k = &known{spec: &spec, id: core.NoStep}
		w.steps[key] = k
		w.decided = append(w.decided, core.Schedule{Spec: &spec, Item: -1, Group: core.NoStep, For: d.length})
	}
	k.asked = true
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
func (w *walk) outcome(st *strand, d *deed, k *known) progress {
	if !k.closed {
		return waits
	}
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%d %s %s", st.seen, k.phase, k.output)
	st.seen = h.Sum32()
	switch {
	case k.phase == core.StepSucceeded:
		return goesOn
	case d.heed == heedAll || (d.heed == heedLate && k.phase != core.StepTimedOut):
		return fails
	default:
		return w.do(st, d.then)
	}
}

func (w *walk) part(st *strand, d *deed, i int) (*strand, progress) {
	part := &strand{prefix: st.prefix + d.name + "[" + strconv.Itoa(i) + "]/", seen: st.seen, begun: map[string]*known{}}
	at := w.run(part, d.parts[i])
	return part, at
}

func (w *walk) strands(st *strand, d *deed) progress {
	all, seen := goesOn, uint32(0)
	for i := range d.parts {
		part, at := w.part(st, d, i)
		seen = seen*31 + part.seen
		if at == waits || (at == fails && all == goesOn) {
			all = at
		}
	}
	if all != waits {
		st.seen = seen
	}
	return all
}

// race waits for the first of two strands. Which one that was is noted.
func (w *walk) race(st *strand, d *deed) progress {
	var parts [2]*strand
	var at [2]progress
	for i := range parts {
		parts[i], at[i] = w.part(st, d, i)
	}
	first, ok := w.mark(st, st.prefix+d.name+"?", func() int {
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
	st.seen = parts[first].seen + uint32(first)
	return goesOn
}

// mark finds a recorded decision of the body's, or decides; false: not now.
func (w *walk) mark(st *strand, key string, decide func() int) (int, bool) {
	if k := w.steps[key]; k != nil {
		k.asked = true
		n, err := strconv.Atoi(string(k.output))
		return n, err == nil
	}
	n := decide()
	if n < 0 {
		return 0, false
	}
	if w.slow != nil && w.slow(st.prefix) {
		w.lags = true
		return 0, false
	}
	spec := &core.StepSpec{Name: key, Def: -1, Type: typeMark}
	value := strconv.AppendInt(nil, int64(n), 10)
	w.steps[key] = &known{spec: spec, id: core.NoStep, phase: core.StepSucceeded, output: value, closed: true, asked: true}
	w.decided = append(w.decided, core.Mark{Spec: spec, Output: value})
	return n, true
}
