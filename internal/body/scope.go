package body

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// Scope is a part of a body that can be cancelled: the steps that branches ask for in it end with it. Nil is the whole
// body, whose end is that of its run.
type Scope struct {
	parent    *Scope
	by        *Branch // the branch that made it; a cancel follows from the failures that it has seen
	key       string  // the key of the mark that records its cancel
	cancelled bool
	// The place of the mark among the recorded steps is at. Steps that are recorded after it were decided when the
	// scope had been cancelled. NoStep: the mark was not recorded when this call of the body began.
	at core.StepID
	// detached: its steps go on when scopes around it are cancelled, and when the run stops.
	detached bool
}

// aside is the scope of steps that go on whatever ends around them.
var aside = &Scope{detached: true}

// isDetached reports whether the end of the run leaves the scope alone.
func (sc *Scope) isDetached() bool {
	for sc != nil && !sc.detached {
		sc = sc.parent
	}
	return sc != nil
}

// within reports whether a scope is the other one, or a part of it.
func (sc *Scope) within(outer *Scope) bool {
	for sc != nil && sc != outer {
		sc = sc.parent
	}
	return sc == outer
}

// isCancelled reports whether the scope or one around it was cancelled.
func (sc *Scope) isCancelled() bool {
	for ; sc != nil && !sc.detached; sc = sc.parent {
		if sc.cancelled {
			return true
		}
	}
	return false
}

// newScope returns a scope in another one. If its cancel is recorded, it is cancelled from the beginning: another
// branch may reach a step in it before the branch that cancels it does so again.
func (s *Session) newScope(by *Branch, parent *Scope, key string) *Scope {
	sc := &Scope{by: by, parent: parent, key: key, at: core.NoStep}
	if s.Marked(key) != nil {
		sc.cancelled, sc.at = true, s.steps[key].record.ID
	}
	return sc
}

// NewScope returns the next scope that a branch makes in another one.
func (s *Session) NewScope(b *Branch, parent *Scope) *Scope {
	b.scopes++
	return s.newScope(b, parent, b.prefix+"scope["+strconv.Itoa(b.scopes)+"]")
}

// CancelScope ends the open steps in a scope. The cancel is recorded, so that a body that is called again finds the
// same steps before it and after it.
func (s *Session) CancelScope(sc *Scope) {
	if st := s.steps[sc.key]; st != nil && st.mark {
		st.asked = true
	}
	if s.over() || sc.cancelled {
		return
	}
	sc.cancelled = true
	s.Mark(sc.key, []byte("true"), copied(sc.by.causes))
	var open []*Step
	for _, st := range s.steps {
		if st.asked && !st.mark && !st.known && st.scope.within(sc) {
			open = append(open, st)
		}
	}
	slices.SortFunc(open, func(a, b *Step) int { return strings.Compare(a.key, b.key) })
	for _, st := range open {
		s.CancelStep(st)
	}
}

// isCancel reports whether a recorded step is the cancel of a scope that the body made. The scope of a branch itself,
// with the number 0, is cancelled for the body, and not always by code that a replay reaches.
func isCancel(st *Step) bool {
	name := st.key[strings.LastIndexByte(st.key, '/')+1:]
	return st.mark && strings.HasPrefix(name, "scope[") && name != "scope[0]"
}

// A replay compares the cancels of the code with those of the history. Who goes on with a run does not: code with other
// cancels decides the same steps, and a cancel ends what is open when it is made.

// comparesCancels reports whether the session is a replay of a history whose cancels can be compared: a run that an
// operator has changed does not have all of them, and one that was asked to stop ends its steps by itself.
func comparesCancels(s *Session) bool {
	return s.rehearsed && !s.rewound && !s.released && s.head.Stop == nil
}

// repeatsCancels reports whether a body that is only replayed has made all cancels again that are recorded. If it has
// not, now that all its branches wait or that it has returned, the code has changed, and the session is stuck.
func repeatsCancels(s *Session) bool {
	if !comparesCancels(s) {
		return true
	}
	var first *Step
	for _, st := range s.steps {
		lost := isCancel(st) && !st.asked || endedByBody(st) && !st.cancelled && !st.scope.isCancelled()
		if lost && (first == nil || st.record.ID < first.record.ID) {
			first = st
		}
	}
	switch {
	case first == nil:
		return true
	case first.mark:
		s.changed(cancelText(first.key), "nothing more")
	default:
		s.changed("the cancel of "+Describe(first.record.Spec), "nothing more")
	}
	return false
}

// endedByBody reports whether a recorded step has ended because the body has cancelled it, or a scope around it.
func endedByBody(st *Step) bool {
	f := st.record.Failure
	return st.record.Phase == core.StepCancelled && f != nil && f.Message == core.CancelledByWorkflow
}

func cancelText(scope string) string {
	return fmt.Sprintf("the cancel of %q, a context of WithCancel", scope)
}

// addsCancel reports whether a body that is only replayed makes a cancel that is not recorded, although its branch has
// made recorded decisions after it. Then the code has changed, and the session is stuck.
func (l *liveSession) addsCancel(what string) bool {
	s := l.session
	if s.over() || !comparesCancels(s) {
		return false
	}
	i := slices.IndexFunc(s.branches, func(b *Branch) bool { return b.thread != nil && b.thread.goroutine.Own() })
	if i < 0 || !s.Replays(s.branches[i]) {
		return false
	}
	s.changed(Describe(s.next(s.branches[i]).record.Spec), what)
	return true
}

// CancelStep ends an open step.
func (s *Session) CancelStep(st *Step) {
	if s.over() || st.cancelled {
		return
	}
	if st.cancelled = true; st.known {
		return
	}
	s.commands = append(s.commands, core.CancelStep{Key: st.key})
}

// refusal returns how a step ends that a branch asks for when its scope or its run has ended, nil if it may begin. A
// step that was recorded before that end is found, as it was when the body was first called.
func (s *Session) refusal(b *Branch, sc *Scope, spec *core.StepSpec) *Step {
	next := core.NoStep
	if s.Replays(b) {
		next = s.recorded[b.prefix][b.cursor].record.ID
	}
	cancelled, first := false, core.NoStep // the first cancel of a scope around it
	for ; sc != nil && !sc.detached; sc = sc.parent {
		if sc.cancelled && (next == core.NoStep || next > sc.at) {
			cancelled, first = true, min(first, sc.at)
		}
	}
	stop := s.head.Stop
	if sc != nil || stop != nil && next < stop.From {
		stop = nil // it is detached, or was requested before
	}
	switch { // the earlier end counts: a branch may have asked between the two
	case stop != nil && (!cancelled || first >= stop.From) && stop.Phase == core.RunTimedOut:
		return refused(spec, core.StepTimedOut, stop.Failure)
	case stop != nil && (!cancelled || first >= stop.From):
		return refused(spec, core.StepCancelled, stop.Failure)
	case cancelled:
		f := policy.Failure{Kind: policy.KindCancelled, Type: "cancelled", Message: core.CancelledByWorkflow}
		return refused(spec, core.StepCancelled, &f)
	default:
		return nil
	}
}

// refused returns a step that has ended without a beginning. It is not recorded.
func refused(spec *core.StepSpec, phase core.StepPhase, f *policy.Failure) *Step {
	record := engine.Step{Spec: spec, Phase: phase, Reason: policy.ReasonTimeoutNotRetryable, Failure: f}
	if phase == core.StepCancelled {
		record.Reason = policy.ReasonCancelled
	}
	return &Step{key: spec.Name, record: record, known: true, closed: true, confirmed: true, refused: true}
}

// WithCancel returns the thread with a new scope, and the function that cancels it. If the thread cannot be used now,
// it returns the thread itself, whose next call returns the error.
func (t *Thread) WithCancel() (*Thread, func()) {
	if t.enter(Named("pawl.WithCancel")) != nil {
		return t, func() {}
	}
	sc := t.live.session.NewScope(t.branch, t.scope)
	t.exit()
	return t.in(sc), func() { t.live.cancelScope(sc) }
}

// Detached returns the thread without the scopes around it: its calls go on when those or the run end.
func (t *Thread) Detached() *Thread { return t.in(aside) }

func (t *Thread) in(sc *Scope) *Thread { return &Thread{live: t.live, branch: t.branch, scope: sc} }

// Stop returns how the run ends whose body was asked to stop, nil if it was not.
func (t *Thread) Stop() *core.Stop { return t.Head().Stop }

func (l *liveSession) cancelScope(sc *Scope) {
	l.lock()
	defer l.unlock()
	if !sc.cancelled && l.addsCancel(cancelText(sc.key)) {
		return
	}
	l.session.CancelScope(sc)
	l.session.settle() // the branch that cancels may be one that the session does not know
}

// Cancel ends the work behind the result: the step, or all steps of its branch.
func (r *Result) Cancel() {
	r.live.lock()
	defer r.live.unlock()
	s := r.live.session
	made := r.step != nil && (r.step.known || r.step.cancelled) || r.step == nil && r.branch.scope.cancelled
	switch {
	case !made && r.live.addsCancel("the cancel of "+r.String()):
		return
	case r.step != nil:
		s.CancelStep(r.step)
	default:
		s.CancelScope(r.branch.scope)
	}
	s.settle()
}
