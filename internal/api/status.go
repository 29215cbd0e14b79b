package api

// Status is the state of a run or a step, in a word for people. It is more precise than a phase if the run or step runs
// or waits: it is retried, is held, sleeps, or stops.
type Status string

// The statuses.
const (
	StatusQueued     Status = "queued"
	StatusRunning    Status = "running"
	StatusRetrying   Status = "retrying"
	StatusWaiting    Status = "waiting"
	StatusSleeping   Status = "sleeping"
	StatusHeld       Status = "held"
	StatusPaused     Status = "paused"
	StatusStopping   Status = "stopping"
	StatusSucceeded  Status = "succeeded"
	StatusFailed     Status = "failed"
	StatusTimedOut   Status = "timed_out"
	StatusCancelled  Status = "cancelled"
	StatusTerminated Status = "terminated"
	StatusSkipped    Status = "skipped"
	StatusContinued  Status = "continued"
)

// StatusNow returns what the step is at.
func (s *Step) StatusNow() Status {
	switch {
	case s.Phase.Closed():
		return Status(s.Phase)
	case s.Stopping:
		return StatusStopping
	case s.Held != nil:
		return StatusHeld
	case s.Phase == StepScheduled:
		return StatusQueued
	case s.Phase == StepBackingOff:
		return StatusRetrying
	case s.Phase == StepSuspended && s.Kind == KindSleep && s.Type == "":
		return StatusSleeping
	case s.Phase == StepSuspended:
		return StatusWaiting
	default:
		return StatusRunning
	}
}

// StatusNow returns the present status of the run, as far as a list knows it.
func (r *RunSummary) StatusNow() Status {
	switch {
	case r.Phase.Closed():
		return Status(r.Phase)
	case r.Stopping:
		return StatusStopping
	case r.Phase == RunPaused:
		return StatusPaused
	case r.Phase == RunPending:
		return StatusQueued
	case r.Retrying:
		return StatusRetrying
	default:
		return Status(r.Phase)
	}
}

// StatusNow returns the present status of the run: that of the step that matters most, unless the run itself has one. A
// run with an attempt at work is running, whatever its other steps wait for.
func (r *Run) StatusNow() Status {
	if own := r.RunSummary.StatusNow(); r.Phase.Closed() || own == StatusPaused || own == StatusStopping {
		return own
	}
	if r.Closing != "" || r.CancelAsked {
		return StatusStopping
	}
	if r.Held != nil && r.Phase == RunPending {
		return StatusHeld
	}
	most, rank := r.RunSummary.StatusNow(), -1
	for _, s := range r.Steps {
		if s.Phase.Closed() || s.Kind == KindGroup && s.Type == "" {
			continue
		}
		status := s.StatusNow()
		if is := rankOf(status); is > rank {
			most, rank = status, is
		}
	}
	return most
}

// rankOf returns how much the status of an open step matters for its run.
func rankOf(s Status) int {
	for i, one := range []Status{
		StatusWaiting, StatusSleeping, StatusQueued, StatusHeld, StatusRetrying, StatusRunning, StatusStopping,
	} {
		if one == s {
			return i
		}
	}
	return -1
}
