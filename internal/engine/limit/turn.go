package limit

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/heap"
	"github.com/pawl-dev/pawl/policy"
)

// refuses returns why a ticket cannot start now; HeldNone: it can. Room that a ticket's own turn reserves is available
// to it.
func (s *ticketShare) refuses(t *Ticket, now core.Time) core.Held {
	p, k := s.limited, s.key
	held := core.Held{Service: p.Service, Name: p.Name}
	offered, ofKey, retries := p.offered, k.offered, 0
	if t.offered && t.in.limited == p {
		offered, ofKey = offered-1, ofKey-1
	}
	if t.Retry {
		retries = p.offeredRetries
		if t.offered && t.in.limited == p {
			retries--
		}
	}
	if p.breaker.holds(t, now) {
		held.Reason, held.Until, held.Probes = core.HeldBreaker, p.breaker.until, p.breaker.probes
		return held
	}
	if t.Retry {
		if until, full := p.tries.full(p.limits.Retries, retries, now); full {
			held.Reason, held.Until = core.HeldRetries, until
			return held
		}
	}
	if n := p.limits.Concurrency; n > 0 && p.running+offered >= n {
		held.Reason = core.HeldConcurrency
		return held
	}
	if until, full := p.starts.full(p.limits.Rate, offered, now); full {
		held.Reason, held.Until = core.HeldRate, until
		return held
	}
	if why, until := k.full(&p.limits, ofKey, now); why != core.HeldNone {
		held.Reason, held.Until, held.Key = why, until, k.name
		return held
	}
	return core.Held{}
}

// full returns which limit for each key leaves no room if that many of the key are about to start; HeldNone: there is
// room.
func (k *limitedKey) full(l *policy.QueueLimits, about int, now core.Time) (core.HeldReason, core.Time) {
	if l.PerKey > 0 && k.running+about >= l.PerKey {
		return core.HeldKeyConcurrency, 0
	}
	if until, full := k.starts.full(l.KeyRate, about, now); full {
		return core.HeldKeyRate, until
	}
	return core.HeldNone, 0
}

// has counts a place that a ticket has.
func (k *limitedKey) has(t *Ticket) {
	k.running++
	if t.IsRun() {
		if k.runs == nil {
			k.runs = make(map[*Ticket]struct{})
		}
		k.runs[t] = struct{}{}
	}
}

// take counts a start.
func (s *ticketShare) take(t *Ticket, now core.Time) {
	p, k := s.limited, s.key
	p.running++
	k.has(t)
	p.starts.add(p.limits.Rate, now)
	k.starts.add(p.limits.KeyRate, now)
	if t.Retry {
		p.tries.add(p.limits.Retries, now)
	}
	p.breaker.send(t, p.limits.Breaker, now)
	p.round = max(p.round, s.round)
}

// wait puts a ticket into the line of the resource that holds it.
func (l *Limiter) wait(t *Ticket, s *ticketShare, held core.Held) {
	t.in, t.held = s, held
	s.waiting++
	if held.Reason == core.HeldRetries {
		l.putLater(t)
	} else {
		l.join(t)
	}
}

// round returns the round of the resource that a ticket waits for, or has its turn at, or 0 if it has none.
func (t *Ticket) round() uint64 {
	s := t.in
	if s.round == 0 || t.index == heap.Gone || t.later {
		return s.round
	}
	return s.key.rounds.at(s.key.ages.rank(t))
}

// returnTurn gives the round of a ticket that leaves without a start to the next ticket of its key, and that one's
// round to the one after it. So a key loses no turns through tickets that leave, and its later rounds follow without a
// gap. The tickets in line have their rounds by their ranks, so this replaces the last round by the free one.
func (l *Limiter) returnTurn(s *ticketShare) {
	k, free := s.key, s.round
	if free == 0 {
		return
	}
	s.round = 0
	if last := k.rounds.len(); last > 0 && k.rounds.at(last-1) > free {
		l.unsortKey(s.limited, k)
		k.rounds.add(free)
		free = k.rounds.remove(last)
		l.sortKey(s.limited, k)
	}
	if free == k.round {
		k.round--
	}
}

// putLater puts a retry into the line of those that wait for their budget.
func (l *Limiter) putLater(t *Ticket) {
	t.later = true
	t.in.later.Push(t)
}

// join puts a ticket into the line of its key.
func (l *Limiter) join(t *Ticket) {
	s := t.in
	if t.Retry {
		s.retries++
	}
	l.unsortKey(s.limited, s.key)
	s.key.line.Push((*lineTicket)(t))
	if s.round != 0 {
		s.key.ages.add(t)
		s.key.rounds.add(s.round)
	}
	l.sortKey(s.limited, s.key)
}

// takeBack removes a ticket from its line, or takes its turn.
func (l *Limiter) takeBack(t *Ticket) {
	s := t.in
	switch {
	case s == nil:
		return
	case t.offered:
		t.offered = false
		s.offered--
		s.key.offered--
		if t.Retry {
			s.offeredRetries--
		}
		if s.breaker.probe == t {
			s.breaker.probe = nil
		}
		l.sortKey(s.limited, s.key)
	case t.later:
		t.later = false
		s.later.Remove(t.index)
		s.waiting--
	default:
		l.unline(t)
		s.waiting--
	}
	t.in = nil
}

// unline removes a ticket from the line of its key.
func (l *Limiter) unline(t *Ticket) {
	s := t.in
	if t.Retry {
		s.retries--
	}
	l.unsortKey(s.limited, s.key)
	s.key.line.Remove(t.index)
	if s.round != 0 {
		rank := s.key.ages.rank(t)
		s.key.ages.remove(rank)
		s.round = s.key.rounds.remove(rank)
	}
	l.sortKey(s.limited, s.key)
}

// unsortKey takes a key out of the heap that it is in, before its first ticket changes.
func (l *Limiter) unsortKey(p *limited, k *limitedKey) {
	switch k.where {
	case keyReady:
		p.ready.Remove(k.index)
	case keyBlocked:
		p.blocked.Remove(k.index)
	case keyIdle:
	}
	k.where = keyIdle
}

// sortKey puts a key into the heap where it belongs.
func (l *Limiter) sortKey(p *limited, k *limitedKey) {
	l.unsortKey(p, k)
	if k.line.Len() == 0 {
		return
	}
	why, until := k.full(&p.limits, k.offered, l.now)
	if why == core.HeldNone {
		k.where = keyReady
		p.ready.Push((*readyKey)(k))
		return
	}
	if k.due = until; until == 0 {
		k.due = Never
	}
	k.where = keyBlocked
	p.blocked.Push((*blockedKey)(k))
}

// look offers turns while a resource has room, and notes when it has to be looked at again.
func (l *Limiter) look(p *limited) {
	if l.loads > 0 && (p.Runs || l.remote) {
		if p.index != heap.Gone {
			l.dues.Remove(p.index) // otherwise tick would ask forever
		}
		p.due = Never
		return // finishLoad looks again
	}
	for p.blocked.Len() > 0 && p.blocked.First().due <= l.now {
		l.sortKey(p, (*limitedKey)(p.blocked.First()))
	}
	for p.later.Len() > 0 {
		if _, full := p.tries.full(p.limits.Retries, p.offeredRetries+p.retries, l.now); full {
			break
		}
		t := p.later.First()
		p.later.Remove(t.index)
		t.later = false
		l.join(t)
	}
	for p.ready.Len() > 0 {
		t := p.ready.First().first()
		held := t.in.refuses(t, l.now)
		if held.Reason == core.HeldNone {
			l.offer(t)
			continue
		}
		if held.Reason != core.HeldRetries {
			break
		}
		l.unline(t)
		l.putLater(t)
		l.notify(t, held)
	}
	l.retime(p)
}

func (l *Limiter) lookAll(shares []ticketShare) {
	for i := range shares {
		l.look(shares[i].limited)
	}
}

// offer gives a ticket its turn.
func (l *Limiter) offer(t *Ticket) {
	s := t.in
	l.unline(t)
	s.waiting--
	t.offered = true
	s.offered++
	s.key.offered++
	if t.Retry {
		s.offeredRetries++
	}
	s.breaker.send(t, s.limits.Breaker, l.now)
	l.sortKey(s.limited, s.key)
	t.Client.turns = append(t.Client.turns, t)
	t.Client.called.Store(true)
	l.called = append(l.called, t)
}

// notify makes a ticket's client record why the ticket is held now.
func (l *Limiter) notify(t *Ticket, held core.Held) {
	if t.held = held; t.noted {
		return
	}
	t.noted = true
	t.Client.notices = append(t.Client.notices, t)
	t.Client.noted.Store(true)
	l.called = append(l.called, t)
}

// tellAgain notifies all tickets that wait for a resource of the reason, after its breaker has changed.
func (l *Limiter) tellAgain(p *limited) {
	var all []*Ticket
	for i := range p.later.Len() {
		all = append(all, p.later.At(i))
	}
	for _, k := range p.keys {
		for i := range k.line.Len() {
			all = append(all, (*Ticket)(k.line.At(i)))
		}
	}
	slices.SortFunc(all, (*Ticket).Compare)
	for _, t := range all {
		held := t.in.refuses(t, l.now)
		if held.Reason != core.HeldNone && held != t.held {
			l.notify(t, held)
		}
	}
}

// retime notes when a resource is to be looked at again.
func (l *Limiter) retime(p *limited) {
	p.due = Never
	consider := func(at core.Time) {
		if at > l.now {
			p.due = min(p.due, at)
		}
	}
	if p.ready.Len() > 0 {
		t := p.ready.First().first()
		held := t.in.refuses(t, l.now)
		if held.Reason == core.HeldBreaker && p.breaker.probe != nil {
			held.Until = p.breaker.mute
		}
		consider(held.Until)
	}
	if p.blocked.Len() > 0 && p.blocked.First().due != Never {
		consider(p.blocked.First().due)
	}
	if p.later.Len() > 0 {
		until, _ := p.tries.full(p.limits.Retries, p.offeredRetries+p.retries, l.now)
		consider(until)
	}
	switch {
	case p.due == Never && p.index != heap.Gone:
		l.dues.Remove(p.index)
	case p.due == Never:
	case p.index == heap.Gone:
		l.dues.Push(p)
	default:
		l.dues.Fix(p.index)
	}
}
