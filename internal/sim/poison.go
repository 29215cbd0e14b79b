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
	step    place
	chosen  bool
	kills   int
}

// newPoison draws from numbers of its own, so that universes without poison stay as they are.
func newPoison(u *universe) *poison {
	p := &poison{random: newRandom(u.seed, 0x9015), u: u}
	p.planted = !u.opt.Calm && u.opt.CrashAt == 0 && p.chance(0.3)
	return p
}

// is reports whether an attempt is of the poisonous step. The first one that begins may become it.
func (p *poison) is(t core.Task) bool {
	at := place{t.Token.Run, t.Token.Step}
	if p.planted && !p.chosen && !p.u.calm && p.chance(0.2) {
		p.step, p.chosen = at, true
	}
	return p.chosen && p.step == at
}

// kill has an attempt kill its process, once it has announced itself where it has to.
func (p *poison) kill(j *job) {
	u := p.u
	u.after(u.span(time.Millisecond, 2*time.Second), "a poisonous step is at work", func() {
		a := u.book.accounts[j.task.Token.Run]
		switch {
		case j.over || j.w.dead || j.revoked:
		case j.task.Announce && a.shadow.Steps[j.task.Token.Step].BeatAt == 0:
			j.tell(core.Beat{Step: j.task.Token.Step, Attempt: j.task.Token.Attempt})
			p.kill(j)
		default:
			p.kills++
			n := j.w.n
			if n == n.seat.zombie {
				n.vanish()
				return
			}
			u.crashes++
			n.die("of a poisonous step")
			n.seat.poisoned = true
		}
	})
}

// losses are the checker's own count of the attempts that a step has lost with its worker.
type losses struct {
	row    int    // in a row
	counts int    // those of them that count
	others int    // those of them that the poisonous step has not caused
	found  string // the heartbeat details that the attempt began with
	last   string // the last ones
}

// lose takes the end of an attempt.
func (m *runModel) lose(s *stepModel, i int, rec core.AttemptEnded) {
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
		if f.Type != "lost" || !m.b.writer.seat.poisoned {
			l.others++
		}
	}
	if rec.Apart != l.counts {
		m.bad(Counted, "%d losses of step %s count, %d are recorded", l.counts, m.name(i), rec.Apart)
	}
	if f == nil || f.Kind != policy.KindLost || !rec.Retry {
		return
	}
	pause := time.Duration(0)
	if l.row >= 2 {
		pause = min(time.Second<<l.counts, 5*time.Minute)
	}
	if l.counts >= 5 || rec.NextAt != m.at.Add(pause) {
		m.bad(Counted, "step %s is tried again at %s after %d losses in a row, of which %d count", m.name(i), offset(rec.NextAt), l.row, l.counts)
	}
}

// stoppedFor checks that a step which was stopped for its losses is the poisonous one, or had enough of its own. Twice
// the poisonous one may kill what runs beside it before it is suspected.
func (m *runModel) stoppedFor(s *stepModel, i int) {
	p := m.b.u.poison
	if s.losses.counts < 5 {
		m.bad(Counted, "step %s is stopped after %d losses that count", m.name(i), s.losses.counts)
	}
	if at := (place{m.a.id, core.StepID(i)}); at != p.step && s.losses.others < 3 {
		m.bad(Counted, "step %s is stopped, and of its %d losses only %d are not of the poisonous step", m.name(i), s.losses.row, s.losses.others)
	}
	if p.chosen && p.step == (place{m.a.id, core.StepID(i)}) {
		m.b.poisoned++
	}
}

// suspected reports whether the step of an attempt is a suspect.
func (b *book) suspected(tok core.Token) bool {
	a := b.accounts[tok.Run]
	return a != nil && int(tok.Step) < len(a.model.steps) && a.model.steps[tok.Step].losses.row >= 2
}

// alone checks that no other suspect is in the workers' hands.
func (w *workers) alone(t core.Task) {
	if w.otherSuspect(t.Token) {
		w.n.u.violate(Slots, t.Token.Run, "attempt %s of a suspect begins beside one of another", tokenText(t.Token))
	}
}

// otherSuspect reports whether an attempt of another suspect is in the workers' hands.
func (w *workers) otherSuspect(than core.Token) bool {
	for tok, j := range w.jobs {
		if j.suspect && tok != than {
			return true
		}
	}
	return false
}
