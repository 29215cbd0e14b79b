package sim

import (
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// act lets a client do something to a run, sensible or not.
func (c *clients) act() {
	a := c.someRun()
	if a == nil {
		return
	}
	u := c.u
	if u.chance(0.15) {
		c.ask(a)
		return
	}
	step := core.StepID(u.IntN(len(a.shadow.Steps) + 1))
	retried := c.badStep(a.id)
	if retried == core.NoStep || u.chance(0.2) {
		retried = step
	}
	switch x := u.IntN(100); {
	case x < 10:
		c.operate(a.id, core.Operation{Op: core.OpCancel, Step: core.NoStep})
	case x < 16:
		c.operate(a.id, core.Operation{Op: core.OpInterrupt, Step: core.NoStep})
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

// meddle lets a client do something to a run, or to a step whose attempt has just succeeded, at the time when its body decides.
func (c *clients) meddle(id core.RunID, step core.StepID) {
	u := c.u
	if u.calm || !u.chance(u.mood.meddle) {
		return
	}
	if step != core.NoStep {
		op := core.Operation{Op: pick(u.random, []core.Op{core.OpComplete, core.OpFail, core.OpSkip}), Step: step, Output: []byte(`"by hand"`)}
		u.after(u.between(0, body.AnswerTime), "a client meddles", func() { c.operate(id, op) })
		return
	}
	op := core.Operation{Op: core.OpRetryStep, Step: c.badStep(id)}
	if op.Step == core.NoStep || u.chance(0.3) {
		op.Op, op.Step = core.OpPause, core.NoStep
		u.after(u.span(time.Millisecond, time.Minute), "a client resumes a run", func() {
			c.operate(id, core.Operation{Op: core.OpResume, Step: core.NoStep})
		})
	}
	u.after(u.between(0, max(u.mood.think, u.mood.lag, body.AnswerTime)), "a client meddles", func() { c.operate(id, op) })
}

// badStep draws one of the failed steps of a run; NoStep: it has none.
func (c *clients) badStep(id core.RunID) core.StepID {
	var all []core.StepID
	if a := c.u.book.accounts[id]; a != nil {
		for i := range a.shadow.Steps {
			if s := &a.shadow.Steps[i]; bad(s.Phase) && !s.Dropped {
				all = append(all, s.ID)
			}
		}
	}
	if len(all) == 0 {
		return core.NoStep
	}
	return pick(c.u.random, all)
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
		if def := a.shadow.Attached(); def != nil && op.Step == core.NoStep && def.Timetable != "" {
			op.To = u.clock().Add(u.span(time.Minute, time.Hour)) // a chain by cron is to end some day
		}
	default:
		op.By = u.span(time.Second, time.Hour)
		if u.chance(0.3) {
			op.By = -op.By
		}
	}
	c.operate(a.id, op)
}

// policy draws what an operator replaces a step's policy with.
func (c *clients) policy() *policy.Policy {
	u := c.u
	p := &policy.Policy{}
	if u.chance(0.8) {
		p.Retry = &policy.Retry{
			MaxAttempts: 1 + u.IntN(6), InitialInterval: u.span(time.Millisecond, time.Minute).Truncate(time.Millisecond),
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
		l := &policy.Limit{After: u.span(100*time.Millisecond, time.Hour).Truncate(time.Millisecond), Origin: "operator", Retry: kind.RetriesByDefault()}
		if u.chance(0.3) {
			l.OnExpire = policy.ExpireCancel
		}
		p.Set(kind, l)
	}
	return p
}

// ask waits for a run's outcome, as a caller does.
func (c *clients) ask(a *account) {
	u := c.u
	n := u.seatOf(a.id).node
	if !n.up() {
		return
	}
	w := engine.NewWaiter()
	r := &request{call: &engine.Call{Op: engine.CallResult, Run: a.id, Waiter: w}, mark: c.mark(), to: n}
	r.call.Done = func(*engine.Call) { u.book.answered(r) }
	n.call(r.call)
	u.after(u.span(time.Second, time.Hour), "a client stops waiting", func() {
		if outcome, ok := w.Ended(); ok {
			u.book.outcome(&request{call: &engine.Call{Run: a.id, Outcome: outcome}})
		} else if n.up() {
			n.call(&engine.Call{Op: engine.CallLeave, Run: a.id, Waiter: w})
		}
	})
}

// nudge does, when all is calm, what only somebody outside can do: it resumes what is paused and sends the events that
// are waited for.
func (c *clients) nudge() {
	u := c.u
	for _, a := range u.book.order {
		if a.model.closed {
			continue
		}
		if a.model.paused != 0 {
			c.operate(a.id, core.Operation{Op: core.OpResume, Step: core.NoStep})
		}
		for i := range a.model.steps {
			if s := &a.model.steps[i]; !s.closed && s.kind == core.KindWait {
				c.operateSignal(a.id, s.spec.Event)
			}
		}
	}
	u.after(10*time.Minute, "those outside look again", c.nudge)
}

func (c *clients) operateSignal(id core.RunID, event string) {
	r := &request{mark: `"` + c.mark() + `"`}
	in := core.SignalReceived{Name: event, Payload: []byte(r.mark)}
	if c.u.chance(0.5) {
		in.ID = "nudge " + r.mark
	}
	r.call = &engine.Call{Op: engine.CallInput, Run: id, Input: in}
	r.repeated = in.ID != "" && c.u.chance(0.5)
	if c.send(r); r.repeated {
		again := &request{call: &engine.Call{Op: engine.CallInput, Run: id, Input: in}, mark: r.mark, repeated: true}
		c.u.after(c.u.span(time.Second, time.Hour), "an event comes again", func() { c.send(again) })
	}
}
