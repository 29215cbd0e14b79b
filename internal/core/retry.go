package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/policy"
)

// failedStep reports whether a retry of the run restarts the step: it did not succeed, and the definition does not
// tolerate that.
func (m *machine) failedStep(s *Step) bool {
	if s.Dropped || s.Spec.Hook {
		return false
	}
	if !s.failed() {
		return false
	}
	return m.r.def.Tolerates == nil || !m.r.def.Tolerates(s)
}

// refuseFollowed refuses to open a run again that its chain has left behind.
func (m *machine) refuseFollowed() error {
	switch {
	case m.r.Phase.Closed() && m.r.compensated() && m.r.Unfinished():
		return m.refuse(CodeConflict, "retry",
			"the run is %s, and its compensation was not finished; retry the run to go on with that", m.r.Phase)
	case m.r.Phase.Closed() && m.r.compensated():
		return m.refuse(CodeConflict, "retry",
			"the run is %s, and its body has undone what it had done; restart it instead", m.r.Phase)
	}
	if m.r.Next == (RunID{}) {
		return nil
	}
	return m.refuse(CodeConflict, "retry",
		"the run is %s and its chain goes on with run %s; retry that one", m.r.Phase, m.r.Next)
}

// retryRun restarts the failed steps that made a run fail, or would. For a run with a body these are the steps from
// which the body's error followed; the body's decisions after it had seen their failure are dropped. A run whose
// compensation was not finished goes on with that.
func (m *machine) retryRun(in Operation) error {
	if m.r.resumesUndo() {
		return m.resumeCompensation(in)
	}
	ids, drop, err := m.retryable()
	return m.retry(in, NoStep, ids, drop, err)
}

// RefusesRetry returns why a retry of the run would be refused now, or nil if it would not.
func (r *Run) RefusesRetry(now Time) error {
	m := machine{r: r, now: now}
	if err := refuseAnswered(&m, OpRetryRun); err != nil {
		return err
	}
	if err := m.refuseElsewhere(Operation{Op: OpRetryRun, Step: NoStep}); err != nil {
		return err
	}
	if r.resumesUndo() {
		_, _, _, err := m.resumed()
		return err
	}
	_, _, err := m.retryable()
	return err
}

// resumesUndo reports whether a retry of the run goes on with its compensation, which was not finished.
func (r *Run) resumesUndo() bool { return r.Next == (RunID{}) && r.compensated() && r.Unfinished() }

// MadeAgain returns the steps that a retry of the run would make again, or why it would be refused.
func (r *Run) MadeAgain(now Time) ([]StepID, error) {
	m := machine{r: r, now: now}
	if r.resumesUndo() {
		again, _, _, err := m.resumed()
		return again, err
	}
	again, _, err := m.retryable()
	return again, err
}

// FailedSteps returns the steps and items of a run that failed, were late or were cancelled, whether or not its
// definition tolerates that. Hooks are not among them.
func FailedSteps(r *Run) []StepID {
	var out []StepID
	for i := range r.Steps {
		if s := &r.Steps[i]; s.failed() && !s.Dropped && !s.Spec.Hook {
			out = append(out, s.ID)
		}
	}
	return out
}

// FollowingOf returns the steps that the body of a run decided after it had seen one of some failures.
func FollowingOf(r *Run, failed []StepID) []StepID { return r.following(failed) }

// RefusesFailed returns why no new run can make again what failed in this one, or nil if one can.
func RefusesFailed(r *Run) error {
	m := machine{r: r}
	switch err := m.refuseFollowed(); {
	case err != nil:
		return err
	case !r.Phase.Closed():
		return m.refuse(CodeConflict, "rerun", "the run is %s: cancel it, or wait until it has ended", r.Phase)
	case r.Phase == RunSucceeded && len(FailedSteps(r)) == 0:
		return m.refuse(CodeConflict, "rerun", "the run is %s, and no step and no item of it failed; restart it "+
			"instead, or say from which step", r.Phase)
	default:
		return nil
	}
}

// retryable returns what a retry of the run restarts and drops, or why it is refused.
func (m *machine) retryable() (restart, drop []StepID, err error) {
	if err := m.refuseFollowed(); err != nil {
		return nil, nil, err
	}
	if !m.r.Phase.Closed() && m.r.Ending() {
		return nil, nil, m.refuse(CodeConflict, "retry", "the run is closing; wait until it has ended")
	}
	return m.whatFailed()
}

// retry audits a retry that is not refused, and carries it out.
func (m *machine) retry(in Operation, step StepID, ids, drop []StepID, err error) error {
	if err != nil {
		return err
	}
	m.audit(in, step)
	m.restart(ids, drop)
	return nil
}

// whatFailed returns what a retry of the run restarts and drops. A run that has ended with no failed step goes on: its
// limit expired, or somebody stopped it, before a step began or between two; or its output could not be computed.
func (m *machine) whatFailed() (restart, drop []StepID, err error) {
	if m.r.hasBody() {
		return m.rewind()
	}
	for i := range m.r.Steps {
		if s := &m.r.Steps[i]; m.failedStep(s) && !m.toleratedGroup(s) {
			restart = append(restart, s.ID)
		}
	}
	switch {
	case len(restart) > 0 || m.r.Phase.Closed() && m.r.Phase != RunSucceeded:
		return m.anew(restart)
	case m.r.Phase.Closed():
		return nil, nil, m.refuse(CodeConflict, "retry", "the run is %s and has no failed step; %s", m.r.Phase,
			insteadOfRetry(m.r))
	default:
		return nil, nil, m.refuse(CodeConflict, "retry", "the run is %s and has no failed step", m.r.Phase)
	}
}

// insteadOfRetry returns what else can be done with a run that has ended and has no failed step.
func insteadOfRetry(r *Run) string {
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Spec.Hook && !s.Dropped && (s.Phase == StepFailed || s.Phase == StepTimedOut) {
			return fmt.Sprintf("its hook %s did not succeed: retry that as a step", s.Key())
		}
	}
	var keys []string
	word := "item"
	for _, id := range FailedSteps(r) {
		s := &r.Steps[id]
		keys = append(keys, s.Key())
		if s.Item < 0 {
			word = "step"
		}
	}
	failed := "1 " + word
	switch n := len(keys); {
	case n == 0:
		return "restart it instead"
	case n > 1:
		failed = fmt.Sprintf("%d %ss", n, word)
	}
	const most = 5
	if len(keys) > most {
		keys = append(keys[:most], "...")
	}
	return fmt.Sprintf("%s failed, which the flow goes on after: %s; a new run makes them again, and all that depends "+
		"on them: pawl run rerun %s --failed", failed, strings.Join(keys, ", "), r.ID)
}

// anew adds to some steps that are made again those about which this leads to a new decision.
func (m *machine) anew(ids []StepID) (restart, drop []StepID, err error) {
	if m.r.def.Dependents != nil {
		drop = m.r.def.Dependents(m.r, ids)
	}
	return m.back(ids, drop)
}

// toleratedGroup reports whether the step is an item of a group that has ended and is not restarted: it succeeded, or
// its failure is tolerated, so the item did not make the run fail.
func (m *machine) toleratedGroup(s *Step) bool {
	if s.Group == NoStep {
		return false
	}
	g := &m.r.Steps[s.Group]
	return g.Phase.Closed() && !m.failedStep(g)
}

// retryStep restarts one failed step, and with a group its failed items, with an item its group.
func (m *machine) retryStep(in Operation, s *Step) error {
	if err := m.refuseFollowed(); err != nil {
		return err
	}
	if !s.failed() {
		return m.refuse(CodeConflict, "retry",
			"step %q is %s; only a failed, timed-out or cancelled step can be retried", s.Key(), s.Phase)
	}
	if s.Stopping {
		return m.refuse(CodeConflict, "retry",
			"the last attempt of step %q is still being stopped; try again when it has gone", s.Key())
	}
	if !m.r.Phase.Closed() && m.r.Ending() {
		return m.refuse(CodeConflict, "retry", "the run is closing; wait until it has ended")
	}
	if s.Spec.Hook {
		return m.retryHook(in, s)
	}
	if m.r.hasBody() {
		ids, drop, err := m.rewindTo(s)
		return m.retry(in, s.ID, ids, drop, err)
	}
	ids, drop, err := m.anew(m.withGroup(s))
	return m.retry(in, s.ID, ids, drop, err)
}

// withGroup lists a step with the steps that are made again with it: a group's failed items, or an item's group.
func (m *machine) withGroup(s *Step) []StepID {
	ids := []StepID{s.ID}
	if s.Group != NoStep && m.r.Steps[s.Group].Phase.Closed() {
		ids = append(ids, s.Group)
	}
	if s.Spec.Kind == KindGroup {
		for i := range m.r.Steps {
			if it := &m.r.Steps[i]; it.Group == s.ID && m.failedStep(it) {
				ids = append(ids, it.ID)
			}
		}
	}
	return ids
}

// retryHook makes a hook again that failed, for a run that has ended and keeps its outcome: it ends as it did when the
// hook has ended.
func (m *machine) retryHook(in Operation, s *Step) error {
	if !m.r.Phase.Closed() {
		return m.refuse(CodeConflict, "retry", "step %q is a hook; make it again when the run has ended", s.Key())
	}
	if m.r.Phase == RunTerminated {
		return m.refuse(CodeConflict, "retry", "the run was terminated, and its hooks with it")
	}
	m.audit(in, s.ID)
	m.emit(RunReopened{Execution: m.r.Execution, Deadline: m.r.Deadline, ForHook: true})
	m.restartStep(s)
	m.beginAgain(s)
	return nil
}

// reopenedExecution returns the execution limit of a run that is opened again. A deadline that has passed would end the
// retry at once, so it starts again if it is a duration, and is removed if it was an instant. The limits of the
// definition apply again then: a child run begins with the limit of its parent if that is earlier, and would otherwise
// have none. For example, a child by cron whose own limit is 3h would begin again and again forever.
func (m *machine) reopenedExecution() RunLimit {
	l := m.r.Execution
	if l.At == 0 || l.At > m.now {
		return l
	}
	if l.After > 0 {
		return l.fresh(m.now)
	}
	rules := m.r.rules()
	amount, instant := limitFrom(rules.Execution, m.now).ifAhead(m.now), limitFrom(rules.Deadline, m.now).ifAhead(m.now)
	if instant.At != 0 && (amount.At == 0 || instant.At < amount.At) {
		return instant
	}
	return amount
}

// FailureUpstream is the type of the failure of a group that only means that the needs of its items did not succeed. A
// retry opens such a group again, so that its items are decided again.
const FailureUpstream = "upstream"

// waitingGroups lists the closed groups that a retry opens again although they were not named: an item of them was
// skipped because of the failure, or would have been; or items of them are decided again.
func (m *machine) waitingGroups(named, drop []StepID) []StepID {
	reopen := map[StepID]bool{}
	for _, id := range drop {
		if group := m.r.Steps[id].Group; group != NoStep {
			reopen[group] = true
		}
	}
	for i := range m.r.Steps {
		s := &m.r.Steps[i]
		if s.Group != NoStep && s.Upstream && !s.Dropped {
			reopen[s.Group] = true
		}
		if s.Spec.Kind == KindGroup && s.Phase == StepFailed && s.Failure != nil && s.Failure.Type == FailureUpstream {
			reopen[s.ID] = true
		}
	}
	var out []StepID
	for i := range m.r.Steps {
		s := &m.r.Steps[i]
		known := slices.Contains(named, s.ID) || slices.Contains(drop, s.ID)
		if reopen[s.ID] && s.Phase.Closed() && !s.Dropped && !known {
			out = append(out, s.ID)
		}
	}
	return out
}

// restart gives steps a fresh budget and fresh deadlines and puts them back to work. A closed run is opened again, with
// new deadlines of its own. What is dropped is decided again, as are hooks and skipped dependants.
func (m *machine) restart(ids, drop []StepID) {
	ids = append(ids, m.waitingGroups(ids, drop)...)
	for _, id := range drop {
		if s := &m.r.Steps[id]; !s.Phase.Closed() {
			m.stop(s, StepCancelled, policy.ReasonCancelled, cancelled("what it needs is done again"))
		}
	}
	drop = append(drop, m.droppedByRetry(drop)...)
	if m.r.Phase.Closed() {
		rec := RunReopened{Execution: m.reopenedExecution(), Deadline: m.r.Deadline.fresh(m.now).ifAhead(m.now)}
		if rec.Queued = m.r.hasQueue(); rec.Queued {
			rec.Deadline = rec.Deadline.unbegun()
		}
		m.reopen(rec, drop)
	} else if len(drop) > 0 {
		m.reopen(RunReopened{Execution: m.r.Execution, Deadline: m.r.Deadline}, drop)
	}
	m.restartSteps(ids)
}

// restartSteps gives steps a fresh budget and fresh deadlines, in a run that is open.
func (m *machine) restartSteps(ids []StepID) {
	for _, id := range ids {
		m.restartStep(&m.r.Steps[id])
	}
	m.r.forgetDecider() // the decisions on the failure are made again
	for _, id := range ids {
		m.beginAgain(&m.r.Steps[id])
	}
}

// restartStep gives a step a fresh budget and fresh deadlines.
func (m *machine) restartStep(s *Step) {
	if l := s.Effective().Get(policy.LimitDeadline); l != nil && l.At != 0 && l.At <= m.now {
		m.removeLimit(s, policy.LimitDeadline)
	}
	m.emit(StepReset{
		Step: s.ID, Budget: true, Restart: true, ScheduleToClose: stepDeadline(s.Effective().ScheduleToClose, m.now),
		Deadline: stepDeadline(s.Effective().Deadline, 0), NextAt: m.restartAt(s),
	})
}

// beginAgain puts a step that was restarted back to work.
func (m *machine) beginAgain(s *Step) {
	switch s.Spec.Kind {
	case KindTask, KindChild:
		m.readyAgain(s.ID)
	case KindWait:
		if s.Deadline == 0 || s.Deadline > m.now {
			m.takeKept(s)
		}
	case KindSleep, KindGroup, KindSend:
	}
}

// reopen drops steps. Their changes of the run's labels and events are undone and decided again as well.
func (m *machine) reopen(rec RunReopened, drop []StepID) {
	rec.Drop, rec.Labels = drop, m.r.unlabel(drop)
	back := m.r.takenBy(drop)
	m.emit(rec)
	for _, kept := range back {
		m.emit(kept)
	}
}

// restartAt returns what a restarted step waits for. The length of a sleep and the limit of a wait count from now; a
// sleep until an instant keeps it.
func (m *machine) restartAt(s *Step) Time {
	switch s.Spec.Kind {
	case KindWait:
		return stepDeadline(s.Effective().Wait, m.now)
	case KindSleep:
		if s.Until {
			return s.NextAt
		}
		return m.now.Add(s.NextAt.Sub(s.ScheduledAt))
	default:
		return 0
	}
}

// droppedByRetry lists the steps, beside those that are known, that were skipped because of the failure, or ran as its
// hooks.
func (m *machine) droppedByRetry(known []StepID) []StepID {
	var drop []StepID
	for i := range m.r.Steps {
		s := &m.r.Steps[i]
		if !s.Dropped && (s.Upstream || (s.Spec.Hook && s.Phase.Closed())) && !slices.Contains(known, s.ID) {
			drop = append(drop, s.ID)
		}
	}
	return drop
}
