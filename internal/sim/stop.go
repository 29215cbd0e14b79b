package sim

import (
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
)

// This file is the simulation's knowledge of bodies that cancel parts of themselves, and that are asked to stop.

// stopGenerator gives a program scopes, detached steps and things to undo. It uses its own random numbers, so that the
// rest of the program stays as it is.
type stopGenerator struct{ programGenerator }

func newStopGenerator(n, count int) *stopGenerator {
	return &stopGenerator{programGenerator{random: newRandom(uint64(n), 0x5709), parent: n%3 == 0, count: count}}
}

func (g *stopGenerator) amend(p *program) {
	if g.chance(0.7) {
		p.undo = g.actions(1)
	}
	if g.chance(0.5) {
		p.limit = g.span(time.Second, 10*time.Minute).Truncate(time.Millisecond)
	}
	g.change(p.main)
	g.change(p.undo)
}

func (g *stopGenerator) change(actions []action) {
	for i := range actions {
		act := &actions[i]
		switch {
		case act.kind == doRace:
			act.cancelsLoser = g.chance(0.5)
		case act.kind == doBranches && len(act.parts) == 2 && g.chance(0.6):
			act.kind = doScope
		case act.kind == doStep || act.kind == doBegin:
			act.detached = g.chance(0.15)
		}
		g.change(act.then)
		for _, part := range act.parts {
			g.change(part)
		}
	}
}

// scope executes its first part in a branch in a scope and its second part itself, then cancels the scope and waits for
// the branch.
func (r *branchRunner) scope(act *action) progress {
	in, cancel := r.WithCancel()
	beside := r.begin(in, act, 0)
	at := r.do(act.parts[1])
	cancel()
	must(r.Await("scope", beside.result))
	r.seen = r.seen*31 + beside.seen
	return at
}

// stopModel is the request to a body whose run was cancelled or had expired.
type stopModel struct {
	phase core.RunPhase
	from  int // steps that were recorded before
	until core.Time
}

// scopeModel is the checker's own idea of a scope.
type scopeModel struct {
	parent    *scopeModel
	key       string
	cancelled bool
	at        int // the place of its cancel among the records; -1: it is not recorded
	detached  bool
}

var detachedScope = &scopeModel{detached: true}

func (in *scopeModel) outlives() bool {
	return in != nil && (in.detached || in.parent.outlives())
}

// ended reports whether the scope or one around it is cancelled.
func (in *scopeModel) ended() bool {
	return in != nil && !in.detached && (in.cancelled || in.parent.ended())
}

// scopeOf returns a scope that is cancelled where that is recorded.
func (w *walk) scopeOf(key string, parent *scopeModel) *scopeModel {
	in := &scopeModel{parent: parent, key: key, at: -1}
	if k := w.steps[key]; k != nil {
		in.cancelled, in.at = true, k.id
	}
	return in
}

func (w *walk) cancel(in *scopeModel) {
	w.recordValue(in.key, func() int { return 1 })
	in.cancelled = true
}

// refusal returns a step that does not begin, because its scope or the run has ended before the branch asked for it.
func (w *walk) refusal(br *branchWalk, in *scopeModel, spec *core.StepSpec) *known {
	next := -1 // the branch asks for something new
	if n := w.followed[br.prefix]; n < len(w.recorded[br.prefix]) {
		next = w.recorded[br.prefix][n].id
	}
	refused := &known{spec: spec, closed: true}
	stopped := w.stop != nil && (next < 0 || next >= w.stop.from) && !in.outlives()
	if stopped {
		refused.phase = core.StepCancelled
		if w.stop.phase == core.RunTimedOut {
			refused.phase = core.StepTimedOut
		}
	}
	for ; in != nil && !in.detached; in = in.parent {
		after := in.cancelled && (next < 0 || in.at >= 0 && next > in.at)
		if after && (!stopped || in.at >= 0 && in.at < w.stop.from) { // it was cancelled before the run's stop
			refused.phase = core.StepCancelled
		}
	}
	if !refused.phase.Closed() {
		return nil
	}
	return refused
}

// whole walks through the whole program: its main actions, and its compensation if they have failed.
func (w *walk) whole(root *branchWalk, p *program) progress {
	at := w.do(root, p.main)
	if at == fails {
		root.in = detachedScope
		if w.do(root, p.undo) == waits {
			return waits
		}
	}
	return w.checkEnd(root, at)
}

func (w *walk) scope(br *branchWalk, act *action) progress {
	br.scopes++
	in := w.scopeOf(br.prefix+"scope["+strconv.Itoa(br.scopes)+"]", br.in)
	beside, besideAt := w.part(br, in, act, 0)
	at := w.do(br, act.parts[1])
	if at == waits {
		return waits
	}
	w.cancel(in)
	if besideAt == waits {
		return waits
	}
	br.seen = br.seen*31 + beside.seen
	return at
}

// stops checks that a body is asked to stop when its run was cancelled or a limit has expired, and when no work that
// has to end still runs.
func (m *runModel) stops(rec core.RunStopping) {
	switch {
	case m.until != 0 && !m.closing && rec.Until != 0:
		m.goesOn(rec.Until)
		return
	case m.closing || m.until != 0:
		m.fail(Recorded, "the run's body is asked to stop a second time, or too late")
	case m.stopping:
	case rec.Phase == core.RunCancelled && !m.cancelled:
		m.fail(Recorded, "the run is stopped as cancelled, and nobody asked for that")
	case rec.Phase == core.RunTimedOut:
		m.checkTimer(m.runLimit(), "a limit of the run expires")
	}
	m.stopping, m.paused, m.stopClock = true, 0, false
	for i := range m.steps {
		s := &m.steps[i]
		switch {
		case s.spec.Detached:
		case !s.closed:
			m.fail(Recorded, "the run stops while step %s is open", m.name(i))
		case (s.live || s.stopping) && rec.Until != 0:
			m.fail(Recorded, "the body is asked to stop while an attempt of step %s runs", m.name(i))
		}
	}
	if rec.Until == 0 {
		return
	}
	after := time.Minute
	if m.a.body != nil && m.a.body.program.limit != 0 {
		after = m.a.body.program.limit
	}
	if m.until = rec.Until; m.until != m.at.Add(after) {
		m.fail(FixedDeadline, "the body may undo until %s, not %s", offset(m.until), offset(m.at.Add(after)))
	}
}

// goesOn checks that a compensation gets back the time for which its run was not carried on: the time since its last
// entry, when another process takes it over.
func (m *runModel) goesOn(until core.Time) {
	before := m.a.entries[len(m.a.entries)-2]
	if away := m.at.Sub(before.At); until != m.until.Add(away) {
		m.fail(FixedDeadline, "the body may undo until %s, not %s: nobody carried the run for %s",
			offset(until), offset(m.until.Add(away)), away)
	}
	m.until = until
}

// checkAsked checks that a run whose body had decided something was not cancelled or timed out without the body.
func (m *runModel) checkAsked(rec core.RunClosing) {
	if rec.Phase != core.RunCancelled && rec.Phase != core.RunTimedOut || m.a.body == nil || m.until != 0 || m.closing {
		return
	}
	for i := range m.steps {
		s := &m.a.state.Steps[i]
		if s.Spec.Type != body.TypeHook && !s.Spec.Hook && !s.Kept && !s.Dropped {
			m.fail(Decided, "the run ends as %s, and its body, which has decided step %s, was not asked",
				rec.Phase, s.Key())
			return
		}
	}
}

// outerLimit returns the run's own deadline if it bounds the step.
func (m *runModel) outerLimit(s *stepModel) core.Time {
	if s.spec.Detached {
		return 0
	}
	return m.runLimit()
}

// outlives reports whether a step, and with it its child run, goes on when the run's own limits end.
func (m *runModel) outlives(step core.StepID) bool {
	return m.a.sdk != nil || int(step) < len(m.steps) && m.steps[step].spec.Detached
}

// notAsked reports whether the run is to stop, and its body waits until the work that has to end has ended.
func (m *runModel) notAsked() bool { return (m.cancelled || m.stopping) && m.until == 0 && !m.closing }

// checkAlone checks that hooks begin when no work of the run is left that they could disturb.
func (m *runModel) checkAlone() {
	for i := range m.steps {
		if s := &m.steps[i]; s.live || s.stopping {
			m.fail(OneAttempt, "hooks begin while an attempt of step %s runs or stops", m.name(i))
		}
	}
}
