package core

import "slices"

// RunQueue is the queue that a run is started into. The run begins when the limits of that queue admit it.
type RunQueue struct {
	Name     string // empty: none
	Key      string // limits for each key count the runs with this one; empty is a key as well
	Priority int32  // higher first among the runs that wait
}

// Admission is what a run has to do with its queue. It is replaced, never changed.
type Admission struct {
	Queue RunQueue
	// The queues Within are those in which the runs above this one, its parent and that one's parent, have places.
	// There the run needs no place of its own, since theirs are taken until it has ended.
	Within []string

	Entered  Time // when it began to wait in its queue; zero if it does not wait there
	Admitted bool // it has a place there, and keeps it until it ends
	Held     Held // while it waits: why it is held, as it was recorded last
	Since    Time // when that was
}

// InQueue reports whether the run waits for its queue to admit it.
func (r *Run) InQueue() bool {
	return r.Admission != nil && r.Admission.Entered != 0 && r.waitsForStart()
}

// HasPlace reports whether the run takes a place in its queue: it was admitted and has not ended.
func (r *Run) HasPlace() bool { return r.Admission != nil && r.Admission.Admitted && !r.Phase.Closed() }

// UsesQueue reports whether the run waits in its queue or has a place there.
func (r *Run) UsesQueue() bool { return r.InQueue() || r.HasPlace() }

// HeldNow reports why the run is held by its queue.
func (r *Run) HeldNow() Held {
	if !r.InQueue() {
		return Held{}
	}
	return r.Admission.Held
}

// TakenQueues returns the queues in which the run, or one above it, has a place. A child run needs no other one there.
func (r *Run) TakenQueues() []string {
	if r.Admission == nil {
		return nil
	}
	out := r.Admission.Within
	if name := r.Admission.Queue.Name; name != "" && !slices.Contains(out, name) {
		out = append(slices.Clone(out), name)
	}
	return out
}

// hasQueue reports whether the run has a queue of its own.
func (r *Run) hasQueue() bool { return r.Admission != nil && r.Admission.Queue.Name != "" }

// admission changes the run's state in its queue.
func (r *Run) admission(change func(a *Admission)) {
	if r.Admission == nil {
		return
	}
	next := *r.Admission
	change(&next)
	r.Admission = &next
}

// applyAdmission folds the records of a run that waits, for its start or for its queue.
func (r *Run) applyAdmission(at Time, rec Record) {
	switch rec := rec.(type) {
	case RunQueued:
		r.enter(at)
	case RunHeld:
		r.admission(func(a *Admission) { a.Held, a.Since = rec.Held, at })
	case RunStarted:
		r.begin(at, rec.Deadline)
	default: // Apply folds the others
	}
}

// enter lets the run wait in its queue from now on.
func (r *Run) enter(at Time) {
	r.admission(func(a *Admission) { a.Entered, a.Admitted, a.Held, a.Since = at, false, Held{}, 0 })
}

// begin applies that a run begins that has waited, for its start or for its queue.
func (r *Run) begin(at Time, deadline RunLimit) {
	r.Phase, r.Deadline = RunRunning, deadline
	if r.StartedAt == 0 { // one that is opened again has begun before
		r.StartedAt = at
	}
	r.admission(func(a *Admission) { a.Entered, a.Admitted, a.Held, a.Since = 0, a.Queue.Name != "", Held{}, 0 })
	r.retime()
}

// queueOf returns the queue of a run that is about to be created: the one that its start names, or the definition's.
// In a queue where a run above it has a place it needs none.
func (m *machine) queueOf(def *Definition, in *Start) (RunQueue, error) {
	q := in.Queue
	if q.Name == "" && in.Chain.Previous == (RunID{}) && def != nil && def.RunQueue != nil {
		own, err := def.RunQueue(in.Input)
		if err != nil {
			return RunQueue{}, m.refuse(CodeInvalid, "start", "its queue: %v", err)
		}
		if q.Name = own.Name; q.Key == "" {
			q.Key = own.Key
		}
		if q.Priority == 0 {
			q.Priority = own.Priority
		}
	}
	switch {
	case q.Name == "" && q.Key != "":
		return RunQueue{}, m.refuse(CodeInvalid, "start",
			"it is given the key %q and no queue; name the queue whose limits count by that key", q.Key)
	case q.Name == "" || slices.Contains(in.Within, q.Name):
		return RunQueue{}, nil
	default:
		return q, nil
	}
}

// admitted begins a run that its queue admits. What a retry has put back to work goes on with it.
func (m *machine) admitted() error {
	switch {
	case !m.r.InQueue():
		return m.refuse(CodeStale, "admission", "the run does not wait for its queue")
	case m.r.PausedAt != 0:
		return m.refuse(CodeConflict, "admission", "the run is paused")
	case m.limitDue():
		return m.refuse(CodeConflict, "admission", "the %s limit of the run has expired", m.r.runLimit().limit)
	}
	m.emit(RunStarted{Deadline: m.r.Deadline.begun(m.now)})
	for i := range m.r.Steps {
		s := &m.r.Steps[i]
		if s.Phase.Closed() {
			continue
		}
		m.emit(m.freshStep(s))
		m.readyAgain(s.ID)
	}
	return nil
}

// held records why a run is not admitted.
func (m *machine) held(in NotAdmitted) error {
	if !m.r.InQueue() {
		return m.refuse(CodeStale, "hold of a run", "the run does not wait for its queue")
	}
	if m.r.Admission.Held != in.Held {
		m.emit(RunHeld(in))
	}
	return nil
}

// unbegun returns the limit of a run that waits for its queue. Its clock begins with the run; an instant binds before.
func (l RunLimit) unbegun() RunLimit {
	if l.After > 0 {
		l.At, l.Warn = 0, 0
	}
	return l
}

// begun starts the clock of a limit that unbegun returned, unless an operator has given it an instant meanwhile.
func (l RunLimit) begun(now Time) RunLimit {
	if l.At != 0 || l.After == 0 {
		return l
	}
	l.At = now.Add(l.After)
	if l.Lead > 0 {
		l.Warn = l.At.Add(-l.Lead)
	}
	return l
}
