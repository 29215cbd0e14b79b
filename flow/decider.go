package flow

import (
	"slices"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// stepState is a step's state from the view of those that need it.
type stepState uint8

const (
	stateNone     stepState = iota // not begun
	stateOpen                      // begun
	stateGood                      // ended, and steps that need it may begin
	stateBad                       // ended, and the run counts it as a failure
	stateUpstream                  // skipped, because what it needs ended badly
)

func (s stepState) closed() bool { return s >= stateGood }

// decider interprets a flow for one run. It is derived from the run's steps only: a new decider, made from any state of
// a run, makes the same decisions.
type decider struct {
	def              *definition
	nodes            []stepNode // the steps by ordinal
	groups           map[int32]*group
	loops            map[int32]*loop
	seen             int // number of the run's steps that are registered
	open             int // steps that have not ended, begun or not
	begun            bool
	warned           bool // whether to notify of a warning
	values           values
	operatorLanguage *expr.Language // the language of conditions that an operator set
}

type stepNode struct {
	id      core.StepID
	pending int32 // needs that have not ended
	state   stepState
}

func newDecider(def *definition) *decider {
	d := &decider{def: def, nodes: make([]stepNode, def.steps), open: int(def.steps)}
	for i := range d.nodes {
		d.nodes[i].id = core.NoStep
	}
	return d
}

// turn is one call of Decide: the commands so far and the steps whose needs have all ended.
type turn struct {
	*decider
	run     *core.Run
	now     core.Time
	cmds    []core.Command
	ready   []int32
	next    core.StepID               // the id of the next step that a command makes
	made    map[core.StepID]stepState // items that commands of this turn create
	later   candidates                // candidates in loops
	touched []int32                   // loops that may have ended
}

// Decide returns the commands that follow from the closed steps.
func (d *decider) Decide(r *core.Run, closed []core.StepID, now core.Time) []core.Command {
	if r.Closing != nil {
		return d.hooks(r, now)
	}
	d.register(r)
	t := &turn{decider: d, run: r, now: now, next: core.StepID(len(r.Steps))}
	if end := t.failFast(closed); end != nil {
		return []core.Command{*end}
	}
	if !d.begun {
		t.begin()
	} else {
		for _, id := range closed {
			t.close(&r.Steps[id])
		}
	}
	for len(t.ready)+len(t.later.heap)+len(t.touched) > 0 {
		for len(t.ready) > 0 {
			def := t.ready[0]
			t.ready = t.ready[1:]
			t.decide(def)
		}
		t.tryLater()
	}
	if d.open == 0 {
		t.cmds = append(t.cmds, t.outcome())
	} else {
		t.warn()
	}
	return t.cmds
}

// register takes note of the steps that were recorded since it was last called.
func (d *decider) register(r *core.Run) {
	for ; d.seen < len(r.Steps); d.seen++ {
		s := &r.Steps[d.seen]
		def, known := d.def.ordinal(s)
		if !known || s.Dropped {
			continue
		}
		switch {
		case def < d.def.steps:
			d.nodes[def].id = s.ID
		case contains(d.def.plans[def].notices, noticeWarning):
			d.warned = true
		case s.Item >= 0:
			group := d.def.plans[def].group
			d.groupOf(group).set(s.Item, s.ID)
			if d.def.plans[group].isLoop {
				d.found(group, s)
			}
		}
	}
}

// begin reads the whole state of a run, a new or a loaded one.
func (t *turn) begin() {
	t.begun = true
	for def := range t.nodes {
		node := &t.nodes[def]
		if node.id == core.NoStep {
			continue
		}
		node.state = t.classify(int32(def), &t.run.Steps[node.id])
		if node.state.closed() {
			t.open--
		}
	}
	for def := range t.nodes {
		node := &t.nodes[def]
		if node.state != stateNone || t.def.plans[def].loop >= 0 {
			continue // a step in a loop begins with the loop
		}
		for _, need := range t.def.plans[def].needs {
			if !t.nodes[need].state.closed() {
				node.pending++
			}
		}
		if node.pending == 0 {
			t.ready = append(t.ready, int32(def))
		}
	}
	for def := range t.nodes {
		switch p := &t.def.plans[def]; {
		case p.isLoop && p.loop < 0:
			if t.nodes[def].id != core.NoStep && t.openIn(p) {
				t.resumeLoop(int32(def))
			}
		case t.nodes[def].state == stateOpen && p.item >= 0 && p.loop < 0:
			t.resume(int32(def))
		case t.nodes[def].state == stateOpen && p.watches != nil:
			t.endedBefore(int32(def))
		}
	}
}

// openIn reports whether a loop or a step in it has not ended.
func (d *decider) openIn(p *plan) bool {
	return slices.ContainsFunc(p.tree, func(def int32) bool { return d.nodes[def].state == stateOpen })
}

func (d *decider) classify(def int32, s *core.Step) stepState {
	switch {
	case !s.Phase.Closed():
		return stateOpen
	case s.Phase == core.StepSucceeded:
		return stateGood
	case s.Phase == core.StepSkipped && s.Upstream,
		s.Spec.Kind == core.KindGroup && s.Failure != nil && s.Failure.Type == upstreamType:
		return stateUpstream
	case s.Phase == core.StepSkipped || d.def.plans[def].tolerant(s):
		return stateGood
	default:
		return stateBad
	}
}

// close accounts for a step that has ended.
func (t *turn) close(s *core.Step) {
	def, known := t.def.ordinal(s)
	if !known || s.Dropped {
		return
	}
	if def >= t.def.steps {
		if s.Item >= 0 {
			t.closeItem(t.def.plans[def].group, s)
		}
		return
	}
	if t.nodes[def].state.closed() {
		return // a skip of our own
	}
	if t.groups != nil && t.def.plans[def].loop < 0 && !t.def.plans[def].isLoop {
		delete(t.groups, def)
	}
	t.settle(def, t.classify(def, s))
}

// settle writes down how a step ended and counts down what needs it.
func (t *turn) settle(def int32, state stepState) {
	t.nodes[def].state = state
	t.open--
	if t.def.plans[def].isLoop {
		t.closeLists(def)
	} else if t.def.plans[def].loop >= 0 {
		t.wakeUnbegun(def)
	}
	for _, wait := range t.def.plans[def].ends {
		t.endWait(wait, def)
	}
	for _, d := range t.def.plans[def].dependents {
		if p := &t.def.plans[d]; p.loop >= 0 {
			if p.commonWith(def) < 0 && t.nodes[d].state == stateOpen {
				t.tryAll(d)
			}
			continue
		}
		if node := &t.nodes[d]; node.state == stateNone {
			if node.pending--; node.pending == 0 {
				t.ready = append(t.ready, d)
			}
		}
	}
}

// decide begins or skips a step whose needs have all ended.
func (t *turn) decide(def int32) {
	p := &t.def.plans[def]
	if begins, why, upstream := t.triggered(def); !begins {
		t.skip(def, why, upstream)
		return
	}
	if p.skipped {
		t.skip(def, "maxAttempts is 0", false)
		return
	}
	if p.when != nil {
		run, err := p.when.Truth(t.scope())
		if err != nil {
			t.schedule(core.Schedule{
				Spec: p.spec, Item: -1, Group: core.NoStep,
				Failure: broken("when", p.where(), &expr.Error{Text: p.when.Text(), Msg: err.Error()}),
			})
			t.nodes[def].state = stateOpen
			return
		}
		if !run {
			t.skip(def, "when is false: "+p.when.Text(), false)
			return
		}
	}
	t.nodes[def].state = stateOpen
	if p.isLoop {
		t.beginLoop(def)
		return
	}
	if p.item >= 0 {
		t.beginGroup(def)
		return
	}
	id := t.schedule(t.command(p, t.scope(), -1, core.NoStep))
	if p.watches != nil {
		t.nodes[def].id = id
		t.endedBefore(def)
	}
}

// command builds the start of a step, with the data that its kind needs at once.
func (t *turn) command(p *plan, s *scope, item int32, group core.StepID) core.Schedule {
	cmd := core.Schedule{Spec: p.spec, Item: item, Group: group}
	if cmd.Policy, cmd.Failure = p.policyIn(s); cmd.Failure != nil {
		return cmd
	}
	if p.sleep != nil {
		var err error
		if cmd.Until, cmd.For, err = p.sleep.end(s); err != nil {
			cmd.Failure = broken("sleep", p.where(), err)
		}
	}
	if p.key != nil {
		var err error
		if cmd.Key, err = p.key.Text(s); err != nil {
			cmd.Failure = broken("key", p.where(), err)
		}
	}
	if p.event != nil || p.any != nil {
		var err error
		if cmd.Spec, err = p.awaited(s); err != nil {
			cmd.Spec, cmd.Failure = p.spec, broken("wait", p.where(), err)
		}
	}
	return cmd
}

func (t *turn) schedule(cmd core.Schedule) core.StepID {
	t.cmds = append(t.cmds, cmd)
	t.next++
	return t.next - 1
}

func (t *turn) skip(def int32, reason string, upstream bool) {
	spec := t.def.plans[def].spec
	t.cmds = append(t.cmds, core.Skip{Spec: spec, Item: -1, Group: core.NoStep, Reason: reason, Upstream: upstream})
	t.nodes[def].id = t.next
	t.next++
	state := stateGood
	if upstream {
		state = stateUpstream
	}
	t.settle(def, state)
	if p := &t.def.plans[def]; p.isLoop && p.loop < 0 {
		for _, member := range p.tree[1:] {
			t.skip(member, "its loop, "+spec.Name+", was skipped", upstream)
		}
	}
}

// ending describes how a step ended badly.
func (t *turn) ending(def int32) string {
	if t.nodes[def].state == stateUpstream {
		return "was skipped"
	}
	switch t.run.Steps[t.nodes[def].id].Phase {
	case core.StepTimedOut:
		return "timed out"
	case core.StepCancelled:
		return "was cancelled"
	default:
		return "failed"
	}
}

// scope returns the scope of an expression that belongs to no attempt.
func (t *turn) scope() *scope {
	return &scope{decider: t.decider, run: t.run, now: t.now}
}

// outcome settles the run: all steps have ended. A run in which steps were cancelled and nothing else went wrong is
// cancelled.
func (t *turn) outcome() core.Close {
	var first *core.Step
	phase := core.RunCancelled
	for i := range t.nodes {
		if t.nodes[i].state != stateBad {
			continue
		}
		s := &t.run.Steps[t.nodes[i].id]
		failed := s.Phase != core.StepCancelled
		switch {
		case failed && phase == core.RunCancelled:
			phase, first = core.RunFailed, s
		case failed != (phase == core.RunFailed):
		case first == nil || s.EndedAt < first.EndedAt:
			first = s
		}
	}
	if first != nil {
		f := t.runFailure(first)
		if f.Limit == policy.LimitExecution || f.Limit == policy.LimitRun {
			phase = core.RunTimedOut // the run had no time left for the step: it ends as its deadline would end it
		}
		return core.Close{Phase: phase, Failure: f}
	}
	cmd := core.Close{Phase: core.RunSucceeded}
	if t.def.output == nil {
		return cmd
	}
	var err error
	if cmd.Output, err = t.def.output.AppendJSON(nil, t.scope()); err != nil {
		place := t.def.doc.Place
		if place == "" {
			place = t.def.doc.src.Place(t.def.output.Place())
		}
		return core.Close{Phase: core.RunFailed, Failure: broken("output", place, err)}
	}
	return cmd
}

// runFailure returns the step's failure, with the name of the step.
func (t *turn) runFailure(s *core.Step) *policy.Failure {
	def, _ := t.def.ordinal(s)
	return failureAs(s, t.def.titleOf(t.run, s)+" "+t.ending(def))
}

// hooks begins the hooks of a stage of the run's end.
func (d *decider) hooks(r *core.Run, now core.Time) []core.Command {
	d.register(r)
	t := &turn{decider: d, run: r, now: now}
	s := t.scope()
	s.phase, s.failure = r.Closing.Phase, r.Closing.Failure
	var cmds []core.Command
	for _, def := range d.def.hooksOf(r) {
		if cmd, begins := t.hook(&d.def.plans[def], s); begins {
			cmds = append(cmds, cmd)
		}
	}
	return cmds
}

// hook builds the start of a hook, if it begins.
func (t *turn) hook(p *plan, s *scope) (cmd core.Schedule, begins bool) {
	if p.when != nil {
		run, err := p.when.Truth(s)
		if err != nil {
			return core.Schedule{
				Spec: p.spec, Item: -1, Group: core.NoStep,
				Failure: broken("when", p.where(), &expr.Error{Text: p.when.Text(), Msg: err.Error()}),
			}, true
		}
		if !run {
			return core.Schedule{}, false
		}
	}
	return t.command(p, s, -1, core.NoStep), true
}

// hooksOf lists the hooks of an outcome's stage: its own first, then those of every outcome.
func (d *definition) hooksOf(r *core.Run) []int32 {
	c := r.Closing
	if c.Hook > 0 {
		if c.Hook == 1 {
			return slices.Concat(d.stages[onExit], d.noticeSteps(r))
		}
		return nil
	}
	switch c.Phase {
	case core.RunSucceeded:
		return d.stages[onSuccess]
	case core.RunTimedOut:
		if len(d.stages[onTimeout]) > 0 {
			return d.stages[onTimeout]
		}
		return d.stages[onFailure]
	case core.RunCancelled:
		return d.stages[onCancel]
	case core.RunFailed:
		return d.stages[onFailure]
	default:
		return nil
	}
}
