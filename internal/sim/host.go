package sim

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// host calls the bodies of a node's runs, as the Go API does, with programs in place of functions. What it has to say goes through
// the node's inbox, so that the engine hears of it later and in order.
type host struct {
	n          *node
	bodies     engine.Bodies // the host itself, or what the universe's options lay over it
	sessions   map[core.RunID]*session
	generation int
	coming     map[core.RunID]int // what is on its way to a run's body, or from it
	wanting    []*job             // attempts whose worker waits for the function
}

func newHost(n *node) *host {
	h := &host{n: n, sessions: map[core.RunID]*session{}, coming: map[core.RunID]int{}}
	h.bodies = h
	if wrap := n.u.opt.Bodies; wrap != nil {
		h.bodies = wrap(h)
	}
	return h
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

// ask asks the engine for news of a run.
func (h *host) ask(run core.RunID) {
	h.put(run, "a body asks for news", func() {
		h.n.p.Handle(&engine.Call{Op: engine.CallConsult, Run: run}, h.n.u.clock())
	})
}

// Consult implements engine.Bodies.
func (h *host) Consult(n engine.News) {
	h.n.u.say("%s is told of %s: whole %t, %d steps", h.n.name, short(n.Run), n.Whole, len(n.Steps))
	s := h.sessions[n.Run]
	if n.Held {
		if s != nil && s.head == nil {
			s.held = true
			h.giveBack(s)
		}
		return
	}
	if s == nil {
		s = h.open(n.Run)
		if !n.Whole {
			h.ask(n.Run)
			return
		}
	}
	if s.take(n) {
		return
	}
	h.discard(s)
	if !n.Whole {
		h.ask(n.Run)
		return
	}
	h.Consult(n)
}

// Begins implements engine.Bodies: an attempt of a local step begins where the body has asked for it.
func (h *host) Begins(run core.RunID, _, step, taskType string) bool {
	return taskType != typeLocal || h.session(run).offers(step)
}

// Forget implements engine.Bodies.
func (h *host) Forget(run core.RunID) {
	if s := h.sessions[run]; s != nil {
		h.discard(s)
	}
}

// Reset implements engine.Bodies.
func (h *host) Reset(generation int) {
	h.generation = generation
	all := make([]*session, 0, len(h.sessions))
	for _, s := range h.sessions {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *session) int { return compareTokens(core.Token{Run: a.run}, core.Token{Run: b.run}) })
	clear(h.sessions)
	for _, s := range all {
		s.kill()
	}
}

func (h *host) open(run core.RunID) *session {
	s := &session{h: h, run: run, decider: engine.NewBody(h.generation), generation: h.generation, said: -1}
	h.sessions[run] = s
	return s
}

// session returns the run's session; where there is none it asks for news to make one.
func (h *host) session(run core.RunID) *session {
	s := h.sessions[run]
	if s == nil {
		s = h.open(run)
		h.ask(run)
	}
	return s
}

// discard ends a session that believed what is not so, or that is of no more use.
func (h *host) discard(s *session) {
	s.decider.Void()
	s.kill()
	h.drop(s)
}

func (h *host) drop(s *session) {
	if h.sessions[s.run] == s {
		delete(h.sessions, s.run)
	}
}

// ended lets a body know of an attempt that has succeeded before the engine does. It reports whether the body takes that on.
func (h *host) ended(run core.RunID, in core.Input) bool {
	end, ok := in.(core.TaskEnded)
	if !ok || end.Failure != nil {
		return false
	}
	s := h.sessions[run]
	return s != nil && s.ended(end)
}

// function looks for the function of an attempt, and reports whether it is there. Otherwise the attempt begins when the run's body
// has come to it, or goes back if the body rests without having come to it.
func (h *host) function(j *job) bool {
	j.session = h.session(j.task.Token.Run)
	j.session.tasks++
	if j.session.offers(j.task.StepName) {
		return true
	}
	if j.session.rests() {
		j.giveBack()
		return false
	}
	h.wanting = append(h.wanting, j)
	return false
}

// giveBack gives the attempts back whose functions a body that rests has not come to. They would hold slots of what it
// waits for (seed 5029237), or for ever where it is not called again.
func (h *host) giveBack(s *session) {
	var back []*job
	h.wanting = slices.DeleteFunc(h.wanting, func(j *job) bool {
		if j.session != s || j.over || j.revoked {
			return false
		}
		back = append(back, j)
		return true
	})
	for _, j := range back {
		j.giveBack()
	}
}

// offered begins the attempts that waited for what a body has come to; of a body that is gone they look for the next one.
func (h *host) offered(s *session, gone bool) {
	var ready []*job
	h.wanting = slices.DeleteFunc(h.wanting, func(j *job) bool {
		take := j.over || j.revoked || (j.session == s && (gone || s.offers(j.task.StepName)))
		if take && !j.over && !j.revoked {
			ready = append(ready, j)
		}
		return take
	})
	for _, j := range ready {
		if !gone {
			j.begin()
			continue
		}
		j.session = nil
		h.after(s.run, 0, "a worker looks for its function", func() {
			if !j.over && !j.revoked && h.function(j) {
				j.begin()
			}
		})
	}
}
