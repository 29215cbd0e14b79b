package core

import (
	"github.com/pawl-dev/pawl/policy"
)

// Apply folds one record into the state. It is the only code that changes a run's state, it decides nothing, and it
// never fails: what it is given was decided by Advance, now or before a restart.
//
//nolint:funlen // a plain switch over all records
func Apply(r *Run, at Time, rec Record) {
	switch rec := rec.(type) {
	case RunCreated:
		r.applyCreated(at, rec)
	case RunQueued, RunHeld, RunStarted:
		r.applyAdmission(at, rec)
	case RunClosing:
		stage := 0
		if r.Closing != nil {
			stage = r.Closing.Hook // another outcome; the hooks that were asked for are not asked for again
		}
		r.Closing = &Closing{Phase: rec.Phase, Output: rec.Output, Failure: rec.Failure, From: rec.From, Hook: stage}
		if rec.SameAs != 0 {
			r.Closing.Output = r.Steps[rec.SameAs-1].Output
		}
		r.PausedAt, r.StopClock = 0, false // the hooks are not held by a pause, which nobody would end
	case RunStopping:
		r.applyStopping(rec)
	case RunHooks:
		r.Closing.Hook = rec.Stage
	case RunEnded:
		r.Phase, r.EndedAt, r.Failure = rec.Phase, at, rec.Failure
		if c := r.Closing; c != nil {
			r.cameFrom(c.From) // also if it was terminated before its attempts had stopped
			if c.Phase == rec.Phase {
				r.Output, r.Failure = c.Output, c.Failure
			}
		}
		if r.Unfinished() {
			r.Labels = r.Labels.With(LabelCompensation + "=" + compensationUnfinished)
		}
		r.Closing, r.Next, r.PausedAt = nil, rec.Next, 0
		r.admission(func(a *Admission) { a.Entered, a.Admitted = 0, false })
	case RunReopened:
		r.applyReopened(at, rec)
	case PauseBegan:
		r.PausedAt, r.StopClock = at, rec.StopClock
		r.retime()
	case PauseEnded:
		r.PausedAt, r.StopClock = 0, false
		r.Execution, r.Deadline = rec.Execution, rec.Deadline
		r.retime()
	case CancelAsked:
		r.CancelAsked = true
	case SignalKept:
		r.keepSignal(at, rec)
	case StatePublished:
		r.applyPublished(at, rec)
	case Turned:
		r.applyTurned(at, rec)
	case UpdateAccepted:
		r.applyAccepted(rec)
	case UpdateAnswered:
		r.applyAnswered(rec)
	case StepBegan:
		r.applyBegan(at, rec)
	case StepOmitted:
		r.applyOmitted(at, rec)
	case DeadlineMoved:
		r.applyMoved(at, rec)
	case StepWarned:
		r.applyWarned(at, rec)
	case BodyWaits, BodyAnswered, StepChildBegan, EndsOrdered:
		r.applyBody(rec)
	case Operated:
		r.applyOperated(at, rec)
	default:
		r.applyStep(at, rec)
	}
}

func (r *Run) applyOperated(at Time, rec Operated) {
	r.Asked = append(r.Asked, Asked{At: at, Op: rec.Op, Step: rec.Step, Actor: rec.Actor, Reason: rec.Reason})
	if rec.Op != OpCancelGracefully && rec.Op != OpCancel {
		return
	}
	if rec.Reason != "" {
		r.CancelReason = rec.Reason
	}
	if !r.wished {
		r.hear() // it is asked once
	}
	r.wished = true
}

func (r *Run) applyCreated(at Time, rec RunCreated) {
	r.Workflow, r.Definition = rec.Workflow, rec.Definition
	r.WorkflowID, r.Key = rec.WorkflowID, rec.Key
	r.Input = rec.Input
	r.Execution, r.Deadline = rec.Execution, rec.Deadline
	r.Parent, r.Chain, r.StartedBy = rec.Parent, rec.Chain, rec.Actor
	r.Notify, r.Labels, r.Headers = rec.Notify, rec.Labels, rec.Headers

	r.CreatedAt, r.StartAt, r.Firing, r.Zone = at, rec.StartAt, rec.Firing, rec.Zone
	r.Phase = RunPending
	if rec.Queue.Name != "" || len(rec.Within) > 0 {
		r.Admission = &Admission{Queue: rec.Queue, Within: rec.Within, Admitted: rec.Admitted}
	}
	switch {
	case rec.StartAt != 0:
	case r.hasQueue() && !rec.Admitted:
		r.enter(at)
	default:
		r.Phase, r.StartedAt = RunRunning, at
	}
	r.bodyPending = true
}

func (r *Run) applyReopened(at Time, rec RunReopened) {
	if rec.ForHook {
		r.Closing = &Closing{Phase: r.Phase, Output: r.Output, Failure: r.Failure, Hook: hookStages}
		if r.failures != nil {
			r.Closing.From = r.failures.from
		}
		r.Phase, r.EndedAt = RunRunning, 0
		return
	}
	r.Chain.AfterFailure = r.Chain.AfterFailure || r.Phase.Failed()
	switch {
	case rec.Queued:
		r.Phase = RunPending
		r.enter(at)
	case !r.waitsForStart():
		r.Phase = RunRunning
		if r.StartedAt == 0 { // it ended in its delay, which is not waited for again
			r.StartedAt = at
		}
	}
	r.EndedAt, r.extendedLimits = 0, 0
	r.Output, r.Failure = nil, nil
	r.cameFrom(nil)
	r.Execution, r.Deadline = rec.Execution, rec.Deadline

	r.Closing, r.Warned = nil, nil
	if rec.Until != 0 && r.Stop != nil {
		stop := *r.Stop
		stop.Until = rec.Until
		r.Stop, r.Phase = &stop, RunRunning
		for _, id := range rec.Keep {
			r.Steps[id].Kept = true
		}
	} else {
		r.Stop, r.CancelAsked, r.CancelReason = nil, false, ""
	}
	r.Labels = r.Labels.With(notUndone)
	r.bodyPending = true
	for _, id := range rec.Drop {
		r.Steps[id].Dropped = true
		r.unfollow(id)
		if r.signalsTaken != nil {
			delete(r.signalsTaken.by, id)
		}
	}
	r.relabel(rec.Labels)
	r.byKey = nil
	r.forgetPoints()
}

func (r *Run) applyStopping(rec RunStopping) {
	from, ends := StepID(len(r.Steps)), r.Ends
	if r.Compensating() {
		from, ends = r.Stop.From, r.Stop.Ends // it has more time, since nobody carried the run for a while
	}
	r.Stop = &Stop{Phase: rec.Phase, Failure: rec.Failure, From: from, Ends: ends, Until: rec.Until}
	r.PausedAt, r.StopClock = 0, false // nobody would end a pause for the sake of the compensation
	r.bodyPending = true
	r.retime()
}

func (r *Run) applyBegan(at Time, rec StepBegan) {
	spec := r.resolve(rec.Spec)
	s := Step{
		ID: StepID(len(r.Steps)), Spec: spec, Item: rec.Item, Group: rec.Group, Phase: StepSuspended,
		ScheduledAt: at, ScheduleToClose: rec.ScheduleToClose, Deadline: rec.Deadline,
		NextAt: rec.NextAt, Until: rec.Until,
	}
	if spec.Kind == KindTask {
		s.Phase, s.ReadyAt = StepScheduled, at
		s.Attempt, s.Counted = 1, 1
	}
	if rec.ShareKey != "" {
		s.Shared = &Shared{Key: rec.ShareKey}
	}
	r.add(s)
	r.follow(s.ID, causes{rec.Saw, rec.After})
}

func (r *Run) applyOmitted(at Time, rec StepOmitted) {
	r.add(Step{
		ID: StepID(len(r.Steps)), Spec: r.resolve(rec.Spec), Item: rec.Item, Group: rec.Group, Phase: rec.Phase,
		Reason: policy.ReasonSkipped, ScheduledAt: at, EndedAt: at, Output: rec.Output,
		Upstream: rec.Upstream, Kept: rec.Kept, Failure: rec.Failure,
	})
	if rec.Phase == StepSkipped && !rec.Kept {
		r.Ends++
		r.Steps[len(r.Steps)-1].Rank = r.Ends
	}
	id := StepID(len(r.Steps) - 1)
	if rec.Actor != "" {
		noteSender(r, id, rec.Actor)
	}
	r.follow(id, causes{rec.Saw, rec.After})
	r.noteClosed(id)
	r.applyLabels(id, rec.Labels)
}

func (r *Run) applyMoved(at Time, rec DeadlineMoved) {
	if rec.Step == NoStep {
		r.extendedLimits.add(rec.Limit)
		if rec.Limit == policy.LimitExecution {
			r.Execution = r.Execution.moved(rec.At, at)
		} else {
			r.Deadline = r.Deadline.moved(rec.At, at)
		}
		return
	}
	r.change(rec.Step, func(s *Step) {
		s.extendedLimits.add(rec.Limit)
		switch rec.Limit {
		case policy.LimitScheduleToClose:
			s.ScheduleToClose = rec.At
		case policy.LimitDeadline:
			s.Deadline = rec.At
		default:
			s.NextAt = rec.At
		}
	})
}

// applyStep folds the records that change one step.
func (r *Run) applyStep(at Time, rec Record) {
	switch rec := rec.(type) {
	case AttemptReady:
		r.change(rec.Step, func(s *Step) { s.ready(at) })
	case AttemptHeld:
		r.Steps[rec.Step].hold(rec.Held, at)
	case AttemptStarted:
		r.change(rec.Step, func(s *Step) { s.start(at, rec) })
	case AttemptBeat:
		r.change(rec.Step, func(s *Step) { s.beat(rec) })
	case AttemptEnded:
		r.change(rec.Step, func(s *Step) { s.endAttempt(at, rec) })
	case AttemptStopped:
		r.change(rec.Step, func(s *Step) { s.Stopping = false })
	case StepEnded:
		r.Ends++
		r.change(rec.Step, func(s *Step) { s.end(at, rec, r.Ends) })
		if rec.Signal != "" {
			r.takeSignal(rec.Step, rec.Signal)
		}
		r.noteClosed(rec.Step)
	case StepReset:
		if rec.Restart {
			r.bodyPending = true
			r.forgetPoints()
		}
		r.change(rec.Step, func(s *Step) { s.reset(at, rec) })
	case StepPolicy:
		r.change(rec.Step, func(s *Step) { s.Policy = rec.Policy })
	case StepCancelAsked:
		r.Steps[rec.Step].CancelAsked = true
	default: // Apply has folded the others
	}
}

// noteClosed notes a step that closed, for whoever decides what comes next.
func (r *Run) noteClosed(id StepID) {
	if r.Answers() {
		s := &r.Steps[id]
		if s.Spec.Kind != KindSleep || s.Phase != StepCancelled || s.Reason != policy.ReasonCancelled {
			// Otherwise its body has cancelled it.
			r.hear()
		}
		return
	}
	r.changed = append(r.changed, id)
	r.bodyPending = true
}

// ready begins another attempt: it waits for a worker, and has given no sign of life yet.
func (s *Step) ready(at Time) {
	s.Phase, s.ReadyAt = StepScheduled, at
	s.Started, s.BeatAt, s.ByteAt = 0, 0, 0
	s.NextAt = 0 // the backoff is over
	s.resumed = hashed(s.Details)
	s.Attempt++
	s.Counted++
}

// start begins the work of an attempt. An attempt that waited for a worker was counted when it became ready; that of
// a child step is counted here, for nothing waits before it.
func (s *Step) start(at Time, rec AttemptStarted) {
	if s.Spec.Kind == KindTask {
		s.Phase = StepRunning
	} else {
		s.Phase, s.Child = StepSuspended, rec.Child
		s.Attempt++
		s.Counted++
		s.ReadyAt, s.NextAt = at, 0
	}
	s.release()
	s.Started, s.PolicyAtStart, s.Secret, s.Confirms = at, s.Effective(), rec.Secret, rec.Confirms
	s.SuspectsBeside = s.SuspectGroup()
	if s.Began == 0 {
		s.Began = at
	}
	if rec.Deadline != 0 {
		s.Deadline = rec.Deadline
	}
}

func (s *Step) beat(rec AttemptBeat) {
	if rec.Output {
		s.ByteAt = max(s.ByteAt, rec.At)
		return
	}
	s.BeatAt = max(s.BeatAt, rec.At)
	if rec.Details != nil {
		s.Details = rec.Details
	}
}

// endAttempt ends an attempt. A lost one gives back the attempt it took from the budget: it says nothing about the
// step.
func (s *Step) endAttempt(at Time, rec AttemptEnded) {
	s.release()
	s.Past.note(s, at, rec)
	s.Failure, s.Stopping = rec.Failure, rec.Stopping
	if rec.Details != nil {
		s.Details = rec.Details
	}
	if rec.Failure != nil && rec.Failure.Kind == policy.KindLost {
		if !excused(rec.Failure) {
			s.Lost++
		}
		s.Counted--
		s.LostAlone = rec.LostAlone
	} else {
		s.Lost, s.LostAlone = 0, 0
	}
	s.Started = 0
	s.Child = RunID{}
	if rec.Retry {
		s.Phase, s.NextAt = StepBackingOff, rec.NextAt
		s.Delay = rec.NextAt.Sub(at).Milliseconds()
	}
}

func (s *Step) end(at Time, rec StepEnded, rank uint32) {
	s.Phase, s.Reason, s.EndedAt, s.Rank = rec.Phase, rec.Reason, at, rank
	s.Output = rec.Output
	s.Started = 0
	if s.Spec.Kind != KindSleep { // a sleep that is restarted needs its length
		s.NextAt = 0
	}
	if rec.Failure != nil || rec.Phase == StepSucceeded {
		s.Failure = rec.Failure
	}
}

func (s *Step) reset(at Time, rec StepReset) {
	s.ScheduleToClose, s.Deadline = rec.ScheduleToClose, rec.Deadline
	if rec.NextAt != 0 {
		s.NextAt = rec.NextAt
	}
	if rec.Budget {
		s.Counted, s.Lost, s.LostAlone = 0, 0, 0
		s.Delay, s.Began = 0, 0
	}
	if s.Phase == StepScheduled {
		s.ReadyAt = at
	}
	if !rec.Restart {
		return
	}
	s.Phase, s.Reason, s.EndedAt, s.extendedLimits, s.Rank = StepSuspended, policy.ReasonNone, 0, 0, 0
	s.Output, s.Failure, s.Restarted, s.CancelAsked = nil, nil, true, false
	s.Past = Past{Before: s.Attempt}
	if s.Spec.Kind == KindSleep {
		s.ScheduledAt = at // the record of the sleep's end says how long the sleep is
	}
	if s.Spec.Kind == KindTask || s.Spec.Kind == KindChild {
		s.Phase, s.NextAt = StepBackingOff, at
	}
}
