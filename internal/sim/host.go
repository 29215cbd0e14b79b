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

// host gives the host of a node's bodies, which is the real one, its timers, goroutines and engine in virtual time.
// What bodies have to say goes through the node's inbox, so that the engine hears of it later and in order.
type host struct {
	n          *node
	real       *body.Host
	bodies     engine.Bodies // what the engine calls
	generation int
	coming     map[core.RunID]int // what is on its way to a run's body, or from it
	pending    map[core.RunID]int // decisions that the engine has not answered
	stuckIn    map[core.RunID]int // the generation in which a run's body last could not go on
	coroutines map[*coroutine]bool
}

func newHost(n *node) *host {
	h := &host{n: n, coming: map[core.RunID]int{}, pending: map[core.RunID]int{}, stuckIn: map[core.RunID]int{}, coroutines: map[*coroutine]bool{}}
	var shell body.Shell = h
	var toEngine body.EngineCalls = calls{h}
	h.bodies = listener{h}
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
		Log: slog.New(slog.DiscardHandler), TaskLimit: taskLimit, Shell: shell, Workflow: h.workflow, StuckError: h.stuck,
	})
	h.real.Attach(toEngine)
	return h
}

// taskLimit is how long a body may compute.
const taskLimit = 10 * time.Second

func (h *host) workflow(name string) *body.Workflow {
	w, err := workflowNamed(name)
	if err != nil {
		return nil
	}
	if w.program == nil {
		return nil
	}
	return &body.Workflow{Body: w.program.play}
}

func (h *host) stuck(s *body.Stuck) error {
	h.n.u.say("the body of %s cannot go on: %v", short(s.Run), s)
	h.stuckIn[s.Run] = h.generation
	return s
}

// changed returns why a run's body cannot go on, where it asks for something else than is recorded; nil: it does not.
func (h *host) changed(run core.RunID) *body.Stuck {
	var stuck *body.Stuck
	if h.stuckIn[run] != h.generation {
		return nil // what it rested on is void
	}
	if errors.As(h.real.Problem(run), &stuck) && stuck.Why == body.Changed {
		return stuck
	}
	return nil
}

// after lets something happen in the node's process, if that is still there.
func (h *host) after(run core.RunID, d time.Duration, what string, do func()) {
	h.coming[run]++
	h.n.after(d, what, func() {
		h.came(run)
		do()
	})
}

func (h *host) came(run core.RunID) {
	if h.coming[run]--; h.coming[run] == 0 {
		delete(h.coming, run)
	}
}

// put tells the engine something about a run.
func (h *host) put(run core.RunID, what string, do func()) {
	h.coming[run]++
	h.n.put(what, func() {
		h.came(run)
		do()
	})
}

// alarm is a timer of a body in virtual time.
type alarm struct {
	h     *host
	run   core.RunID
	timer body.Timer
	f     func()
	item  *agendaItem // nil: it is not set
}

// AfterFunc implements body.Shell.
func (h *host) AfterFunc(run core.RunID, t body.Timer, d time.Duration, f func()) body.Alarm {
	a := &alarm{h: h, run: run, timer: t, f: f}
	a.Reset(d)
	return a
}

// Reset implements body.Alarm.
func (a *alarm) Reset(d time.Duration) bool {
	was := a.Stop()
	if a.timer == body.TimerIdle {
		d = a.h.n.u.mood.linger
	} else {
		a.h.coming[a.run]++ // something is done then; a body that idles does nothing
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

// Stop implements body.Alarm.
func (a *alarm) Stop() bool {
	if a.item == nil {
		return false
	}
	a.item.void = true
	a.item = nil
	if a.timer != body.TimerIdle {
		a.h.came(a.run)
	}
	return true
}

// coroutine executes a branch of a body. It is resumed on the agenda.
type coroutine struct {
	h     *host
	run   core.RunID
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

// unwound ends a coroutine.
type unwound struct{}

// Go implements body.Shell.
func (h *host) Go(run core.RunID, f func()) body.Goroutine {
	c := &coroutine{h: h, run: run}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if v := recover(); v != nil && v != (unwound{}) {
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

// Park implements body.Goroutine.
func (c *coroutine) Park() {
	if !c.yield(struct{}{}) {
		panic(unwound{})
	}
}

// Exit implements body.Goroutine.
func (c *coroutine) Exit() { panic(unwound{}) }

// Unpark implements body.Goroutine: the branch computes for a while, with whatever it has heard by then, and goes on.
func (c *coroutine) Unpark() {
	u := c.h.n.u
	d := u.between(0, u.mood.think)
	switch {
	case u.calm || u.chance(0.3):
		d = 0
	case u.chance(u.mood.hang / 20):
		if u.chance(0.5) {
			return // it computes for ever
		}
		d = u.span(taskLimit, time.Hour)
	case u.chance(u.mood.slow):
		d += u.between(0, 3*u.mood.think)
	}
	c.h.after(c.run, d, "a branch goes on", func() {
		if _, more := c.next(); !more {
			delete(c.h.coroutines, c)
		}
	})
}

// Stacks implements body.Shell.
func (h *host) Stacks([]body.Goroutine) string { return "" }

// kill ends all coroutines, with their process.
func (h *host) kill() {
	for c := range h.coroutines {
		c.stop()
	}
	clear(h.coroutines)
}

// calls is the engine as the host of bodies sees it.
type calls struct{ *host }

// Consult implements body.EngineCalls.
func (h calls) Consult(run core.RunID) {
	h.put(run, "a body asks for news", func() {
		h.n.p.Handle(&engine.Call{Op: engine.CallConsult, Run: run}, h.n.u.clock())
	})
}

// Begin implements body.EngineCalls.
func (h calls) Begin(run core.RunID, step core.StepID) {
	h.put(run, "a body comes to a step", func() {
		h.n.p.Handle(&engine.Call{Op: engine.CallBegin, Run: run, Step: step}, h.n.u.clock())
	})
}

// Do implements body.EngineCalls.
func (h calls) Do(run core.RunID, b *engine.Body, inputs []core.Input, done func(error)) {
	n, generation := h.n, h.generation
	h.pending[run]++
	c := &engine.Call{Op: engine.CallBody, Run: run, Inputs: inputs, Body: b, Done: func(c *engine.Call) {
		if h.pending[run]--; h.pending[run] == 0 {
			delete(h.pending, run)
		}
		if c.Err != nil {
			n.u.say("the body of %s is refused: %v", short(run), c.Err)
		}
		if !n.dead {
			done(c.Err)
		}
	}}
	if closes(inputs) {
		n.u.clients.meddle(run, core.NoStep)
	}
	h.put(run, "a body decides", func() {
		for _, in := range inputs {
			n.u.say("%s hears from the body of %s: %s", n.name, short(run), inputText(in))
			n.workers.told(run, in)
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

// Report implements body.EngineCalls.
func (h calls) Report(run core.RunID, in core.Input) {
	n := h.n
	h.put(run, "an end is handed on", func() {
		n.u.say("%s hears of %s: %s", n.name, short(run), inputText(in))
		n.workers.told(run, in)
		n.p.Report(run, in, n.u.clock())
	})
}

// Rematch implements body.EngineCalls. No workflow is registered late here.
func (calls) Rematch() {}

// Confirm implements body.EngineCalls. The workers here tell the engine themselves.
func (calls) Confirm(core.RunID, core.Input, func(bool)) {}

// listener is the host as the engine sees it.
type listener struct{ *host }

// Consult implements engine.Bodies.
func (h listener) Consult(n engine.News) {
	h.n.u.say("%s is told of %s: whole %t, %d steps", h.n.name, short(n.Run), n.Whole, len(n.Steps))
	for i := range n.Steps {
		if s := &n.Steps[i]; !n.Whole && s.Phase.Closed() && s.Phase != core.StepSucceeded {
			h.n.u.clients.meddle(n.Run, core.NoStep)
		}
	}
	h.real.Consult(n)
}

// Begins implements engine.Bodies.
func (h listener) CanBegin(run core.RunID, workflow, step, taskType string) bool {
	return h.real.CanBegin(run, workflow, step, taskType)
}

// Forget implements engine.Bodies.
func (h listener) Forget(run core.RunID) { h.real.Forget(run) }

// Reset implements engine.Bodies.
func (h listener) Reset(generation int, lives func(core.RunID) bool) {
	h.generation = generation
	h.real.Reset(generation, lives)
}

// ended lets a body know of an attempt that has succeeded before the engine does. It reports whether the body takes
// that on.
func (h *host) ended(run core.RunID, in core.Input) bool {
	if !h.real.Ended(run, in) {
		return false
	}
	end, _ := in.(core.TaskEnded)
	h.n.u.say("the body of %s is told that step %d has ended", short(run), end.Step)
	h.n.u.clients.meddle(run, end.Step)
	if h.n.u.chance(0.2) {
		h.n.u.clients.meddle(run, core.NoStep)
	}
	h.n.workers.together(run)
	return true
}

// function looks for the function of an attempt. The attempt begins when the run's body has come to it, or goes
// back if the body rests without having come to it.
func (h *host) function(j *job) {
	run := j.task.Token.Run
	j.search = h.real.Search(j.task, func(a body.Answer, _ body.Func) {
		switch {
		case j.over || j.revoked:
		case a == body.Found:
			j.begin()
		case a == body.NotReached:
			h.after(run, 0, "an attempt goes back", func() {
				if !j.over && !j.revoked {
					j.giveBack()
				}
			})
		default:
			h.after(run, 0, "a worker looks for its function", func() {
				if !j.over && !j.revoked {
					h.function(j)
				}
			})
		}
	})
}
