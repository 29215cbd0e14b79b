package sim

import (
	"slices"
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

// mostKills is how often the step kills at most once the faults have ended. One whose attempts sometimes end by their
// limits before they kill is not stopped for losses in a row.
const mostKills = 100

// newPoison uses its own random numbers, so that universes without poison stay as they are.
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
	return p.chosen && p.step == at && !(p.u.noFaults && p.kills > mostKills)
}

// kill makes an attempt kill its process, after it has announced itself if it has to.
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
			shares := func(other *node) bool { return n.process.shared && other.diesWith(n) }
			for _, died := range n.dieWith("of a poisonous step", shares) {
				died.home.poisoned = true
			}
		}
	})
}

// losses are the checker's own count of the attempts that a step has lost with its worker.
type losses struct {
	row    int    // the number in a row
	counts int    // those of them that count
	others int    // those of them that the poisonous step has not caused
	since  int    // the number since the step made progress
	group  int    // how many suspects could run at once when its last attempt started; 0: the step was none
	found  string // the heartbeat details that the attempt began with
	last   string // the last ones
}

// groupAfter returns how many suspects may run at once after that many attempts in a row were lost; 0: they are none.
func groupAfter(row int) int { return []int{0, 0, 16, 4, 1}[min(row, 4)] }

// mostLosses is how many attempts in a row a step may lose without progress: two, one in each group, and five alone.
const mostLosses = 2 + 1 + 1 + 5

// countLoss takes the end of an attempt.
func (m *runModel) countLoss(s *stepModel, i int, rec core.AttemptEnded) {
	l, f := &s.losses, rec.Failure
	if rec.Details != nil {
		l.last = string(rec.Details)
	}
	switch {
	case f == nil || f.Kind != policy.KindLost:
		l.row, l.counts, l.others, l.since = 0, 0, 0, 0
	case f.Type == core.TypeNotBegun || f.Type == core.TypeWorkerClosed:
	default:
		if groupAfter(l.row) == 1 {
			l.counts++
		}
		l.row++
		l.since++
		if l.last != l.found {
			l.counts, l.since = 0, 0 // it made progress
		}
		if f.Type != "lost" || !m.ch.appending.home.poisoned {
			l.others++
		}
	}
	if rec.LostAlone != l.counts {
		m.fail(Counted, "%d losses of step %s count, %d are recorded", l.counts, m.name(i), rec.LostAlone)
	}
	if f == nil || f.Kind != policy.KindLost || !rec.Retry {
		return
	}
	pause := time.Duration(0)
	if groupAfter(l.row) > 0 {
		pause = min(time.Second<<l.counts, 5*time.Minute)
	}
	if l.since >= mostLosses {
		m.fail(Counted, "step %s is tried again after %d losses in a row without progress", m.name(i), l.since)
	}
	if l.counts >= 5 || rec.NextAt != m.at.Add(pause) {
		m.fail(Counted, "step %s is tried again at %s after %d losses in a row, of which %d count",
			m.name(i), offset(rec.NextAt), l.row, l.counts)
	}
}

// checkStopped checks that a step which was stopped for its losses is the poisonous one, or had enough of its own.
// The poisonous one may kill the attempts beside it twice before it is suspected.
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

// groupOf returns how many suspects could run at once when an attempt started; 0: its step was none. It may have ended
// since.
func (ch *checker) groupOf(tok core.Token) int {
	a := ch.accounts[tok.Run]
	if a == nil || int(tok.Step) >= len(a.model.steps) {
		return 0
	}
	return a.model.steps[tok.Step].losses.group
}

// checkGroup checks which other suspects are in the workers' hands when an attempt of a suspect begins.
func (w *workers) checkGroup(t core.Task, group int) {
	others := w.otherSuspects(t.Token)
	for _, other := range others {
		if other != group {
			w.n.u.violate(Slots, t.Token.Run, "attempt %s of a suspect begins in a group of at most %d, beside one "+
				"of a group of %d", tokenText(t.Token), group, other)
		}
	}
	if len(others) >= group {
		w.n.u.violate(Slots, t.Token.Run, "attempt %s of a suspect begins beside %d others, in a group of at most %d",
			tokenText(t.Token), len(others), group)
	}
}

// otherSuspects returns the sizes of the groups of all other suspects in the workers' hands.
func (w *workers) otherSuspects(than core.Token) (groups []int) {
	w.n.process.eachTask(func(tok core.Token, wt *workerTask) {
		if wt.group > 0 && tok != than {
			groups = append(groups, wt.group)
		}
	})
	return groups
}

// waitsForGroup reports whether other suspects keep one from running: there are too many, or those of another group run
// or wait.
func (ch *checker) waitsForGroup(n *node, tok core.Token, group int) bool {
	others := n.workers.otherSuspects(tok)
	another := func(size int) bool { return size > 0 && size != group }
	if len(others) == 0 || group == 0 {
		return false
	}
	return len(others) >= group || slices.ContainsFunc(others, another) ||
		slices.ContainsFunc(ch.order, func(a *account) bool {
			return n.counts(ch.u.partitionOf(a.id), false) && !a.model.closed && slices.ContainsFunc(a.model.steps,
				func(s stepModel) bool { return s.ready && another(groupAfter(s.losses.row)) })
		})
}
