package sim

import (
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// actOnSomeRun makes a client operate on a run. The operation may make no sense for the run.
func (c *clients) actOnSomeRun() {
	a := c.someRun()
	if a == nil {
		return
	}
	u := c.u
	if u.chance(0.15) {
		c.waitForResult(a)
		return
	}
	step := core.StepID(u.IntN(len(a.state.Steps) + 1))
	retried, ok := u.operator.someStep(a.id, (*stepModel).retryable)
	if !ok || u.chance(0.2) {
		retried = step
	}
	switch x := u.IntN(100); {
	case x < 10:
		c.operate(a.id, core.Operation{Op: core.OpCancelGracefully, Step: core.NoStep})
	case x < 16:
		c.operate(a.id, core.Operation{Op: core.OpCancel, Step: core.NoStep})
	case x < 20:
		c.operate(a.id, core.Operation{Op: core.OpTerminate, Step: core.NoStep})
	case x < 32:
		c.operate(a.id, core.Operation{Op: core.OpPause, Step: core.NoStep, StopClock: u.chance(0.5)})
		if u.chance(0.7) {
			id := a.id
			u.after(u.span(time.Millisecond, 20*time.Minute), "a client resumes a run", func() {
				c.operate(id, core.Operation{Op: core.OpResume, Step: core.NoStep})
			})
		}
	case x < 38:
		c.operate(a.id, core.Operation{Op: core.OpResume, Step: core.NoStep})
	case x < 48:
		c.operate(a.id, core.Operation{Op: core.OpRetryRun, Step: core.NoStep})
	case x < 56:
		c.operate(a.id, core.Operation{Op: core.OpRetryStep, Step: retried})
	case x < 61:
		c.operate(a.id, core.Operation{Op: core.OpSkip, Step: step})
	case x < 66:
		c.operate(a.id, core.Operation{Op: core.OpComplete, Step: step, Output: []byte(`{"by":"operator"}`)})
	case x < 71:
		c.operate(a.id, core.Operation{Op: core.OpFail, Step: step})
	case x < 79:
		c.operate(a.id, core.Operation{Op: core.OpNow, Step: step})
	case x < 88:
		c.operate(a.id, core.Operation{Op: core.OpSetPolicy, Step: step, Policy: c.policy()})
	default:
		c.extend(a, step)
	}
}

// interfere makes a client operate on a run at the time when its body decides. With a step, whose attempt has just
// succeeded, the client operates on that step.
func (c *clients) interfere(id core.RunID, step core.StepID) {
	u := c.u
	if u.noFaults || !u.chance(u.profile.interference) {
		return
	}
	if step != core.NoStep {
		ops := []core.Op{core.OpComplete, core.OpFail, core.OpSkip}
		op := core.Operation{Op: pick(u.random, ops), Step: step, Output: []byte(`"by hand"`)}
		u.after(u.between(0, body.AnswerTime), "a client interferes", func() { c.operate(id, op) })
		return
	}
	op := core.Operation{Op: core.OpRetryStep}
	failed, ok := false, false
	if op.Step, ok = u.operator.someStep(id, (*stepModel).retryable); ok {
		failed = !u.chance(0.3)
	}
	if !failed {
		op.Op, op.Step = core.OpPause, core.NoStep
		u.after(u.span(time.Millisecond, time.Minute), "a client resumes a run", func() {
			c.operate(id, core.Operation{Op: core.OpResume, Step: core.NoStep})
		})
	}
	soon := u.between(0, max(u.profile.computeTime, u.profile.callTime, body.AnswerTime))
	u.after(soon, "a client interferes", func() { c.operate(id, op) })
}

func (c *clients) extend(a *account, step core.StepID) {
	u := c.u
	op := core.Operation{Op: core.OpExtend, Step: step}
	if u.chance(0.5) {
		op.Step = core.NoStep
	}
	if u.chance(0.5) {
		op.Limit = pick(u.random, []policy.LimitKind{
			policy.LimitExecution, policy.LimitRun, policy.LimitScheduleToClose, policy.LimitDeadline, policy.LimitWait,
		})
	}
	switch u.IntN(4) {
	case 0:
		op.To = u.clock().Add(u.span(time.Millisecond, time.Hour))
	case 1:
		op.To = policy.FarFuture
		if op.Step == core.NoStep && byCron(a.state) {
			op.To = u.clock().Add(u.span(time.Minute, time.Hour)) // else a chain by cron would never end
		}
	default:
		op.By = u.span(time.Second, time.Hour)
		if u.chance(0.3) {
			op.By = -op.By
		}
	}
	c.operate(a.id, op)
}

// byCron reports whether runs of a timetable follow a run.
func byCron(r *core.Run) bool {
	def := r.Attached()
	return def != nil && (def.Timetable != "" || def.Rules != nil && def.Rules(r.Input).Follows != nil)
}

// policy chooses the policy with which an operator replaces that of a step.
func (c *clients) policy() *policy.Policy {
	u := c.u
	p := &policy.Policy{}
	if u.chance(0.8) {
		p.Retry = &policy.Retry{
			MaxAttempts:        1 + u.IntN(6),
			InitialInterval:    u.span(time.Millisecond, time.Minute).Truncate(time.Millisecond),
			BackoffCoefficient: 1 + u.Float64(), Jitter: float64(u.IntN(2)) / 2,
		}
		if u.chance(0.1) {
			p.Retry.When = "attempt < 5"
		}
	}
	for _, kind := range policy.StepLimits {
		if !u.chance(0.25) {
			continue
		}
		l := &policy.Limit{
			After:  u.span(100*time.Millisecond, time.Hour).Truncate(time.Millisecond),
			Origin: "operator", Retry: kind.RetriesByDefault(),
		}
		if u.chance(0.3) {
			l.OnExpire = policy.ExpireCancel
		}
		p.Set(kind, l)
	}
	return p
}

// waitForResult waits for a run's outcome like a caller does.
func (c *clients) waitForResult(a *account) {
	u := c.u
	n := u.partitionOf(a.id).node
	if !n.up() {
		return
	}
	w := engine.NewWaiter()
	r := &request{call: &engine.ResultCall{Run: a.id, Waiter: w}, mark: c.mark(), to: n}
	r.call.Answered().Done = func(error) { u.checker.checkAnswer(r) }
	n.call(r.call)
	u.after(u.span(time.Second, time.Hour), "a client stops waiting", func() {
		if outcome, ok := w.Ended(); ok {
			u.checker.checkOutcome(a.id, outcome)
		} else if n.up() {
			n.call(&engine.LeaveCall{Waiter: w})
		}
	})
}

// unblock does what only a client can do, once the faults have ended: it resumes paused runs, sends the events that
// runs wait for, and terminates runs whose body cannot go on.
func (c *clients) unblock() {
	u := c.u
	for _, a := range u.checker.order {
		if a.model.closed {
			continue
		}
		if a.model.paused != 0 {
			c.operate(a.id, core.Operation{Op: core.OpResume, Step: core.NoStep})
		}
		u.talkers.nudgeUpdates(a)
		for i := range a.model.steps {
			if s := &a.model.steps[i]; !s.closed && s.kind == core.KindWait && s.spec.Update == "" {
				c.sendEvent(a.id, awaited(s.spec)[0])
			}
		}
	}
	u.after(10*time.Minute, "clients look for blocked runs", c.unblock)
}

func (c *clients) sendEvent(id core.RunID, event string) {
	r := &request{mark: `"` + c.mark() + `"`}
	in := core.SignalReceived{Name: event, Payload: []byte(r.mark)}
	if c.u.chance(0.5) {
		in.ID = "nudge " + r.mark
	}
	r.call = &engine.InputCall{Run: id, Input: in}
	r.repeated = in.ID != "" && c.u.chance(0.5)
	if c.send(r); r.repeated {
		again := &request{call: &engine.InputCall{Run: id, Input: in}, mark: r.mark, repeated: true}
		c.u.after(c.u.span(time.Second, time.Hour), "an event comes again", func() { c.send(again) })
	}
}
