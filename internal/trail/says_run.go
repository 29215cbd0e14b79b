package trail

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// runSays describes what the run does and why, or how it ended.
func (t *speaker) runSays() *phrase {
	r, say := t.Run, &phrase{}
	switch {
	case r.Phase.Closed():
		t.saysEnded(say)
	case r.PausedAt != 0:
		by, reason := t.asked(core.OpPause)
		say.add("Paused%s ", by).ago(api.Time(r.PausedAt))
		if reason != "" {
			say.add(": %s", reason)
		}
		if r.StopClock {
			say.add("; its clock stands")
		}
	case r.Ending():
		t.saysEnding(say)
	case r.InQueue():
		t.saysQueued(say)
	case r.StartAt != 0 && r.StartedAt == 0:
		say.add("Begins ").in(api.Time(r.StartAt))
	default:
		t.saysOpen(say)
	}
	return say.add(".")
}

func (t *speaker) saysQueued(say *phrase) {
	a := t.Run.Admission
	say.add("Waits in the queue ").queue(a.Queue.Name).add(" ").since(api.Time(a.Entered))
	if a.Held.Reason != core.HeldNone {
		held := t.heldBy(a.Held, api.Time(a.Since))
		say.add(": %s", strings.TrimPrefix(held.Why, "held by "+a.Held.Place()+": "))
		say.slot(slotHolders, api.Part{})
		if held.Until != 0 {
			say.add("; it begins ").in(held.Until).add(" at the soonest")
		}
	}
	say.slot(slotAhead, api.Part{})
}

// endsAs returns the phase in which a run that is ending will end.
func endsAs(r *core.Run) core.RunPhase {
	switch {
	case r.Closing != nil:
		return r.Closing.Phase
	case r.Stop != nil:
		return r.Stop.Phase
	default:
		return core.RunCancelled
	}
}

// saysEnding describes how a run will end, why, and what it still does before.
func (t *speaker) saysEnding(say *phrase) {
	r, phase := t.Run, endsAs(t.Run)
	say.add("Ends as %s", words(phase.String()))
	switch by, reason := t.askedToEnd(); {
	case phase == core.RunCancelled && by != "":
		say.add(",%s", by)
		if reason != "" {
			say.add(": %s", reason)
		}
	case r.Closing != nil:
		if why := t.whyAs(phase, r.Closing.Failure); why != "" {
			say.add(": ").failed(why)
		}
	case r.Stop != nil:
		if why := sentence(r.Stop.Failure); why != "" {
			say.add(": ").failed(why)
		}
	}
	if t.saysStopping(say) {
		return
	}
	if r.Compensating() {
		say.add("; it undoes what it did, until ").in(api.Time(r.Stop.Until)).add(" at the latest")
	}
	if s := t.mainStep(); s != nil {
		say.add("; ").step(s.Key()).add(" ").with(t.stepSays(s))
	}
}

// saysStopping describes the work that was told to stop and is not gone. It reports whether there is any.
func (t *speaker) saysStopping(say *phrase) bool {
	stopping := t.stopping()
	if len(stopping) == 0 {
		return false
	}
	s := stopping[0]
	say.add("; ").step(s.Key()).add(" was asked to stop ").ago(api.Time(toldAt(s)))
	if at, _ := t.killAt(s); at != 0 {
		say.add(" and is killed ").in(api.Time(at))
	}
	if others := len(stopping) - 1; others > 0 {
		say.add("; %d more are asked", others)
	}
	return true
}

// stopping returns the steps whose work was told to stop and is not gone, the first one to be killed first.
func (t *speaker) stopping() (all []*core.Step) {
	if t.Run.Live() == 0 {
		return nil
	}
	for i := range t.Run.Steps {
		s := &t.Run.Steps[i]
		if !s.Stopping || s.Dropped {
			continue
		}
		at, _ := t.killAt(s)
		if first, _ := t.firstKill(all); first != 0 && (at == 0 || first <= at) || len(all) > 0 && at == 0 {
			all = append(all, s)
		} else {
			all = append([]*core.Step{s}, all...)
		}
	}
	return all
}

func (t *speaker) firstKill(all []*core.Step) (core.Time, time.Duration) {
	if len(all) == 0 {
		return 0, 0
	}
	return t.killAt(all[0])
}

// toldAt returns when the work of a step was told to stop: when its attempt ended.
func toldAt(s *core.Step) core.Time {
	if s.Phase.Closed() {
		return s.EndedAt
	}
	return s.NextAt.Add(-time.Duration(s.Delay) * time.Millisecond)
}

// killAt returns when work is killed that was told to stop, and the grace that it has until then; zero: that is not
// known.
func (t *speaker) killAt(s *core.Step) (core.Time, time.Duration) {
	def := t.Run.Attached()
	if def == nil || def.GraceOf == nil {
		return 0, 0
	}
	grace := def.GraceOf(s)
	if grace == 0 {
		return 0, 0
	}
	return toldAt(s).Add(grace), grace
}

// saysOpen describes the step that matters most, and how many others are open.
func (t *speaker) saysOpen(say *phrase) {
	s := t.mainStep()
	if s == nil {
		say.add("Decides what comes next")
		return
	}
	say.step(s.Key()).add(" ").with(t.stepSays(s))
	others := -1
	for i := range t.Run.Steps {
		if o := &t.Run.Steps[i]; isOpen(o) && o.Spec.Kind != core.KindGroup {
			others++
		}
	}
	if others == 1 {
		say.add("; 1 more step is open")
	} else if others > 1 {
		say.add("; %d more steps are open", others)
	}
}

func isOpen(s *core.Step) bool { return !s.Phase.Closed() && !s.Dropped }

// mainStep returns the open step that matters most: one that runs, or else one that is retried, waits for a worker, or
// waits for something else. nil: none is open.
func (t *speaker) mainStep() *core.Step {
	rank := func(s *core.Step) int {
		switch {
		case s.Spec.Kind == core.KindGroup: // it stands for its items
			return 0
		case s.Phase == core.StepRunning:
			return 4
		case s.Phase == core.StepBackingOff:
			return 3
		case s.Phase == core.StepScheduled:
			return 2
		default:
			return 1
		}
	}
	if t.Run.Open() == 0 {
		return nil
	}
	var first *core.Step
	for i := range t.Run.Steps {
		if s := &t.Run.Steps[i]; isOpen(s) && (first == nil || rank(s) > rank(first)) {
			first = s
		}
	}
	return first
}

// asked returns who did an operation to the run last, and why: " by ada", "its supplier is away".
func (t *speaker) asked(ops ...core.Op) (by, reason string) {
	for i := len(t.Run.Asked) - 1; i >= 0; i-- {
		a := t.Run.Asked[i]
		for _, op := range ops {
			if a.Op == op && a.Step == core.NoStep {
				if a.Actor != "" {
					by = " by " + a.Actor
				}
				return by, a.Reason
			}
		}
	}
	return "", ""
}

// askedToEnd returns who asked the run to end, and why.
func (t *speaker) askedToEnd() (by, reason string) {
	return t.asked(core.OpCancelGracefully, core.OpCancel, core.OpTerminate)
}

// saysEnded describes how the run ended, and why.
func (t *speaker) saysEnded(say *phrase) {
	r := t.Run
	from, again := lastLife(r)
	say.add("%s in %s", capital(words(r.Phase.String())), api.Length(r.EndedAt.Sub(from)))
	if again {
		say.add(" after a retry")
	}
	if why := t.runWhy(); why != "" {
		say.add(": ").failed(why)
	}
	switch r.Phase {
	case core.RunTimedOut:
		t.saysCut(say)
	case core.RunSucceeded:
		t.saysTolerated(say)
	default:
	}
	t.saysNotUndone(say)
}

// notUndone returns the hooks of a closed run that did not succeed.
func notUndone(r *core.Run) (keys []string) {
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Spec.Hook && !s.Dropped && (failedBadly(s) || s.Phase == core.StepCancelled) {
			keys = append(keys, s.Key())
		}
	}
	return keys
}

// saysNotUndone names what did not end well of what a run does at its end.
func (t *speaker) saysNotUndone(say *phrase) {
	if t.Run.Unfinished() {
		say.add("; its compensation did not finish: what it undoes is not undone")
		return
	}
	keys := notUndone(t.Run)
	if len(keys) == 0 {
		return
	}
	s, _ := t.Run.Lookup(keys[0])
	say.add("; ").step(keys[0]).add(" %s", words(s.Phase.String()))
	if more := len(keys) - 1; more > 0 {
		say.add(", and %d more", more)
	}
	if t.Run.Phase == core.RunSucceeded {
		say.add(": what it does at the end was not done")
	} else {
		say.add(": what it undoes is not undone")
	}
}

// saysCut names the steps that had not ended when the run's limit came.
func (t *speaker) saysCut(say *phrase) {
	var cut []string
	for i := range t.Run.Steps {
		s := &t.Run.Steps[i]
		if cutOff(s) && !s.Dropped && !s.Spec.Hook && s.Spec.Kind != core.KindGroup {
			cut = append(cut, s.Key())
		}
	}
	if len(cut) == 0 {
		return
	}
	say.add("; ")
	saysSteps(say, cut)
	say.add(" had not ended")
}

// cutOff reports whether a step ended because its run did.
func cutOff(s *core.Step) bool {
	if s.Phase == core.StepTimedOut && s.Failure != nil {
		return s.Failure.Limit == policy.LimitRun || s.Failure.Limit == policy.LimitExecution
	}
	return s.Phase == core.StepCancelled && s.Reason == policy.ReasonCancelled
}

// saysTolerated describes what failed in a run that succeeded.
func (t *speaker) saysTolerated(say *phrase) {
	r := t.Run
	for i := range r.Steps {
		s := &r.Steps[i]
		c := t.counted()[s.ID]
		if s.Spec.Kind != core.KindGroup || s.Dropped || c.failed == 0 {
			continue
		}
		say.add("; %d of %d items of ", c.failed, max(t.itemsOf(s), c.all)).step(s.Key()).add(" failed")
		if first := t.itemName(c.first); first != "" && c.failed == 1 {
			say.add(" (item %s)", first)
		} else if !c.alike && first != "" {
			say.add(", the first one (item %s)", first)
		} else if !c.alike {
			say.add(", the first one")
		}
		say.add(": ").failed(c.why)
	}
	var failed []string
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Group == core.NoStep && s.Spec.Kind != core.KindGroup && !s.Dropped && failedBadly(s) {
			failed = append(failed, s.Key())
		}
	}
	if len(failed) > 0 {
		say.add("; ")
		saysSteps(say, failed)
		say.add(" failed")
	}
}

func failedBadly(s *core.Step) bool {
	return s.Phase == core.StepFailed || s.Phase == core.StepTimedOut
}
