package core

import "github.com/pawl-dev/pawl/policy"

// Some bodies are asked in writing. Another program decides for the run, in answers to news; each answer is recorded
// with what the program knew, because its protocol derives the history of the run from that. Such a body learns of
// events and of a request to cancel as it learns of steps that end, and its run ends when the body ends it, although
// work still runs. See [Definition.Answers].

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
// body does not know: it is asked again, and may decide otherwise.
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
		return m.refuse(CodeConflict, "answer", "it ends the run, and does not know all that has happened")
	}
	if m.r.waitsForStart() && !m.r.InQueue() { // it was asked although the run waits: it does not wait any longer
		m.beginDelayed()
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
		m.stop(s, StepCancelled, policy.ReasonCancelled, cancelled(CancelledByWorkflow))
	case !s.CancelAsked:
		m.emit(StepCancelAsked{Step: s.ID})
	}
}

// hear notes news for a body that is asked in writing.
func (r *Run) hear() {
	if r.Answers() {
		r.bodyPending, r.unheard, r.lastNews = true, true, r.Seq+1
	}
}

// applyBody folds the records about a body, and its news.
func (r *Run) applyBody(rec Record) {
	switch rec := rec.(type) {
	case BodyAnswered:
		applyAnswer(r, rec)
	case StepChildBegan:
		r.hear()
	default:
		r.bodyPending = false // it waits
	}
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

// sendTo begins a step, and sends what it is there for. The message is made durable with it, so it has its effect once.
func sendTo(m *machine, cmd SendTo) {
	m.schedule(Schedule{Spec: cmd.Spec, Item: -1, Group: NoStep})
	what := cmd.What
	what.From, what.Step = m.r.ID, StepID(len(m.r.Steps)-1)
	if of, known := m.r.Lookup(cmd.ChildOf); known {
		what.Run = of.Child
	}
	out := Message{To: what.Run, Content: what}
	if what.Run == (RunID{}) {
		out.Name = what.WorkflowID
	}
	m.effect(Send{out})
}

// hearOf records what a run is told of another one: its child is there, or has what the run has sent.
func hearOf(m *machine, in Input) error {
	switch in := in.(type) {
	case ChildBegan:
		s, err := m.attempt("start of a child run", in.Step, in.Attempt, StepSuspended)
		if err != nil {
			return err
		}
		m.emit(StepChildBegan{Step: s.ID})
	case SendEnded:
		s, err := m.attempt("end of a send", in.Step, 0, StepSuspended)
		if err != nil {
			return err
		}
		phase := StepSucceeded
		if in.Failure != nil {
			phase = StepFailed
		}
		m.emit(StepEnded{Step: s.ID, Phase: phase, Failure: in.Failure})
	default:
	}
	return nil
}

// refuseAnswered refuses to make steps again of a run whose body is asked in writing: it was told how they ended, and
// its protocol has no way to take that back. nil: the run is not one of these, or the operation is another one.
func refuseAnswered(m *machine, op Op) error {
	if !m.r.Answers() || op != OpRetryRun && op != OpRetryStep {
		return nil
	}
	return m.refuse(CodeConflict, op.String(), "its workers were told how its steps have ended; start another run")
}

// Forked is the first input of a run that begins with the entries of another one, which were folded into it. Its body
// answers what comes next anew.
type Forked struct {
	Answer Answer           // stands for the answer that the other run had next
	Events []SignalReceived // those that reached the other run later, and that this one is to hear of
	// Told are records of the other run which say what has become of children and sends that are open here.
	Told []Record
}

func (Forked) input() {}

// Heir returns the run that hears of the steps of one that was replaced; zero: it was not.
func Heir(r *Run) RunID {
	if !r.Answers() || r.Phase != RunTerminated {
		return RunID{}
	}
	return r.Next
}

// SameStep reports whether two runs, of which one begins with the entries of the other, have a step in common.
func SameStep(a, b *Run, id StepID) bool {
	if int(id) >= len(a.Steps) || int(id) >= len(b.Steps) {
		return false
	}
	x, y := &a.Steps[id], &b.Steps[id]
	return x.ScheduledAt == y.ScheduledAt && x.Spec.Name == y.Spec.Name
}

// Replaced ends a run in whose place another one goes on, of which the whole chain is told.
type Replaced struct {
	Next          RunID // the other run
	Seq           int   // how many entries this one has, as far as is known
	Keep          int   // the other run has so many of the steps of this one: it hears of their children
	Actor, Reason string
}

func (Replaced) input() {}

// fork makes a run go on that begins with the entries of another one. Work that was under way begins again, with a
// fresh budget and fresh deadlines: it ran for the other run. Sleeps end when they would have ended there.
func fork(m *machine, in Forked) error {
	a := in.Answer
	switch {
	case !m.r.Answers() || m.r.Phase.Closed():
		return m.refuse(CodeConflict, "reset", "the run is %s, and its body is not asked in writing", m.r.Phase)
	case a.Seen != m.r.Seq || a.Turn != m.r.answered:
		return m.refuse(CodeInvalid, "reset", "it is at entry %d and answer %d, the run at %d and %d", a.Seen, a.Turn,
			m.r.Seq, m.r.answered)
	}
	if m.r.waitsForStart() {
		m.beginDelayed()
	}
	m.emit(BodyAnswered{Seen: a.Seen, Began: a.Began, Again: true, Meta: a.Meta})
	if l := m.r.Execution; l.After > 0 {
		m.emit(DeadlineMoved{Step: NoStep, Limit: policy.LimitExecution, At: m.now.Add(l.After)})
	}
	if l := m.r.Deadline; l.After > 0 {
		m.emit(DeadlineMoved{Step: NoStep, Limit: policy.LimitRun, At: m.now.Add(l.After)})
	}
	for i := range m.r.Steps {
		if s := &m.r.Steps[i]; s.Stopping { // its work was of the other run, which is told when it has stopped
			m.emit(AttemptStopped{Step: s.ID})
		}
		switch s := &m.r.Steps[i]; {
		case s.Phase.Closed():
		case s.Spec.Kind == KindTask:
			beginForked(m, s)
		case s.Spec.Kind == KindSleep && s.NextAt < m.now: // it is not late
			m.emit(StepReset{Step: s.ID, ScheduleToClose: s.ScheduleToClose, Deadline: s.Deadline, NextAt: m.now})
		}
	}
	for _, rec := range in.Told {
		m.emit(rec)
	}
	for _, e := range in.Events {
		m.emit(SignalKept{Name: e.Name, ID: e.ID, Payload: e.Payload, Actor: e.Actor, Reason: e.Reason})
	}
	return nil
}

// beginForked begins the work of an open step again.
func beginForked(m *machine, s *Step) {
	asked := s.CancelAsked
	m.restartStep(s)
	if asked {
		m.emit(StepCancelAsked{Step: s.ID})
	}
	m.beginAgain(s)
}

// replaced ends a run whose place another one takes. It is refused if something has happened to the run that the
// other one does not know.
func replaced(m *machine, in Replaced) error {
	switch {
	case m.r.Phase.Closed():
		return m.refuse(CodeClosed, "reset", "the run is %s", m.r.Phase)
	case m.r.Seq != in.Seq:
		return m.refuse(CodeStale, "reset", "the run has %d entries, and not %d", m.r.Seq, in.Seq)
	}
	m.emit(Operated{Op: OpTerminate, Step: NoStep, Actor: in.Actor, Reason: in.Reason})
	for i := range m.r.Steps[:min(in.Keep, len(m.r.Steps))] {
		if s := &m.r.Steps[i]; !s.Phase.Closed() && (s.Spec.Kind == KindChild || s.Spec.Kind == KindSend) {
			f := cancelled("the run was reset")
			m.emit(StepEnded{Step: s.ID, Phase: StepCancelled, Reason: policy.ReasonCancelled, Failure: f})
		}
	}
	m.stopOpen("the run was reset")
	f := cancelled(because("the run was reset", in.Reason))
	f.Type = typeTerminated
	m.answerOpenUpdates()
	m.emit(RunEnded{Phase: RunTerminated, Failure: f, Next: in.Next})
	m.effect(Closed{Phase: RunTerminated})
	return nil
}
