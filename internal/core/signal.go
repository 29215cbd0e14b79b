package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/nearest"
)

// SignalEnded returns the name of the event by which a run learns that the chain of that workflow id has ended, whose
// start named the run in Start.Notify. The event's id is that of the chain's first run.
func SignalEnded(workflowID string) string { return "pawl.ended " + workflowID }

const (
	// signalIDs is how many ids of taken events a chain remembers: the latest ones. A repeated delivery counts as a new
	// event after that many others.
	signalIDs = 1000
	// signalsKept and signalBytes bound the events that no wait has taken yet.
	signalsKept = 10_000
	signalBytes = 64 << 20
)

// signal keeps an event, and gives it to an open wait of its name if there is one.
func (m *machine) signal(in SignalReceived) error {
	kept, bytes := 0, 0
	// The kept events come before the phase: the event that ended the run may be the one whose answer got lost.
	for i := range m.r.Signals {
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
	m.emit(SignalKept{Name: in.Name, ID: in.ID, Payload: in.Payload, Actor: in.Actor, Reason: in.Reason})
	if m.r.Answers() && m.r.waitsForStart() && !m.r.InQueue() && m.r.Chain.Previous == (RunID{}) &&
		m.r.rules().Follows == nil {
		m.beginDelayed() // an event ends the delay of such a run, unless a timetable gives it
	}
	for i := range m.r.Steps {
		s := &m.r.Steps[i]
		if s.Phase == StepSuspended && s.Spec.waitsFor(in.Name) {
			if !m.expiresElsewhere(s) {
				m.takeKept(s)
			}
			break
		}
	}
	return nil
}

// mayDecide refuses who may not end a wait, by an event or by an operation on its step.
func mayDecide(m *machine, op, event string, step *Step, actor string) error {
	if m.r.def == nil || m.r.def.MayDecide == nil {
		return nil
	}
	if why := m.r.def.MayDecide(m.r, event, step, actor); why != "" {
		return m.refuse(CodeForbidden, op, "%s", why)
	}
	return nil
}

// inherit records the events of the earlier run in the chain, and which of them were taken.
func (m *machine) inherit(signals []Signal) {
	for _, s := range signals {
		m.emit(SignalKept{
			Name: s.Name, ID: s.ID, Payload: s.Payload, Carried: true, Taken: s.Taken, Actor: s.Actor,
		})
	}
}

// expireWaits processes first what was due before now: an event after the deadline of a wait, or of its run, does not
// end the wait.
func (m *machine) expireWaits() {
	for !m.r.waitsForStart() && !m.r.Elsewhere() {
		t, ok := m.r.wakes.first()
		run := m.r.runLimit()
		switch {
		case run.at != 0 && run.at < m.now && (!ok || run.at <= t.at || m.r.PausedAt != 0):
			m.expireRun(run)
			return
		case !ok || t.at >= m.now || m.r.PausedAt != 0:
			return
		}
		m.fire(&m.r.Steps[t.step])
	}
}

// waitsFor reports whether the step is a wait for the event, not for an update.
func (s *StepSpec) waitsFor(event string) bool {
	if s.Kind != KindWait || s.Update != "" {
		return false
	}
	return s.Event == event || slices.Contains(s.Any, event)
}

// First is the output of a wait for the first of several events or steps: which one came, and its value.
type First struct {
	Which string          `json:"which"` // the name of the event, or of the step that ended
	Value json.RawMessage `json:"value"` // the payload of the event, or the output of the step; null: it has none
}

// Encode returns the output.
func (f First) Encode() []byte {
	if len(f.Value) == 0 {
		f.Value = nil
	}
	out, err := json.Marshal(f)
	if err != nil { // the value is not JSON
		f.Value = nil
		out, _ = json.Marshal(f)
	}
	return out
}

// output returns the output of a wait that takes an event.
func (s *StepSpec) output(event string, payload []byte) []byte {
	if len(s.Any) == 0 {
		return payload
	}
	return First{Which: event, Value: payload}.Encode()
}

// payload returns the payload of the event that a wait took, of which it has the output.
func (s *StepSpec) payload(output []byte) []byte {
	if len(s.Any) == 0 {
		return output
	}
	if value := FirstOf(output).Value; string(value) != "null" {
		return value
	}
	return nil
}

// FirstOf reads the output of a wait for the first of several; an operator may have given it another one.
func FirstOf(output []byte) (f First) {
	_ = json.Unmarshal(output, &f)
	return f
}

// events returns the alternative events of a wait; an empty name is evaluated when the step begins.
func (s *StepSpec) events() []string {
	if s.Any != nil {
		return s.Any
	}
	return []string{s.Event}
}

// takeKept ends a wait with the first kept event of its name, if there is one.
func (m *machine) takeKept(s *Step) bool {
	for i := range m.r.Signals {
		if sig := &m.r.Signals[i]; s.Spec.waitsFor(sig.Name) && !sig.Taken {
			m.emit(StepEnded{
				Step: s.ID, Phase: StepSucceeded, Output: s.Spec.output(sig.Name, sig.Payload), Signal: sig.Name,
			})
			return true
		}
	}
	return false
}

// keepSignal keeps an event: behind the others, or before them if it is given back. Waits take the first event, and
// those that are given back were kept before those that are still there.
func (r *Run) keepSignal(at Time, rec SignalKept) {
	if !rec.Taken {
		r.hear()
	}
	s := Signal{
		Name: rec.Name, ID: rec.ID, Payload: rec.Payload, At: at, Taken: rec.Taken, Seq: r.Seq + 1, Actor: rec.Actor,
	}
	if !rec.Back {
		r.Signals = append(r.Signals, s)
		return
	}
	known := func(k Signal) bool { return s.ID != "" && k.Taken && k.ID == s.ID && k.Name == s.Name }
	if i := slices.IndexFunc(r.Signals, known); i >= 0 {
		s.At = r.Signals[i].At
		r.dropSignal(i)
	}
	r.Signals = slices.Insert(r.Signals, 0, s)
}

// takenBy lists the events that waits took which a retry drops, so that they can be given back, the last one first.
func (r *Run) takenBy(drop []StepID) []SignalKept {
	if r.signalsTaken == nil {
		return nil
	}
	var waits []StepID
	for _, id := range drop {
		if r.signalsTaken.by[id].nth > 0 {
			waits = append(waits, id)
		}
	}
	by := r.signalsTaken.by
	slices.SortFunc(waits, func(a, b StepID) int { return cmp.Compare(by[b].nth, by[a].nth) })
	var back []SignalKept
	for _, id := range waits {
		s := &r.Steps[id]
		back = append(back, SignalKept{
			Name: by[id].name, ID: by[id].event, Payload: s.Spec.payload(s.Output), Back: true, Actor: by[id].actor,
		})
	}
	return back
}

// signalsTaken has the events that a run's waits took.
type signalsTaken struct {
	n  int // how many there were
	by map[StepID]taking
}

// taking is how a wait took an event: its id, its name and its sender, and in which order the run's waits took theirs.
type taking struct {
	event string
	name  string
	actor string
	nth   int // 0: the wait has its result from an earlier run, and there is no event to give back
}

// SentBy returns who sent the event that a wait took; empty: it took none, or the sender is not known.
func SentBy(r *Run, wait StepID) string {
	if r.signalsTaken == nil {
		return ""
	}
	return r.signalsTaken.by[wait].actor
}

// noteSender notes who sent the event of a wait whose result is kept from an earlier run.
func noteSender(r *Run, wait StepID, actor string) {
	if r.signalsTaken == nil {
		r.signalsTaken = &signalsTaken{by: map[StepID]taking{}}
	}
	r.signalsTaken.by[wait] = taking{actor: actor}
}

// noteTaking notes that a wait took an event.
func (r *Run) noteTaking(wait StepID, s *Signal) {
	if r.signalsTaken == nil {
		r.signalsTaken = &signalsTaken{by: map[StepID]taking{}}
	}
	r.signalsTaken.n++
	r.signalsTaken.by[wait] = taking{s.ID, s.Name, s.Actor, r.signalsTaken.n}
}

// takeSignal marks the first kept event of that name as taken by a wait. Taken events are remembered by their id, to
// recognise a second delivery; an event without an id is forgotten, and so is the oldest one where there are too many.
func (r *Run) takeSignal(wait StepID, name string) {
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
	if at < 0 {
		return
	}
	r.noteTaking(wait, &r.Signals[at])
	switch {
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

// unexpected returns why no step of the definition can wait for an event of that name, and "" if one may. Where a step
// works its event's name out, or a body decides, any name will do.
func (d *Definition) unexpected(name string) string {
	if d.HasBody || d.Elsewhere || d.Turns {
		return ""
	}
	var known []string
	for _, s := range d.Specs {
		if s.Kind != KindWait || s.Update != "" {
			continue
		}
		for _, event := range s.events() {
			switch {
			case event == "" || event == name:
				return ""
			case !slices.Contains(known, event):
				known = append(known, event)
			}
		}
	}
	if hint := nearest.Hint(name, known); hint != "" {
		return fmt.Sprintf("no step waits for %q; %s", name, hint)
	}
	if len(known) > 0 {
		return fmt.Sprintf("no step waits for %q, but for %s", name, strings.Join(known, ", "))
	}
	return "no step waits for an event"
}
