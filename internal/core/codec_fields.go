package core

func (r *RunCreated) fields(c *coder) {
	c.id((*[16]byte)(&r.Definition))
	c.text(&r.Workflow)
	c.bytes(&r.Input)
	c.chain(&r.Chain)
	c.limitAt(&r.Deadline)
	c.limitAt(&r.Execution)
	c.text(&r.WorkflowID)
	// Less frequent: the second group.
	c.text(&r.Key)
	c.time(&r.StartAt)
	c.parent(&r.Parent)
	c.text(&r.Actor)
	c.text(&r.Reason)
	c.text(&r.Notify)
	c.text((*string)(&r.Labels))
	// The third group.
	c.runQueue(&r.Queue)
	c.texts(&r.Within)
	c.flag(&r.Admitted)
	c.text((*string)(&r.Headers))
	c.time(&r.Firing)
	c.text(&r.Zone)
}

func (r *RunStarted) fields(c *coder) { c.limitAt(&r.Deadline) }

func (r *RunClosing) fields(c *coder) {
	small(c, &r.Phase)
	c.bytes(&r.Output)
	c.failure(&r.Failure)
	c.steps(&r.From)
	if c.has(r.SameAs != 0) {
		c.step(&r.SameAs)
	}
}

func (r *RunStopping) fields(c *coder) {
	small(c, &r.Phase)
	c.failure(&r.Failure)
	c.time(&r.Until)
}

func (r *RunHooks) fields(c *coder) { optional(c, &r.Stage) }

func (r *RunEnded) fields(c *coder) {
	small(c, &r.Phase)
	c.failure(&r.Failure)
	c.id((*[16]byte)(&r.Next))
}

func (r *RunReopened) fields(c *coder) {
	c.limitAt(&r.Execution)
	c.limitAt(&r.Deadline)
	c.steps(&r.Drop)
	c.flag(&r.Queued)
	c.text((*string)(&r.Labels))
	c.flag(&r.ForHook)
	c.time(&r.Until)
	c.steps(&r.Keep)
}

func (r *PauseBegan) fields(c *coder) { c.flag(&r.StopClock) }

func (r *PauseEnded) fields(c *coder) {
	c.limitAt(&r.Execution)
	c.limitAt(&r.Deadline)
}

func (r *CancelAsked) fields(c *coder) { c.flag(&r.Interrupt) }

func (r *SignalKept) fields(c *coder) {
	c.text(&r.Name)
	c.text(&r.ID)
	c.bytes(&r.Payload)
	c.flag(&r.Carried)
	c.flag(&r.Taken)
	c.flag(&r.Back)
	c.text(&r.Actor)
	c.text(&r.Reason)
}

func (r *StepBegan) fields(c *coder) {
	c.spec(&r.Spec)
	c.group(&r.Item, &r.Group)
	c.time(&r.ScheduleToClose)
	c.time(&r.NextAt)
	c.time(&r.Deadline)
	c.flag(&r.Until)
	c.text(&r.ShareKey)
	c.steps(&r.Saw)
	c.steps(&r.After)
}

func (r *StepOmitted) fields(c *coder) {
	c.spec(&r.Spec)
	c.group(&r.Item, &r.Group)
	c.text(&r.Reason)
	c.flag(&r.Upstream)
	c.flag(&r.Kept)
	small(c, &r.Phase)
	c.bytes(&r.Output)
	c.steps(&r.Saw)
	c.steps(&r.After)
	c.text((*string)(&r.Labels))
	c.text(&r.Actor)
	c.failure(&r.Failure)
}

func (r *AttemptReady) fields(c *coder) { c.step(&r.Step) }

func (r *AttemptHeld) fields(c *coder) {
	c.step(&r.Step)
	c.held(&r.Held)
}

func (r *AttemptStarted) fields(c *coder) {
	c.step(&r.Step)
	c.text(&r.Worker)
	c.time(&r.Deadline)
	c.id((*[16]byte)(&r.Child))
	c.secret(&r.Secret)
	c.flag(&r.Confirms)
}

func (r *AttemptBeat) fields(c *coder) {
	c.step(&r.Step)
	c.time(&r.At)
	c.flag(&r.Output)
	c.bytes(&r.Details)
}

func (r *AttemptEnded) fields(c *coder) {
	c.step(&r.Step)
	c.failure(&r.Failure)
	c.bytes(&r.Details)
	c.flag(&r.Stopping)
	c.flag(&r.Retry)
	c.time(&r.NextAt)
	c.text(&r.Note)
	optional(c, &r.LostAlone)
}

func (r *AttemptStopped) fields(c *coder) {
	c.step(&r.Step)
	c.flag(&r.Abandoned)
	c.flag(&r.Killed)
}

func (r *StepEnded) fields(c *coder) {
	c.step(&r.Step)
	small(c, &r.Phase)
	small(c, &r.Reason)
	c.bytes(&r.Output)
	c.failure(&r.Failure)
	c.text(&r.Signal)
}

func (r *StepWarned) fields(c *coder) {
	c.step(&r.Step)
	small(c, &r.Limit)
}

func (r *StepReset) fields(c *coder) {
	c.step(&r.Step)
	c.flag(&r.Budget)
	c.time(&r.ScheduleToClose)
	c.time(&r.Deadline)
	c.time(&r.NextAt)
	c.flag(&r.Restart)
}

func (r *StepPolicy) fields(c *coder) {
	c.step(&r.Step)
	c.policyAt(&r.Policy)
}

func (r *DeadlineMoved) fields(c *coder) {
	c.step(&r.Step)
	small(c, &r.Limit)
	c.time(&r.At)
}

func (r *Operated) fields(c *coder) {
	small(c, &r.Op)
	c.step(&r.Step)
	c.text(&r.Actor)
	c.text(&r.Reason)
}

// writeOfBody writes the records about a run's body, and its news.
func (c *coder) writeOfBody(r Record) {
	switch r := r.(type) {
	case StatePublished:
		r.fields(c)
	case UpdateAccepted:
		r.fields(c)
	case UpdateAnswered:
		r.fields(c)
	case StepChildBegan:
		r.fields(c)
	default: // it has no encoding, and tagOf has panicked
	}
}

// readOfBody reads the records about a run's body.
func (c *coder) readOfBody(tag byte) Record {
	switch tag {
	case tagStatePublished:
		var r StatePublished
		r.fields(c)
		return r
	case tagUpdateAccepted:
		var r UpdateAccepted
		r.fields(c)
		return r
	default:
		var r UpdateAnswered
		r.fields(c)
		return r
	}
}

func (r *StatePublished) fields(c *coder) {
	c.text(&r.Branch)
	c.text(&r.After)
	optional(c, &r.Count)
	c.bytes(&r.Value)
}

func (r *UpdateAccepted) fields(c *coder) {
	c.text(&r.Name)
	c.text(&r.ID)
	c.step(&r.Step)
}

func (r *UpdateAnswered) fields(c *coder) {
	c.text(&r.Name)
	c.text(&r.ID)
	c.bytes(&r.Output)
	c.failure(&r.Failure)
	c.flag(&r.Carried)
}
