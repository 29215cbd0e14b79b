package sim

import (
	"reflect"
	"slices"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// tickSpan is the part of a node's entries that one Tick made.
type tickSpan struct {
	from, to int
	due      core.Time // of the last entry of it that was stored
	runs     map[*account]bool
}

// ticking and ticked bracket a Tick: the entries between are what timers made, in their order.
func (b *book) ticking(n *node) int { return n.computed() }

func (b *book) ticked(n *node, mark int) {
	if to := n.computed(); to > mark+1 {
		n.spans = append(n.spans, tickSpan{from: mark, to: to, runs: map[*account]bool{}})
	}
	if !n.more {
		n.tickedAt = n.u.now
	}
}

// computed counts the entries that the node has computed since it last opened the partition.
func (n *node) computed() int { return n.confirmed + n.p.Pending() }

// fired checks the order of timers: what one Tick made stands in the order in which it was due.
func (b *book) fired(n *node, a *account, due core.Time) {
	at := n.storedEntries
	n.storedEntries++
	for len(n.spans) > 0 && n.spans[0].to <= at {
		n.spans = n.spans[1:]
	}
	if len(n.spans) == 0 || at < n.spans[0].from {
		return
	}
	s := &n.spans[0]
	again := s.runs[a]
	s.runs[a] = true
	if due == 0 || again || s.moved(a) {
		return // it stands where what came before brought the run: its own first entry, or the end of a relative
	}
	if due < s.due {
		b.u.violate(DueOrder, a.id, "a timer due at %s fires after one due at %s", offset(due), offset(s.due))
	}
	s.due = max(s.due, due)
}

// moved reports whether the Tick came to the run's parent or to a child before: the end of one is told to the other at once.
func (s *tickSpan) moved(a *account) bool {
	for other := range s.runs {
		if other != a && (other.id == a.shadow.Parent.Run || other.shadow.Parent.Run == a.id) {
			return true
		}
	}
	return false
}

// check asks, after each step, whether all holds that can be seen from outside.
func (b *book) check(n *node) {
	if n.dead || n.down || n.frozen > b.u.now {
		return
	}
	whole := b.u.steps%64 == 0
	settled := n.p.Pending() == 0
	b.compare(n, settled, whole)
	if !settled || len(n.flight) > 0 || n.tickedAt != b.u.now || n.more {
		return
	}
	now := b.u.clock()
	for _, a := range b.order {
		if b.u.seatOf(a.id) != n.seat {
			continue
		}
		if err := n.p.SetAside(a.id); err != nil {
			if !b.u.bug.hit[a.id] {
				b.u.violate(NoHang, a.id, "the run is set aside though nothing of it panicked: %v", err)
			}
			continue
		}
		if a.model.closed {
			continue
		}
		if at := a.model.wants(); at != 0 && at <= now {
			b.u.violate(DueOrder, a.id, "something is due at %s, it is %s and nothing has happened", offset(at), offset(now))
		}
		b.alive(n, a)
	}
}

// inspected is what the engine shows of its memory.
type inspected interface{ Each(fn func(*core.Run)) }

// compare holds the runs in the engine's memory against the fold of what is durable. A run whose last entries are not
// durable yet is ahead and is not compared.
func (b *book) compare(n *node, settled, whole bool) {
	m, ok := any(n.p).(inspected)
	if !ok {
		return
	}
	m.Each(func(r *core.Run) {
		if b.u.opt.Tamper != nil {
			b.u.opt.Tamper(r)
		}
		a := b.accounts[r.ID]
		if a == nil {
			if settled {
				b.u.violate(Replay, r.ID, "the run is in memory and not in the journal")
			}
			return
		}
		if r.Seq != len(a.entries) {
			if settled {
				b.u.violate(Replay, r.ID, "memory has folded %d entries of the run, the journal has %d", r.Seq, len(a.entries))
			}
			return
		}
		if !whole && a.seen == r && a.seenSeq == r.Seq {
			return
		}
		a.seen, a.seenSeq = r, r.Seq
		if diff := differ(r, a.shadow); diff != "" {
			b.u.violate(Replay, r.ID, "memory and the journal's fold differ in %s", diff)
		}
	})
}

var runFields = exportedFields(reflect.TypeOf(core.Run{}))

func exportedFields(t reflect.Type) []int {
	var out []int
	for i := range t.NumField() {
		if t.Field(i).IsExported() {
			out = append(out, i)
		}
	}
	return out
}

// differ names the first exported field in which two states of a run differ.
func differ(x, y *core.Run) string {
	a, b := reflect.ValueOf(x).Elem(), reflect.ValueOf(y).Elem()
	for _, i := range runFields {
		if f, g := a.Field(i), b.Field(i); !same(f, g) {
			return a.Type().Field(i).Name + ": " + text(f) + " and " + text(g)
		}
	}
	return ""
}

// same is reflect.DeepEqual, but for empty lists and no lists, which the journal does not tell apart.
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		if a.Type().Elem().Kind() == reflect.Uint8 {
			return string(a.Bytes()) == string(b.Bytes())
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() || a.Pointer() == b.Pointer() {
			return a.IsNil() == b.IsNil()
		}
		return same(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	default:
		return a.Equal(b)
	}
}

// alive checks that an open run waits for something that can come.
func (b *book) alive(n *node, a *account) {
	m := &a.model
	if (m.pending && !m.closing) || m.paused != 0 {
		return // it has a start's instant, or waits for a resume
	}
	open := 0
	for i := range m.steps {
		s := &m.steps[i]
		tok := core.Token{Run: a.id, Step: core.StepID(i), Attempt: s.attempt}
		if s.kind == core.KindTask && (s.live || s.stopping) && n.workers.jobs[tok] == nil && !n.workers.owes[tok] {
			b.u.violate(NoHang, a.id, "attempt %s is thought to be alive, and no worker has it", tokenText(tok))
		}
		if j := n.workers.jobs[tok]; j != nil && j.waits() && !b.busy(n, a) {
			b.u.violate(NoHang, a.id, "attempt %s holds a slot for its function, and its body rests", tokenText(tok))
		}
		if s.kind == core.KindChild && s.stopping && b.openEnd(s.last) == nil && !b.told(a.id, s.last) {
			b.u.violate(NoHang, a.id, "step %s waits for its child run to stop, and it has ended", m.name(i))
		}
		if s.kind == core.KindChild && s.live {
			b.child(a, s, i)
		}
		if !s.closed || s.stopping {
			open++
		}
		switch {
		case s.closed:
		case s.kind == core.KindTask && s.ready && s.losses.row >= 2 && n.workers.otherSuspect(tok):
		case s.kind == core.KindTask && s.ready && (s.spec.Type != body.TypeLocal || !b.busy(n, a)):
			if slots := b.u.mood.slots[s.spec.Type]; slots < 0 || n.workers.busy[s.spec.Type] < slots {
				b.u.violate(NoHang, a.id, "attempt %s waits in its queue, or for its function, while a worker is free and no body is coming", tokenText(tok))
			}
		case s.backing && s.next == 0 || s.kind == core.KindSleep && s.next == 0:
			b.u.violate(NoHang, a.id, "step %s waits for no instant", m.name(i))
		case s.kind == core.KindGroup && !m.cancelled && !m.groupOpen(core.StepID(i)):
			b.u.violate(NoHang, a.id, "group %s is open and none of its items is", m.name(i))
		}
	}
	if stuck := n.host.changed(a.id); stuck != nil {
		b.u.violate(Decided, a.id, "the run's body cannot go on, though its code is the same: %v", stuck)
	}
	if a.shadow.Owed() {
		if !b.busy(n, a) {
			b.u.violate(NoHang, a.id, "the run waits for its body, and no body is coming")
		}
		return
	}
	if open == 0 {
		b.u.violate(NoHang, a.id, "the run is open and has nothing to wait for")
	}
}

// busy reports whether something is on its way to a run's body, or from it: it may yet come to what it has not come to.
func (b *book) busy(n *node, a *account) bool {
	return n.host.coming[a.id] > 0 || n.host.pending[a.id] > 0
}

func (m *runModel) groupOpen(group core.StepID) bool {
	for i := range m.steps {
		if s := &m.steps[i]; s.group == group && !s.closed {
			return true
		}
	}
	return false
}

// openEnd follows a run's chain and returns the run at its end if that is open; nil: all have ended.
func (b *book) openEnd(id core.RunID) *account {
	for a := b.accounts[id]; a != nil; a = b.accounts[a.model.next] {
		if !a.model.closed {
			return a
		}
	}
	return nil
}

// reopened reports whether somebody opened a run of a chain again: its parent had been told of its end.
func (b *book) reopened(id core.RunID) bool {
	for a := b.accounts[id]; a != nil; a = b.accounts[a.model.next] {
		if n := len(a.model.ends); n > 1 || n == 1 && !a.model.closed {
			return true
		}
	}
	return false
}

// child checks that the run a child step waits for is there and has not ended.
func (b *book) child(a *account, s *stepModel, i int) {
	switch {
	case b.told(a.id, s.child): // by a message that is on its way
	case b.accounts[s.child] == nil:
		b.u.violate(NoHang, a.id, "step %s waits for the child run %s, which is not in the journal", a.model.name(i), s.child)
	case b.openEnd(s.child) == nil:
		b.u.violate(NoHang, a.id, "step %s waits for the child run %s, which has ended", a.model.name(i), s.child)
	}
}

// answered checks an answer a client was given.
func (b *book) answered(r *request) {
	if r.call.Err != nil {
		if notSaved(r.call.Err) && !r.repeated {
			b.deny(r.mark, r.call.Err.Error())
		}
		return
	}
	switch r.call.Op {
	case engine.CallStart:
		a := b.accounts[r.call.Started.Run]
		if a == nil {
			b.u.violate(Acknowledged, r.call.Started.Run, "the start of run %s was acknowledged and is not in the journal", r.call.Started.Run)
		} else if !r.call.Started.Existing && b.marks[r.mark] != a {
			b.u.violate(Acknowledged, a.id, "a start was acknowledged with a run that is another one's")
		} else if s := r.call.Start; s.RunID == (core.RunID{}) && a.shadow.Workflow != s.Definition.Name {
			b.u.violate(Acknowledged, a.id, "a start of %s was answered with a run of %s", s.Definition.Name, a.shadow.Workflow)
		}
	case engine.CallInput:
		if b.marks[r.mark] == nil && !r.repeated {
			b.u.violate(Acknowledged, r.call.Run, "%s was acknowledged and is not in the journal", r.mark)
		}
	case engine.CallResult:
		b.outcome(r)
	default: // clients ask for nothing else
	}
}

func (b *book) outcome(r *request) {
	if r.call.Absent {
		return
	}
	a := b.accounts[r.call.Outcome.Run]
	if a == nil || !slices.Contains(a.model.ends, r.call.Outcome.Phase) {
		b.u.violate(Acknowledged, r.call.Run, "a caller was told that the run is %s, which is not in the journal", r.call.Outcome.Phase)
	}
}

// deny notes that a request's caller was told that nothing was saved.
func (b *book) deny(mark, told string) {
	if a := b.marks[mark]; a != nil {
		b.u.violate(Untouched, a.id, "%s is in the journal; its caller was told: %s", mark, told)
	}
	b.denied[mark] = told
}
