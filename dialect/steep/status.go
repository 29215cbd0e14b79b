package steep

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
)

// Told is a run of a flow that a workflow became.
type Told struct {
	*core.Run
	Chains map[string]string // the flow's process chains, by the first step of each
	// Child reads the run that a step's last attempt started. It returns false if the run cannot be read.
	Child func(core.StepID) (Told, bool)
}

// Status returns Steep's word for the state of a workflow's run: ACCEPTED, RUNNING, CANCELLED, ERROR, PARTIAL_SUCCESS
// or SUCCESS, and a message about it. By Steep's rules one cancelled process chain makes the whole CANCELLED, and a
// chain that could not begin makes it ERROR. Failures are counted only then, including those in the iterations of for
// actions.
func Status(r Told) (status, message string) {
	switch {
	case r.Phase == core.RunPending:
		return "ACCEPTED", ""
	case !r.Phase.Closed():
		return "RUNNING", ""
	case r.Phase == core.RunCancelled || r.Phase == core.RunTerminated:
		return "CANCELLED", ""
	case r.Phase == core.RunSucceeded:
		return "SUCCESS", ""
	}
	t := &tally{}
	t.run(r)
	switch {
	case t.cancelled > 0:
		return "CANCELLED", ""
	case t.missing > 0 && t.failed > 0:
		return "ERROR", fmt.Sprintf("not everything was executed, because of %d failed process chains", t.failed)
	case t.missing > 0:
		return "ERROR", "not everything could be executed"
	case t.failed > 0 && t.good > 0:
		return "PARTIAL_SUCCESS", ""
	case t.failed > 0:
		return "ERROR", "all process chains failed"
	default:
		return "ERROR", "" // the run ended badly for another reason than its process chains
	}
}

// tally counts process chains by their ends.
type tally struct{ good, failed, cancelled, missing int }

func (t *tally) run(r Told) {
	type chain struct {
		first string
		item  int32
	}
	chains := map[chain]*tally{}
	for i := range r.Steps {
		s := &r.Steps[i]
		into := t
		if first := r.Chains[s.Spec.Name]; first != "" && s.Spec.Kind != core.KindGroup {
			one := chain{first, s.Item}
			if into = chains[one]; into == nil {
				into = &tally{}
				chains[one] = into
			}
		}
		switch {
		case s.Dropped, s.Spec.Type == "noop":
		case s.Phase == core.StepSkipped && s.Upstream, s.Failure != nil && s.Failure.Type == "expression":
			into.missing++ // its input is missing, or is not of the kind that its service takes
		case s.Spec.Kind == core.KindGroup:
			t.group(r, s)
		case s.Spec.Kind == core.KindTask && s.Spec.Type == "": // a value of a for action
		case s.Spec.Kind == core.KindChild:
			t.started(r, s)
		default:
			into.step(s.Phase)
		}
	}
	for _, c := range chains {
		t.chain(c)
	}
}

// group counts a for action whose iterations were never all known. The actions of those are counted separately.
func (t *tally) group(r Told, group *core.Step) {
	if group.Failure == nil || group.Failure.Type != core.FailureUpstream {
		return
	}
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Group == group.ID && s.Upstream && !s.Dropped {
			return
		}
	}
	t.missing++
}

// chain counts one chain of several steps: as the worst of its steps that began, or as missing if none did.
func (t *tally) chain(c *tally) {
	switch {
	case c.cancelled > 0:
		t.cancelled++
	case c.failed > 0:
		t.failed++
	case c.good > 0 && c.missing == 0:
		t.good++
	default:
		t.missing++
	}
}

// started counts what a step started: a process chain, whose flow is retried as a whole.
func (t *tally) started(r Told, s *core.Step) {
	if s.Phase == core.StepSucceeded {
		t.good++
		return
	}
	c, ok := r.Child(s.ID)
	if !ok || !c.Phase.Closed() || c.Attached().RunRules(c.Input).Retry != nil {
		t.step(s.Phase)
		return
	}
	t.run(c)
}

func (t *tally) step(p core.StepPhase) {
	switch p {
	case core.StepCancelled:
		t.cancelled++
	case core.StepFailed, core.StepTimedOut:
		t.failed++
	default:
		t.good++
	}
}

// StepStatus returns Steep's word for the state of a step's process chain: REGISTERED, RUNNING, PAUSED, SUCCESS,
// ERROR or CANCELLED; "" where Steep would never have made a chain, since its input is missing.
func StepStatus(s *core.Step) string {
	if s.Phase == core.StepSkipped && s.Upstream {
		return ""
	}
	switch s.Phase {
	case core.StepRunning, core.StepSuspended:
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
