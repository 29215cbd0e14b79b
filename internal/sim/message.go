package sim

import (
	"reflect"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// sentMessages is the checker's knowledge of messages between partitions.
type sentMessages struct {
	routes       map[route]*routeMessages
	messages     int // how many were stored
	undelivered  int // how many of them have not been taken yet
	batchEntries []batchEntry
	born         []birth // the child runs of the batch that is being checked
}

// route leads from one partition to another.
type route struct{ from, to int }

// routeMessages are all messages of one route, in order.
type routeMessages struct {
	all   []sentMessage
	taken int // how many of them were taken
}

type sentMessage struct {
	raw journal.Message
	core.Message
}

// batchEntry is an entry of the batch that is being checked.
type batchEntry struct {
	a *account
	e core.Entry
}

func newSentMessages() sentMessages { return sentMessages{routes: map[route]*routeMessages{}} }

func (ch *checker) route(from, to int) *routeMessages {
	d := ch.routes[route{from, to}]
	if d == nil {
		d = &routeMessages{}
		ch.routes[route{from, to}] = d
	}
	return d
}

// checkMessages checks the messages that a batch takes and sends. The entries of the batch were applied before.
func (ch *checker) checkMessages(batch *journal.Batch) {
	out := ch.noteSent(batch)
	for _, t := range batch.Taken {
		d := ch.route(t.From, batch.Partition)
		bound := map[core.RunID]uint64{} // the last message that moves a run's deadline hides the earlier ones
		for i := d.taken; i < len(d.all) && d.all[i].raw.Seq <= t.Through; i++ {
			if l := &d.all[i]; l.movesDeadline(l.To) {
				bound[l.To] = l.raw.Seq
			}
		}
		last := uint64(0)
		for d.taken < len(d.all) && d.all[d.taken].raw.Seq <= t.Through {
			l := &d.all[d.taken]
			last = l.raw.Seq
			d.taken++
			ch.undelivered--
			if seq := bound[l.To]; !l.movesDeadline(l.To) || seq == last {
				ch.checkEffect(l, out)
			}
		}
		if last != t.Through {
			ch.u.violate(Delivered, core.RunID{}, "partition %d takes the messages of partition %d up to number %d, "+
				"which was never sent or was taken before", batch.Partition, t.From, t.Through)
		}
	}
	for _, b := range ch.born {
		b.check(ch)
	}
	ch.born = ch.born[:0]
	for _, f := range ch.batchEntries {
		ch.checkCause(f, out)
	}
	ch.batchEntries = ch.batchEntries[:0]
}

// noteSent checks and keeps the messages that a batch sends.
func (ch *checker) noteSent(batch *journal.Batch) []sentMessage {
	var out []sentMessage
	for _, raw := range batch.Out {
		m, err := core.ReadMessage(raw.Encoded)
		if err != nil || raw.To != int(m.PartitionKey())%len(ch.u.partitions) {
			ch.u.violate(Delivered, m.To, "a message to partition %d is %+v: %v", raw.To, m, err)
		}
		if a := ch.receiver(&m); raw.To == batch.Partition && (a == nil || !ch.u.bug.panicked[a.id]) {
			ch.u.violate(Delivered, m.To, "a message is kept for a run that was never set aside: %+v", m)
		}
		d := ch.route(batch.Partition, raw.To)
		if n := len(d.all); n > 0 && d.all[n-1].raw.Seq >= raw.Seq {
			ch.u.violate(Delivered, m.To, "message %d follows message %d", raw.Seq, d.all[n-1].raw.Seq)
		}
		raw.From, raw.Encoded = batch.Partition, slices.Clone(raw.Encoded)
		l := sentMessage{raw, m}
		d.all = append(d.all, l)
		out = append(out, l)
		ch.messages++
		ch.undelivered++
		ch.u.tracef("partition %d sends %d: %s%s %s", raw.From, raw.To, short(m.To), m.Name, contentText(m.Content))
	}
	return out
}

// receiver returns the run that a message is for, according to the journal, or nil if it does not exist.
func (ch *checker) receiver(m *core.Message) *account {
	if m.To == (core.RunID{}) {
		return ch.openNames[m.Name]
	}
	if a := ch.openEnd(m.To); a != nil {
		return a
	}
	return ch.accounts[m.To]
}

// keeps reports whether a batch keeps a message, because the run that it is for is set aside.
func keeps(l *sentMessage, out []sentMessage) bool {
	return slices.ContainsFunc(out, func(o sentMessage) bool {
		return o.raw.From == o.raw.To && o.To == l.To && o.Name == l.Name &&
			reflect.TypeOf(o.Content) == reflect.TypeOf(l.Content)
	})
}

// takenMessages returns messages in order that a partition has taken already: a storage may return them again.
func (ch *checker) takenMessages(partition int) (again []journal.Message) {
	from := ch.u.IntN(len(ch.u.partitions))
	d := ch.routes[route{from, partition}]
	if d == nil || d.taken == 0 {
		return nil
	}
	first := ch.u.IntN(d.taken)
	for _, l := range d.all[first:min(first+1+ch.u.IntN(3), d.taken)] {
		again = append(again, l.raw)
	}
	return again
}

// heirOf returns the run that hears of a step: the run that has begun it, or the one that goes on in its place after a
// reset and has the step, too.
func heirOf(ch *checker, id core.RunID, step core.StepID) core.RunID {
	for a := ch.accounts[id]; a != nil; {
		next := ch.accounts[core.Heir(a.state)]
		if next == nil || !core.SameStep(a.state, next.state, step) {
			return a.id
		}
		a = next
	}
	return id
}

// messageBetween reports whether a message is on its way between a run and the child of one of its steps. Until it is
// taken, the two may not agree. A child sends to the run that has begun it, in whose place another one may go on.
func (ch *checker) messageBetween(parent core.Token, child core.RunID) bool {
	if ch.undelivered == 0 {
		return false
	}
	here, there := ch.u.partitionOf(parent.Run).number, ch.u.partitionOf(child).number
	for _, way := range []struct {
		route
		to core.RunID
	}{
		{route{here, there}, child},
		{route{there, here}, parent.Run},
		{route{here, here}, parent.Run},
		{route{there, there}, child},
	} {
		if d := ch.routes[way.route]; d != nil {
			for _, l := range d.all[d.taken:] {
				if l.To == way.to || heirOf(ch, l.To, parent.Step) == way.to {
					return true
				}
			}
		}
	}
	return false
}

// boundInTransit reports whether a message that moves a run's deadline, or ends it, is on its way to it. A child run
// that is told to end no longer learns of its parent's deadlines.
func (ch *checker) boundInTransit(run core.RunID) bool {
	to := ch.u.partitionOf(run).number
	for from := range ch.u.partitions {
		d := ch.routes[route{from, to}]
		bounds := func(l sentMessage) bool { return l.movesDeadline(run) || l.ends(run) }
		if d != nil && slices.ContainsFunc(d.all[d.taken:], bounds) {
			return true
		}
	}
	return false
}

// movesDeadline reports whether the message moves the run's deadline.
func (l *sentMessage) movesDeadline(run core.RunID) bool {
	_, ok := l.Content.(core.ChildBound)
	return ok && l.To == run
}

// ends reports whether the message tells the run to end.
func (l *sentMessage) ends(run core.RunID) bool {
	_, ok := l.Content.(core.ChildStop)
	return ok && l.To == run
}

// checkEffect checks that a message had its effect in the batch that takes it, or before.
func (ch *checker) checkEffect(l *sentMessage, out []sentMessage) {
	if keeps(l, out) {
		return
	}
	answered := func(to core.RunID) bool {
		return slices.ContainsFunc(out, func(l sentMessage) bool { return l.To == to })
	}
	switch c := l.Content.(type) {
	case core.ChildStart:
		if ch.accounts[l.To] == nil && !answered(c.Parent.Run) {
			ch.u.violate(Delivered, c.Parent.Run, "the start of the child run %s was taken, and the run does not exist",
				l.To)
		}
	case core.ChildEnded:
		to := heirOf(ch, l.To, c.Step)
		if s := ch.childStep(to, c.Step, c.Attempt); s != nil && (s.live || s.stopping) {
			ch.u.violate(Delivered, to, "the end of the child run %s was taken, and the step is still open", c.Child)
		}
	case core.TaskStopped:
		if s := ch.childStep(l.To, c.Step, c.Attempt); s != nil && s.stopping {
			ch.u.violate(Delivered, l.To,
				"the message that a child run is abandoned was taken, and step %d still stops",
				c.Step)
		}
	case core.ChildStop:
		a := ch.openEnd(l.To)
		switch {
		case ch.accounts[l.To] == nil && ch.u.bug.panicked[l.To]: // it panicked at its start, and nothing was saved
		case ch.accounts[l.To] == nil && !ch.refusedChild(l):
			ch.u.violate(Delivered, l.To, "the request to stop a child run was taken, and the run does not exist")
		case a == nil || a.model.cancelled || a.model.closing:
		case a.sdk != nil && a.sdk.fold.Cancelled: // it decides what follows
		case ch.reopenedInBatch(a): // the run was closed when the request came; then an operator opened it again
		case a.state.Parent.Close == core.ChildAbandon && ch.toldOfAbandon(a):
		case a.state.Parent.Close != core.ChildAbandon || !answered(a.state.Parent.Run):
			ch.u.violate(Delivered, a.id, "the request to stop the run was taken, and the run goes on")
		}
	case core.ChildBound:
		if a := ch.openEnd(l.To); a != nil {
			// The limits of a run that closes or stops no longer count. So a run that stops because the old deadline
			// has come keeps it (seed 50066).
			ends := a.model.closing || a.model.cancelled || a.model.stopping
			if _, moves := a.state.Inherits(c.Was, c.Is, 0); moves && !ends {
				ch.u.violate(Delivered, a.id, "a new deadline from the parent was taken, and the run keeps the old one")
			}
		}
	case core.SignalReceived:
		a := ch.openNames[l.Name]
		// It was dropped if the run was closed when it came, and an operator opened it again in the same batch.
		if a != nil && ch.takesEvents(a) && !ch.knowsEvent(a, c) && !ch.reopenedInBatch(a) {
			ch.u.violate(Delivered, a.id, "the event %s was taken, and the run does not have it", c.ID)
		}
	case core.ChildAsk: // checked when the answer is taken
	default: // messages of a turn, or of a start with a key, are checked with their outcome
	}
}

// toldOfAbandon reports whether a parent in the same partition knows that its child run goes on alone.
func (ch *checker) toldOfAbandon(child *account) bool {
	parent := child.state.Parent
	s := ch.childStep(parent.Run, parent.Step, parent.Attempt)
	return ch.u.partitionOf(parent.Run) == ch.u.partitionOf(child.id) && (s == nil || !s.stopping)
}

// reopenedInBatch reports whether the batch being checked opens a closed run again.
func (ch *checker) reopenedInBatch(a *account) bool {
	return slices.ContainsFunc(ch.batchEntries, func(f batchEntry) bool {
		return f.a == a && slices.ContainsFunc(f.e.Records, func(rec core.Record) bool {
			_, ok := rec.(core.RunReopened)
			return ok
		})
	})
}

// refusedChild reports whether the child run that a message is for was not made, as the sender of the message learns.
func (ch *checker) refusedChild(l *sentMessage) bool {
	back := ch.routes[route{l.raw.To, l.raw.From}]
	return back != nil && slices.ContainsFunc(back.all, func(b sentMessage) bool {
		end, ok := b.Content.(core.ChildEnded)
		return ok && end.Child == l.To && end.Failure != nil
	})
}

// childStep returns the step that a message is about; nil: the step is in another attempt.
func (ch *checker) childStep(run core.RunID, step core.StepID, attempt int) *stepModel {
	a := ch.accounts[run]
	if a == nil || int(step) >= len(a.model.steps) {
		return nil
	}
	if s := &a.model.steps[step]; s.attempt == attempt {
		return s
	}
	return nil
}

// checkCause checks that a batch which contains a cause also sends the message that follows from it.
func (ch *checker) checkCause(f batchEntry, out []sentMessage) {
	here := ch.u.partitionOf(f.a.id)
	sends := func(to core.RunID, is func(core.Content) bool) bool {
		return to == (core.RunID{}) || ch.u.partitionOf(to) == here ||
			slices.ContainsFunc(out, func(l sentMessage) bool { return l.To == to && is(l.Content) })
	}
	own := !f.a.sdk.copied(f.a) // the run before it has sent the messages of a copied entry
	for _, rec := range f.e.Records {
		switch rec := rec.(type) {
		case core.AttemptStarted:
			s := &f.a.model.steps[rec.Step]
			if f.a.children == nil {
				f.a.children = map[core.StepID]core.RunID{}
			}
			f.a.children[rec.Step] = rec.Child
			starts := func(c core.Content) bool { _, ok := c.(core.ChildStart); return ok }
			if own && s.live && s.child == rec.Child && !sends(rec.Child, starts) {
				ch.u.violate(Delivered, f.a.id, "the child run %s is begun, and the message that starts it is not sent",
					rec.Child)
			}
		case core.AttemptEnded:
			child := f.a.children[rec.Step]
			stops := func(c core.Content) bool { _, ok := c.(core.ChildStop); return ok }
			if own && rec.Stopping && !sends(child, stops) {
				ch.u.violate(Delivered, f.a.id, "the child run %s must stop, and no message stops it", child)
			}
			if a := ch.accounts[child]; own && rec.Stopping && a != nil && a.state.Parent.Close != core.ChildAbandon &&
				ch.u.partitionOf(child) == here {
				ch.checkEffect(&sentMessage{Message: core.Message{To: child, Content: core.ChildStop{}}}, out)
			}
		case core.RunEnded:
			ch.checkNotified(f.a, rec, out)
			ends := func(c core.Content) bool { end, ok := c.(core.ChildEnded); return ok && end.Child == f.a.id }
			if rec.Next == (core.RunID{}) && !sends(f.a.state.Parent.Run, ends) {
				ch.u.violate(Delivered, f.a.id, "the run has ended, and no message tells its parent")
			}
		default:
		}
	}
}

// checkNotified checks that the run which waits for the end of a chain learns of it, or will.
func (ch *checker) checkNotified(a *account, rec core.RunEnded, out []sentMessage) {
	if a.state.Notify == "" || a.state.Parent.Run != (core.RunID{}) || rec.Next != (core.RunID{}) {
		return
	}
	l := &sentMessage{Message: core.Message{Name: a.state.Notify, Content: core.SignalReceived{
		Name: core.SignalEnded(a.state.WorkflowID), ID: a.model.chain.String(),
	}}}
	if ch.u.partitions[int(l.PartitionKey())%len(ch.u.partitions)] == ch.u.partitionOf(a.id) {
		ch.checkEffect(l, out)
		return
	}
	if !slices.ContainsFunc(out, func(o sentMessage) bool { return o.Name == l.Name }) {
		ch.u.violate(Delivered, a.id, "the chain has ended, and no message tells %s", a.state.Notify)
	}
}

// takesEvents reports whether a run has taken events since before this batch. A run that closes takes none, though the
// next run of its chain may begin in the same batch.
func (ch *checker) takesEvents(a *account) bool {
	fresh := a.seqs[0] == ch.u.partitionOf(a.id).lastBatch
	return !fresh && !a.model.closed && !a.model.closing
}

// knowsEvent reports whether a run's chain has kept or taken an event.
func (ch *checker) knowsEvent(a *account, in core.SignalReceived) bool {
	return ch.events[a.model.chain][in.Name+" "+in.ID]
}
