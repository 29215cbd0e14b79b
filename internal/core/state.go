package core

// NewRun returns the empty state of a run that has not been created yet.
func NewRun(id RunID) *Run { return &Run{ID: id} }

// Restore folds a run's recorded entries. The definition is the one with which the run was created.
func Restore(id RunID, def *Definition, entries []Entry) *Run {
	r := &Run{ID: id, def: def}
	for i := range entries {
		r.Fold(entries[i])
	}
	return r
}

// Attach gives a run the definition it was created with, before its entries are folded.
func (r *Run) Attach(def *Definition) { r.def = def }

// Attached returns the run's definition.
func (r *Run) Attached() *Definition { return r.def }

// Fold applies a recorded entry to a run that is being restored. Its decider is made again when it is next needed,
// since only Advance keeps one up to date.
func (r *Run) Fold(e Entry) {
	for _, rec := range e.Records {
		Apply(r, e.At, rec)
	}
	r.finish(e.At)
	r.forgetDecider()
}

// finish ends an entry: the phase of an open run follows from its steps.
func (r *Run) finish(at Time) {
	r.last = max(r.last, at)
	r.Seq++
	if r.Phase.Closed() || r.waitsForStart() {
		return
	}
	switch {
	case r.PausedAt != 0:
		r.Phase = RunPaused
	case r.open > 0 && r.Idle():
		r.Phase = RunWaiting
	default:
		r.Phase = RunRunning
	}
}

// resolve finds the spec a record names: records of flows carry the ordinal only.
func (r *Run) resolve(spec *StepSpec) *StepSpec {
	if spec.Def >= 0 && r.def != nil {
		return r.def.Spec(spec.Def)
	}
	return spec
}

// add appends a step.
func (r *Run) add(s Step) {
	if r.Steps == nil {
		r.Steps = make([]Step, 0, r.expectedSteps())
	}
	r.Steps = append(r.Steps, s)
	last := &r.Steps[s.ID]
	r.tally(last, 1)
	r.wakes.set(s.ID, r.stepWake(last))
	if r.byKey != nil {
		r.byKey[last.Key()] = s.ID
	}
}

// expectedSteps returns for how many steps to make room when the first one begins. Growing step by step would copy
// all of them again and again. A long flow may stop early, so no more than a few are expected.
func (r *Run) expectedSteps() int {
	const most = 16
	switch {
	case r.def == nil:
		return 1
	case r.def.ExpectedSteps != nil:
		return min(max(r.def.ExpectedSteps(), 1), most)
	default:
		return min(max(len(r.def.Specs), 1), most)
	}
}

// change applies f to a step and updates the values that are derived from the step.
func (r *Run) change(id StepID, f func(*Step)) {
	s := &r.Steps[id]
	r.tally(s, -1)
	f(s)
	r.tally(s, 1)
	r.wakes.set(id, r.stepWake(s))
}

// tally counts a step in or out.
func (r *Run) tally(s *Step, by int) {
	if !s.Phase.Closed() {
		r.open += by
		if s.Phase == StepBackingOff || s.Attempt > 1 {
			r.retried += by
		}
		if s.Group != NoStep {
			r.Steps[s.Group].items += int32(by)
		}
	}
	if s.Phase == StepRunning || s.Stopping {
		r.live += by
	}
	if s.Phase == StepScheduled {
		r.queued += by
	}
}

// retime derives every open step's timer again, after a change of something that all of them depend on.
func (r *Run) retime() {
	for i := range r.Steps {
		r.wakes.set(StepID(i), r.stepWake(&r.Steps[i]))
	}
}

// waitsForStart reports whether the run waits for its start or its queue. One that is closed before does not: its hooks
// run.
func (r *Run) waitsForStart() bool { return r.Phase == RunPending && !r.ends() }

func (r *Run) ends() bool { return r.Closing != nil || r.Stop != nil }

// Wake returns the instant at which the run needs a Tick; zero: never.
func (r *Run) Wake() Time {
	if r.Phase.Closed() {
		return 0
	}
	wake := r.limitWake()
	if r.unsettled() {
		wake = wake.Earlier(r.last) // a limit may have been due before that
	}
	if r.InQueue() {
		return wake
	}
	if r.waitsForStart() {
		return r.StartAt.Earlier(wake)
	}
	if t, ok := r.wakes.first(); ok {
		wake = wake.Earlier(t.at)
	}
	return wake
}

// limitWake returns when the run's own limits need attention. While the run closes they have done their work.
func (r *Run) limitWake() Time {
	if r.Compensating() {
		return r.Stop.Until
	}
	if r.Stop != nil || r.Closing != nil || r.ClockStands() {
		return 0
	}
	wake := r.Execution.At.Earlier(r.Deadline.At)
	return wake.Earlier(r.Execution.Warn.Earlier(r.Deadline.Warn))
}

// Idle reports whether nothing of the run is in a worker's or its body's hands or waits for one.
func (r *Run) Idle() bool { return r.live == 0 && r.queued == 0 && !r.WaitsForBody() }

// WaitsForBody reports whether the run waits for its body: something changed, and the body has not decided yet what
// comes next.
func (r *Run) WaitsForBody() bool {
	if !r.bodyPending || r.BodyHeld() || r.waitsForStart() || r.Phase.Closed() {
		return false
	}
	return r.hasBody()
}

// hasBody reports whether the run is decided by a body outside the machine.
func (r *Run) hasBody() bool {
	return r.def != nil && r.def.HasBody
}

// Active reports whether something of the run is in a worker's or its body's hands or waits for one.
func (r *Run) Active() bool { return !r.Idle() }

// Live returns how many attempts run or are being stopped.
func (r *Run) Live() int { return r.live }

// Queued returns how many attempts wait for a worker.
func (r *Run) Queued() int { return r.queued }

// Open returns how many steps are not closed.
func (r *Run) Open() int { return r.open }

// Retrying reports whether an open step backs off or is tried again.
func (r *Run) Retrying() bool { return r.retried > 0 }

// LastAt returns the instant of the last entry.
func (r *Run) LastAt() Time { return r.last }

// Offers returns the offers of all attempts that wait for a worker, for a shell that has just loaded the run.
func (r *Run) Offers() []Effect {
	if r.queued == 0 || r.PausedAt != 0 {
		return nil
	}
	var out []Effect
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Phase == StepScheduled {
			out = append(out, r.offer(s))
		}
	}
	return out
}

func (r *Run) offer(s *Step) Offer {
	return Offer{
		Step: s.ID, Attempt: s.Attempt, Queue: s.Spec.Queue, Type: s.Spec.Type, Prio: s.Spec.Priority,
		Group: s.SuspectGroup(),
	}
}

// Lookup finds a step by its key.
func (r *Run) Lookup(key string) (*Step, bool) {
	if r.byKey == nil {
		r.byKey = make(map[string]StepID, len(r.Steps))
		for i := range r.Steps {
			if !r.Steps[i].Dropped {
				r.byKey[r.Steps[i].Key()] = StepID(i)
			}
		}
	}
	id, ok := r.byKey[key]
	if !ok {
		return nil, false
	}
	return &r.Steps[id], true
}

// forgetDecider drops the decider: the next one is made from the present state, and is asked about all of it.
func (r *Run) forgetDecider() {
	r.changed, r.mustWarn, r.unheard, r.decider, r.asked = nil, false, false, nil, false
}

// decide returns the run's decider, made when first needed.
func (r *Run) decide() Decider {
	if r.decider == nil {
		r.decider = r.def.NewDecider(r)
	}
	return r.decider
}
