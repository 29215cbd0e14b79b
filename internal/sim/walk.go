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

// known is the recorded state of a step.
type known struct {
	id     int // the number among the recorded steps, in their order
	spec   *core.StepSpec
	phase  core.StepPhase
	output []byte
	closed bool
	kept   bool // it is found by its name, whenever the program asks for it
	asked  bool // a walk has asked for it
	since  set  // the failed steps that the body had seen when it decided this one
}

// knowledge is the recorded state of a run.
type knowledge struct {
	steps    map[string]*known
	recorded map[string][]*known // the steps of each branch in the order of the decisions, without recorded values
	renamed  bool                // the run was decided by the changed code, see codeChange
}

func newKnowledge(steps []engine.Step) *knowledge {
	kn := &knowledge{steps: map[string]*known{}, recorded: map[string][]*known{}}
	for i := range steps {
		s := &steps[i]
		if s.Dropped || s.Spec.Hook {
			continue
		}
		kn.add(&known{
			id: int(s.ID), spec: s.Spec, phase: s.Phase, output: s.Output, closed: s.Phase.Closed(), kept: s.Kept,
		})
	}
	return kn
}

// add adds a record after all others.
func (kn *knowledge) add(k *known) {
	kn.steps[k.spec.Name] = k
	if k.spec.Type != body.TypeMark && !k.kept {
		prefix := branchOf(k.spec.Name)
		kn.recorded[prefix] = append(kn.recorded[prefix], k)
	}
	kn.renamed = kn.renamed || isRenamed(k.spec)
}

// branchOf returns the part of a step's key that names its branch.
func branchOf(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }

// walk is one walk through a program, from the beginning. It uses the recorded results while there are any, and decides
// new steps after that. The checker expects the same decisions from a body. The walk shares no code with the runtime
// that executes bodies.
type walk struct {
	*knowledge
	decided  []core.Command
	followed map[string]int // how many recorded steps each branch has asked for
	changed  string         // the recorded step, and the one that the program asks for instead
	stop     *stopModel     // nil: the body was not asked to stop
	remains  []*known       // open steps in cancelled scopes
	talk     talk
}

// progress is how far a branch has come.
type progress uint8

const (
	waits progress = iota
	goesOn
	fails
)

// branchWalk is the walk through one branch.
type branchWalk struct {
	prefix string
	large  []byte // the last large output that it has seen
	seen   uint32 // a hash of the results that the branch has seen
	begun  map[string]*known
	races  int
	scopes int
	in     *scopeModel // nil: the whole body
	value  string      // the value that it has published since its last decision; empty: nothing
	failed set         // the failed steps that it has seen
	from   []string    // the steps because of which it fails
}

// set is a set of keys. It is never changed, so several may share it.
type set map[string]bool

func (s set) with(others ...set) set {
	out := set{}
	maps.Copy(out, s)
	for _, other := range others {
		maps.Copy(out, other)
	}
	return out
}

// walkThrough walks through the program of a run. If the program ends, the walk decides to close the run.
func (p *program) walkThrough(kn *knowledge, a *account, stop *stopModel) *walk {
	w := &walk{knowledge: kn, followed: map[string]int{}, stop: stop}
	w.talk = talk{values: map[string]bool{}, answers: map[string]string{}}
	root := &branchWalk{begun: map[string]*known{}, seen: hashHeaders(a.model.headers)}
	if at := w.whole(root, p); at != waits {
		c := p.close(at, root.seen, root.large, a.state.Input)
		c.From = root.from
		w.decided = append(w.decided, c)
	}
	return w
}

// run walks through the actions of a branch. A branch that ends must have asked for all its recorded steps.
func (w *walk) run(br *branchWalk, actions []action) progress {
	return w.checkEnd(br, w.do(br, actions))
}

func (w *walk) checkEnd(br *branchWalk, at progress) progress {
	if n := w.followed[br.prefix]; at != waits && n < len(w.recorded[br.prefix]) {
		w.noteChange(w.recorded[br.prefix][n].spec, "the end of the branch")
		return waits
	}
	return at
}

func (w *walk) noteChange(was *core.StepSpec, is string) {
	if w.changed == "" {
		w.changed = fmt.Sprintf("%s is recorded, the body asks for %s", specText(was), is)
	}
}

func (w *walk) do(br *branchWalk, actions []action) progress {
	for i := range actions {
		if at := w.one(br, &actions[i]); at != goesOn {
			return at
		}
	}
	return goesOn
}

func (w *walk) one(br *branchWalk, act *action) progress {
	switch act.kind {
	case doBranches:
		return w.branches(br, act)
	case doRace:
		return w.race(br, act)
	case doScope:
		return w.scope(br, act)
	case doPublish:
		return w.publish(br, act)
	case doUpdate:
		return w.update(br, act)
	case doVersion:
		w.recordValue("version/"+act.name, func() int { return 2 })
		if act.nameFromResult {
			w.setLabel(br, "label:"+act.name, act.label(br.seen))
		}
		return goesOn
	case doJoin:
		return w.outcome(br, act, br.begun[act.name])
	case doBegin, doStep:
	}
	k := w.ask(br, act)
	switch {
	case k == nil:
		return waits
	case act.kind == doBegin:
		br.begun[act.name] = k
		return goesOn
	default:
		return w.outcome(br, act, k)
	}
}

// ask returns the branch's next recorded step, or decides a new one. It returns nil if another step is recorded.
func (w *walk) ask(br *branchWalk, act *action) *known {
	spec := act.spec
	spec.Name = br.prefix + act.stepName(br.seen)
	in := br.in
	if act.detached {
		in = detachedScope
	}
	spec.Detached = in.outlives()
	if k := w.steps[spec.Name]; k != nil && k.kept {
		k.asked, k.since, br.value = true, br.failed, ""
		return k
	}
	if k := w.refusal(br, in, &spec); k != nil {
		return k
	}
	if k, recorded := w.follow(br, &spec); recorded {
		if k != nil && in.ended() && !k.closed {
			w.remains = append(w.remains, k)
		}
		return k
	}
	k := w.steps[spec.Name]
	if k == nil {
		k = &known{spec: &spec}
		w.steps[spec.Name] = k
		w.decided = append(w.decided, core.Schedule{Spec: &spec, Item: -1, Group: core.NoStep, For: act.length})
	}
	k.asked, k.since, br.value = true, br.failed, ""
	return k
}

// follow returns the branch's next recorded decision, nil if it is another one. recorded is false if there is none.
func (w *walk) follow(br *branchWalk, spec *core.StepSpec) (k *known, recorded bool) {
	n := w.followed[br.prefix]
	if n >= len(w.recorded[br.prefix]) {
		return nil, false
	}
	k = w.recorded[br.prefix][n]
	if !sameStep(k.spec, spec) {
		w.noteChange(k.spec, specText(spec))
		return nil, true
	}
	w.followed[br.prefix]++
	k.asked, k.since = true, br.failed
	w.decidedAfter(br)
	return k, true
}

// sameStep reports whether two steps are the same for a check of changed code.
func sameStep(a, b *core.StepSpec) bool {
	return a.Kind == b.Kind && a.Name == b.Name && a.Type == b.Type && a.Event == b.Event && a.Update == b.Update &&
		a.Queue == b.Queue &&
		a.Detached == b.Detached
}

func specText(s *core.StepSpec) string {
	return fmt.Sprintf("%s %q (%s%s on %q)", s.Kind, s.Name, s.Type, s.Event, s.Queue)
}

// outcome waits for a step and handles its result.
func (w *walk) outcome(br *branchWalk, act *action, k *known) progress {
	if !k.closed {
		return waits
	}
	br.seen = hashResult(br.seen, k.phase, k.output)
	if len(k.output) >= largeOutput {
		br.large = k.output
	}
	br.failed = br.failed.with(k.since)
	if endedBadly(k.phase) {
		br.failed = br.failed.with(set{k.spec.Name: true})
	}
	at := act.after(k.phase)
	if at == fails {
		br.from = append(br.from, k.spec.Name)
	}
	if at != waits {
		return at
	}
	return w.do(br, act.then)
}

// part begins a branch, which is a decision of the branch that begins it, and walks through its actions.
func (w *walk) part(br *branchWalk, in *scopeModel, act *action, i int) (*branchWalk, progress) {
	spec := &core.StepSpec{Name: br.prefix + act.partName(i, w.renamed), Def: -1, Type: body.TypeBranch}
	part := &branchWalk{prefix: spec.Name + "/", seen: br.seen, begun: map[string]*known{}, failed: br.failed}
	part.in = w.scopeOf(part.prefix+"scope[0]", in)
	if k, recorded := w.follow(br, spec); recorded && k == nil {
		return part, waits
	} else if !recorded {
		br.value = ""
		w.decided = append(w.decided, core.Mark{Spec: spec})
	}
	at := w.run(part, act.parts[i])
	return part, at
}

func (w *walk) branches(br *branchWalk, act *action) progress {
	all, seen, failed := goesOn, uint32(0), br.failed
	var from []string
	for i := range act.parts {
		part, at := w.part(br, br.in, act, i)
		failed, from = failed.with(part.failed), append(from, part.from...)
		seen = seen*31 + part.seen
		if at == waits || (at == fails && all == goesOn) {
			all = at
		}
	}
	if all != waits {
		br.seen, br.failed, br.from = seen, failed, append(br.from, from...)
	}
	return all
}

// race waits for the first of two branches. Which one was first is recorded.
func (w *walk) race(br *branchWalk, act *action) progress {
	var parts [2]*branchWalk
	var at [2]progress
	for i := range parts {
		parts[i], at[i] = w.part(br, br.in, act, i)
	}
	key := br.prefix + "any"
	if br.races++; br.races > 1 {
		key += "#" + strconv.Itoa(br.races)
	}
	first, ok := w.recordValue(key, func() int {
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
	br.failed = br.failed.with(parts[first].failed)
	w.steps[key].since = br.failed
	if act.cancelsLoser {
		w.cancel(parts[1-first].in)
	}
	br.seen = parts[first].seen + uint32(first)
	return goesOn
}

// setLabel changes a label, or finds that change recorded.
func (w *walk) setLabel(br *branchWalk, name, change string) {
	key := br.prefix + name
	spec := &core.StepSpec{Name: key, Def: -1, Type: body.TypeMark}
	k := w.steps[key]
	if k == nil {
		k = &known{spec: spec, phase: core.StepSucceeded, output: []byte(change), closed: true}
		w.steps[key] = k
		w.decided = append(w.decided, core.Mark{Spec: spec, Output: k.output, Labels: core.Labels(change)})
	}
	k.asked, k.since = true, br.failed
	if string(k.output) != change {
		w.noteChange(k.spec, "the label "+change)
	}
}

// recordValue returns a value that the body has recorded, or records a new one. It returns false if there is no value
// yet.
func (w *walk) recordValue(key string, decide func() int) (int, bool) {
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
