package body

import "github.com/pawl-dev/pawl/internal/core"

// rest begins the idle time, if nothing needs the session. While decisions are on their way to the engine, its answer
// does that.
func (s *Session) rest() {
	switch {
	case !s.idle():
		return
	case s.attempts > 0 || s.queued > 0:
		s.waited = AttemptTime
	default:
		s.waited = IdleTime
		s.change().Rests = true
	}
	s.set(TimerIdle, s.waited)
}

// idle reports whether all branches wait, and nothing needs the session but a step that runs, or one that waits for a
// worker. While decisions are on their way it stays, since its successor must not decide them again. While one of its
// steps waits beside another one that runs it stays, too: the worker that gets free takes the most urgent one.
func (s *Session) idle() bool {
	needed := s.pending > 0 || s.attempts > 0 && (s.leased || s.queued > 0)
	return !s.over() && s.running == 0 && !needed
}

// leaveMemory ends a session that has waited for long enough.
func leaveMemory(s *Session) {
	wanted := IdleTime
	switch {
	case !s.idle():
		return
	case s.attempts > 0:
		wanted = AttemptTime
	case s.queued > 0:
		wanted = QueuedTime
	}
	if s.waited >= wanted {
		s.End()
		return
	}
	s.set(TimerIdle, wanted-s.waited)
	s.waited = wanted
}

// Offers reports whether the body has asked for the step in this session, so that its function is known. An attempt of
// it then begins, or waits for a worker.
func (s *Session) Offers(step string) bool {
	if !s.hasFunction(step) {
		return false
	}
	if s.enqueue(s.steps[step]); s.armed[TimerIdle] {
		s.rest()
	}
	return true
}

// hasFunction reports whether the function of a step is known.
func (s *Session) hasFunction(step string) bool {
	st := s.steps[step]
	return st != nil && st.fn != nil
}

// enqueue notes that a local step waits for a worker. A step that is held by shared limits may wait for very long: its
// body is called again when its turn has come.
func (s *Session) enqueue(st *Step) {
	if !st.queued && !st.known && st.fn != nil && st.record.Spec.Share == nil {
		st.queued = true
		s.queued++
	}
}

// dequeue notes that a step no longer waits for a worker.
func (s *Session) dequeue(st *Step) {
	if st.queued {
		st.queued = false
		s.queued--
	}
}

// Want looks for the function of a local step's attempt, which needs the session from now on until AttemptOver. The
// body had reached the step when the attempt was started. If it was unwound since, the attempt waits for it:
// Ready.Found names the step when the body reaches it, or Ready.GiveBack reports that it does not.
func (s *Session) Want(step string, id core.StepID) (fn Func, waits bool) {
	st := s.step(step)
	s.know(id, st)
	s.attempts++
	s.dequeue(st)
	if st.fn != nil && !s.armed[TimerIdle] {
		s.rest()
	}
	if st.fn != nil || s.rests() {
		return st.fn, false
	}
	s.wanted = append(s.wanted, st)
	return nil, true
}

// rests reports whether the body does not go on until something else happens: all its branches wait, it cannot go
// on, or its run is paused or closing.
func (s *Session) rests() bool {
	switch {
	case s.phase == phaseStuck:
		return true
	case s.over():
		return false
	case s.head == nil:
		return s.held
	default:
		return s.running == 0
	}
}

// giveBack gives back attempts whose functions the body has not reached, for example because an operator retried an
// earlier step. They would hold slots that the earlier step needs.
func (s *Session) giveBack() {
	if len(s.wanted) > 0 {
		s.wanted = nil
		s.change().GiveBack = true
	}
}

// AttemptOver notes that an attempt that wanted a function is over, or no longer looks for it.
func (s *Session) AttemptOver() {
	s.attempts--
	s.rest() // no news may come later, if the run has closed
}
