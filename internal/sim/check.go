package sim

import (
	"reflect"
	"slices"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// tickSpan is the range of a node's entries that one Tick made.
type tickSpan struct {
	from, to int
	due      core.Time // the due time in its last entry that was stored
	runs     map[*account]bool
}

// ticking returns how many entries the node has computed; see ticked. The two are called before and after a Tick.
// Timers made the entries in between, in the order of the timers.
func (ch *checker) ticking(n *node) int { return n.computed() }

func (ch *checker) ticked(n *node, mark int) {
	if to := n.computed(); to > mark+1 {
		n.spans = append(n.spans, tickSpan{from: mark, to: to, runs: map[*account]bool{}})
	}
	if !n.more {
		n.tickedAt = n.u.now
	}
}

// computed counts the entries that the node has made since it last opened the partition.
func (n *node) computed() int { return n.confirmed + n.p.Pending() }

// checkTimerOrder checks that the entries of one Tick are in the order in which they were due.
func (ch *checker) checkTimerOrder(n *node, a *account, due core.Time) {
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
		// Its place does not come from a timer. It follows from an earlier entry of this run, its parent or its child.
		return
	}
	if due < s.due {
		ch.u.violate(DueOrder, a.id, "a timer due at %s fires after one due at %s", offset(due), offset(s.due))
	}
	s.due = max(s.due, due)
}

// moved reports whether the Tick has handled the run's parent or child already. The end of one changes the other at
// once.
func (s *tickSpan) moved(a *account) bool {
	for other := range s.runs {
		if other != a && (other.id == a.state.Parent.Run || other.state.Parent.Run == a.id) {
			return true
		}
	}
	return false
}

// check tests everything that can be seen from outside.
func (ch *checker) check(n *node) {
	if n.dead || n.needsOpen || n.frozen > ch.u.now {
		return
	}
	whole := ch.u.steps%64 == 0
	settled := n.p.Pending() == 0
	ch.compare(n, settled, whole)
	if !settled || len(n.inFlight) > 0 || n.tickedAt != ch.u.now || n.more || n.woken > 0 {
		return
	}
	now := ch.u.clock()
	if again := n.late.again; again != 0 && now > again {
		ch.u.violate(NoHang, ch.anyOpen(), "runs that come due could not be read; at %s they must be read again",
			offset(again))
	}
	for _, a := range ch.order {
		if ch.u.partitionOf(a.id) != n.home {
			continue
		}
		if err := n.p.SetAside(a.id); err != nil {
			if !ch.u.bug.panicked[a.id] {
				ch.u.violate(NoHang, a.id, "the run is set aside though nothing of it panicked: %v", err)
			}
			continue
		}
		if a.model.closed || n.rests(a) || n.late.waits() && !n.loaded(a.id) {
			continue
		}
		ch.checkDue(a, now)
		a.checkEndForetold(ch, now)
		ch.checkNotHanging(n, a)
	}
}

// compare compares the runs in the engine's memory with the state that follows from the journal. It skips a run whose
// last entries are not durable yet.
func (ch *checker) compare(n *node, settled, whole bool) {
	n.p.Each(func(r *core.Run) {
		if ch.u.opt.ChangeMemory != nil {
			ch.u.opt.ChangeMemory(r)
		}
		a := ch.accounts[r.ID]
		if a == nil {
			if settled {
				ch.u.violate(Replay, r.ID, "the run is in memory and not in the journal")
			}
			return
		}
		if r.Seq != len(a.entries) {
			if settled {
				ch.u.violate(Replay, r.ID, "memory has %d entries of the run, the journal has %d",
					r.Seq, len(a.entries))
			}
			return
		}
		if !whole && a.compared == r && a.comparedSeq == r.Seq {
			return
		}
		a.compared, a.comparedSeq = r, r.Seq
		if diff := differ(r, a.state); diff != "" {
			ch.u.violate(Replay, r.ID, "memory and journal differ in %s", diff)
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

// differ names the first exported field in which two states of a run differ, and both values.
func differ(x, y *core.Run) string {
	a, b := reflect.ValueOf(x).Elem(), reflect.ValueOf(y).Elem()
	for _, i := range runFields {
		if f, g := a.Field(i), b.Field(i); !same(f, g) {
			return a.Type().Field(i).Name + ": " + text(f) + " and " + text(g)
		}
	}
	return ""
}

// same works like reflect.DeepEqual, but an empty list equals no list, because the journal stores them alike.
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
	case reflect.Map:
		for _, key := range a.MapKeys() {
			if v := b.MapIndex(key); !v.IsValid() || !same(a.MapIndex(key), v) {
				return false
			}
		}
		return a.Len() == b.Len()
	default:
		return a.Equal(b)
	}
}

// checkFunction checks that an attempt whose function a body has reaches its end.
func (ch *checker) checkFunction(n *node, a *account, tok core.Token) {
	wt := n.workers.tasks[tok]
	if wt == nil || ch.bodyInTransit(n, a) {
		return
	}
	if wt.waitsForFunction() {
		ch.u.violate(NoHang, a.id, "attempt %s holds a slot for its function, and its body is not running",
			tokenText(tok))
	}
	if wt.taken {
		ch.u.violate(NoHang, a.id, "the body has taken the end of attempt %s, and the engine never gets it",
			tokenText(tok))
	}
}

// checkNotHanging checks that an open run waits for something that can still happen.
func (ch *checker) checkNotHanging(n *node, a *account) {
	m := &a.model
	if m.inQueue() && m.paused == 0 {
		ch.checkHeldRun(n, a)
	}
	if m.waitsForStart() || m.paused != 0 {
		return // it waits for the instant of its start, for its queue, or for a resume
	}
	open := 0
	for i := range m.steps {
		s := &m.steps[i]
		tok := core.Token{Run: a.id, Step: core.StepID(i), Attempt: s.attempt}
		held := n.workers.tasks[tok] != nil || n.workers.stopReports[tok]
		if s.kind == core.KindTask && (s.live || s.stopping) && !held {
			ch.u.violate(NoHang, a.id, "attempt %s is live, and no worker has it", tokenText(tok))
		}
		ch.checkFunction(n, a, tok)
		if s.kind == core.KindChild && s.stopping && ch.openEnd(s.last) == nil && !ch.messageBetween(tok, s.last) {
			ch.u.violate(NoHang, a.id, "step %s waits for its child run to stop, and the child run has ended",
				m.name(i))
		}
		if s.kind == core.KindChild && s.live {
			ch.checkChild(a, s, i)
		}
		if !s.closed || s.stopping {
			open++
		}
		switch {
		case s.closed:
		case s.kind == core.KindTask && s.ready && ch.waitsForGroup(n, tok, groupAfter(s.losses.row)):
		case s.spec.Type == body.TypeLocal && m.notAsked(): // its body comes to its function when it is asked to stop
		case s.held.Reason != core.HeldNone && s.spec.Type == body.TypeLocal && ch.bodyInTransit(n, a):
			// Its turn comes when its function is there, however long ago the limit that held it allowed it.
		case s.held.Reason != core.HeldNone:
			slots := ch.u.profile.slots[s.spec.Type]
			if (slots < 0 || n.process.busy(s.spec.Type) < slots) && !ch.freed(n, s) && n.quiet() {
				ch.u.violate(NoHang, a.id, "attempt %s is held, and nothing is to come that may let it go: %s",
					tokenText(tok), s.held.Why())
			}
		case s.kind == core.KindTask && s.ready && (s.spec.Type != body.TypeLocal || !ch.bodyInTransit(n, a)):
			slots := ch.u.profile.slots[s.spec.Type]
			if (slots < 0 || n.process.busy(s.spec.Type) < slots) && n.quiet() {
				ch.u.violate(NoHang, a.id, "attempt %s waits in its queue or for its function, a slot is free, "+
					"and no body will continue", tokenText(tok))
			}
		case s.backingOff && s.next == 0 || s.kind == core.KindSleep && s.next == 0:
			ch.u.violate(NoHang, a.id, "step %s waits, and has no instant at which it continues", m.name(i))
		case s.kind == core.KindGroup && !m.cancelled && !m.groupOpen(core.StepID(i)) && !m.loopWaits(s):
			ch.u.violate(NoHang, a.id, "group %s is open, and none of its items is open", m.name(i))
		}
	}
	if stuck := n.host.codeChanged(a.id); stuck != nil {
		ch.u.violate(Decided, a.id, "the run's body cannot go on, though its code is the same: %v", stuck)
	}
	if a.body != nil && !m.closing && !m.notAsked() && !ch.bodyInTransit(n, a) {
		for _, k := range a.body.remains {
			ch.u.violate(NoHang, a.id, "step %s is open, and its scope is cancelled", k.spec.Name)
		}
	}
	if a.state.WaitsForBody() {
		if !ch.bodyInTransit(n, a) {
			ch.u.violate(NoHang, a.id, "the run waits for its body, and nothing makes the body continue")
		}
		return
	}
	if open == 0 && !m.awaitsClock(ch.u.clock()) {
		ch.u.violate(NoHang, a.id, "the run is open and has nothing to wait for")
	}
}

// checkDue checks that nothing of a run is due.
func (ch *checker) checkDue(a *account, now core.Time) {
	if at := a.model.nextDue(); at != 0 && at <= now {
		ch.u.violate(DueOrder, a.id, "something was due at %s, now it is %s, and nothing has happened",
			offset(at), offset(now))
	}
	if at := a.model.warningDue(); at != 0 && at <= now {
		ch.u.violate(DueOrder, a.id, "a warning was due at %s, now it is %s, and it was not given", offset(at),
			offset(now))
	}
}

// awaitsClock reports whether a run is about to end and goes on when the clock, which went back, shows the instant of
// its last entry again: an operation was recorded while it rested.
func (m *runModel) awaitsClock(now core.Time) bool {
	return m.last > now && (m.cancelled || m.stopping || m.closing)
}

// bodyInTransit reports whether something is on its way to a run's body, or from it.
func (ch *checker) bodyInTransit(n *node, a *account) bool {
	if n.host.real.Waits(a.id) && n.host.inTransit[core.RunID{}] > 0 {
		return true // its turn will come: there is a clock that brings it
	}
	return n.host.inTransit[a.id] > 0 || n.host.pending[a.id] > 0
}

func (m *runModel) groupOpen(group core.StepID) bool {
	for i := range m.steps {
		if s := &m.steps[i]; s.group == group && !s.closed {
			return true
		}
	}
	return false
}

// loopWaits reports whether an open step of a loop may wait: its items wait for other steps, one of which is open.
func (m *runModel) loopWaits(s *stepModel) bool {
	return slices.Contains(loopSteps, s.spec.Name) && slices.ContainsFunc(m.steps, func(other stepModel) bool {
		return other.kind != core.KindGroup && !other.closed
	})
}

// openEnd follows a run's chain to its last run. It returns that run if it is open, else nil.
func (ch *checker) openEnd(id core.RunID) *account {
	for a := ch.accounts[id]; a != nil; a = ch.accounts[a.model.next] {
		if !a.model.closed {
			return a
		}
	}
	return nil
}

// reopened reports whether an operator opened a run of the chain again after its parent was told about its end.
func (ch *checker) reopened(id core.RunID) bool {
	for a := ch.accounts[id]; a != nil; a = ch.accounts[a.model.next] {
		if n := len(a.model.ends); n > 1 || n == 1 && !a.model.closed {
			return true
		}
	}
	return false
}

// checkChild checks that the child run a step waits for exists and has not ended.
func (ch *checker) checkChild(a *account, s *stepModel, i int) {
	switch {
	case ch.messageBetween(core.Token{Run: a.id, Step: core.StepID(i)}, s.child): // the message about it is on its way
	case ch.accounts[s.child] == nil:
		ch.u.violate(NoHang, a.id, "step %s waits for the child run %s, which is not in the journal",
			a.model.name(i), s.child)
	case ch.openEnd(s.child) == nil:
		ch.u.violate(NoHang, a.id, "step %s waits for the child run %s, which has ended", a.model.name(i), s.child)
	}
}

// checkAnswer checks an answer that a client got.
func (ch *checker) checkAnswer(r *request) {
	if err := r.call.Answered().Err; err != nil {
		if promisesNotSaved(err) && !r.repeated {
			ch.noteNotSaved(r.mark, err.Error())
		}
		return
	}
	switch c := r.call.(type) {
	case *engine.StartCall:
		started := c.Answer
		a := ch.accounts[started.Run]
		if a == nil {
			ch.u.violate(Acknowledged, started.Run,
				"the start of run %s was acknowledged and is not in the journal", started.Run)
		} else if !started.Existing && ch.marks[r.mark] != a {
			ch.u.violate(Acknowledged, a.id, "a start was acknowledged with a run that another start created")
		} else if s := c.Start; s.RunID == (core.RunID{}) && a.state.Workflow != s.Definition.Name {
			ch.u.violate(Acknowledged, a.id, "a start of %s was answered with a run of %s",
				s.Definition.Name, a.state.Workflow)
		}
	case *engine.InputCall:
		if ch.marks[r.mark] == nil && !r.repeated {
			ch.u.violate(Acknowledged, c.Run, "%s was acknowledged and is not in the journal", r.mark)
		}
	case *engine.ResultCall:
		if c.Answer.Absent == (core.RunID{}) {
			ch.checkOutcome(c.Run, c.Answer.Outcome)
		}
	default: // clients use no other calls
	}
}

// checkOutcome checks the answer to a caller that has asked for the outcome of a run.
func (ch *checker) checkOutcome(id core.RunID, outcome engine.Outcome) {
	a := ch.accounts[outcome.Run]
	if a == nil || !slices.Contains(a.model.ends, outcome.Phase) {
		ch.u.violate(Acknowledged, id, "a caller was told that the run is %s, which is not in the journal",
			outcome.Phase)
	}
}

// noteNotSaved notes that the caller of a request got the answer that nothing was saved.
func (ch *checker) noteNotSaved(mark, told string) {
	if a := ch.marks[mark]; a != nil {
		ch.u.violate(Untouched, a.id, "%s is in the journal; its caller was told: %s", mark, told)
	}
	ch.toldNotSaved[mark] = told
}
