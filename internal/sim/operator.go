package sim

import (
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
)

// operator operates on runs that have a body, in some universes. It chooses moments at which the body knows less than
// the engine, or the engine less than the body.
type operator struct {
	random
	u      *universe
	active bool
}

// newOperator uses random numbers of its own, so that universes without an operator do not change.
func newOperator(u *universe) *operator {
	o := &operator{random: newRandom(u.seed, 0x09e7a), u: u}
	o.active = !u.opt.NoFaults && o.chance(0.3)
	if o.active && o.chance(0.5) {
		// There is one slot for functions, the disk is slow, and bodies are unwound soon. So attempts often start when
		// their body was just unwound, and wait until it reaches their steps again.
		u.profile.slots[body.TypeLocal], u.profile.bodyRuns, u.profile.diskTime = 1, 0.9, 200*time.Millisecond
		u.profile.idleTime, u.profile.computeTime = time.Millisecond, time.Second
	}
	return o
}

// works reports whether the operator does something now that it does with that chance.
func (o *operator) works(chance float64) bool { return o.active && !o.u.noFaults && o.chance(chance) }

// afterNews makes the operator act when a body gets news. While the run is paused, the operator fails an open step and
// retries it at once. The body gets no news during a pause, so it never learns that the step was closed: the news after
// the resume look to it as if nothing had happened. But the engine waits to learn again that the body waits.
func (o *operator) afterNews(run core.RunID) {
	if !o.works(0.05) {
		return
	}
	o.u.after(o.between(0, o.u.profile.idleTime), "an operator retries a step of a paused run", func() {
		step, ok := o.someStep(run, func(s *stepModel) bool { return !s.closed && !s.live && !s.stopping })
		if !ok {
			return
		}
		for i, op := range []core.Operation{
			{Op: core.OpPause, Step: core.NoStep},
			{Op: core.OpFail, Step: step},
			{Op: core.OpRetryStep, Step: step},
			{Op: core.OpResume, Step: core.NoStep},
		} {
			o.u.after(time.Duration(i)*time.Microsecond, "an operator operates on a run", func() {
				o.u.clients.operate(run, op)
			})
		}
	})
}

// afterEnd makes the operator act when a body has taken the end of an attempt, which waits for the body's next
// decision. The operator retries another step, whose failure the body has seen. So this call of the body is over, and
// the end that waits must not be lost with it.
func (o *operator) afterEnd(run core.RunID) {
	if !o.works(0.3) {
		return
	}
	o.u.after(o.between(0, body.AnswerTime), "an operator retries a step while an end waits", func() {
		for _, step := range o.stepsOf(run, (*stepModel).retryable) {
			// Those from which the body has gone on are refused.
			o.u.clients.operate(run, core.Operation{Op: core.OpRetryStep, Step: step})
		}
	})
}

// whileSearching makes the operator act when an attempt waits until the body reaches its step. The operator pauses the
// run, and the append of that fails. So this call of the body is over, and the attempt must look for its function in
// the next one.
func (o *operator) whileSearching(n *node, run core.RunID) {
	if !o.works(0.8) {
		return
	}
	o.u.after(o.between(0, o.u.profile.computeTime/10), "an operator pauses a run", func() {
		o.u.clients.operate(run, core.Operation{Op: core.OpPause, Step: core.NoStep})
		o.u.after(0, "an append fails", func() {
			if n.up() && len(n.inFlight) > 0 {
				n.failed(errDisk)
			}
		})
		o.u.after(time.Minute, "an operator resumes a run", func() {
			o.u.clients.operate(run, core.Operation{Op: core.OpResume, Step: core.NoStep})
		})
	})
}

// retryable reports whether an operator can retry the step.
func (s *stepModel) retryable() bool { return s.closed && endedBadly(s.phase) }

// someStep chooses one of a run's steps; false: none fits.
func (o *operator) someStep(run core.RunID, fits func(*stepModel) bool) (core.StepID, bool) {
	steps := o.stepsOf(run, fits)
	if len(steps) == 0 {
		return 0, false
	}
	return pick(o.random, steps), true
}

// stepsOf lists those of a run's steps that fit.
func (o *operator) stepsOf(run core.RunID, fits func(*stepModel) bool) []core.StepID {
	a := o.u.checker.accounts[run]
	if a == nil {
		return nil
	}
	var steps []core.StepID
	for i := range a.model.steps {
		if s := &a.model.steps[i]; !s.dropped && fits(s) {
			steps = append(steps, core.StepID(i))
		}
	}
	return steps
}
