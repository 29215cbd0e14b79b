package core

import "fmt"

// The records' tags. A tag, once journaled, stays.
const (
	tagRunCreated = iota + 1
	tagRunStarted
	tagRunClosing
	tagRunHooks
	tagRunEnded
	tagRunReopened
	tagPauseBegan
	tagPauseEnded
	tagCancelAsked
	tagSignalKept
	tagStepBegan
	tagStepOmitted
	tagAttemptReady
	tagAttemptStarted
	tagAttemptBeat
	tagAttemptEnded
	tagAttemptStopped
	tagStepEnded
	tagStepWarned
	tagStepReset
	tagStepPolicy
	tagDeadlineMoved
	tagOperated
	tagBodyWaits
	tagRunStopping
	tagAttemptHeld
	tagStatePublished
	tagUpdateAccepted
	tagUpdateAnswered
	tagRunQueued
	tagRunHeld
	tagTurned
	tagBodyAnswered
	tagStepCancelAsked
	tagStepChildBegan

	tagLast = tagStepChildBegan
)

// tagOf returns a record's tag. It and the two functions below it are plain switches because a call through a table
// or a type parameter would move every record to the heap.
//
//nolint:funlen // one line for each record
func tagOf(r Record) byte {
	switch r.(type) { //nolint:gochecksumtype // tagOfNewer has the others
	case RunCreated:
		return tagRunCreated
	case RunStarted:
		return tagRunStarted
	case RunClosing:
		return tagRunClosing
	case RunHooks:
		return tagRunHooks
	case RunEnded:
		return tagRunEnded
	case RunReopened:
		return tagRunReopened
	case PauseBegan:
		return tagPauseBegan
	case PauseEnded:
		return tagPauseEnded
	case CancelAsked:
		return tagCancelAsked
	case SignalKept:
		return tagSignalKept
	case StepBegan:
		return tagStepBegan
	case StepOmitted:
		return tagStepOmitted
	case AttemptReady:
		return tagAttemptReady
	case AttemptStarted:
		return tagAttemptStarted
	case AttemptBeat:
		return tagAttemptBeat
	case AttemptEnded:
		return tagAttemptEnded
	case AttemptStopped:
		return tagAttemptStopped
	case StepEnded:
		return tagStepEnded
	case StepWarned:
		return tagStepWarned
	case StepReset:
		return tagStepReset
	case StepPolicy:
		return tagStepPolicy
	case DeadlineMoved:
		return tagDeadlineMoved
	case Operated:
		return tagOperated
	case BodyWaits:
		return tagBodyWaits
	case RunStopping:
		return tagRunStopping
	case AttemptHeld:
		return tagAttemptHeld
	case StatePublished:
		return tagStatePublished
	case UpdateAccepted:
		return tagUpdateAccepted
	case UpdateAnswered:
		return tagUpdateAnswered
	case RunQueued:
		return tagRunQueued
	case RunHeld:
		return tagRunHeld
	}
	return tagOfNewer(r)
}

// tagOfNewer returns the tag of a record that was added last.
func tagOfNewer(r Record) byte {
	switch r.(type) { //nolint:gochecksumtype // tagOf has the others
	case Turned:
		return tagTurned
	case BodyAnswered:
		return tagBodyAnswered
	case StepCancelAsked:
		return tagStepCancelAsked
	case StepChildBegan:
		return tagStepChildBegan
	default:
		panic(fmt.Sprintf("core: record %T has no encoding", r))
	}
}

//nolint:funlen // a plain switch over all records
func (c *coder) write(r Record) {
	c.buf = append(c.buf, tagOf(r))
	outer := c.open()
	switch r := r.(type) {
	case RunCreated:
		r.fields(c)
	case RunStarted:
		r.fields(c)
	case RunClosing:
		r.fields(c)
	case RunHooks:
		r.fields(c)
	case RunEnded:
		r.fields(c)
	case RunReopened:
		r.fields(c)
	case PauseBegan:
		r.fields(c)
	case PauseEnded:
		r.fields(c)
	case CancelAsked:
		r.fields(c)
	case SignalKept:
		r.fields(c)
	case StepBegan:
		r.fields(c)
	case StepOmitted:
		r.fields(c)
	case AttemptReady:
		r.fields(c)
	case AttemptStarted:
		r.fields(c)
	case AttemptBeat:
		r.fields(c)
	case AttemptEnded:
		r.fields(c)
	case AttemptStopped:
		r.fields(c)
	case StepEnded:
		r.fields(c)
	case StepWarned:
		r.fields(c)
	case StepReset:
		r.fields(c)
	case StepPolicy:
		r.fields(c)
	case DeadlineMoved:
		r.fields(c)
	case Operated:
		r.fields(c)
	case BodyWaits:
	case RunStopping:
		r.fields(c)
	case AttemptHeld:
		r.fields(c)
	case RunQueued:
	case RunHeld:
		c.held(&r.Held)
	case Turned:
		r.fields(c)
	case BodyAnswered:
		r.fields(c)
	case StepCancelAsked:
		r.fields(c)
	default:
		c.writeOfBody(r)
	}
	c.close(outer)
}

func (c *coder) read() (r Record) {
	tag := c.byte()
	switch {
	case c.err != nil:
		return nil
	case tag == 0:
		c.fail("a record without a tag")
		return nil
	case tag > tagLast:
		c.err = fmt.Errorf("%w: record type %d", ErrNewerEntry, tag)
		return nil
	}
	outer := c.open()
	switch {
	case tag < tagStepBegan:
		r = c.readOfRun(tag)
	case tag < tagStatePublished:
		r = c.readOfStep(tag)
	case tag == tagRunQueued:
		r = RunQueued{}
	case tag == tagRunHeld:
		var held RunHeld
		c.held(&held.Held)
		r = held
	case tag == tagTurned:
		var turned Turned
		turned.fields(c)
		r = turned
	case tag == tagBodyAnswered:
		var answered BodyAnswered
		answered.fields(c)
		r = answered
	case tag == tagStepCancelAsked:
		var asked StepCancelAsked
		asked.fields(c)
		r = asked
	case tag == tagStepChildBegan:
		var began StepChildBegan
		began.fields(c)
		r = began
	default:
		r = c.readOfBody(tag)
	}
	c.close(outer)
	return r
}

// readOfRun reads what happens to a run as a whole.
func (c *coder) readOfRun(tag byte) Record {
	switch tag {
	case tagRunCreated:
		var r RunCreated
		r.fields(c)
		return r
	case tagRunStarted:
		var r RunStarted
		r.fields(c)
		return r
	case tagRunClosing:
		var r RunClosing
		r.fields(c)
		return r
	case tagRunHooks:
		var r RunHooks
		r.fields(c)
		return r
	case tagRunEnded:
		var r RunEnded
		r.fields(c)
		return r
	case tagRunReopened:
		var r RunReopened
		r.fields(c)
		return r
	case tagPauseBegan:
		var r PauseBegan
		r.fields(c)
		return r
	case tagPauseEnded:
		var r PauseEnded
		r.fields(c)
		return r
	case tagCancelAsked:
		var r CancelAsked
		r.fields(c)
		return r
	default:
		var r SignalKept
		r.fields(c)
		return r
	}
}

// readOfStep reads what happens to a step, and what may concern either.
func (c *coder) readOfStep(tag byte) Record {
	switch tag {
	case tagStepBegan:
		var r StepBegan
		r.fields(c)
		return r
	case tagStepOmitted:
		var r StepOmitted
		r.fields(c)
		return r
	case tagAttemptReady:
		var r AttemptReady
		r.fields(c)
		return r
	case tagAttemptStarted:
		var r AttemptStarted
		r.fields(c)
		return r
	case tagAttemptBeat:
		var r AttemptBeat
		r.fields(c)
		return r
	case tagAttemptEnded:
		var r AttemptEnded
		r.fields(c)
		return r
	case tagAttemptStopped:
		var r AttemptStopped
		r.fields(c)
		return r
	case tagStepEnded:
		var r StepEnded
		r.fields(c)
		return r
	case tagStepWarned:
		var r StepWarned
		r.fields(c)
		return r
	case tagStepReset:
		var r StepReset
		r.fields(c)
		return r
	case tagStepPolicy:
		var r StepPolicy
		r.fields(c)
		return r
	case tagDeadlineMoved:
		var r DeadlineMoved
		r.fields(c)
		return r
	case tagOperated:
		var r Operated
		r.fields(c)
		return r
	default:
		return c.readNewer(tag)
	}
}

// readNewer reads the records that were added last.
func (c *coder) readNewer(tag byte) Record {
	switch tag {
	case tagRunStopping:
		var r RunStopping
		r.fields(c)
		return r
	case tagAttemptHeld:
		var r AttemptHeld
		r.fields(c)
		return r
	default:
		return BodyWaits{}
	}
}
