package core

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/policy"
)

// compensationTime is how long a body may take to undo its work, if its definition does not set it.
const compensationTime = time.Minute

// Stop asks a body to end, after it has undone what it wants to undo, because its run was cancelled or a limit of the
// run has expired. Its work from then on is its compensation.
type Stop struct {
	Phase   RunPhase        // how the run ends, whatever the body does: RunCancelled or RunTimedOut
	Failure *policy.Failure // why
	From    StepID          // this step and later ones were decided by a body that had been asked
	Ends    uint32          // ends of steps up to this rank came before
	Until   Time            // the latest end of the run; zero: work still stops, and the body has not been asked yet
}

// Compensating reports whether the run's body was asked to stop and may still decide.
func (r *Run) Compensating() bool {
	return r.Stop != nil && r.Stop.Until != 0 && r.Closing == nil && !r.Phase.Closed()
}

// Ending reports whether the run is about to end: it was asked to cancel, it stops, or its outcome is settled.
func (r *Run) Ending() bool { return r.CancelAsked || r.Stop != nil || r.Closing != nil }

// StoppingMessage is the text for a run in a list whose work was told to stop and has not ended.
const StoppingMessage = "work was told to stop; hooks wait until it is gone"

// StopsWork reports whether the run ends and work of it was told to stop and has not ended yet.
func StopsWork(r *Run) bool { return r.Ending() && !r.Phase.Closed() && len(stoppingSteps(r)) > 0 }

// stoppingSteps lists the keys of the steps whose work was told to stop and has not ended.
func stoppingSteps(r *Run) []string {
	if r.live == 0 {
		return nil
	}
	var keys []string
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Stopping && !s.Dropped {
			keys = append(keys, s.Key())
		}
	}
	return keys
}

// BodyHeld reports whether the run's body is not asked for now, because the run ends without it or waits for attempts
// that are being stopped.
func (r *Run) BodyHeld() bool { return r.Ending() && !r.Compensating() }

// compensated reports whether a body that had been asked to stop has decided anything.
func (r *Run) compensated() bool {
	if r.Stop == nil {
		return false
	}
	for i := int(r.Stop.From); i < len(r.Steps); i++ {
		if s := &r.Steps[i]; !s.Spec.Hook && !s.Dropped {
			return true
		}
	}
	return false
}

// LabelCompensation is the label of a run whose compensation was not finished: its body was stopped in it, or a step of
// it did not succeed. An operator's retry of the run goes on with it.
const (
	LabelCompensation      = "pawl.compensation"
	compensationUnfinished = "unfinished"
	notUndone              = LabelCompensation + "=" // a change that removes the label
)

// Unfinished reports whether the run has ended and its compensation was not finished.
func (r *Run) Unfinished() bool {
	if r.Stop == nil || !r.Phase.Closed() {
		return false
	}
	if f := r.Failure; f != nil && f.Cause != nil && strings.HasPrefix(f.Cause.Message, lateCompensation) {
		return true
	}
	return len(r.notUndone()) > 0
}

// notUndone lists the steps of the compensation that did not succeed.
func (r *Run) notUndone() (ids []StepID) {
	for i := int(r.Stop.From); i < len(r.Steps); i++ {
		if s := &r.Steps[i]; !s.Spec.Hook && !s.Dropped && s.failed() && !s.cancelledByBody() {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// resumed returns the steps that a retry restarts which goes on with a compensation, those that it drops, and those
// that stay as they are. A step that did not succeed begins again. The body's decisions after it had seen that failure
// are made again, but what was undone then is not undone a second time: the body finds it by its key, if it reaches it
// again.
func (m *machine) resumed() (restart, drop, keep []StepID, err error) {
	restart, after := m.r.undone(m.r.notUndone())
	for _, id := range after {
		if s := &m.r.Steps[id]; s.Phase == StepSucceeded && !s.isNote() {
			keep = append(keep, id)
		} else {
			drop = append(drop, id)
		}
	}
	restart, drop, err = m.back(restart, drop)
	return restart, drop, keep, err
}

// isNote reports whether the step only notes what a body has decided: nothing was executed.
func (s *Step) isNote() bool { return s.Spec.Kind == KindTask && s.Attempt == 0 }

// resumeCompensation opens a run again whose compensation was not finished, to go on with it. The run does not wait for
// its queue: new work must not delay the compensation.
func (m *machine) resumeCompensation(in Operation) error {
	restart, drop, keep, err := m.resumed()
	if err != nil {
		return err
	}
	for _, id := range restart {
		if s := &m.r.Steps[id]; s.Stopping {
			return m.refuse(CodeConflict, "retry",
				"the last attempt of step %q is still being stopped; try again when it has gone", s.Key())
		}
	}
	m.audit(in, NoStep)
	m.reopen(RunReopened{
		Execution: m.r.Execution, Deadline: m.r.Deadline, Until: m.now.Add(m.compensationTime()), Keep: keep,
	}, append(drop, m.droppedByRetry(drop)...))
	m.restartSteps(restart)
	return nil
}

// asksBody reports whether the run's body is asked before the run stops. One that has decided nothing yet has nothing
// to undo.
func (m *machine) asksBody() bool {
	r := m.r
	if r.def == nil || !r.def.HandlesCancel || r.waitsForStart() && r.StartedAt == 0 {
		return false
	}
	for i := range r.Steps {
		if s := &r.Steps[i]; !s.Spec.Hook && !s.Dropped && !s.Kept {
			return true
		}
	}
	return false
}

// stopRun ends a run that was cancelled or has expired: at once, or after its body has been asked.
func (m *machine) stopRun(phase RunPhase, f *policy.Failure) {
	if !m.asksBody() {
		m.stopOpen("the run has " + phase.String())
		m.settle(phase, nil, f)
		return
	}
	paused := m.r.PausedAt != 0
	m.emit(RunStopping{Phase: phase, Failure: f})
	for i := range m.r.Steps { // the stop ends the pause, during which no attempt was offered
		if s := &m.r.Steps[i]; paused && s.Spec.Detached && s.Phase == StepScheduled {
			m.effect(m.r.offer(s))
		}
	}
}

// compensate continues the stop of a run: its body is asked once all work that has to end has ended, so that the body
// knows what it has to undo. It reports whether to go on.
func (m *machine) compensate() bool {
	stop := m.r.Stop
	if stop.Until != 0 {
		return m.ask()
	}
	for i := range m.r.Steps {
		if s := &m.r.Steps[i]; !s.Spec.Detached && (s.executes() || s.Stopping) {
			return false
		}
	}
	m.emit(RunStopping{Phase: stop.Phase, Failure: stop.Failure, Until: m.now.Add(m.compensationTime())})
	m.r.asked = false // the decisions that the body made meanwhile were refused: it gets all news again
	return true
}

func (m *machine) compensationTime() time.Duration {
	if d := m.r.rules().Compensation; d > 0 {
		return d
	}
	return compensationTime
}

// lateCompensation begins the failure of what is stopped because a body has not ended in time.
const lateCompensation = "the compensation was not finished within "

// OriginCompensation is the origin of a limit that is a part of the time for a compensation.
const OriginCompensation = "a part of the compensation timeout"

// giveTimeBack moves the end of a compensation by the time for which the run was not carried on, and with it the limits
// that are parts of that time. The other limits of steps are instants that nothing moves.
func (m *machine) giveTimeBack() {
	stop, away := m.r.Stop, m.now.Sub(m.r.last)
	if away <= 0 {
		return
	}
	m.emit(RunStopping{Phase: stop.Phase, Failure: stop.Failure, Until: stop.Until.Add(away)})
	for i := int(stop.From); i < len(m.r.Steps); i++ {
		s := &m.r.Steps[i]
		l := s.Effective().ScheduleToClose
		if !s.Phase.Closed() && s.ScheduleToClose != 0 && l != nil && l.Origin == OriginCompensation {
			m.emit(DeadlineMoved{Step: s.ID, Limit: policy.LimitScheduleToClose, At: s.ScheduleToClose.Add(away)})
		}
	}
}

func (s *Step) endedWithCompensation() bool {
	return s.Phase == StepTimedOut && s.Failure != nil && strings.HasPrefix(s.Failure.Message, lateCompensation)
}

// expireCompensation ends a run whose body has not ended in time.
func (m *machine) expireCompensation() {
	text := lateCompensation + duration.Format(m.compensationTime())
	late := &policy.Failure{Kind: policy.KindTimeout, Type: "timeout", Message: text}
	for i := range m.r.Steps {
		if s := &m.r.Steps[i]; !s.Phase.Closed() {
			m.stop(s, StepTimedOut, policy.ReasonTimeoutNotRetryable, late)
		}
	}
	m.endCompensation(nil, late)
}

// endCompensation settles the outcome of a run whose body has ended, from the body's result and the failure of its
// compensation; nil if that succeeded.
func (m *machine) endCompensation(output []byte, wrong *policy.Failure) {
	stop := m.r.Stop
	m.stopOpen("the run has " + stop.Phase.String())
	f := stop.Failure
	if wrong != nil {
		failed := *f
		failed.Message += "; after that: " + Sentence(wrong)
		failed.Cause = wrong
		f = &failed
	}
	m.settle(stop.Phase, output, f)
}

// cancelStopping cancels a run that stops already because a limit has expired: no other run follows it in its chain.
// An attempt that is part of the compensation goes on, because it should not be left half done.
func (m *machine) cancelStopping(in Operation) error {
	if m.r.CancelAsked {
		return m.refuse(CodeConflict, in.Op.String(), "%s", m.describeStop())
	}
	m.audit(in, NoStep)
	m.emit(CancelAsked{Interrupt: in.Op == OpCancel})
	return nil
}

func (m *machine) describeStop() string {
	text := "the run is being stopped already"
	if m.r.Compensating() {
		text += ", and its body undoes what it did until " + m.r.Stop.Until.String()
	}
	return text + "; terminate ends it at once"
}
