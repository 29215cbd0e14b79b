package core

// Output is the result of one input. An entry without records means that nothing happened.
type Output struct {
	Entry   Entry
	Effects []Effect
}

// machine holds the state of one call of Advance: the run, the instant, and the output so far.
type machine struct {
	r   *Run
	now Time
	out Output

	returned []byte // the details of the attempt that is judged, although it failed
}

// Advance applies one input to a run. The records it returns are folded into r already: a caller that cannot make
// them durable must drop r and restore it. def is used by Start; later inputs use the definition that the run has.
// The error is an *[Error]; then nothing was recorded.
//
// Instants never run backwards within a run: an earlier now counts as the instant of the last entry.
func Advance(r *Run, def *Definition, in Input, now Time) (Output, error) {
	m := machine{r: r, now: max(now, r.last)}
	m.out.Entry = Entry{Run: r.ID, At: m.now}
	if _, start := in.(Start); !start && r.CreatedAt == 0 {
		return Output{}, m.refuse(CodeNotFound, "input", "the run was never started")
	}
	if err := m.take(def, in); err != nil {
		return Output{}, err
	}
	m.proceed()
	if len(m.out.Entry.Records) > 0 {
		r.finish(m.now)
	}
	return m.out, nil
}

func (m *machine) take(def *Definition, in Input) error {
	switch in := in.(type) {
	case Start:
		return m.start(def, in)
	case Commands:
		return m.commands(in)
	case Admitted:
		return m.admitted()
	case NotAdmitted:
		return m.held(in)
	case TaskStarted:
		return m.taskStarted(in)
	case TaskHeld:
		return m.taskHeld(in)
	case TaskEnded:
		return m.taskEnded(in)
	case TaskStopped:
		return m.taskStopped(in)
	case Beat:
		return m.beat(in)
	case ExpectedSignal:
		if why := m.r.def.unexpected(in.Event.Name); why != "" {
			return m.refuse(CodeInvalid, "event send", "%s (with --keep it is kept all the same)", why)
		}
		if err := mayDecide(m, "event send", in.Event.Name, nil, in.Event.Actor); err != nil {
			return err
		}
		return m.signal(in.Event)
	case SignalReceived:
		if err := mayDecide(m, "event send", in.Name, nil, in.Actor); err != nil {
			return err
		}
		return m.signal(in)
	case ChildEnded:
		return m.childEnded(in)
	case ChildBegan, SendEnded:
		return hearOf(m, in)
	case Operation:
		return m.operate(in)
	case Tick:
		m.tick()
	case Recovered:
		m.recovered(in)
	case Forked:
		return fork(m, in)
	case Replaced:
		return replaced(m, in)
	case KeyedStart: // a message between partitions, with an input in it
	}
	return nil
}

// emit records and folds.
func (m *machine) emit(rec Record) {
	if m.out.Entry.Records == nil {
		m.out.Entry.Records = make([]Record, 0, 4) // most inputs make no more
	}
	m.out.Entry.Records = append(m.out.Entry.Records, rec)
	Apply(m.r, m.now, rec)
}

func (m *machine) effect(e Effect) {
	if m.out.Effects == nil {
		m.out.Effects = make([]Effect, 0, 2)
	}
	m.out.Effects = append(m.out.Effects, e)
}

// proceed asks the decider for commands until there are none, and ends the run when its outcome is settled.
func (m *machine) proceed() {
	for !m.r.Phase.Closed() && !m.r.Elsewhere() {
		switch {
		case m.r.Closing != nil:
			if !m.hooks() {
				return
			}
		case m.r.Stop != nil:
			if !m.compensate() {
				return
			}
		case m.r.CancelAsked:
			if !m.settleCancel() {
				return
			}
		case m.r.turns():
			if !m.turn() {
				return
			}
		case m.r.waitsForStart() || m.r.PausedAt != 0:
			return
		case !m.ask():
			return
		}
	}
}

// ask runs the decider once if there is something it does not know yet, and reports whether it decided anything.
func (m *machine) ask() bool {
	fresh := !m.r.asked
	switch {
	case m.r.hasBody() && !m.r.bodyPending: // the body has said that it waits: it knows all there is
		return false
	case fresh:
		m.r.decider = nil // a decider that was made for a task of the run may not know which steps have closed since
	case len(m.r.changed) == 0 && !m.r.mustWarn && !m.r.unheard:
		return false
	}
	d := m.r.decide()
	m.r.asked, m.r.mustWarn, m.r.unheard = true, false, false
	closed := m.r.changed
	if fresh {
		closed = nil // a new decider has read the present state
	}
	m.r.changed = nil
	cmds := d.Decide(m.r, closed, m.now)
	for _, cmd := range cmds {
		m.command(cmd)
	}
	return len(cmds) > 0 || len(m.r.changed) > 0
}

func (m *machine) commands(in Commands) error {
	switch {
	case m.r.Phase.Closed():
		return m.refuse(CodeClosed, "commands", "the run is %s", m.r.Phase)
	case m.r.BodyHeld():
		return m.refuse(CodeConflict, "commands", "the run is closing")
	case in.Stopping != m.r.Compensating():
		return m.refuse(CodeStale, "commands", "the body does not know whether its run stops")
	case m.r.PausedAt != 0 && len(in.Commands) > 0:
		return m.refuse(CodeConflict, "commands", "the run is paused, and its body is asked again when it goes on")
	}
	if key, again := m.repeated(in.Commands); again {
		return m.refuse(CodeStale, "commands", "there is a step %q already: the body has not seen all of the run", key)
	}
	if m.r.Answers() {
		return m.answer(in.Commands)
	}
	order(m, in.Seen)
	for _, cmd := range in.Commands {
		m.command(cmd)
	}
	if in.Waits && m.r.bodyPending && m.r.asked && m.r.Closing == nil && in.Closed == len(m.r.Steps)-m.r.open {
		m.emit(BodyWaits{})
	}
	return nil
}

// repeated looks for a step that a body decides a second time, because the body was called again in the meantime.
func (m *machine) repeated(cmds []Command) (string, bool) {
	for _, cmd := range cmds {
		var key string
		switch cmd := cmd.(type) {
		case Schedule:
			key = stepKey(cmd.Spec.Name, cmd.Item)
		case SendTo:
			key = cmd.Spec.Name
		case Mark:
			key = cmd.Spec.Name
		case AnswerUpdate:
			key = cmd.Spec.Name
		default:
			continue
		}
		if _, known := m.r.Lookup(key); known {
			return key, true
		}
	}
	return "", false
}

func (m *machine) command(cmd Command) {
	switch cmd := cmd.(type) {
	case Schedule:
		m.schedule(cmd)
	case SendTo:
		sendTo(m, cmd)
	case Skip:
		m.emit(StepOmitted{
			Spec: cmd.Spec, Item: cmd.Item, Group: cmd.Group, Reason: cmd.Reason, Upstream: cmd.Upstream,
			Phase: StepSkipped,
		})
	case Finish:
		m.finishGroup(cmd)
	case Mark:
		m.emit(StepOmitted{
			Spec: cmd.Spec, Item: -1, Group: NoStep, Reason: "decided by the body", Phase: StepSucceeded,
			Output: cmd.Output, Saw: idsOf(m.r, cmd.Saw), After: idsOf(m.r, cmd.After), Labels: cmd.Labels,
		})
	case AddItem:
		m.emit(StepOmitted{
			Spec: cmd.Spec, Item: cmd.Item, Group: cmd.Group, Reason: "an item of the loop", Phase: StepSucceeded,
			Output: cmd.Output,
		})
	case CancelStep:
		m.cancelStep(cmd)
	case Publish:
		m.emit(StatePublished(cmd))
	case AcceptUpdate:
		m.acceptUpdate(cmd)
	case AnswerUpdate:
		m.answerUpdate(cmd)
	case Consult:
		m.effect(cmd)
	case Close:
		if m.r.Compensating() {
			output := cmd.Output
			if cmd.Phase == RunContinued {
				output = nil // it is the input of a run that does not follow
			}
			m.endCompensation(output, cmd.Failure)
			return
		}
		m.close(cmd)
	default: // those of a turn are its own business
	}
}

func (m *machine) start(def *Definition, in Start) error {
	if m.r.CreatedAt != 0 {
		return m.refuse(CodeConflict, "start", "the run was started before")
	}
	m.r.Attach(def)
	rules := applyRules(def, &in)
	if in.At == 0 && in.Chain.Previous == (RunID{}) {
		in.At = firstAt(def, &rules, m.now)
	}
	queue, err := m.queueOf(def, &in)
	if err != nil {
		return err
	}
	from := m.now
	if def != nil && def.Follows != nil {
		from = max(in.At, m.now) // the wait for the first firing does not count towards the limits
	}
	rec := RunCreated{
		Definition: in.Definition, Workflow: in.Workflow, WorkflowID: in.WorkflowID, Key: in.Key, Input: in.Input,
		Parent: in.Parent, Chain: in.Chain, Notify: in.Notify, Actor: in.Actor, Reason: in.Reason,
		Labels: Labels("").With(in.Labels), Headers: in.Headers,
		Queue: queue, Within: in.Within, Admitted: in.Admitted && queue.Name != "",
		Execution: limitFrom(in.Execution, from), Deadline: limitFrom(in.Run, m.now),
	}
	if in.At > m.now {
		rec.StartAt = in.At
	}
	rec.Firing, rec.Zone = in.Firing, in.Zone
	if in.ExecutionAt.At != 0 && (rec.Execution.At == 0 || in.ExecutionAt.At < rec.Execution.At) {
		rec.Execution = in.ExecutionAt
	}
	if rec.StartAt != 0 || queue.Name != "" && !rec.Admitted {
		rec.Deadline = rec.Deadline.unbegun()
	}
	if in.RunAt.At != 0 {
		rec.Deadline = in.RunAt
	}
	if rec.Chain.Attempt == 0 {
		rec.Chain.Attempt = 1
	}
	m.emit(rec)
	m.inherit(in.Signals)
	m.inheritUpdates(in.Updates)
	ids := make([]StepID, len(in.Keep)+1)
	ids[0] = NoStep
	for i, k := range in.Keep {
		ids[i+1] = NoStep
		spec := k.Spec
		if k.Def >= 0 {
			spec = def.Spec(k.Def)
		}
		if spec == nil {
			continue // the definition no longer has the step: there is nothing to keep it for
		}
		ids[i+1] = StepID(len(m.r.Steps))
		m.emit(StepOmitted{
			Spec: spec, Item: k.Item, Group: ids[k.Group], Reason: "kept from an earlier run", Kept: true,
			Phase: k.Phase, Output: k.Output, Actor: k.Actor, Failure: k.Failure,
		})
	}
	return nil
}

// applyRules fills in the limits that the definition has and the start does not name. A later run of a chain has the
// execution deadline of the first, or none if that had none.
func applyRules(def *Definition, in *Start) RunRules {
	rules := def.RunRules(in.Input)
	if in.Run == nil && in.RunAt.At == 0 {
		in.Run = rules.Run
	}
	if in.Chain.Previous != (RunID{}) {
		return rules
	}
	if in.Execution == nil {
		in.Execution = rules.Execution
	}
	// A caller's instant replaces the definition's. The instant that a child run has from its parent does not: the
	// earlier one binds.
	child := in.Parent.Run != (RunID{})
	if d := rules.Deadline; d != nil && (in.ExecutionAt.At == 0 || child && d.At < in.ExecutionAt.At) {
		in.ExecutionAt = RunLimit{At: d.At, Origin: d.Origin}
	}
	return rules
}

// firstAt returns when a run begins that begins a chain and is started now; zero: at once.
func firstAt(def *Definition, rules *RunRules, now Time) Time {
	switch {
	case def != nil && def.Begins != nil:
		return def.Begins(now)
	case rules.Follows != nil:
		return rules.Follows(now, now, now)
	default:
		return 0
	}
}

// beginDelayed starts a run whose start was delayed, or lets it wait for its queue.
func (m *machine) beginDelayed() {
	if m.r.hasQueue() {
		m.emit(RunQueued{})
		return
	}
	m.emit(RunStarted{Deadline: m.r.Deadline.begun(m.now)})
}

func (m *machine) recovered(in Recovered) {
	if m.r.Compensating() {
		m.giveTimeBack()
	}
	for i := range m.r.Steps {
		s := &m.r.Steps[i]
		if tok := (Token{m.r.ID, s.ID, s.Attempt}); in.Alive[tok] || in.Reached[tok] {
			continue
		}
		if s.Stopping && s.Spec.Kind != KindChild { // a child run goes on closing, and reports when it has
			m.emit(AttemptStopped{Step: s.ID})
			m.readyAgain(s.ID)
		}
		if s.Phase == StepRunning {
			m.attemptEnded(s, s.lostWithEngine(), nil, false)
		}
	}
}
