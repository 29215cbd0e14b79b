package limit

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Use is what a queue or a service with limits has in use.
type Use struct {
	Resource
	Limits  policy.QueueLimits
	Running int // attempts or runs that have a place
	Waiting int // those that limits hold back
	Started int // starts that count for the rate now
	Retried int // retries that count for the shared budget now
	Keys    int // keys of which something is counted
	Breaker BreakerUse
}

// BreakerUse is how a breaker stands.
type BreakerUse struct {
	Open    bool
	Failed  int       // closed: failures among the last attempts
	Until   core.Time // open: no probe goes before that
	Probes  int       // open: probes that have failed
	Probing bool      // open: a probe is on its way
}

// Uses returns what the resources with limits have in use, by kind and name.
func (l *Limiter) Uses(now core.Time) []Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*limited, 0, len(l.resources))
	for _, p := range l.resources {
		if !p.limits.Zero() {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, (*limited).compare)
	out := make([]Use, len(all))
	now = max(now, l.now)
	for i, p := range all {
		b := &p.breaker
		out[i] = Use{
			Resource: p.Resource, Limits: p.limits, Running: p.running, Waiting: p.waiting, Keys: len(p.keys),
			Breaker: BreakerUse{
				Open: b.open, Failed: b.failures, Until: b.until, Probes: b.probes, Probing: b.probe != nil,
			},
		}
		if p.limits.Rate.N > 0 {
			out[i].Started = p.starts.count(p.limits.Rate, now)
		}
		if p.limits.Retries.N > 0 {
			out[i].Retried = p.tries.count(p.limits.Retries, now)
		}
	}
	return out
}

// mostNamed is how many runs of a line are named.
const mostNamed = 3

// note counts a run, and names it if it is among the first ones.
func (s *someTickets) note(t *Ticket, before func(a, b *Ticket) bool) {
	s.n++
	i := len(s.first)
	for i > 0 && before(t, s.first[i-1]) {
		i--
	}
	if i < mostNamed {
		s.first = slices.Insert(s.first, i, t)
		s.first = s.first[:min(len(s.first), mostNamed)]
	}
}

// someTickets are tickets, of which the first ones are known.
type someTickets struct {
	n     int
	first []*Ticket
}

func (s *someTickets) named() core.SomeRuns {
	out := core.SomeRuns{N: s.n}
	for _, t := range s.first {
		out.Named = append(out.Named, core.NamedRun{Run: t.Token.Run, WorkflowID: t.Name})
	}
	return out
}

// Line returns how a run stands in the line in which it waits; false: it waits in none.
func (l *Limiter) Line(t *Ticket) (line core.Line, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.in == nil || t.offered || t.later || t.index < 0 {
		return line, false
	}
	var ahead, holders someTickets
	p := t.in.limited
	for _, k := range p.keys {
		if t.held.Reason == core.HeldConcurrency || t.held.Reason == core.HeldKeyConcurrency && k == t.in.key {
			for other := range k.runs {
				holders.note(other, func(a, b *Ticket) bool { return a.Compare(b) < 0 })
			}
		}
		if t.in.key.where == keyBlocked && k != t.in.key || t.in.key.where != keyBlocked && k.where == keyBlocked {
			continue // they wait for something else
		}
		for i := range k.line.Len() {
			if other := (*Ticket)(k.line.At(i)); other != t && other.Before(t) {
				ahead.note(other, (*Ticket).Before)
			}
		}
	}
	ahead.n += p.offered
	return core.Line{Ahead: ahead.named(), Holders: holders.named()}, true
}
