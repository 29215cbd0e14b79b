package core

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/policy"
)

// failures is what a run with a body knows of the causes of its failures and of what followed from them. A retry goes
// back to a step that failed: it drops the body's decisions after it had seen the failure, and nothing else. Steps that
// the body had begun before, or beside it in another branch, keep their results.
type failures struct {
	from   []StepID          // the failed steps from which the run's failure follows
	causes map[StepID]causes // the causes of each step
}

// causes are the recorded causes of a step; see Causes.
type causes struct{ saw, after []StepID }

// cameFrom notes the cause of the failure of a run that has ended.
func (r *Run) cameFrom(from []StepID) {
	if r.failures == nil && len(from) == 0 {
		return
	}
	r.known().from = from
}

// follow notes what a step follows from.
func (r *Run) follow(id StepID, c causes) {
	if len(c.saw) == 0 && len(c.after) == 0 {
		return
	}
	f := r.known()
	if f.causes == nil {
		f.causes = map[StepID]causes{}
	}
	f.causes[id] = c
}

func (r *Run) known() *failures {
	if r.failures == nil {
		r.failures = &failures{}
	}
	return r.failures
}

// unfollow forgets what a step that is dropped follows from.
func (r *Run) unfollow(id StepID) {
	if r.failures != nil {
		delete(r.failures.causes, id)
	}
}

// failedAmong finds the failed steps of some keys. An error that a body returns may name a step of another run, and
// this one may have no step of that key, or one that has succeeded.
func (m *machine) failedAmong(keys []string) []StepID {
	return slices.DeleteFunc(idsOf(m.r, keys), func(id StepID) bool { return !m.r.Steps[id].failed() })
}

// idsOf finds steps by their keys. A key that the run does not have is left out.
func idsOf(r *Run, keys []string) []StepID {
	var ids []StepID
	for _, key := range keys {
		if s, ok := r.Lookup(key); ok {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// following lists the steps that the body decided after it had seen one of some failures, in the order of the
// decisions. A step is recorded after what it follows from, so one pass finds all.
func (r *Run) following(failed []StepID) []StepID {
	if r.failures == nil || len(failed) == 0 {
		return nil
	}
	var out []StepID
	follows := map[StepID]bool{}
	for i := range r.Steps {
		id := StepID(i)
		c := r.failures.causes[id]
		saw := slices.ContainsFunc(c.saw, func(s StepID) bool { return slices.Contains(failed, s) })
		if !r.Steps[i].Dropped && (saw || slices.ContainsFunc(c.after, func(s StepID) bool { return follows[s] })) {
			follows[id] = true
			out = append(out, id)
		}
	}
	return out
}

// CancelledByWorkflow is the message of the failure of a step that its body has cancelled.
const CancelledByWorkflow = "cancelled by the workflow"

func (s *Step) cancelledByBody() bool {
	return s.Phase == StepCancelled && s.Failure != nil && s.Failure.Message == CancelledByWorkflow
}

// undone returns the steps to go back to, with those that the body cancelled in the same decision as a dropped step,
// and all dropped steps.
func (r *Run) undone(from []StepID) (all, drop []StepID) {
	for all = slices.Clone(from); ; {
		drop = r.following(all)
		before := len(all)
		for i := range r.Steps {
			s := &r.Steps[i]
			with := func(id StepID) bool { return r.Steps[id].ScheduledAt == s.EndedAt }
			if !s.Dropped && s.cancelledByBody() && slices.ContainsFunc(drop, with) && !slices.Contains(all, s.ID) {
				all = append(all, s.ID)
			}
		}
		if len(all) == before {
			return all, drop
		}
	}
}

// failed reports whether the step is closed and did not succeed.
func (s *Step) failed() bool {
	return s.Phase == StepFailed || s.Phase == StepTimedOut || s.Phase == StepCancelled
}

// endedWithRun lists the failed steps that were stopped only because their run ended: by a cancel, by a limit of the
// run, or because the compensation took too long. Steps whose end the body has seen, and gone on from, are not among
// them.
func (r *Run) endedWithRun() []StepID {
	var ids []StepID
	seen := map[StepID]bool{}
	if r.failures != nil {
		for _, c := range r.failures.causes {
			for _, id := range c.saw {
				seen[id] = true
			}
		}
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Dropped || s.Spec.Hook || !s.failed() || s.cancelledByBody() {
			continue
		}
		limit := policy.LimitNone
		if s.Failure != nil && s.Phase == StepTimedOut {
			limit = s.Failure.Limit
		}
		stopped := s.Reason == policy.ReasonCancelled || limit == policy.LimitExecution || limit == policy.LimitRun ||
			s.endedWithCompensation()
		if stopped && !seen[s.ID] {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// rewind returns the steps that a retry of a run with a body restarts, and the body's decisions that it drops. Where
// that is not clear it refuses and names the steps of which an operator can choose one.
func (m *machine) rewind() (restart, drop []StepID, err error) {
	r := m.r
	stopped := r.endedWithRun()
	var candidates []string
	for i := range r.Steps {
		if s := &r.Steps[i]; m.failedStep(s) && !slices.Contains(stopped, s.ID) {
			candidates = append(candidates, s.Key())
		}
	}
	var from []StepID
	if r.failures != nil {
		from = r.failures.from
	}
	switch {
	case !r.Phase.Closed() && len(candidates) == 0:
		return nil, nil, m.refuse(CodeConflict, "retry", "the run is %s and has no failed step", r.Phase)
	case !r.Phase.Closed():
		return nil, nil, m.refuse(CodeConflict, "retry", "the run is %s: its body deals with failures itself; %s",
			r.Phase, choice(candidates))
	case r.Phase == RunSucceeded && len(candidates) > 0:
		return nil, nil, m.refuse(CodeConflict, "retry", "the run has succeeded: its body has dealt with all "+
			"failures; %s", choice(candidates))
	case r.Phase == RunFailed && len(from) == 0 && len(candidates) > 0:
		return nil, nil, m.refuse(CodeConflict, "retry", "the error that the body returned does not say which step it "+
			"came from (wrap the step's error, with %%w); %s", choice(candidates))
	case len(from) == 0 && (r.Phase == RunFailed || r.Phase == RunSucceeded):
		return nil, nil, m.refuse(CodeConflict, "retry",
			"the run is %s, and that came from no failed step; restart it instead", r.Phase)
	}
	from, drop = r.undone(from)
	return m.back(append(from, stopped...), drop)
}

// back removes the dropped steps from the steps to restart. A dropped step must no longer execute.
func (m *machine) back(restart, drop []StepID) (_, _ []StepID, err error) {
	for _, id := range drop {
		s := &m.r.Steps[id]
		if s.executes() {
			return nil, nil, m.refuse(CodeConflict, "retry", "step %q, which needs what failed and is done again, "+
				"still runs; retry when it has ended", s.Key())
		}
		if s.Stopping {
			return nil, nil, m.refuse(CodeConflict, "retry", "the last attempt of step %q, which is done again, "+
				"is still being stopped; try again when it has gone", s.Key())
		}
	}
	restart = slices.DeleteFunc(restart, func(id StepID) bool { return slices.Contains(drop, id) })
	slices.Sort(restart)
	return slices.Compact(restart), drop, nil
}

// rewindTo returns the steps that a retry of one step restarts in a run with a body, and those that it drops. In an
// open run the body must not have gone on from the failure: its later decisions may be under way.
func (m *machine) rewindTo(s *Step) (restart, drop []StepID, err error) {
	restart, drop = m.r.undone([]StepID{s.ID})
	if m.r.Phase.Closed() {
		return m.back(append(restart, m.r.endedWithRun()...), drop)
	}
	if len(drop) > 0 {
		return nil, nil, m.refuse(CodeConflict, "retry", "the body has seen the failure of step %q and has gone on "+
			"with step %q; retry it when the run has ended", s.Key(), m.r.Steps[drop[0]].Key())
	}
	return []StepID{s.ID}, nil, nil
}

// choice lists the steps that an operator can retry.
func choice(keys []string) string {
	const most = 10
	var b strings.Builder
	b.WriteString("retry one of its failed steps instead: ")
	for i, key := range keys {
		if i == most {
			b.WriteString(" and " + strconv.Itoa(len(keys)-most) + " more")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(key))
	}
	return b.String()
}
