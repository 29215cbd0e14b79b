package core

import "github.com/pawl-dev/pawl/policy"

// Some bodies are asked in writing. Another program decides for the run, in answers to what it is told; each answer is
// recorded with what the program knew, because its protocol derives the history of the run from that. Such a body
// learns of events and of a request to cancel as it learns of steps that end, and its run ends when it says so,
// although work still runs. See [Definition.Answers].

// Answer begins an answer of such a body. The commands behind it are what the body has decided.
type Answer struct {
	Turn  int    // the number of answers that were recorded when the body was asked
	Seen  int    // the number of entries of the run that the body knew
	Began Time   // the instant at which it was asked
	Again bool   // it wants to be asked again, whatever happens
	Meta  []byte // bytes that its kind keeps with the answer
}

func (Answer) command() {}

// Answers reports whether the run's body is asked in writing. It reads the entries of the run by itself.
func (r *Run) Answers() bool { return r.def != nil && r.def.Answers }

// answer takes an answer of the run's body. An answer that ends the run is refused if something has happened that the
// body has not heard of: it is asked again, and may decide otherwise.
func (m *machine) answer(cmds []Command) error {
	a, ok := heading(cmds)
	switch {
	case !ok:
		return m.refuse(CodeInvalid, "answer", "it does not say what the body knew")
	case a.Turn != m.r.answered:
		return m.refuse(CodeStale, "answer", "it follows %d answers, and the run has %d", a.Turn, m.r.answered)
	case a.Seen < 0 || a.Seen > m.r.Seq:
		return m.refuse(CodeInvalid, "answer", "it knows %d entries of the run, which has %d", a.Seen, m.r.Seq)
	case m.r.lastNews > a.Seen && closes(cmds):
		return m.refuse(CodeConflict, "answer", "it ends the run, and has not heard all that has happened")
	}
	m.emit(BodyAnswered{Seen: a.Seen, Began: a.Began, Again: a.Again, Meta: a.Meta})
	for _, cmd := range cmds[1:] {
		m.command(cmd)
	}
	return nil
}

// heading returns the command that begins an answer.
func heading(cmds []Command) (a Answer, ok bool) {
	if len(cmds) > 0 {
		a, ok = cmds[0].(Answer)
	}
	return a, ok
}

// closes reports whether one of the commands ends the run.
func closes(cmds []Command) bool {
	for _, cmd := range cmds {
		if _, ok := cmd.(Close); ok {
			return true
		}
	}
	return false
}

// cancelStep ends an open step as the body has decided, or asks its work to stop.
func (m *machine) cancelStep(cmd CancelStep) {
	s, known := m.r.Lookup(cmd.Key)
	switch {
	case !known || s.Phase.Closed():
	case !cmd.Ask || !s.executes():
		m.stop(s, StepCancelled, policy.ReasonCancelled, cancelled(byWorkflow))
	case !s.CancelAsked:
		m.emit(StepCancelAsked{Step: s.ID})
	}
}

// hear notes that something has happened of which a body that is asked in writing has to hear.
func (r *Run) hear() {
	if r.Answers() {
		r.bodyPending, r.unheard, r.lastNews = true, true, r.Seq+1
	}
}

// applyBody folds what a body says of itself.
func (r *Run) applyBody(rec Record) {
	if a, ok := rec.(BodyAnswered); ok {
		applyAnswer(r, a)
		return
	}
	r.bodyPending = false // it waits
}

// applyAnswer folds an answer. The events that the body knew are its own now: what it makes of them is decided outside.
func applyAnswer(r *Run, rec BodyAnswered) {
	r.answered++
	r.bodyPending = rec.Again || r.lastNews > rec.Seen
	r.unheard = r.bodyPending
	kept, taken := r.Signals[:0:0], 0
	for _, s := range r.Signals {
		if s.Seq <= rec.Seen && !s.Taken {
			s.Taken, s.Payload = true, nil
		}
		if s.Taken && s.ID == "" {
			continue
		}
		if s.Taken {
			taken++
		}
		kept = append(kept, s)
	}
	for i := 0; taken > signalIDs; taken-- {
		for !kept[i].Taken {
			i++
		}
		kept = append(kept[:i], kept[i+1:]...)
	}
	if r.Signals = kept; len(kept) == 0 {
		r.Signals = nil
	}
}

func (r *BodyAnswered) fields(c *coder) {
	optional(c, &r.Seen)
	c.time(&r.Began)
	c.bytes(&r.Meta)
	c.flag(&r.Again)
}

func (r *StepCancelAsked) fields(c *coder) { c.step(&r.Step) }

// refuseAnswered refuses to make steps again of a run whose body is asked in writing: it was told how they ended, and
// its protocol has no way to tell it otherwise. nil: the run is not one of these, or the operation is another one.
func refuseAnswered(m *machine, op Op) error {
	if !m.r.Answers() || op != OpRetryRun && op != OpRetryStep {
		return nil
	}
	return m.refuse(CodeConflict, op.String(), "its workers were told how its steps have ended; start another run")
}
