package sim

import (
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// planFaults notes what goes wrong, and when.
func (u *universe) planFaults() {
	length := u.end.Sub(epoch)
	for _, f := range []struct {
		most int
		what string
		do   func()
	}{
		{3, "the process is killed", func() { u.someSeat().node.crash("at any time") }},
		{2, "the disk fills up", u.fillDisk},
		{2, "another owner comes", u.takeOver},
		{2, "the clock jumps", u.jump},
		{2, "the process freezes", u.freeze},
		{2, "a partition moves", u.move},
	} {
		for range u.IntN(f.most + 1) {
			u.agenda.add(epoch.Add(u.between(0, length)), f.what, func() {
				if !u.calm {
					f.do()
				}
			})
		}
	}
}

func (u *universe) fillDisk() { u.full = u.now.Add(u.span(time.Millisecond, 10*time.Minute)) }

// jump moves all clocks, a little or a lot, forwards or backwards.
func (u *universe) jump() {
	by := u.span(time.Millisecond, 3*time.Hour)
	if u.chance(0.5) {
		by = -by
	}
	u.skew += by
	u.say("clocks jump by %s", by)
	for _, s := range u.seats {
		s.node.asked = 0
		s.node.turn()
	}
}

// freeze stops the process for a while, as a suspended machine is.
func (u *universe) freeze() {
	n := u.someSeat().node
	if n.dead {
		return
	}
	n.frozen = u.now.Add(u.span(time.Millisecond, 10*time.Minute))
	u.agenda.add(n.frozen, "the process goes on", n.turn)
}

// takeOver starts a second owner beside the first, which finds out when it next writes. Before the second one gives
// anything out, what the first one's workers still execute is ended: the engine's callers owe it that.
func (u *universe) takeOver() {
	s := u.someSeat()
	old := s.node
	if s.zombie != nil || old.dead || old.down {
		return
	}
	if _, err := u.store.Acquire(u.ctx, s.partition, "somebody who comes too early"); !errors.Is(err, journal.ErrHeld) {
		u.violate(Fencing, core.RunID{}, "the partition was taken from %s, which is alive: %v", old.name, err)
		return
	}
	u.endLease(s)
	s.zombie = old
	old.workers.kill()
	u.nodes++
	n := newNode(u, s, "rival")
	s.node = n
	n.open()
	u.after(u.span(time.Millisecond, time.Minute), "the former owner ends", func() {
		if s.zombie == old {
			old.vanish()
		}
	})
}

func (u *universe) someSeat() *seat { return u.seats[u.IntN(len(u.seats))] }

// move has an owner give its partition back, and another process take it over.
func (u *universe) move() {
	s := u.someSeat()
	old := s.node
	if s.zombie != nil || !old.quiet() {
		return
	}
	old.p.Shut(errMoved)
	if err := old.p.Release(u.ctx); err != nil {
		u.violate(Fencing, core.RunID{}, "%s cannot give its partition back: %v", old.name, err)
	}
	old.vanish()
	s.boot(u)
}

var errMoved = errors.New("the partition moves to another process")
