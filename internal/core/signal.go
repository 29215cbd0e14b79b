package core

// SignalEnded names the event by which a run is told that the chain of that workflow id has ended, which named it in
// Start.Notify. The event's id is that of the chain's first run.
func SignalEnded(workflowID string) string { return "pawl.ended " + workflowID }

const (
	// signalIDs is how many ids of taken events a chain remembers: the latest ones. A delivery that is repeated after
	// so many others were taken counts as a new event.
	signalIDs = 1000
	// signalsKept and signalBytes bound the events that no wait has taken yet.
	signalsKept = 10_000
	signalBytes = 64 << 20
)

// signal keeps an event, and gives it to an open wait of its name if there is one.
func (m *machine) signal(in SignalReceived) error {
	kept, bytes := 0, 0
	for i := range m.r.Signals { // before the phase: the event that ended the run may be the one whose answer got lost
		s := &m.r.Signals[i]
		if in.ID != "" && s.ID == in.ID && s.Name == in.Name {
			return nil
		}
		if !s.Taken {
			kept, bytes = kept+1, bytes+len(s.Payload)
		}
	}
	if m.r.Phase.Closed() {
		return m.refuse(CodeClosed, "event send", "the run is %s", m.r.Phase)
	}
	if kept >= signalsKept || bytes+len(in.Payload) > signalBytes {
		return m.refuse(CodeFull, "event send", "the run keeps %d events (%d bytes) that nothing has waited for", kept,
			bytes)
	}
	m.expireWaits()
	m.emit(SignalKept{Name: in.Name, ID: in.ID, Payload: in.Payload})
	for i := range m.r.Steps {
		s := &m.r.Steps[i]
		if s.Phase == StepSuspended && s.Spec.waitsFor(in.Name) {
			m.takeKept(s)
			break
		}
	}
	return nil
}

// inherit records the events that the run before it in the chain had, and which of them were taken.
func (m *machine) inherit(signals []Signal) {
	for _, s := range signals {
		m.emit(SignalKept{Name: s.Name, ID: s.ID, Payload: s.Payload, Carried: true, Taken: s.Taken})
	}
}

// expireWaits ends the waits whose deadline lies before now: an event after the deadline does not revive a wait.
func (m *machine) expireWaits() {
	for m.r.PausedAt == 0 && !m.r.waitsForStart() {
		t, ok := m.r.wakes.first()
		if !ok || t.at >= m.now {
			return
		}
		m.fire(&m.r.Steps[t.step])
	}
}

// waitsFor reports whether the step is a wait for the event, not for an update.
func (s *StepSpec) waitsFor(event string) bool {
	return s.Kind == KindWait && s.Update == "" && s.Event == event
}

// takeKept ends a wait with the first kept event of its name, if there is one.
func (m *machine) takeKept(s *Step) bool {
	for i := range m.r.Signals {
		if sig := &m.r.Signals[i]; s.Spec.waitsFor(sig.Name) && !sig.Taken {
			m.emit(StepEnded{Step: s.ID, Phase: StepSucceeded, Output: sig.Payload, Signal: sig.Name})
			return true
		}
	}
	return false
}

// takeSignal marks the first kept event of that name as taken. Taken events are remembered by their id, to recognise
// a second delivery; an event without an id is forgotten, and so is the oldest one where there are too many.
func (r *Run) takeSignal(name string) {
	at, taken, oldest := -1, 0, -1
	for i := range r.Signals {
		switch s := &r.Signals[i]; {
		case s.Taken:
			taken++
			if oldest < 0 {
				oldest = i
			}
		case at < 0 && s.Name == name:
			at = i
		}
	}
	switch {
	case at < 0:
		return
	case r.Signals[at].ID == "":
		r.dropSignal(at)
		return
	}
	r.Signals[at].Taken, r.Signals[at].Payload = true, nil
	if taken >= signalIDs {
		r.dropSignal(oldest)
	}
}

func (r *Run) dropSignal(i int) { r.Signals = append(r.Signals[:i:i], r.Signals[i+1:]...) }
