package steep

import "github.com/pawl-dev/pawl/core"

// Status is Steep's word for how a workflow's run is doing: ACCEPTED, RUNNING, CANCELLED, ERROR, PARTIAL_SUCCESS or
// SUCCESS. By its rules one cancelled process chain makes the whole CANCELLED, and what could not be begun makes it
// ERROR; only then failures are counted.
func Status(r *core.Run) string {
	switch {
	case r.Phase == core.RunPending:
		return "ACCEPTED"
	case !r.Phase.Closed():
		return "RUNNING"
	case r.Phase == core.RunCancelled || r.Phase == core.RunTerminated:
		return "CANCELLED"
	}
	failed, good, missing := 0, 0, 0
	for i := range r.Steps {
		switch s := &r.Steps[i]; {
		case s.Phase == core.StepCancelled:
			return "CANCELLED"
		case s.Phase == core.StepSkipped && s.Upstream:
			missing++
		case s.Phase == core.StepFailed || s.Phase == core.StepTimedOut:
			failed++
		default:
			good++
		}
	}
	switch {
	case missing > 0 || failed > 0 && good == 0:
		return "ERROR"
	case failed > 0:
		return "PARTIAL_SUCCESS"
	case r.Phase != core.RunSucceeded:
		return "ERROR"
	default:
		return "SUCCESS"
	}
}

// StepStatus is Steep's word for a process chain in a step's phase: REGISTERED, RUNNING, PAUSED, SUCCESS, ERROR or
// CANCELLED.
func StepStatus(p core.StepPhase) string {
	switch p {
	case core.StepRunning:
		return "RUNNING"
	case core.StepBackingOff:
		return "PAUSED"
	case core.StepSucceeded, core.StepSkipped:
		return "SUCCESS"
	case core.StepFailed, core.StepTimedOut:
		return "ERROR"
	case core.StepCancelled:
		return "CANCELLED"
	default:
		return "REGISTERED"
	}
}
