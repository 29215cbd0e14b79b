package core

// writeOfBody writes what a run's body tells the world.
func (c *coder) writeOfBody(r Record) {
	switch r := r.(type) {
	case StatePublished:
		r.fields(c)
	case UpdateAccepted:
		r.fields(c)
	case UpdateAnswered:
		r.fields(c)
	default: // it has no encoding, and tagOf has panicked
	}
}

// readOfBody reads what a run's body tells the world.
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
