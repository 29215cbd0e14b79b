package sim

import (
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// planFaults puts the faults on the agenda.
func (u *universe) planFaults() {
	length := u.end.Sub(epoch)
	for _, f := range []struct {
		most int
		what string
		do   func()
	}{
		{3, "the process is killed", func() { u.somePartition().node.crash("at any time") }},
		{2, "the disk fills up", u.fillDisk},
		{2, "another owner comes", u.takeOver},
		{2, "the clock jumps", u.jump},
		{2, "the process freezes", u.freeze},
		{2, "a partition moves", u.move},
	} {
		for range u.IntN(f.most + 1) {
			u.agenda.add(epoch.Add(u.between(0, length)), f.what, func() {
				if !u.noFaults {
					f.do()
				}
			})
		}
	}
}

func (u *universe) fillDisk() { u.diskFullUntil = u.now.Add(u.span(time.Millisecond, 10*time.Minute)) }

// jump moves all clocks by a short or a long time, forwards or backwards.
func (u *universe) jump() {
	by := u.span(time.Millisecond, 3*time.Hour)
	if u.chance(0.5) {
		by = -by
	}
	u.shown = u.latest()
	u.clockError += by
	u.tracef("clocks jump by %s", by)
	for _, s := range u.partitions {
		s.node.lastTick = 0
		s.node.turn()
	}
}

// freeze stops a process for a while, as when its machine is suspended.
func (u *universe) freeze() {
	n := u.somePartition().node
	if n.dead {
		return
	}
	until := u.now.Add(u.span(time.Millisecond, 10*time.Minute))
	if n.machine != nil {
		n.machine.freeze(until)
		return
	}
	n.frozen = until
	u.agenda.add(n.frozen, "the process goes on", n.turn)
}

// takeOver starts a second owner. The first owner finds out at its next append. The work of the first owner's workers
// is ended before the second owner hands out tasks: whoever runs an engine must make sure of that.
func (u *universe) takeOver() {
	s := u.somePartition()
	old := s.node
	if u.machines.planted || s.formerOwner != nil || old.dead || old.needsOpen {
		return
	}
	if _, err := u.store.Acquire(u.ctx, s.number, "somebody who comes too early"); !errors.Is(err, journal.ErrHeld) {
		u.violate(Fencing, core.RunID{}, "the partition was taken from %s, which is alive: %v", old.name, err)
		return
	}
	u.endLease(s)
	s.formerOwner = old
	old.workers.kill()
	u.nodeCount++
	n := newNode(u, s, nil)
	s.node = n
	u.takingOver = true
	n.open()
	u.takingOver = false
	u.after(u.span(time.Millisecond, time.Minute), "the former owner ends", func() {
		if s.formerOwner == old {
			old.endFenced()
		}
	})
}

func (u *universe) somePartition() *simPartition { return u.partitions[u.IntN(len(u.partitions))] }

// move makes an owner release its partition. Another process takes it over.
func (u *universe) move() {
	s := u.somePartition()
	old := s.node
	if u.machines.planted || s.formerOwner != nil || !old.idle() {
		return
	}
	old.p.Shut(errMoved)
	if err := old.p.Release(u.ctx); err != nil {
		u.violate(Fencing, core.RunID{}, "%s cannot give its partition back: %v", old.name, err)
	}
	old.endFenced()
	s.startNode(u)
}

var errMoved = errors.New("the partition moves to another process")
