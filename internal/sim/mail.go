package sim

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// mailbox is what the book knows of messages between partitions: which were stored, and which were taken.
type mailbox struct {
	routes   map[route]*deliveries
	messages int // stored
	onTheWay int // of those, not taken
	fresh    []freshEntry
}

// route leads from one partition to another.
type route struct{ from, to int }

// deliveries are all messages of a route, in order.
type deliveries struct {
	all   []letter
	taken int // how many of them
}

type letter struct {
	raw journal.Message
	core.Message
}

// freshEntry is an entry of the batch at hand.
type freshEntry struct {
	a *account
	e core.Entry
}

func newMailbox() mailbox { return mailbox{routes: map[route]*deliveries{}} }

func (b *book) route(from, to int) *deliveries {
	d := b.routes[route{from, to}]
	if d == nil {
		d = &deliveries{}
		b.routes[route{from, to}] = d
	}
	return d
}

// mailed checks what a batch, whose entries are booked, takes and sends.
func (b *book) mailed(batch *journal.Batch) {
	out := b.sent(batch)
	for _, t := range batch.Taken {
		d := b.route(t.From, batch.Partition)
		bound := map[core.RunID]uint64{} // the last new deadline of each run
		for i := d.taken; i < len(d.all) && d.all[i].raw.Seq <= t.Through; i++ {
			if l := &d.all[i]; l.bounds(l.To) {
				bound[l.To] = l.raw.Seq
			}
		}
		last := uint64(0)
		for d.taken < len(d.all) && d.all[d.taken].raw.Seq <= t.Through {
			l := &d.all[d.taken]
			last = l.raw.Seq
			d.taken++
			b.onTheWay--
			if seq := bound[l.To]; !l.bounds(l.To) || seq == last {
				b.checkEffect(l, out)
			}
		}
		if last != t.Through {
			b.u.violate(Delivered, core.RunID{}, "partition %d takes the messages of partition %d up to %d, and was sent none of that number, or took it before",
				batch.Partition, t.From, t.Through)
		}
	}
	for _, f := range b.fresh {
		b.checkCause(f, out)
	}
	b.fresh = b.fresh[:0]
}

// sent takes note of what a batch sends.
func (b *book) sent(batch *journal.Batch) []letter {
	var out []letter
	for _, raw := range batch.Out {
		m, err := core.ReadMessage(raw.Encoded)
		if err != nil || raw.To == batch.Partition || raw.To != int(m.PartitionKey())%len(b.u.seats) {
			b.u.violate(Delivered, m.To, "a message to partition %d is %+v: %v", raw.To, m, err)
		}
		d := b.route(batch.Partition, raw.To)
		if n := len(d.all); n > 0 && d.all[n-1].raw.Seq >= raw.Seq {
			b.u.violate(Delivered, m.To, "message %d follows message %d", raw.Seq, d.all[n-1].raw.Seq)
		}
		raw.From, raw.Encoded = batch.Partition, slices.Clone(raw.Encoded)
		l := letter{raw, m}
		d.all = append(d.all, l)
		out = append(out, l)
		b.messages++
		b.onTheWay++
		b.u.say("partition %d sends %d: %s%s %s", raw.From, raw.To, short(m.To), m.Name, contentText(m.Content))
	}
	return out
}

// someSent returns messages to a partition that it has taken, in order: a storage may deliver them again.
func (b *book) someSent(partition int) (again []journal.Message) {
	from := b.u.IntN(len(b.u.seats))
	d := b.routes[route{from, partition}]
	if d == nil || d.taken == 0 {
		return nil
	}
	first := b.u.IntN(d.taken)
	for _, l := range d.all[first:min(first+1+b.u.IntN(3), d.taken)] {
		again = append(again, l.raw)
	}
	return again
}

// told reports whether a message is on its way between a run and its child, which changes how they stand to each other.
func (b *book) told(parent, child core.RunID) bool {
	if b.onTheWay == 0 {
		return false
	}
	here, there := b.u.seatOf(parent).partition, b.u.seatOf(child).partition
	for _, way := range []struct {
		route
		to core.RunID
	}{{route{here, there}, child}, {route{there, here}, parent}} {
		if d := b.routes[way.route]; d != nil {
			for _, l := range d.all[d.taken:] {
				if l.To == way.to {
					return true
				}
			}
		}
	}
	return false
}

// boundComes reports whether a deadline that its parent moved is on its way to a run.
func (b *book) boundComes(run core.RunID) bool {
	to := b.u.seatOf(run).partition
	for from := range b.u.seats {
		if d := b.routes[route{from, to}]; d != nil && slices.ContainsFunc(d.all[d.taken:], func(l letter) bool { return l.bounds(run) }) {
			return true
		}
	}
	return false
}

// bounds reports whether the message moves a run's deadline.
func (l *letter) bounds(run core.RunID) bool {
	_, ok := l.Content.(core.ChildBound)
	return ok && l.To == run
}

// checkEffect checks that what a message causes is in the batch that takes it, or was so before.
func (b *book) checkEffect(l *letter, out []letter) {
	answered := func(to core.RunID) bool {
		return slices.ContainsFunc(out, func(l letter) bool { return l.To == to })
	}
	switch c := l.Content.(type) {
	case core.ChildStart:
		if b.accounts[l.To] == nil && !answered(c.Parent.Run) {
			b.u.violate(Delivered, c.Parent.Run, "the start of the child run %s was taken, and the run is not there", l.To)
		}
	case core.ChildEnded:
		if s := b.childStep(l.To, c.Step, c.Attempt); s != nil && (s.live || s.stopping) {
			b.u.violate(Delivered, l.To, "the end of the child run %s was taken, and the step goes on", c.Child)
		}
	case core.TaskStopped:
		if s := b.childStep(l.To, c.Step, c.Attempt); s != nil && s.stopping {
			b.u.violate(Delivered, l.To, "that a child run goes on by itself was taken, and step %d still stops", c.Step)
		}
	case core.ChildStop:
		a := b.openEnd(l.To)
		switch {
		case b.accounts[l.To] == nil:
			b.u.violate(Delivered, l.To, "the stop of a child run was taken, and the run is not there")
		case a == nil || a.model.cancelled || a.model.closing:
		case a.shadow.Parent.Close != core.ChildAbandon || !answered(a.shadow.Parent.Run):
			b.u.violate(Delivered, a.id, "the stop of the run was taken, and it goes on")
		}
	case core.ChildBound:
		if a := b.openEnd(l.To); a != nil {
			if _, moves := a.shadow.Inherits(c.Was, c.Is); moves && !a.model.closing && !a.model.cancelled {
				b.u.violate(Delivered, a.id, "a new deadline from its parent was taken, and the run keeps the old one")
			}
		}
	case core.SignalReceived:
		if a := b.openNames[l.Name]; a != nil && b.listens(a) && !b.knows(a, c) {
			b.u.violate(Delivered, a.id, "the event %s was taken, and the run does not know it", c.ID)
		}
	case core.ChildAsk: // the answer is checked where it comes
	}
}

// childStep returns a step whose attempt a message is about; nil: it is another attempt, or the run was set aside.
func (b *book) childStep(run core.RunID, step core.StepID, attempt int) *stepModel {
	a := b.accounts[run]
	if a == nil || int(step) >= len(a.model.steps) || b.u.bug.hit[run] {
		return nil
	}
	if s := &a.model.steps[step]; s.attempt == attempt {
		return s
	}
	return nil
}

// checkCause checks that the batch which holds a cause sends what follows from it.
func (b *book) checkCause(f freshEntry, out []letter) {
	here := b.u.seatOf(f.a.id)
	sends := func(to core.RunID, is func(core.Content) bool) bool {
		return to == (core.RunID{}) || b.u.seatOf(to) == here ||
			slices.ContainsFunc(out, func(l letter) bool { return l.To == to && is(l.Content) })
	}
	for _, rec := range f.e.Records {
		switch rec := rec.(type) {
		case core.AttemptStarted:
			s := &f.a.model.steps[rec.Step]
			if f.a.children == nil {
				f.a.children = map[core.StepID]core.RunID{}
			}
			f.a.children[rec.Step] = rec.Child
			starts := func(c core.Content) bool { _, ok := c.(core.ChildStart); return ok }
			if s.live && s.child == rec.Child && !sends(rec.Child, starts) {
				b.u.violate(Delivered, f.a.id, "the child run %s is begun, and its start is not sent", rec.Child)
			}
		case core.AttemptEnded:
			child := f.a.children[rec.Step]
			stops := func(c core.Content) bool { _, ok := c.(core.ChildStop); return ok }
			if rec.Stopping && !sends(child, stops) {
				b.u.violate(Delivered, f.a.id, "the child run %s is to stop, and that is not sent", child)
			}
		case core.RunEnded:
			ends := func(c core.Content) bool { end, ok := c.(core.ChildEnded); return ok && end.Child == f.a.id }
			if rec.Next == (core.RunID{}) && !sends(f.a.shadow.Parent.Run, ends) {
				b.u.violate(Delivered, f.a.id, "the run has ended, and its parent is not told")
			}
		default:
		}
	}
}

// listens reports whether a run took events all the time since the batch before: one that closes does not, though its chain may
// go on in the same batch.
func (b *book) listens(a *account) bool {
	fresh := a.seqs[0] == b.u.seatOf(a.id).seq
	return !fresh && !a.model.closed && !a.model.closing && !b.u.bug.hit[a.id]
}

// knows reports whether an event is known in a run's chain, kept or taken.
func (b *book) knows(a *account, in core.SignalReceived) bool {
	return b.events[a.model.chain][in.Name+" "+in.ID]
}
