package core

import (
	"bytes"

	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// typeTerminated distinguishes the failure of a terminated run from that of a cancelled one.
const typeTerminated = "terminated"

func cancelled(msg string) *policy.Failure {
	return &policy.Failure{Kind: policy.KindCancelled, Type: "cancelled", Message: msg}
}

// close settles the outcome that the decider decided. Steps that are still open are cancelled.
func (m *machine) close(cmd Close) {
	if m.r.Closing != nil || m.r.Phase.Closed() {
		return
	}
	m.stopOpen("the run has " + cmd.Phase.String())
	m.closeAs(RunClosing{Phase: cmd.Phase, Output: cmd.Output, Failure: cmd.Failure, From: m.failedAmong(cmd.From)})
}

// closeAs records an outcome. An output that is a step's as well is recorded with the step alone.
func (m *machine) closeAs(rec RunClosing) {
	if s := m.r.stepWith(rec.Output); s != nil {
		rec.Output, rec.SameAs = nil, s.ID+1
	}
	m.emit(rec)
}

// shareFrom is from how many bytes on an output is recorded once if it is a step's and the run's. Shorter ones are not
// worth the search.
const shareFrom = 1 << 10

// stepWith returns a step that has this output, if the output is long enough to be shared.
func (r *Run) stepWith(output []byte) *Step {
	if len(output) < shareFrom {
		return nil
	}
	for i := len(r.Steps) - 1; i >= 0; i-- { // mostly it is the last one's
		if bytes.Equal(r.Steps[i].Output, output) {
			return &r.Steps[i]
		}
	}
	return nil
}

// settle records how the run will end. It ends when its hooks have run and its attempts have stopped.
func (m *machine) settle(phase RunPhase, output []byte, f *policy.Failure) {
	m.closeAs(RunClosing{Phase: phase, Output: output, Failure: f})
}

// stopOpen cancels every open step.
func (m *machine) stopOpen(why string) {
	if m.r.open == 0 {
		return
	}
	for i := range m.r.Steps {
		if s := &m.r.Steps[i]; !s.Phase.Closed() {
			m.stop(s, StepCancelled, policy.ReasonCancelled, cancelled(why))
		}
	}
}

// hooks moves a closing run on: it asks for the next stage of hooks when the last stage's are closed, and ends the
// run after the last stage. Both wait until no attempt runs or is being stopped: a hook that cleans up must not do so
// beside the work that it cleans up after. A run whose body is asked in writing has no hooks, and does not wait. It
// reports whether to go on.
func (m *machine) hooks() bool {
	if m.r.open > 0 || m.r.live > 0 && !m.r.Answers() {
		return false
	}
	if m.nextHooks() {
		return true
	}
	c := m.r.Closing
	m.end(c.Phase, c.Failure)
	return false
}

// hookStages is how many stages of hooks a run has: the outcome's own, and those of every outcome.
const hookStages = 2

// nextHooks schedules the hooks of the next stage that has any: the outcome's own hook, then the one for every
// outcome.
func (m *machine) nextHooks() bool {
	c := m.r.Closing
	done := c.Hook
	for ; c.Hook < hookStages; c.Hook++ {
		cmds := m.r.decide().Decide(m.r, m.r.changed, m.now)
		m.r.changed = nil
		if len(cmds) == 0 {
			continue
		}
		stage := c.Hook
		c.Hook = done // only records move it on
		m.emit(RunHooks{Stage: stage + 1})
		for _, cmd := range cmds {
			if s, ok := cmd.(Schedule); ok && s.Spec.Hook {
				m.schedule(s)
			}
		}
		return true
	}
	c.Hook = done
	return false
}

// end writes the terminal phase and what follows it in the chain.
func (m *machine) end(phase RunPhase, f *policy.Failure) {
	m.answerOpenUpdates()
	next := m.next(phase, f)
	rec := RunEnded{Phase: phase}
	if next != nil {
		rec.Next = m.r.derive(1<<63, m.now).After(m.r.ID) // the newest run of a workflow id has the greatest id
	}
	m.emit(rec)
	m.effect(Closed{Phase: phase, Next: next})
}

// next returns the start of the run that follows in the chain; nil: none follows. After a run that failed or timed out
// the run retry policy decides that, otherwise the definition (cron). After a cancel was asked for none follows, even
// where something else ended the run first: whoever cancels means the chain.
func (m *machine) next(phase RunPhase, f *policy.Failure) *Start {
	switch {
	case phase == RunCancelled, m.r.CancelAsked, f != nil && f.Limit == policy.LimitExecution:
		return nil
	case phase == RunContinued:
		return asNew(m, m.r.Closing.Output)
	}
	if next := m.retried(phase, f); next != nil {
		return next
	}
	if at := m.r.Follows(m.now); at != 0 {
		next := m.following(inputAfter(m, phase, f), at, 1, ActorCron)
		next.Firing = at
		return next
	}
	return nil
}

// The actors of runs that follow another one of their chain.
const (
	ActorContinued = "continue as new" // it keeps the place of that run in its queue
	ActorRetry     = "retry policy"
	ActorCron      = "cron"
)

// asNew returns the start of the run that follows this one as new.
func asNew(m *machine, input []byte) *Start {
	// Not at m.now: where the clock has gone back since the run's last entry, its time is later than the engine's.
	next := m.following(input, 0, 1, ActorContinued)
	if m.r.def.Successor == nil {
		return next
	}
	s := m.r.def.Successor(input)
	if s.Definition.ID != m.r.Definition {
		m.effect(s.Definition)
	}
	next.Definition, next.Workflow, next.Run = s.Definition.ID, s.Definition.Name, nil // its input says its limit
	if s.Delay > 0 {
		next.At = m.now.Add(s.Delay)
	}
	return next
}

// inputAfter returns the input of the run that follows this one, which ends so.
func inputAfter(m *machine, phase RunPhase, f *policy.Failure) []byte {
	if m.r.def.InputAfter == nil {
		return m.r.Input
	}
	var output []byte
	if c := m.r.Closing; c != nil {
		output = c.Output
	}
	return m.r.def.InputAfter(m.r, phase, output, f)
}

// timetableOf returns when the runs of a run's chain begin, by the definition or by the rules of the run; nil: they do
// not.
func timetableOf(r *Run) func(firing, began, now Time) Time {
	switch {
	case r.def == nil:
		return nil
	case r.def.Follows == nil && r.Answers():
		return r.rules().Follows
	default:
		return r.def.Follows
	}
}

// Follows returns when the next run of the chain begins by the definition's own choice, if this one ends now; zero:
// none does, or only at or after the chain's deadline.
func (r *Run) Follows(now Time) Time {
	follows := timetableOf(r)
	if follows == nil {
		return 0
	}
	at := follows(r.ScheduledFor(), max(r.CreatedAt, r.StartAt), now)
	if r.Execution.At != 0 && at >= r.Execution.At {
		return 0
	}
	return at
}

// ScheduledFor returns the instant that the run is for, however late it began: the firing that started it, or when it
// was to start.
func (r *Run) ScheduledFor() Time {
	if r.Firing != 0 {
		return r.Firing
	}
	return max(r.CreatedAt, r.StartAt)
}

// retried returns the run that follows a failed or timed-out one under a run retry policy, or nil if there is none.
func (m *machine) retried(phase RunPhase, f *policy.Failure) *Start {
	retry := m.r.rules().Retry
	if retry == nil || f == nil || !phase.Failed() {
		return nil
	}
	// A run as a whole has failed, whatever the kind of the step's failure: its kind does not filter, its type may.
	asRun := *f
	asRun.Kind, asRun.Limit = policy.KindError, policy.LimitNone
	h := judge.History{Counted: m.r.Chain.Attempt, Deadline: m.r.Execution.At, Bound: policy.LimitExecution}
	u := judge.Random(m.r.ID, "", m.r.Chain.Attempt)
	v := judge.Judge(&policy.Policy{Retry: retry}, h, &asRun, m.matchRun(retry, f), m.now, u)
	if !v.Retry {
		return nil
	}
	next := m.following(inputAfter(m, phase, f), v.At, m.r.Chain.Attempt+1, ActorRetry)
	next.Chain.AfterFailure = true
	if m.r.def.Follows != nil || m.r.Firing != 0 {
		next.Firing = m.r.ScheduledFor()
	}
	return next
}

// following returns the start of the chain's next run, which begins at once where at is zero. It has a run limit of its
// own and the same execution deadline. The kept events go with it, because their senders were told that they are safe.
func (m *machine) following(input []byte, at Time, attempt int, actor string) *Start {
	first := m.r.Chain.First
	if first == (RunID{}) {
		first = m.r.ID
	}
	s := &Start{
		Definition: m.r.Definition, Workflow: m.r.Workflow, WorkflowID: m.r.WorkflowID, Key: m.r.Key,
		Input: input, At: at,
		ExecutionAt: m.r.Execution, Parent: m.r.Parent,
		Chain:   Chain{First: first, Previous: m.r.ID, Attempt: attempt, AfterFailure: m.r.Chain.AfterFailure},
		Signals: m.r.Signals, Updates: m.r.Updates, Notify: m.r.Notify, Actor: actor, Labels: m.r.Labels,
		Headers: m.r.Headers, Zone: m.r.Zone,
	}
	if a := m.r.Admission; a != nil {
		s.Queue, s.Within, s.Admitted = a.Queue, a.Within, a.Admitted && actor == ActorContinued
	}
	if s.WorkflowID == "" {
		s.WorkflowID = first.String()
	}
	if d := m.r.Deadline; d.After > 0 {
		s.Run = &policy.Limit{After: d.After, Warn: warned(d), Origin: d.Origin}
	}
	return s
}

// matchRun evaluates the condition of a run retry policy.
func (m *machine) matchRun(retry *policy.Retry, f *policy.Failure) judge.Match {
	if retry.When == "" {
		return judge.Match{}
	}
	return m.r.decide().Match(m.r, nil, retry.When, f, nil, m.now)
}

// settleCancel closes a run that is asked to cancel, once no attempt runs any more. It reports whether it did.
func (m *machine) settleCancel() bool {
	for i := range m.r.Steps {
		if s := &m.r.Steps[i]; !s.Phase.Closed() && !s.Spec.Detached && s.executes() {
			return false // a running attempt finishes; its report comes back here
		}
	}
	if m.asksBody() {
		m.stopRun(RunCancelled, m.whyCancelled())
		return true
	}
	m.stopOpen("the run is cancelled")
	m.settleCancelled()
	return true
}

// cancel asks the run to stop: sleeps, waits, backoffs and attempts that have not begun end at once; running attempts
// finish, or are told to stop if interrupt is set.
func (m *machine) cancel(interrupt bool) {
	m.emit(CancelAsked{Interrupt: interrupt})
	for i := range m.r.Steps {
		s := &m.r.Steps[i]
		if s.Phase.Closed() || s.Spec.Kind == KindGroup || s.Spec.Detached {
			continue
		}
		if !s.executes() || interrupt || s.unbegun() {
			m.stop(s, StepCancelled, policy.ReasonCancelled, cancelled("the run is cancelled"))
			continue
		}
		if s.Spec.Kind == KindChild {
			m.effect(StopChild{Child: s.Child, Op: OpCancelGracefully})
		}
	}
}

// cancelClosing cancels a run whose outcome is settled already. No other run follows it in its chain then; with
// interrupt set its hooks are stopped, too.
func (m *machine) cancelClosing(interrupt bool) {
	m.emit(CancelAsked{Interrupt: interrupt})
	if m.r.Closing.Phase == RunContinued {
		m.settleCancelled()
	}
	if interrupt {
		m.stopOpen("the run is cancelled")
	}
}

func (m *machine) settleCancelled() {
	m.settle(RunCancelled, nil, m.whyCancelled())
}

func (m *machine) whyCancelled() *policy.Failure {
	return cancelled(because("the run was cancelled", m.r.CancelReason))
}

// because adds the reason that was given, if one was.
func because(what, reason string) string {
	if reason == "" {
		return what
	}
	return what + ": " + reason
}

// terminate closes the run at once.
func (m *machine) terminate(reason string) {
	m.stopOpen("the run was terminated")
	f := cancelled(because("the run was terminated", reason))
	f.Type = typeTerminated
	m.answerOpenUpdates()
	m.emit(RunEnded{Phase: RunTerminated, Failure: f})
	m.effect(Closed{Phase: RunTerminated})
}
