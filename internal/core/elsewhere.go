package core

// Elsewhere reports whether another program decides the run and executes its steps. What happens to such a run here is
// recorded and applied: operations, events, ends of its children. What would follow from it waits until that program
// has the run: its body is not asked, no attempt becomes ready, and no limit fires.
func (r *Run) Elsewhere() bool { return r.def != nil && r.def.Elsewhere }

// expiresElsewhere reports whether a limit of a wait, or of its run, has passed, and the run's own program is going to
// let it fire: an event that comes now comes too late.
func (m *machine) expiresElsewhere(s *Step) bool {
	d := m.r.binding(s)
	return m.r.Elsewhere() && d.at != 0 && d.at < m.now
}

// unsettled reports whether the run is on its way to its end and nothing keeps it from its next step there. It is so
// only after an input that was recorded while the run was elsewhere: its own program goes on at once.
func (r *Run) unsettled() bool {
	switch {
	case r.Phase.Closed():
		return false
	case r.Closing != nil:
		return r.open == 0 && r.live == 0
	case r.Stop != nil && r.Stop.Until != 0:
		return false // its body is asked
	case r.Stop == nil && !r.CancelAsked:
		return false
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		if !s.Spec.Detached && (s.executes() && !s.Phase.Closed() || r.Stop != nil && s.Stopping) {
			return false
		}
	}
	return true
}

// refuseElsewhere refuses what needs the program of a run that is elsewhere; nil if nothing does.
func (m *machine) refuseElsewhere(in Operation) error {
	if !m.r.Elsewhere() {
		return nil
	}
	const program = "; do it with the program that has the workflow, or while that program runs"
	switch {
	case (in.Op == OpRetryRun || in.Op == OpRetryStep) && m.r.Phase.Closed() && m.r.Execution.After == 0 &&
		m.r.Execution.At != 0 && m.r.Execution.At <= m.now:
		return m.refuse(CodeConflict, in.Op.String(),
			"the run's execution deadline has passed, and only its program knows the limits it would begin again with"+
				program)
	case m.movesDeadlines(in) && m.hasChild(in):
		return m.refuse(CodeConflict, in.Op.String(),
			"a child run follows the deadline, and only its program knows the limits of that one"+program)
	}
	return nil
}

// movesDeadlines reports whether an operation moves a deadline that child runs may have from this one.
func (m *machine) movesDeadlines(in Operation) bool {
	switch in.Op {
	case OpExtend, OpSetPolicy:
		return true
	case OpPause:
		return in.StopClock
	case OpResume:
		return m.r.StopClock
	default:
		return false
	}
}

// hasChild reports whether what the operation is about, a step or the run, has an open child run.
func (m *machine) hasChild(in Operation) bool {
	for i := range m.r.Steps {
		s := &m.r.Steps[i]
		about := in.Step == s.ID || in.Step == NoStep && !s.Spec.Detached || in.Step != NoStep && in.Step == s.Group
		if s.Child != (RunID{}) && about {
			return true
		}
	}
	return false
}
