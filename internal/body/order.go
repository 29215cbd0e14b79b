package body

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// The branches of a body run one at a time. The branch that has the turn keeps it until it waits or ends. Then the next
// one in line has it. When the line is empty, the body sees the next end of a step, and the branches that waited for it
// get in line. So the order of the ends fixes the order of everything that branches do, and a body that is called again
// repeats it, since it sees the recorded ends by their ranks: see core.Seen.
//
//	a branch waits or ends ──► the next in line has the turn
//	                  none ──► conditions of pawl.Await are looked at again
//	                  none ──► the body sees the next end of a step, or that its run stops
//	                  none ──► all branches wait: decisions go to the engine, updates are handed out

// settle follows a change. When all branches wait, what they have decided goes out, and the idle time begins.
func (s *Session) settle() {
	for {
		if s.over() || s.head == nil || s.running > 0 || s.turn != nil {
			return
		}
		if s.fire(&s.quiet); s.running > 0 || lookAgain(s) {
			return
		}
		if !seeNext(s) {
			break
		}
	}
	if !s.allRead() || !repeatsCancels(s) {
		return
	}
	if s.closing != nil && !s.holds() {
		s.closeRun()
		return
	}
	if s.handOut(); s.running > 0 {
		return
	}
	s.stop(TimerTask)
	s.flush()
	s.giveBack()
	s.rest()
}

// arrive adds an end that is known to those that the body has to see.
func arrive(s *Session, st *Step) {
	st.known = true
	s.closed++
	s.dequeue(st)
	s.arrived = append(s.arrived, st)
}

// sortArrived puts the ends that are recorded in the order in which an earlier call of the body has seen them.
func sortArrived(s *Session) {
	slices.SortStableFunc(s.arrived, func(a, b *Step) int {
		x, y := &a.record, &b.record
		return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.EndedAt, y.EndedAt), cmp.Compare(x.ID, y.ID))
	})
}

// inOrder returns steps in the order of their ends.
func inOrder(steps []engine.Step) []*engine.Step {
	out := make([]*engine.Step, len(steps))
	for i := range steps {
		out[i] = &steps[i]
	}
	if len(out) > 1 {
		slices.SortStableFunc(out, func(a, b *engine.Step) int { return cmp.Compare(a.Rank, b.Rank) })
	}
	return out
}

// seeNext makes the body see the next end, or that its run stops. It reports whether there was one.
func seeNext(s *Session) bool {
	stops := s.head.Stop != nil && !s.stops
	switch {
	case stops && (len(s.arrived) == 0 || s.arrived[0].record.Rank > s.head.Stop.Ends || s.arrived[0].record.Rank == 0):
		s.stops = true
		s.fire(&s.stopped)
		return true
	case len(s.arrived) == 0:
		return false
	}
	st := s.arrived[0]
	s.arrived[0] = nil
	if s.arrived = s.arrived[1:]; len(s.arrived) == 0 {
		s.arrived = nil
	}
	see(s, st)
	s.fire(&st.changed)
	return true
}

// see notes that the body has seen an end, and in which order, for its next decisions.
func see(s *Session, st *Step) {
	st.closed = true
	if st.told {
		return
	}
	s.seen.Ends++
	if s.seen.Told {
		s.seen.More = append(s.seen.More, s.seen.Last)
	}
	s.seen.Last, s.seen.Told = st.record.ID, true
}

// tells returns what the body has seen since its last decisions.
func tells(s *Session) core.Seen {
	seen := s.seen
	s.seen = core.Seen{Ends: seen.Ends}
	return seen
}

// atOnce reports whether a closed step needs not be seen in an order: the body has decided its end itself, or the step
// is kept from an earlier run.
func atOnce(record *engine.Step) bool { return record.Kept || Notes(record.Spec.Type) }

// idles reports whether all branches wait, and nothing is left that the body has not seen.
func idles(s *Session) bool { return s.running == 0 && len(s.arrived) == 0 }

// pass gives the turn to the next branch in line.
func pass(s *Session) {
	s.turn = nil
	if len(s.line) == 0 {
		s.settle()
		return
	}
	b := s.line[0]
	s.line[0] = nil
	if s.line = s.line[1:]; len(s.line) == 0 {
		s.line = nil
	}
	giveTurn(s, b)
}

// giveTurn lets a branch go on.
func giveTurn(s *Session, b *Branch) {
	s.turn, b.state, b.until = b, branchRuns, nil
	s.turns++
	if b.soon {
		b.soon = false
		s.soon--
	}
	if b.looks {
		b.looks = false
	} else {
		s.progress = true
	}
	if b != s.asking {
		r := s.change()
		r.Wake = append(r.Wake, b)
	}
}

// wake puts a branch in line that has what it waits for, or that begins.
func (s *Session) wake(b *Branch) {
	b.state = branchReady
	s.enterUserCode()
	switch {
	case s.turn == b: // it has kept its turn
		giveTurn(s, b)
	case s.turn == nil:
		giveTurn(s, b)
	default:
		s.line = append(s.line, b)
	}
}

// enterUserCode counts a branch that goes on. With the first one the task limit begins.
func (s *Session) enterUserCode() {
	s.running++
	if s.running == 1 {
		s.stop(TimerIdle)
		if !s.armed[TimerTask] {
			s.set(TimerTask, s.taskLimit)
			s.limited = s.turns + 1
		}
	}
}

// overdue reports whether one branch has had the turn for all of the task limit.
func overdue(s *Session) bool {
	if s.running == 0 {
		return false
	}
	if s.turn != nil && s.turn.state == branchRuns && s.turns <= s.limited {
		return true
	}
	s.limited = s.turns
	s.set(TimerTask, s.taskLimit)
	return false
}

// lookAgain makes the branches look that wait for conditions of their own code, if another branch has run since they
// last did. It reports whether there are any.
func lookAgain(s *Session) bool {
	if !s.progress || len(s.looking) == 0 {
		return false
	}
	s.progress = false
	looking := s.looking
	s.looking = nil
	for _, b := range looking {
		b.looks = true
		s.wake(b)
	}
	return true
}

// wakeAll makes the branches leave that wait, in a session that is over: one at a time, as they share variables, which
// their deferred functions may use. If one is stuck in the user's code, the others do not wait for it.
func (s *Session) wakeAll() {
	s.line = nil
	if s.turn == nil || s.turn.state != branchRuns || s.phase == phaseStuck {
		leaveNext(s)
	}
}

// leaveNext makes the next branch leave.
func leaveNext(s *Session) {
	s.turn = nil
	for _, b := range s.branches {
		if b.thread == nil || b.state != branchWaits && b.state != branchReady {
			continue
		}
		if s.turn, b.state = b, branchLeaves; b != s.asking {
			r := s.change()
			r.Wake = append(r.Wake, b)
		}
		return
	}
}

// left reports that the goroutine of a branch has ended without a word, in a session that is over.
func left(s *Session, b *Branch) {
	if s.over() && (s.turn == b || s.turn == nil) {
		leaveNext(s)
	}
}
