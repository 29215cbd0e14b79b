package body

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// Update is a request from outside that a body has not accepted yet. Nothing is recorded of it.
type Update struct {
	Name, ID string
	Payload  []byte
}

// acceptedKept is how many updates a session remembers beyond those of the run.
const acceptedKept = 1000

func (u *Update) is(other *Update) bool { return u.Name == other.Name && u.ID == other.ID }

// Refusal means that a body does not accept an update.
type Refusal struct {
	Update  *Update
	Failure *policy.Failure
}

// Offer gives the session an update. A branch that waits for one of that name is asked once all branches wait.
func (s *Session) Offer(u *Update) {
	if s.over() || s.head == nil || s.knows(u) {
		return
	}
	s.offers = append(s.offers, u)
	s.settle()
}

// knows reports whether the update is recorded, or a branch has it.
func (s *Session) knows(u *Update) bool {
	return slices.ContainsFunc(s.offers, u.is) ||
		slices.ContainsFunc(s.takers, func(st *Step) bool { return st.offer != nil && st.offer.is(u) }) ||
		slices.ContainsFunc(s.head.Updates, func(k core.Update) bool { return k.Name == u.Name && k.ID == u.ID }) ||
		slices.ContainsFunc(s.accepted, u.is)
}

// handOut gives updates to branches that wait for them.
func (s *Session) handOut() {
	s.offers = slices.DeleteFunc(s.offers, func(u *Update) bool {
		i := slices.IndexFunc(s.takers, func(st *Step) bool {
			return !st.closed && st.offer == nil && st.record.Spec.Update == u.Name
		})
		if i < 0 {
			return false
		}
		s.takers[i].offer = u
		s.fire(&s.takers[i].changed)
		return true
	})
}

// accept decides that a wait takes the update that it was offered.
func (s *Session) accept(st *Step) {
	u := st.offer
	s.commands = append(s.commands, core.AcceptUpdate{Key: st.key, Name: u.Name, ID: u.ID, Payload: u.Payload})
}

// refuse gives back the update that a wait was offered.
func (s *Session) refuse(st *Step, f *policy.Failure) {
	r := s.change()
	r.Refused = append(r.Refused, Refusal{st.offer, f})
	st.offer = nil
}

// leaveWait follows the end of a wait: it has taken the update that it was offered, or another branch may have that.
func (s *Session) leaveWait(st *Step) {
	switch u := st.offer; {
	case u == nil:
	case st.record.UpdateID == u.ID:
		if s.accepted = append(s.accepted, u); len(s.accepted) > acceptedKept {
			s.accepted = slices.Delete(s.accepted, 0, acceptedKept/2)
		}
	default:
		s.offers = append(s.offers, u)
	}
	st.offer = nil
	s.takers = slices.DeleteFunc(s.takers, func(other *Step) bool { return other == st })
}

// answer decides how an update is answered. That is a decision in the branch's order. It returns false if something
// else is recorded; the session is stuck then.
func (s *Session) answer(b *Branch, wait *Step, output []byte, f *policy.Failure) bool {
	name := wait.record.Spec.Update
	key := b.prefix + "answer[" + wait.key[len(b.prefix):] + "]"
	next, known := s.next(b), s.steps[key]
	switch {
	case next != nil && next == known && known.record.Spec.Type == TypeAnswer:
		s.follow(b)
	case next != nil || known != nil:
		s.changed(Describe(s.expected(next, known).record.Spec), answerText(key))
		return false
	default:
		spec := s.noted(TypeAnswer, key, nil)
		s.commands = append(s.commands, core.AnswerUpdate{
			Spec: spec, Name: name, ID: wait.record.UpdateID, Output: output, Failure: f,
			Causes: copied(b.causes),
		})
	}
	b.moveOn(key)
	return true
}

func answerText(key string) string { return fmt.Sprintf("the answer %q", key) }

// TakeUpdate waits until the wait that Ask has begun takes an update. The check is asked about each that comes, in the
// branch's goroutine; a failure refuses the update.
func (t *Thread) TakeUpdate(r *Result, check func(payload []byte) *policy.Failure) (engine.Step, error) {
	what := Call{result: r}
	if err := t.enterFor(what, r); err != nil {
		return engine.Step{}, err
	}
	s, st := t.live.session, r.step
	if !st.closed {
		s.takers = append(s.takers, st)
	}
	for {
		t.wait(what, func() bool { return st.closed || st.offer != nil }, &st.changed)
		if st.closed {
			break
		}
		payload := st.offer.Payload
		t.branch.busy = what // the check must not ask for anything
		t.live.unlock()
		f := check(payload)
		t.live.lock()
		t.branch.busy = Call{}
		switch {
		case s.over():
			t.leave()
		case st.closed:
		case f != nil:
			s.refuse(st, f)
		default:
			s.accept(st)
			t.wait(what, func() bool { return st.closed }, &st.changed)
		}
	}
	s.leaveWait(st)
	t.branch.saw(r)
	record := st.record
	t.exit()
	return record, nil
}

// AnswerUpdate answers the update that a wait has taken.
func (t *Thread) AnswerUpdate(r *Result, output []byte, f *policy.Failure) error {
	if err := t.enter(Named("the answer to", r.name)); err != nil {
		return err
	}
	if !t.live.session.answer(t.branch, r.step, output, f) {
		t.leave()
	}
	t.exit()
	return nil
}

// Asked is a caller's update on its way to the body of a run, or to its answer.
type Asked struct {
	host   *Host
	run    core.RunID
	update Update
	again  chan struct{}

	// Guarded by the host's lock.
	offered bool
	refused *policy.Failure
}

// Ask makes an update of a run known, for a caller that will look whether it was answered before.
func (h *Host) Ask(run core.RunID, u Update) *Asked {
	a := &Asked{host: h, run: run, update: u, again: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.table.closed {
		close(a.again)
	} else {
		h.asked[run] = append(h.asked[run], a)
	}
	return a
}

// Leave notes that the caller no longer waits.
func (a *Asked) Leave() {
	h := a.host
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := slices.DeleteFunc(h.asked[a.run], func(other *Asked) bool { return other == a })
	if h.asked[a.run] = rest; len(rest) == 0 {
		delete(h.asked, a.run)
	}
}

// Offer offers the update to the run's body. It is called for updates that the run has not accepted.
func (a *Asked) Offer() {
	h := a.host
	h.mu.Lock()
	a.offered = true
	h.mu.Unlock()
	for l := h.find(a.run); l != nil; l = h.find(a.run) {
		l.lock()
		retired := l.retired
		if !retired {
			l.session.Offer(&a.update)
		}
		l.unlock()
		if !retired {
			return
		}
	}
	h.engine.Consult(a.run) // the body is called, and a new session asks for what is offered
}

// Again returns a channel that tells the caller to look at the run again: the update was answered, or will not be
// answered here. The channel is closed with the host.
func (a *Asked) Again() <-chan struct{} { return a.again }

// Refused returns why the body does not accept the update, nil if it has not refused it.
func (a *Asked) Refused() *policy.Failure {
	a.host.mu.Lock()
	defer a.host.mu.Unlock()
	return a.refused
}

func (a *Asked) tell() {
	select {
	case a.again <- struct{}{}:
	default: // it has not looked since it was told last
	}
}

// offered returns the updates that wait for a run's body.
func (h *Host) offered(run core.RunID) []*Update {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*Update
	for _, a := range h.asked[run] {
		if a.offered && a.refused == nil {
			all = append(all, &a.update)
		}
	}
	return all
}

// refuse tells callers that their updates are refused.
func (h *Host) refuse(run core.RunID, refusals []Refusal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range refusals {
		for _, a := range h.asked[run] {
			if a.update.is(r.Update) {
				a.refused = r.Failure
				a.tell()
			}
		}
	}
}

// lookAgain makes the callers of a run's updates look at the run again.
func (h *Host) lookAgain(run core.RunID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.asked[run] {
		a.tell()
	}
}

// answers reports whether inputs answer an update.
func answers(inputs []core.Input) bool {
	for _, in := range inputs {
		decided, ok := in.(core.Commands)
		if ok && slices.ContainsFunc(decided.Commands, isAnswer) {
			return true
		}
	}
	return false
}

func isAnswer(cmd core.Command) bool {
	_, ok := cmd.(core.AnswerUpdate)
	return ok
}
