package engine

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/limit"
	"github.com/pawl-dev/pawl/policy"
)

// bounds returns the limits that a step's attempts share with others: those of its queue and of its service. The
// engine's configuration for a name replaces that of the definition.
func (t *tasks) bounds(r *run, step core.StepID) []limit.Bound {
	spec, def := r.state.Steps[step].Spec, r.state.Attached()
	var ofDef map[string]*policy.QueueLimits
	if def != nil {
		ofDef = def.Queues
	}
	if spec.Share == nil && len(t.cfg.Queues) == 0 && ofDef == nil {
		return nil
	}
	var out []limit.Bound
	name := spec.Queue
	if spec.Share != nil && spec.Share.Queue != "" {
		name = spec.Share.Queue
	}
	if l, since := limitsOf(t.cfg.Queues, ofDef, name, r); l != nil {
		out = append(out, limit.Bound{Resource: limit.Resource{Name: name}, Limits: l, Since: since})
	}
	if spec.Share == nil || spec.Share.Service == "" {
		return out
	}
	if def != nil {
		ofDef = def.Services
	}
	if l, since := limitsOf(t.cfg.Services, ofDef, spec.Share.Service, r); l != nil {
		of := limit.Resource{Service: true, Name: spec.Share.Service}
		out = append(out, limit.Bound{Resource: of, Limits: l, Since: since})
	}
	return out
}

// limitsOf returns the limits of a name and how new they are, or nil if there are none. Those of a definition are as
// new as the first run of the chain. So if the definitions of several runs differ, the one that was deployed last
// counts.
func limitsOf(
	own map[string]policy.QueueLimits, ofDef map[string]*policy.QueueLimits, name string, r *run,
) (l *policy.QueueLimits, since core.Time) {
	if l, ok := own[name]; ok {
		if l.Zero() {
			return nil, 0
		}
		return &l, limit.Never
	}
	if ofDef[name].Zero() {
		return nil, 0
	}
	first := r.state.Chain.First
	if first == (core.RunID{}) {
		first = r.id()
	}
	return ofDef[name], first.CreatedAt()
}

// bind makes an attempt known to the limiter.
func (t *tasks) bind(o *offer, bounds []limit.Bound) {
	s := &o.run.state.Steps[o.step]
	o.ticket = &limit.Ticket{
		Token: o.token(), Client: t.client, Queue: o.queue.key.Queue, Type: o.queue.key.Type, Priority: o.prio,
		Retry: s.Counted > 1,
	}
	var since core.Time
	if s.Shared != nil {
		since = s.Shared.Since
	}
	t.tickets++
	t.matcher.Limiter().Add(o.ticket, s.ShareKey(), bounds, s.HeldNow(), since, t.now)
	if s.HeldNow().Reason != core.HeldNone {
		o.queue.turns = append(o.queue.turns, o) // held when its run was last in memory: where no worker is, no longer
	}
}

// admit asks the limiter to let an attempt start, for which a slot is reserved. If it is held, that is recorded.
func (t *tasks) admit(o *offer) bool {
	held, ok := t.matcher.Limiter().Start(o.ticket, t.now)
	if ok {
		t.admitted = o.ticket
		return true
	}
	o.heldBack = true
	t.unreserve()
	t.recordHeld(o, held)
	return false
}

// recordHeld records why an attempt is held.
func (t *tasks) recordHeld(o *offer, held core.Held) {
	if o.run.state.Steps[o.step].HeldNow() != held {
		_ = t.advance(o.run, nil, core.TaskHeld{Step: o.step, Attempt: o.attempt, Held: held})
	}
}

// passTurns gives others the turns of attempts for which there is no worker now.
func (t *tasks) passTurns(q *taskQueue) {
	turns := q.turns
	q.turns = nil
	for _, o := range turns {
		t.pass(o)
	}
}

// pass gives up the turn of an attempt, if it has one. It then waits for a worker or its function. That a breaker holds
// it stays recorded until its instant, for the next process to find.
func (t *tasks) pass(o *offer) {
	if o.ticket == nil || o.heldBack || t.offers[o.token()] != o {
		return
	}
	t.matcher.Limiter().Pass(o.ticket)
	if h := o.run.state.Steps[o.step].HeldNow(); h.Reason != core.HeldBreaker || h.Until <= t.now {
		t.recordHeld(o, core.Held{})
	}
}

// serviceFailed reports whether the end of an attempt shows that the service fails; known is false if it shows nothing.
func serviceFailed(f *policy.Failure) (failed, known bool) {
	if f == nil {
		return false, true
	}
	switch f.Kind {
	case policy.KindError:
		return true, true
	case policy.KindFailed:
		return false, true
	case policy.KindTimeout:
		// A limit that spans attempts, or the run, may have ended one that had only begun.
		return true, f.Limit.PerAttempt()
	default:
		return false, false
	}
}

// leave takes an attempt from the limiter, when it waits no more or its work is over.
func (t *tasks) leave(of *limit.Ticket) {
	if of != nil {
		t.tickets--
		t.matcher.Limiter().Leave(of, 0)
	}
}

// leaveAll takes all waiting attempts from the limiter.
func (t *tasks) leaveAll() {
	if t.tickets == 0 {
		return
	}
	var all []*limit.Ticket
	for _, o := range t.offers {
		if o.ticket != nil {
			all = append(all, o.ticket)
		}
	}
	slices.SortFunc(all, func(a, b *limit.Ticket) int { return cmp.Compare(a.Order, b.Order) })
	for _, of := range all {
		t.leave(of)
	}
}

// unadmit gives back what the limiter gave an attempt that did not start.
func (t *tasks) unadmit() {
	if of := t.admitted; of != nil {
		t.admitted = nil
		t.tickets--
		t.matcher.Limiter().Undo(of)
	}
}

// withSlots returns the attempts that have a slot, always in the same order.
func (t *tasks) withSlots() []core.Token {
	return slices.SortedFunc(maps.Keys(t.held), func(a, b core.Token) int {
		return cmp.Or(bytes.Compare(a.Run[:], b.Run[:]), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Attempt, b.Attempt))
	})
}

// judge tells the limiter the results of attempts that it let start.
func (t *tasks) judge(of *transition) {
	for _, rec := range of.out.Entry.Records {
		ended, ok := rec.(core.AttemptEnded)
		if !ok {
			continue
		}
		failed, known := serviceFailed(ended.Failure)
		tok := core.Token{Run: of.run.id(), Step: ended.Step, Attempt: of.run.state.Steps[ended.Step].Attempt}
		ticket := t.held[tok].ticket
		if ticket == nil {
			tok.Attempt-- // the next one may be ready in the same entry
			ticket = t.held[tok].ticket
		}
		if ticket != nil && known {
			t.matcher.Limiter().Ended(ticket, failed, t.now)
		}
	}
}

// takeTurn puts an attempt whose turn it is back into its task queue.
func (t *tasks) takeTurn(of *limit.Ticket) {
	o := t.offers[of.Token]
	if o == nil || o.ticket != of || !o.heldBack {
		return // it was withdrawn, or has asked again itself
	}
	o.heldBack = false
	o.queue.waiting.Push(o)
	o.queue.turns = append(o.queue.turns, o)
	t.listForMatch(o.queue)
}

// notice records that an attempt is held for another reason now.
func (t *tasks) notice(n limit.Notice) {
	if o := t.offers[n.Token]; o != nil && o.ticket == n.Ticket && o.heldBack {
		t.recordHeld(o, n.Held)
		t.settle()
	}
}
