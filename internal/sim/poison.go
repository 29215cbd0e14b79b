package sim

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// poison is a step that kills its process, in some universes: whenever an attempt of it has begun, the process dies. It
// has to be stopped for that, and no other step may be.
type poison struct {
	random
	u       *universe
	planted bool
	step    stepOfRun
	chosen  bool
	kills   int
}

// newPoison draws from numbers of its own, so that universes without poison stay as they are.
func newPoison(u *universe) *poison {
	p := &poison{random: newRandom(u.seed, 0x9015), u: u}
	p.planted = !u.opt.NoFaults && u.opt.CrashAt == 0 && p.chance(0.3)
	return p
}

// is reports whether an attempt is of the poisonous step. The first one that begins may become it.
func (p *poison) is(t core.Task) bool {
	at := stepOfRun{t.Token.Run, t.Token.Step}
	if p.planted && !p.chosen && !p.u.noFaults && p.chance(0.2) {
		p.step, p.chosen = at, true
	}
	return p.chosen && p.step == at
}

// kill has an attempt kill its process, once it has announced itself where it has to.
func (p *poison) kill(wt *workerTask) {
	u := p.u
	u.after(u.span(time.Millisecond, 2*time.Second), "a poisonous step is at work", func() {
		a := u.checker.accounts[wt.task.Token.Run]
		switch {
		case wt.over || wt.w.dead || wt.revoked:
		case wt.task.Announce && a.state.Steps[wt.task.Token.Step].BeatAt == 0:
			wt.report(core.Beat{Step: wt.task.Token.Step, Attempt: wt.task.Token.Attempt})
			p.kill(wt)
		default:
			p.kills++
			n := wt.w.n
			if n == n.home.formerOwner {
				n.endFenced()
				return
			}
			u.crashes++
			n.die("of a poisonous step")
			n.home.poisoned = true
		}
	})
}

// losses are the checker's own count of the attempts that a step has lost with its worker.
type losses struct {
	row    int    // in a row
	counts int    // those of them that count
	others int    // those of them that the poisonous step has not caused
	apart  bool   // the step was a suspect when its last attempt started
	found  string // the heartbeat details that the attempt began with
	last   string // the last ones
}

// countLoss takes the end of an attempt.
func (m *runModel) countLoss(s *stepModel, i int, rec core.AttemptEnded) {
	l, f := &s.losses, rec.Failure
	if rec.Details != nil {
		l.last = string(rec.Details)
	}
	switch {
	case f == nil || f.Kind != policy.KindLost:
		l.row, l.counts, l.others = 0, 0, 0
	case f.Type == core.TypeNotBegun || f.Type == core.TypeWorkerClosed:
	default:
		if l.row >= 2 {
			l.counts++
		}
		if l.last != l.found {
			l.counts = 0 // it made progress
		}
		l.row++
		if f.Type != "lost" || !m.ch.appending.home.poisoned {
			l.others++
		}
	}
	if rec.Apart != l.counts {
		m.fail(Counted, "%d losses of step %s count, %d are recorded", l.counts, m.name(i), rec.Apart)
	}
	if f == nil || f.Kind != policy.KindLost || !rec.Retry {
		return
	}
	pause := time.Duration(0)
	if l.row >= 2 {
		pause = min(time.Second<<l.counts, 5*time.Minute)
	}
	if l.counts >= 5 || rec.NextAt != m.at.Add(pause) {
		m.fail(Counted, "step %s is tried again at %s after %d losses in a row, of which %d count",
			m.name(i), offset(rec.NextAt), l.row, l.counts)
	}
}

// checkStopped checks that a step which was stopped for its losses is the poisonous one, or had enough of its own.
// Twice the poisonous one may kill what runs beside it before it is suspected.
func (m *runModel) checkStopped(s *stepModel, i int) {
	p := m.ch.u.poison
	if s.losses.counts < 5 {
		m.fail(Counted, "step %s is stopped after %d losses that count", m.name(i), s.losses.counts)
	}
	if at := (stepOfRun{m.a.id, core.StepID(i)}); at != p.step && s.losses.others < 3 {
		m.fail(Counted, "step %s is stopped, and the poisonous step caused all of its %d losses but %d",
			m.name(i), s.losses.row, s.losses.others)
	}
	if p.chosen && p.step == (stepOfRun{m.a.id, core.StepID(i)}) {
		m.ch.poisoned++
	}
}

// suspected reports whether the step of an attempt was a suspect when that started. It may have ended since.
func (ch *checker) suspected(tok core.Token) bool {
	a := ch.accounts[tok.Run]
	return a != nil && int(tok.Step) < len(a.model.steps) && a.model.steps[tok.Step].losses.apart
}

// checkAlone checks that no other suspect is in the workers' hands.
func (w *workers) checkAlone(t core.Task) {
	if w.otherSuspect(t.Token) {
		w.n.u.violate(Slots, t.Token.Run, "attempt %s of a suspect begins beside one of another suspect",
			tokenText(t.Token))
	}
}

// otherSuspect reports whether an attempt of another suspect is in the workers' hands.
func (w *workers) otherSuspect(than core.Token) bool {
	for tok, wt := range w.tasks {
		if wt.suspect && tok != than {
			return true
		}
	}
	return false
}
