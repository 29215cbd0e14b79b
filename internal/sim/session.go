package sim

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

const (
	answerTime = 2 * time.Millisecond  // how long the end of an attempt may wait for what the body makes of it
	againTime  = 50 * time.Millisecond // the pause before a body is called again whose decisions were refused
)

// session is one call of a run's body. It keeps the rules of the Go API's: what was decided goes out when all strands wait, in one
// commit with the ends of the attempts that woke them, or after a while without the slow ones.
type session struct {
	h          *host
	run        core.RunID
	decider    *engine.Body
	generation int
	head       *engine.Head // nil: news have not come yet
	held       bool         // and do not come for now
	program    *program
	know       *knowledge
	byID       map[core.StepID]*known
	closed     int // steps known to be closed
	said       int // closed when it was last said that the body waits; -1: never
	tasks      int // attempts of local steps
	pending    int // decisions on their way
	thinks     bool
	stirred    int // how often something was done; a session that idles is evicted

	buffer   []core.Command
	ends     []core.Input
	over     bool // unwound, or finished
	finished bool
	stuck    bool // it is called again after a while
	changed  bool // for good: what its past rests on is no more
	gone     bool
}

// take brings news. It reports false where they contradict what the body has seen: it must be called anew.
func (s *session) take(n engine.News) bool {
	switch {
	case s.over:
		return (s.finished || s.stuck || s.changed) && !s.contradicted(n)
	case n.Whole && s.head == nil:
		s.begin(n)
		return true
	case s.head == nil:
		return true // whole news are on their way and hold these
	case s.contradicted(n):
		return false
	case n.Whole:
		s.said = -1
	}
	for i := range n.Steps {
		st := &n.Steps[i]
		if k := s.known(st); !st.Dropped && k != nil {
			s.learn(k, st)
		}
	}
	s.think()
	return true
}

// contradicted reports whether a step whose end the body has seen did not end so.
func (s *session) contradicted(n engine.News) bool {
	for i := range n.Steps {
		st := &n.Steps[i]
		if k := s.known(st); k != nil && k.confirmed && (st.Phase != k.phase || st.EndedAt != k.endedAt) {
			return true
		}
	}
	return false
}

func (s *session) known(st *engine.Step) *known {
	if k := s.byID[st.ID]; k != nil {
		return k
	}
	return s.know.steps[st.Spec.Name]
}

func (s *session) learn(k *known, st *engine.Step) {
	k.id, s.byID[st.ID] = st.ID, k
	if !st.Phase.Closed() {
		return
	}
	if !k.closed {
		s.closed++
	}
	if st.Phase != core.StepSucceeded {
		s.h.n.u.clients.meddle(s.run, core.NoStep)
	}
	k.phase, k.endedAt, k.output, k.closed, k.confirmed = st.Phase, st.EndedAt, st.Output, true, true
}

func (s *session) begin(n engine.News) {
	s.head, s.know, s.byID = n.Head, newKnowledge(n.Steps), map[core.StepID]*known{}
	w, err := workflowNamed(n.Head.Workflow)
	if err != nil {
		s.h.n.u.violate(Recorded, s.run, "%v", err)
		return
	}
	s.program = w.program
	for i := range n.Steps {
		if n.Steps[i].Phase.Closed() {
			s.closed++
		}
	}
	for _, k := range s.know.steps {
		s.byID[k.id] = k
	}
	s.think()
}

// ended takes the successful end of an attempt before it is recorded. It reports whether it took it.
func (s *session) ended(in core.TaskEnded) bool {
	if s.over || s.head == nil {
		return false
	}
	k := s.byID[in.Step]
	if k == nil || k.closed {
		return false
	}
	s.h.n.u.say("the body of %s is told that step %d has ended", short(s.run), in.Step)
	k.closed, k.phase, k.output = true, core.StepSucceeded, in.Output
	s.closed++
	s.ends = append(s.ends, in)
	s.h.n.u.clients.meddle(s.run, in.Step)
	s.h.n.workers.together(s.run)
	s.think()
	s.late()
	return true
}

// late sends what there is after a while, whoever is slow.
func (s *session) late() {
	s.h.after(s.run, answerTime, "a body has taken long", func() {
		if !s.over {
			s.flush(!s.thinks)
		}
	})
}

// think lets the body go on, with whatever it has heard by then.
func (s *session) think() {
	if s.thinks {
		return
	}
	s.thinks = true
	u := s.h.n.u
	d := u.between(0, u.mood.think)
	if u.calm || u.chance(0.3) {
		d = 0
	}
	s.h.after(s.run, d, "a body goes on", s.goOn)
}

// goOn lets the strands go on that are not slow.
func (s *session) goOn() {
	if s.over {
		return
	}
	u := s.h.n.u
	s.thinks = false
	s.stirred++
	if !u.calm && u.chance(u.mood.hang/20) {
		s.stop()
		return
	}
	slow := map[string]bool{}
	w := s.program.walkThrough(s.know, s.head.Input, func(prefix string) bool {
		if _, drawn := slow[prefix]; !drawn {
			slow[prefix] = !u.calm && u.chance(u.mood.slow)
		}
		return slow[prefix]
	})
	if w.changed != "" {
		s.changes(w.changed)
		return
	}
	for _, cmd := range w.decided {
		if _, mark := cmd.(core.Mark); mark {
			s.closed++
		}
		if _, end := cmd.(core.Close); end {
			s.finished = true
			u.clients.meddle(s.run, core.NoStep)
		}
	}
	s.buffer = append(s.buffer, w.decided...)
	for _, step := range w.came {
		s.begins(step)
	}
	switch {
	case s.finished:
		s.send(append(s.ends, core.Commands{Commands: s.buffer}))
		s.ends, s.buffer, s.over = nil, nil, true
	case w.lags:
		s.think()
		if len(s.buffer) > 0 {
			s.late()
		}
	default:
		s.flush(true)
		s.linger()
	}
	s.h.offered(s, false)
	if s.rests() {
		s.h.giveBack(s)
	}
}

// rests reports whether the body does not go on until something else happens: its strands wait, it cannot go on, or its
// run is paused or closing.
func (s *session) rests() bool {
	switch {
	case s.head == nil:
		return s.held
	case s.over:
		return s.stuck || s.changed
	default:
		return !s.thinks
	}
}

// begins says that the body has come to a recorded step: an attempt may wait for that.
func (s *session) begins(step core.StepID) {
	n := s.h.n
	s.h.put(s.run, "a body comes to a step", func() {
		n.p.Handle(&engine.Call{Op: engine.CallBegin, Run: s.run, Step: step}, n.u.clock())
	})
}

// changes ends a body whose decisions are not those that are recorded.
func (s *session) changes(what string) {
	s.h.n.u.say("the body of %s cannot go on: %s", short(s.run), what)
	s.over, s.changed = true, true
	s.report()
	s.h.giveBack(s)
}

// stop ends a body that computes for longer than it may. It is called again after a while.
func (s *session) stop() {
	u := s.h.n.u
	s.over, s.stuck = true, true
	s.report()
	s.h.giveBack(s)
	s.h.after(s.run, u.span(time.Millisecond, 10*time.Minute), "a body that was stuck is called again", func() {
		s.h.discard(s)
		s.h.ask(s.run)
	})
}

// flush sends what was decided.
func (s *session) flush(waits bool) {
	if len(s.buffer) == 0 && len(s.ends) == 0 && (!waits || s.closed == s.said) {
		return
	}
	inputs := s.ends
	if waits || len(s.buffer) > 0 {
		inputs = append(inputs, core.Commands{Commands: s.buffer, Waits: waits, Closed: s.closed})
	}
	if waits {
		s.said = s.closed
	}
	s.ends, s.buffer = nil, nil
	s.send(inputs)
}

func (s *session) send(inputs []core.Input) {
	s.pending++
	c := &engine.Call{Op: engine.CallBody, Run: s.run, Inputs: inputs, Body: s.decider, Done: func(c *engine.Call) { s.answered(c.Err) }}
	n := s.h.n
	s.h.put(s.run, "a body decides", func() {
		for _, in := range inputs {
			n.u.say("%s hears from the body of %s: %s", n.name, short(s.run), inputText(in))
			n.workers.told(s.run, in)
		}
		n.u.opt.Decide(Decision{n.p, c, s.generation, s.h.generation, n.u.clock()})
	})
}

// answered hears whether what was decided was taken. If not, the run is not what the body believes it to be.
func (s *session) answered(err error) {
	s.pending--
	switch {
	case s.h.n.dead:
		return
	case err == nil:
		s.linger()
		return
	}
	s.h.n.u.say("the body of %s is refused: %v", short(s.run), err)
	s.kill()
	s.h.drop(s)
	s.h.after(s.run, againTime, "a body is called again", func() { s.h.ask(s.run) })
}

// linger evicts a body that idles.
func (s *session) linger() {
	u, stirred := s.h.n.u, s.stirred
	s.h.n.after(u.mood.linger, "a body has idled", func() {
		switch {
		case s.over || s.thinks || s.tasks > 0 || s.stirred != stirred:
		case s.pending > 0: // its successor must not decide anew what is on its way; it lingers again when that is durable
		default:
			u.say("the body of %s is evicted", short(s.run))
			s.kill()
			s.h.drop(s)
		}
	})
}

// taskOver says that an attempt that function was asked for is over.
func (s *session) taskOver() {
	if s.tasks--; s.tasks == 0 && !s.over && !s.thinks {
		s.linger()
	}
}

// offers reports whether the body has asked for the step in this call.
func (s *session) offers(step string) bool {
	if s.know == nil {
		return false
	}
	k := s.know.steps[step]
	return k != nil && k.asked
}

// kill ends the session.
func (s *session) kill() {
	if s.gone {
		return
	}
	s.over, s.gone = true, true
	s.report()
	s.h.offered(s, true)
}

// report hands on the ends of attempts that waited for the body: they have happened.
func (s *session) report() {
	n := s.h.n
	for _, in := range s.ends {
		s.h.put(s.run, "an end is handed on", func() {
			n.u.say("%s hears of %s: %s", n.name, short(s.run), inputText(in))
			n.workers.told(s.run, in)
			n.p.Report(s.run, in, n.u.clock())
		})
	}
	s.ends, s.buffer = nil, nil
}
