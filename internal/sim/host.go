package sim

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// host runs the bodies of a node. It uses the real body.Host and gives it timers, goroutines and an engine in virtual
// time. Messages of bodies to the engine go through the node's inbox, so the engine gets them later, but in order.
type host struct {
	n               *node
	real            *body.Host
	codeIsChanged   bool
	bodies          engine.Bodies // as the engine calls them
	generation      int
	inTransit       map[core.RunID]int // how many messages are on their way to a run's body, or from it
	pending         map[core.RunID]int // decisions of a run that the engine has not answered
	stuckGeneration map[core.RunID]int // the generation in which a run's body was last stuck
	coroutines      map[*coroutine]bool
}

func newHost(n *node) *host {
	h := &host{
		n: n, inTransit: map[core.RunID]int{}, pending: map[core.RunID]int{},
		stuckGeneration: map[core.RunID]int{}, coroutines: map[*coroutine]bool{},
		codeIsChanged: n.u.change.inNewProcess(),
	}
	var shell body.Shell = h
	var toEngine body.EngineCalls = engineCalls{h}
	h.bodies = hostedBodies{h}
	opt := &n.u.opt
	if opt.Shell != nil {
		shell = opt.Shell(shell)
	}
	if opt.Calls != nil {
		toEngine = opt.Calls(toEngine)
	}
	if opt.Bodies != nil {
		h.bodies = opt.Bodies(h.bodies)
	}
	h.real = body.NewHost(context.Background(), body.Config{
		Log: slog.New(slog.DiscardHandler), TaskLimit: taskLimit, Shell: shell, Workflow: h.workflow,
		StuckError: h.stuck, Turns: n.u.profile.turns,
	})
	h.real.Attach(toEngine)
	return h
}

// taskLimit is how long a body may compute without coming to its next step.
const taskLimit = 10 * time.Second

func (h *host) workflow(name string) *body.Function {
	w, err := workflowNamed(name)
	if err != nil {
		return nil
	}
	if w.program == nil {
		return nil
	}
	return &body.Function{Body: func(t *body.Thread) {
		w.program.body(t, h.codeIsChanged || h.n.u.change.hasDecided(t.Run()))
	}}
}

func (h *host) stuck(s *body.Stuck) error {
	h.n.u.tracef("the body of %s cannot go on: %v", short(s.Run), s)
	h.stuckGeneration[s.Run] = h.generation
	return s
}

// codeChanged returns the error of a body that asks for something other than what is recorded, although its code has
// not changed, or nil if there is none.
func (h *host) codeChanged(run core.RunID) *body.Stuck {
	var stuck *body.Stuck
	if h.codeIsChanged || h.stuckGeneration[run] != h.generation {
		return nil // that body belongs to an older generation, which no longer counts
	}
	if errors.As(h.real.Problem(run), &stuck) && stuck.Why == body.Changed {
		return stuck
	}
	return nil
}

// after calls do in the node's process after a while. If the process has died by then, nothing happens.
func (h *host) after(run core.RunID, d time.Duration, what string, do func()) {
	h.inTransit[run]++
	h.n.after(d, what, func() {
		h.arrived(run)
		do()
	})
}

func (h *host) arrived(run core.RunID) {
	if h.inTransit[run]--; h.inTransit[run] == 0 {
		delete(h.inTransit, run)
	}
}

// enqueue puts a message of a run's body to the engine into the node's inbox.
func (h *host) enqueue(run core.RunID, what string, do func()) {
	h.inTransit[run]++
	h.n.enqueue(what, func() {
		h.arrived(run)
		do()
	})
}

// alarm is a body's timer in virtual time.
type alarm struct {
	h     *host
	run   core.RunID
	timer body.Timer
	f     func()
	item  *agendaItem // nil: the alarm is not set
}

func (h *host) AfterFunc(run core.RunID, t body.Timer, d time.Duration, f func()) body.Alarm {
	a := &alarm{h: h, run: run, timer: t, f: f}
	a.Reset(d)
	return a
}

func (a *alarm) Reset(d time.Duration) bool {
	was := a.Stop()
	if a.timer == body.TimerIdle {
		d = a.h.n.u.profile.idleTime
	} else {
		a.h.inTransit[a.run]++ // the idle timer only ends goroutines, so nothing waits for it
	}
	a.set(d)
	return was
}

func (a *alarm) set(d time.Duration) {
	u := a.h.n.u
	a.item = u.agenda.add(u.now.Add(d), "the "+a.timer.String()+" timer of a body fires", func() {
		switch n := a.h.n; {
		case n.dead:
		case n.frozen > u.now:
			a.set(n.frozen.Sub(u.now))
		default:
			a.Stop()
			a.f()
		}
	})
}

func (a *alarm) Stop() bool {
	if a.item == nil {
		return false
	}
	a.item.void = true
	a.item = nil
	if a.timer != body.TimerIdle {
		a.h.arrived(a.run)
	}
	return true
}

// coroutine executes a branch of a body. The agenda resumes it.
type coroutine struct {
	h     *host
	run   core.RunID
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

// coroutineEnded is the panic that ends a coroutine.
type coroutineEnded struct{}

func (h *host) Go(run core.RunID, f func()) body.Goroutine {
	c := &coroutine{h: h, run: run}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if v := recover(); v != nil && v != (coroutineEnded{}) {
				panic(v)
			}
		}()
		c.yield = yield
		f()
	})
	h.coroutines[c] = true
	c.Unpark()
	return c
}

func (c *coroutine) Park() {
	if !c.yield(struct{}{}) {
		panic(coroutineEnded{})
	}
}

func (c *coroutine) Own() bool { return true }

func (c *coroutine) Exit() { panic(coroutineEnded{}) }

// Unpark implements body.Goroutine. The branch computes for a while and then continues with everything it knows by
// then.
func (c *coroutine) Unpark() {
	u := c.h.n.u
	d := u.between(0, u.profile.computeTime)
	switch {
	case u.noFaults || u.chance(0.3):
		d = 0
	case u.chance(u.profile.hangs / 20):
		if u.chance(0.5) {
			return // it computes forever; the task limit must end it
		}
		d = u.span(taskLimit, time.Hour)
	case u.chance(u.profile.slowBranches):
		d += u.between(0, 3*u.profile.computeTime)
	}
	c.h.after(c.run, d, "a branch goes on", func() {
		if _, more := c.next(); !more {
			delete(c.h.coroutines, c)
		}
	})
}

func (h *host) Stacks([]body.Goroutine) string { return "" }

// kill ends all coroutines when their process dies.
func (h *host) kill() {
	for c := range h.coroutines {
		c.stop()
	}
	clear(h.coroutines)
}

// engineCalls is the engine as the host of the bodies calls it.
type engineCalls struct{ *host }

func (h engineCalls) Consult(run core.RunID) {
	h.enqueue(run, "a body asks for news", func() {
		h.n.p.Handle(&engine.ConsultCall{Run: run}, h.n.u.clock())
	})
}

func (h engineCalls) Begin(run core.RunID, step core.StepID) {
	h.enqueue(run, "a body comes to a step", func() {
		h.n.p.Handle(&engine.BeginCall{Run: run, Step: step}, h.n.u.clock())
	})
}

func (h engineCalls) Do(run core.RunID, b *engine.Body, inputs []core.Input, done func(error)) {
	n, generation := h.n, h.generation
	h.pending[run]++
	c := &engine.DoCall{Run: run, Inputs: inputs, Body: b}
	c.Done = func(err error) {
		if h.pending[run]--; h.pending[run] == 0 {
			delete(h.pending, run)
		}
		if err != nil {
			n.u.tracef("decisions of the body of %s are refused: %v", short(run), err)
		}
		if !n.dead {
			done(err)
			n.u.talkers.tell(run)
		}
	}
	if closes(inputs) {
		n.u.clients.interfere(run, core.NoStep)
	}
	h.enqueue(run, "a body decides", func() {
		for _, in := range inputs {
			n.u.tracef("%s gets from the body of %s: %s", n.name, short(run), inputText(in))
			n.workers.forget(run, in)
		}
		n.u.opt.Decide(Decision{n.p, c, generation, h.generation, n.u.clock()})
	})
}

// closes reports whether a body closes its run.
func closes(inputs []core.Input) bool {
	for _, in := range inputs {
		cmds, _ := in.(core.Commands)
		for _, cmd := range cmds.Commands {
			if _, ok := cmd.(core.Close); ok {
				return true
			}
		}
	}
	return false
}

func (h engineCalls) Report(run core.RunID, in core.Input) {
	n := h.n
	h.enqueue(run, "a body reports an end", func() {
		n.u.tracef("%s gets a report of %s: %s", n.name, short(run), inputText(in))
		n.workers.forget(run, in)
		n.p.Report(run, in, n.u.clock())
	})
}

// Rematch implements body.EngineCalls. All workflows are registered from the start, so there is nothing to do.
func (engineCalls) Rematch() {}

// Confirm implements body.EngineCalls. The simulated workers report to the engine themselves.
func (engineCalls) Confirm(core.RunID, core.Input, func(bool)) {}

// hostedBodies is the host of the bodies as the engine calls it.
type hostedBodies struct{ *host }

func (h hostedBodies) Consult(n engine.News) (decides bool) {
	h.n.u.tracef("%s gets news of %s: whole %t, %d steps", h.n.name, short(n.Run), n.Whole, len(n.Steps))
	for i := range n.Steps {
		if s := &n.Steps[i]; !n.Whole && s.Phase.Closed() && s.Phase != core.StepSucceeded {
			h.n.u.clients.interfere(n.Run, core.NoStep)
		}
	}
	decides = h.real.Consult(n)
	if !n.Held {
		h.n.u.operator.afterNews(n.Run)
	}
	return decides
}

func (h hostedBodies) CanBegin(run core.RunID, workflow, step, taskType string) bool {
	return h.real.CanBegin(run, workflow, step, taskType)
}

func (h hostedBodies) Forget(run core.RunID) { h.real.Forget(run) }

func (h hostedBodies) Reset(generation int, livesHere func(core.RunID) bool) {
	h.generation = generation
	h.real.Reset(generation, livesHere)
}

// takeEnd gives a body the end of a successful attempt before the engine gets it. It reports whether the body took it.
func (h *host) takeEnd(run core.RunID, in core.Input) bool {
	if !h.real.Ended(run, in) {
		return false
	}
	end, _ := in.(core.TaskEnded)
	h.n.u.tracef("the body of %s gets the end of step %d", short(run), end.Step)
	h.n.u.clients.interfere(run, end.Step)
	if h.n.u.chance(0.2) {
		h.n.u.clients.interfere(run, core.NoStep)
	}
	h.n.workers.endTogether(run)
	h.n.u.operator.afterEnd(run)
	h.n.workers.noteTaken(run, end)
	return true
}

// findFunction looks for the function of an attempt. The attempt begins when the run's body reaches its step. If the
// body waits for something else, the attempt is given back.
func (h *host) findFunction(wt *workerTask) {
	run := wt.task.Token.Run
	answered := false
	answer := func(a body.Answer, _ body.Func) {
		answered = true
		switch {
		case wt.over || wt.revoked:
		case a == body.Found:
			wt.begin()
		case a == body.NotReached:
			h.after(run, 0, "an attempt is given back", func() {
				if !wt.over && !wt.revoked {
					wt.giveBack()
				}
			})
		default:
			h.after(run, 0, "a worker looks for its function again", func() {
				if !wt.over && !wt.revoked {
					h.findFunction(wt)
				}
			})
		}
	}
	if h.n.u.opt.Search != nil {
		answer = h.n.u.opt.Search(answer)
	}
	wt.search = h.real.Search(wt.task, answer)
	if !answered {
		h.n.u.operator.whileSearching(h.n, run)
	}
}
