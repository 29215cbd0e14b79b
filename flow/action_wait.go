package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Wait waits for an event, or for the first of several: the events of Any, and the ends of Steps.
type Wait struct {
	Event tree.Value
	Any   []tree.Value // names of events
	Steps []string     // names of steps
	By    []string     // who may decide; none: everybody
	// NotStarter: whoever has started the run may not.
	NotStarter bool

	stepsPos []tree.Pos
	ordinary
}

var (
	waitKeys  = []string{"event", "any", "by", "notBy"}
	firstKeys = []string{"event", "step"}
)

func (*Wait) kind() string { return "wait" }

func (*Wait) notTask() string { return "a wait" }

func (w *Wait) read(p *parsing, n *tree.Node) {
	if n.Kind == tree.Text {
		w.Event = tree.ValueOf(n)
	} else if p.object(n, "wait", waitKeys) {
		w.Event = p.textValue(n.Get("event"), "event")
		deciders(p, n, w)
		if list := n.Get("any"); list != nil {
			if n.Get("event") != nil {
				p.Fail(n.Key("any"), "write all of them in any", "a wait has event or any, not both")
			}
			firstOf(p, list, w)
			return
		}
	}
	event, isText := w.Event.Text()
	if (w.Event.IsZero() || isText && event == "") &&
		(n.Kind == tree.Mapping || n.Kind == tree.Text || n.Kind == tree.Null) {
		p.missing(n, waitKeys, "name the event: event: approved", "the wait names no event")
	}
}

// firstOf reads what a wait ends with the first of: names of events, and steps.
func firstOf(p *parsing, n *tree.Node, w *Wait) {
	if n.Kind != tree.List || len(n.Items) < 2 {
		p.Fail(n.Pos, "any: [approved, rejected]",
			"any is a list of two or more events or steps, of which the first counts")
		return
	}
	for _, item := range n.Items {
		switch {
		case item.Kind == tree.Text && item.Text != "":
			w.Any = append(w.Any, tree.ValueOf(item))
		case item.Kind != tree.Mapping:
			p.Fail(item.Pos, "", "an item of any is the name of an event, {event: NAME} or {step: NAME}, not %s",
				tree.Describe(item))
		case !p.object(item, "an item of any", firstKeys):
		case len(item.Fields) != 1:
			p.missing(item, firstKeys, "", "an item of any is one event or one step")
		case item.Get("step") != nil:
			if name := p.text(item.Get("step"), "step"); name != "" {
				w.Steps, w.stepsPos = append(w.Steps, name), append(w.stepsPos, item.Get("step").Pos)
			}
		default:
			if event := p.textValue(item.Get("event"), "event"); !event.IsZero() {
				w.Any = append(w.Any, event)
			}
		}
	}
}

func (w *Wait) encode() tree.Value {
	out := object{}
	out.put("event", w.Event)
	out.put("any", w.any())
	out.names("by", w.By)
	if w.NotStarter {
		out.text("notBy", notStarter)
	}
	return out.value()
}

func (*Wait) spec(spec *core.StepSpec) { spec.Kind = core.KindWait }

// shared leaves the limit of waits alone: the others are for work.
func (*Wait) shared(all policy.Policy) policy.Policy {
	return policy.Policy{Limits: policy.Limits{Wait: all.Wait}}
}

func (w *Wait) compile(b *builder, p *plan, _ *Step, vars expr.Vars) {
	b.wait(p, w, vars&^(expr.VarAttempt|expr.VarCode|expr.VarFailure))
}

// any returns the alternatives of the wait, as they are written; zero: it waits for one event.
func (w *Wait) any() tree.Value {
	list := &tree.Node{Kind: tree.List}
	for _, event := range w.Any {
		list.Items = append(list.Items, tree.NodeOf(event))
	}
	for _, step := range w.Steps {
		var o object
		o.text("step", step)
		list.Items = append(list.Items, tree.NodeOf(o.value()))
	}
	if len(list.Items) == 0 {
		return tree.Value{}
	}
	return tree.ValueOf(list)
}

// wait compiles the names of the events that a step waits for. Constant ones are the same in all runs.
func (b *builder) wait(p *plan, a *Wait, vars expr.Vars) {
	for _, v := range append(slices.Clip(a.Any), a.Event) {
		if text, is := v.Text(); a.guarded() && !v.IsZero() && (!is || expr.HasExpression(text)) {
			b.stepFail(tree.NodeOf(v).Pos, "write the name without an expression",
				"by and notBy hold for events whose names are texts")
		}
	}
	if a.Any == nil && a.Steps == nil {
		event := b.compiler.Template(tree.NodeOf(a.Event), vars, true)
		if event != nil && event.IsConstant() {
			p.spec.Event, _ = event.Text(nil) // a constant text needs no evaluation
		} else {
			p.event = event
		}
		return
	}
	p.spec.Any = make([]string, len(a.Any))
	constant := true
	var all []*expr.Template
	for i, value := range a.Any {
		event := b.compiler.Template(tree.NodeOf(value), vars, true)
		if event == nil {
			return // that was reported
		}
		all = append(all, event)
		if constant = constant && event.IsConstant(); event.IsConstant() {
			p.spec.Any[i], _ = event.Text(nil)
		}
	}
	if !constant {
		p.any = all
	}
}

// watches finds the steps whose ends are waited for.
func (b *builder) watches() {
	n := int32(0)
	for s := range b.doc.AllSteps() { // hooks come last
		w, waits := s.Action.(*Wait)
		b.step = s.Name
		switch {
		case !waits || len(w.Steps) == 0:
		case int(n) >= len(b.doc.Steps):
			b.stepFail(s.pos, "", "all steps have ended when hooks run: a hook waits for events only")
		default:
			for k, name := range w.Steps {
				at := s.pos
				if k < len(w.stepsPos) {
					at = w.stepsPos[k]
				}
				b.watch(n, name, at)
			}
		}
		n++
	}
}

// watch makes the end of a step one end of a wait.
func (b *builder) watch(wait int32, name string, at tree.Pos) {
	p, s := &b.def.plans[wait], b.doc.Steps[wait]
	def, known := b.def.byName[name]
	switch {
	case !known:
		b.stepFail(at, nearest.Hint(name, b.def.language.Steps()), "there is no step %q to wait for", name)
	case def == wait:
		b.stepFail(at, "", "step %q waits for its own end", name)
	case slices.Contains(p.watches, def):
		b.stepFail(at, "", "%q is waited for twice", name)
	case p.loop >= 0 || !s.ForEach.IsZero() || b.def.plans[def].loop >= 0:
		b.stepFail(at, "wait for the loop, or for events", "no step in a loop waits for another step, or is waited for")
	default:
		p.watches = append(p.watches, def)
		b.def.plans[def].ends = append(b.def.plans[def].ends, wait)
	}
}

// awaited returns the events and steps for which the step waits in this run: the names of events may differ between
// runs, so the spec is in the record.
func (p *plan) awaited(s *scope) (*core.StepSpec, error) {
	spec := *p.spec
	spec.Def, spec.Any = -1, nil
	if p.event != nil {
		var err error
		spec.Event, err = eventName(p.event, s)
		return &spec, err
	}
	for _, event := range p.any {
		name, err := eventName(event, s)
		if err != nil {
			return nil, err
		}
		spec.Any = append(spec.Any, name)
	}
	return &spec, nil
}

func eventName(event *expr.Template, s *scope) (string, error) {
	name, err := event.Text(s)
	if err == nil && name == "" {
		err = event.Wrong("the event's name is empty")
	}
	return name, err
}

// endWait ends a wait, since a step has ended whose end it waits for. If the wait has not begun, it sees that when it
// does.
func (t *turn) endWait(wait, step int32) {
	if t.nodes[wait].state != stateOpen || t.nodes[wait].id == core.NoStep {
		return
	}
	first := core.First{Which: t.def.plans[step].spec.Name}
	if id := t.nodes[step].id; id != core.NoStep && int(id) < len(t.run.Steps) {
		first.Value = t.run.Steps[id].Output
	}
	t.cmds = append(t.cmds, core.Finish{Step: t.nodes[wait].id, Output: first.Encode()})
}

// endedBefore ends a wait with the step that has ended first, among those that it waits for.
func (t *turn) endedBefore(wait int32) {
	var ended []int32
	for _, step := range t.def.plans[wait].watches {
		if t.nodes[step].state.closed() {
			ended = append(ended, step)
		}
	}
	if len(ended) > 0 {
		t.endWait(wait, slices.MinFunc(ended, func(a, b int32) int { return int(t.endOf(a) - t.endOf(b)) }))
	}
}

// endOf returns when a step has ended.
func (t *turn) endOf(step int32) core.Time {
	if id := t.nodes[step].id; id != core.NoStep && int(id) < len(t.run.Steps) {
		return t.run.Steps[id].EndedAt
	}
	return t.now
}

// endedBy reports whether the end of a step has ended a wait.
func (s *stale) endedBy(wait, step int32) bool {
	id := s.nodes[wait].id
	return id != core.NoStep && s.run.Steps[id].Phase == core.StepSucceeded &&
		core.FirstOf(s.run.Steps[id].Output).Which == s.def.plans[step].spec.Name
}

func (*Wait) pointless(kind policy.LimitKind, _ bool) (severity Severity, code, why string) {
	if kind != policy.LimitScheduleToClose && kind != policy.LimitWait {
		return Warning, lintLimitNoEffect, fmt.Sprintf("a wait has no attempts, so %s has no effect; use wait", kind)
	}
	return "", "", ""
}

func (w *Wait) lint(l *linter, s *Step, p *plan) {
	if endless(p) && !l.bounded() && len(w.Steps) == 0 {
		l.add(Info, s.pos, lintEndlessWait, s.Name,
			"step %q waits without any limit; add timeout: 7d, or a limit for the run", s.Name)
	}
}

// endless reports whether no limit of a step ends its wait. One that is an expression does, whatever its amount is.
func endless(p *plan) bool {
	for i := range p.amounts {
		switch p.amounts[i].kind {
		case policy.LimitWait, policy.LimitScheduleToClose, policy.LimitDeadline:
			return false
		default:
		}
	}
	limits := &p.spec.Policy
	return limits.Wait == nil && limits.ScheduleToClose == nil && (limits.Deadline == nil || limits.Deadline.At == 0)
}

// notStarter is the value of notBy.
const notStarter = "starter"

// deciders reads who may end a wait.
func deciders(p *parsing, n *tree.Node, w *Wait) {
	by := n.Get("by")
	w.By, _ = p.texts(by, "by")
	if by != nil && len(w.By) == 0 && by.Kind == tree.List {
		p.Fail(by.Pos, "leave it out if everybody may", "by names nobody, so the wait could never end")
	}
	if not := n.Get("notBy"); not != nil {
		if w.NotStarter = not.Kind == tree.Text && not.Text == notStarter; !w.NotStarter {
			p.Fail(not.Pos, "", "notBy is %s, not %s", notStarter, tree.Describe(not))
		}
	}
}

// guarded reports whether not everybody may end the wait.
func (w *Wait) guarded() bool { return len(w.By) > 0 || w.NotStarter }

// principal returns the name by which a server knows somebody. What callers say of themselves is behind it.
func principal(actor string) string {
	name, _, _ := strings.Cut(actor, " (")
	return name
}

// refuses returns why somebody may not end the wait in a run; empty: he may.
func (w *Wait) refuses(r *core.Run, actor string) string {
	who := principal(actor)
	switch {
	case len(w.By) > 0 && !slices.Contains(w.By, who):
		if who == "" {
			who = "somebody without a name"
		}
		return fmt.Sprintf("%s decides this, not %s", strings.Join(w.By, " or "), who)
	case !w.NotStarter:
		return ""
	case r.Parent.Run != (core.RunID{}) || r.Chain.Previous != (core.RunID{}):
		return "the starter may not decide this, and a run that another one has started or follows does not know its " +
			"starter: wait in the run that a person starts"
	case who == "":
		return "the starter may not decide this, and whoever decides gives no name"
	case who == principal(r.StartedBy):
		return who + " has started the run, and may not decide this"
	}
	return ""
}

// mayDecide returns why somebody may not end a wait: by an event, or by an operation on its step; empty: he may.
func (d *definition) mayDecide(r *core.Run, event string, step *core.Step, actor string) string {
	def := int32(-1)
	if step != nil {
		def = step.Spec.Def
	}
	n := int32(-1)
	for s := range d.doc.AllSteps() {
		n++
		w, waits := s.Action.(*Wait)
		if !waits || !w.guarded() || step != nil && n != def || step == nil && !slices.Contains(w.names(), event) {
			continue
		}
		if why := w.refuses(r, actor); why != "" {
			return fmt.Sprintf("step %q: %s", s.Name, why)
		}
	}
	return ""
}

// names returns the names of the events that the wait is for, which are texts where it is guarded.
func (w *Wait) names() (out []string) {
	for _, v := range append(slices.Clip(w.Any), w.Event) {
		if text, ok := v.Text(); ok {
			out = append(out, text)
		}
	}
	return out
}
