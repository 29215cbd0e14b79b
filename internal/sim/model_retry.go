package sim

import (
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// noteStopped notes the steps that end badly in an entry because their run ends or is to end. It is called before the
// entry is folded.
func (m *bodyModel) noteStopped(a *account, e core.Entry) {
	ending := a.state.CancelAsked || a.state.Closing != nil
	byHand := false
	for _, rec := range e.Records {
		switch rec := rec.(type) {
		case core.CancelAsked, core.RunClosing, core.RunEnded:
			ending = true
		case core.Operated:
			byHand = byHand || rec.Op == core.OpFail
		default:
		}
	}
	for _, rec := range e.Records {
		switch rec := rec.(type) {
		case core.StepEnded:
			limit := policy.LimitNone
			if rec.Failure != nil {
				limit = rec.Failure.Limit
			}
			byRun := rec.Phase == core.StepTimedOut && (limit == policy.LimitExecution || limit == policy.LimitRun)
			// A body that may still compensate has steps that end in their own way.
			reported := rec.Failure != nil && rec.Failure.Message == simulatedFailure
			own := !byRun && rec.Reason != policy.ReasonCancelled &&
				(limit != policy.LimitNone || rec.Phase == core.StepFailed || reported)
			if byRun || ending && !byHand && !own {
				m.stopped[rec.Step] = endedBadly(rec.Phase)
			}
		case core.StepReset:
			if rec.Restart {
				delete(m.stopped, rec.Step)
			}
		case core.RunClosing:
			m.from = rec.From
		case core.RunReopened:
			m.from = nil // a run that is terminated afterwards has failed because of no step
		default:
		}
	}
}

// endedBadly reports whether a step of that phase can be retried.
func endedBadly(p core.StepPhase) bool {
	return p == core.StepFailed || p == core.StepTimedOut || p == core.StepCancelled
}

// checkRetry compares an operator's retry, before it is folded, with the expected one: the steps from which the failure
// followed begin again, with those that were stopped only by the run's end; the program's decisions after it had seen
// one of those failures are dropped.
func (m *bodyModel) checkRetry(a *account, e core.Entry) {
	op, ok := e.Records[0].(core.Operated)
	if !ok || (op.Op != core.OpRetryRun && op.Op != core.OpRetryStep) {
		return
	}
	if slices.ContainsFunc(e.Records, func(rec core.Record) bool {
		reopened, ok := rec.(core.RunReopened)
		return ok && reopened.Until != 0
	}) {
		m.checkResumed(a, e)
		return
	}
	from := m.from
	if op.Op == core.OpRetryStep && a.state.Steps[op.Step].Spec.Hook {
		m.compareRetry(a, e, []core.StepID{op.Step}, nil) // the run keeps its end
		return
	}
	if op.Op == core.OpRetryStep {
		from = []core.StepID{op.Step}
	} else if !a.model.closed {
		m.u.violate(Decided, a.id, "an open run is retried, and its body may have dealt with its failures")
	}
	if cancelsParts(m.program.main) || cancelsParts(m.program.undo) {
		// Steps that a scope's cancel ends are restarted, too. Another check sees that the program goes on as before.
		return
	}
	walked := m.walked(a)
	seen := set{}
	for _, k := range walked {
		seen = seen.with(k.since)
	}
	restart, drop := map[core.StepID]bool{}, map[core.StepID]bool{}
	for id, k := range walked {
		for _, cause := range from {
			if k.since[a.state.Steps[cause].Key()] {
				drop[id] = true
			}
		}
	}
	for _, id := range from {
		restart[id] = !drop[id]
	}
	for id, is := range m.stopped {
		if step := &a.state.Steps[id]; is && a.model.closed && !step.Spec.Hook && !step.Dropped && !seen[step.Key()] {
			restart[id] = !drop[id]
		}
	}
	if !a.model.closed && len(drop) > 0 {
		m.u.violate(Decided, a.id, "step %d of an open run is retried, and its body has gone on from its failure",
			op.Step)
	}
	m.compareRetry(a, e, chosen(restart), chosen(drop))
}

// checkResumed compares a retry that goes on with a compensation with the expected one: the steps of the compensation
// that did not succeed begin again; the program's decisions after it had seen one of those failures are dropped, or
// kept if they were executed and succeeded. What a retry before has kept stays, whether or not it is named again.
func (m *bodyModel) checkResumed(a *account, e core.Entry) {
	if m.stop == nil || !a.model.closed {
		m.u.violate(Decided, a.id, "a retry goes on with the compensation of a run that has none")
		return
	}
	if cancelsParts(m.program.main) || cancelsParts(m.program.undo) {
		return // as in checkRetry
	}
	bad, restart, drop, keep := set{}, map[core.StepID]bool{}, map[core.StepID]bool{}, map[core.StepID]bool{}
	for id := m.stop.from; id < len(a.state.Steps); id++ {
		step := &a.state.Steps[id]
		if !step.Spec.Hook && !step.Dropped && endedBadly(step.Phase) {
			restart[core.StepID(id)], bad[step.Key()] = true, true
		}
	}
	for id, k := range m.walked(a) {
		step := &a.state.Steps[id]
		after := slices.ContainsFunc(slices.Collect(maps.Keys(k.since)), func(key string) bool { return bad[key] })
		executed := step.Spec.Kind != core.KindTask || step.Attempt > 0
		keep[id] = after && executed && step.Phase == core.StepSucceeded
		drop[id] = after && !keep[id]
		restart[id] = restart[id] && !after
	}
	fresh := func(ids []core.StepID) []core.StepID {
		return slices.DeleteFunc(slices.Clone(ids), func(id core.StepID) bool { return a.state.Steps[id].Kept })
	}
	for _, rec := range e.Records {
		if reopened, ok := rec.(core.RunReopened); ok && !slices.Equal(fresh(reopened.Keep), fresh(chosen(keep))) {
			m.u.violate(Decided, a.id, "a retry of the compensation keeps the steps %v", reopened.Keep)
		}
	}
	m.compareRetry(a, e, chosen(restart), chosen(drop))
}

func chosen(m map[core.StepID]bool) []core.StepID {
	maps.DeleteFunc(m, func(_ core.StepID, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(m))
}

func (m *bodyModel) compareRetry(a *account, e core.Entry, restart, drop []core.StepID) {
	var restarted, dropped []core.StepID
	for _, rec := range e.Records {
		switch rec := rec.(type) {
		case core.StepReset:
			restarted = append(restarted, rec.Step)
		case core.RunReopened:
			for _, id := range rec.Drop {
				if !a.state.Steps[id].Spec.Hook {
					dropped = append(dropped, id)
				}
			}
		default:
		}
	}
	slices.Sort(restarted)
	slices.Sort(dropped)
	if !slices.Equal(restarted, restart) || !slices.Equal(dropped, drop) {
		m.u.violate(Decided, a.id, "a retry restarts the steps %v and drops %v; it should restart %v and drop %v",
			restarted, dropped, restart, drop)
	}
	m.u.checker.rewound += len(drop)
}

// walked returns the state of each step after another walk through the program: the failed steps that the program had
// seen when it decided the step, and whether it asks for it.
func (m *bodyModel) walked(a *account) map[core.StepID]*known {
	kn := newKnowledge(engine.NewsOf(a.state, nil).Steps)
	m.program.walkThrough(kn, a, m.stop)
	out := map[core.StepID]*known{}
	for i := range a.state.Steps {
		if s := &a.state.Steps[i]; !s.Dropped && !s.Spec.Hook {
			out[s.ID] = kn.steps[s.Spec.Name]
		}
	}
	return out
}

// checkFrom checks the origin of the failure of a run that its body closes.
func (m *bodyModel) checkFrom(a *account, expected []string, from []core.StepID) {
	want := map[core.StepID]bool{}
	for i := range a.state.Steps {
		if s := &a.state.Steps[i]; !s.Dropped && slices.Contains(expected, s.Key()) {
			want[s.ID] = true
		}
	}
	if got := slices.Sorted(slices.Values(from)); !slices.Equal(slices.Compact(got), chosen(want)) {
		m.u.violate(Decided, a.id, "the run's failure came from the steps %v; %v is recorded", expected, from)
	}
}

// cancelsParts reports whether a program cancels parts of itself.
func cancelsParts(actions []action) bool {
	return slices.ContainsFunc(actions, func(act action) bool {
		inside := cancelsParts(act.then) || slices.ContainsFunc(act.parts, cancelsParts)
		return inside || act.kind == doScope || act.cancelsLoser
	})
}
