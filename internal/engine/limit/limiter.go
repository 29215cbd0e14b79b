package limit

import (
	"cmp"
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/heap"
	"github.com/pawl-dev/pawl/policy"
)

// Limiter counts what the limits of queues and services bound, once for the process, however many partitions there
// are. A partition asks it when a worker could take an attempt:
//
//	l.Add(t, …)
//	held, ok := l.Start(t, now)         // not ok: t stands in a line, and its partition is called when its turn comes
//	...
//	l.Ended(t, failed, now)             // what the breaker wants to know
//	l.Leave(t, now)
//
// A turn is only an offer: the attempt may be gone, or may find no worker. Then its partition passes, and the next one
// has its turn. All methods are safe for concurrent use.
type Limiter struct {
	mu        sync.Mutex
	now       core.Time // the latest instant that any partition has come with
	called    []*Ticket // tickets that have a turn or a notice since the lock was taken
	order     uint64    // the order of the newest ticket of an attempt
	resources map[Resource]*limited
	dues      heap.Heap[*limited] // those that need attention at an instant
	loads     int                 // partitions that have not counted all places of runs; then no run is admitted
	remote    bool                // remote workers exist, so attempts may go on uncounted while loads > 0
}

// Resource names a queue or a service. A queue counts the runs that are started into it and the attempts of its steps
// separately: otherwise runs could take the places that their own steps need.
type Resource struct {
	Service bool
	Runs    bool // the resource belongs to a queue and counts runs
	Name    string
}

// limited is a queue or a service with limits.
type limited struct {
	Resource
	limits         policy.QueueLimits
	since          core.Time // how new the limits are
	running        int
	offered        int // tickets that have their turn
	offeredRetries int // the offered ones that are retries
	starts         starts
	tries          starts // the starts of retries
	keys           map[string]*limitedKey
	ready          heap.Heap[*readyKey]   // keys with tickets that wait, but not for their key
	blocked        heap.Heap[*blockedKey] // those that wait for their key
	later          heap.Heap[*Ticket]     // retries that wait for their budget
	retries        int                    // retries that wait for something else
	waiting        int                    // tickets in all lines
	round          uint64                 // the last round that was served, of the keys' turns
	breaker        breaker

	due   core.Time // never: nothing happens by time alone
	index int       // the index in limiter.dues
}

// limitedKey is the state of one key of a resource.
type limitedKey struct {
	name             string
	running, offered int
	starts           starts
	line             heap.Heap[*lineTicket]
	ages             ranked[*Ticket]      // those in line that have a round
	rounds           ranked[uint64]       // theirs: the oldest has the first one, and so on
	round            uint64               // the last one that was given to a ticket of the key
	tickets          int                  // number of tickets that know the key
	runs             map[*Ticket]struct{} // the runs that have places

	due   core.Time // blocked: the earliest end; never: not by time alone
	where keyState
	index int // the index in limited.ready or limited.blocked
}

// keyState tells which heap has a key.
type keyState uint8

const (
	keyIdle keyState = iota
	keyReady
	keyBlocked
)

// readyKey orders keys by their first tickets, blockedKey by the instant at which they may go on.
type (
	readyKey   limitedKey
	blockedKey limitedKey
)

// Never is later than every instant.
const Never = core.Time(1<<63 - 1)

// Before orders by instant, then by name, so that the order does not depend on chance.
func (p *limited) Before(o *limited) bool {
	if p.due != o.due {
		return p.due < o.due
	}
	return p.compare(o) < 0
}

// compare orders by the kind of resource, then by name.
func (p *limited) compare(o *limited) int {
	of := func(p *limited) int {
		switch {
		case p.Service:
			return 2
		case p.Runs:
			return 1
		default:
			return 0
		}
	}
	return cmp.Or(cmp.Compare(of(p), of(o)), cmp.Compare(p.Name, o.Name))
}

// Moved notes the place in the heap.
func (p *limited) Moved(to int) { p.index = to }

// first returns the ticket that goes first of those in line.
func (k *limitedKey) first() *Ticket { return (*Ticket)(k.line.First()) }

// first returns the ticket that goes first of those in line.
func (k *readyKey) first() *Ticket { return (*limitedKey)(k).first() }

// Before orders as the first tickets are ordered.
func (k *readyKey) Before(o *readyKey) bool { return k.first().Before(o.first()) }

// Moved notes the place in the heap.
func (k *readyKey) Moved(to int) { k.index = to }

// Before orders by instant, then by name.
func (k *blockedKey) Before(o *blockedKey) bool {
	if k.due != o.due {
		return k.due < o.due
	}
	return k.name < o.name
}

// Moved notes the place in the heap.
func (k *blockedKey) Moved(to int) { k.index = to }

// Ticket is an attempt, or a run, as the limiter sees it. The partition sets the exported fields before it adds the
// ticket; the others are the limiter's.
type Ticket struct {
	Token    core.Token
	Client   *Client
	Queue    string // the queue and the task type by which the client is woken
	Type     string
	Priority int32
	Order    uint64 // the ticket's place by age; for a run: when it came to its queue
	Retry    bool
	Name     string // the run's workflow id

	shares []ticketShare

	in      *ticketShare // the resource that it waits for, or where it has its turn; nil if there is none
	index   int          // the index in its line; heap.Gone: it is in none
	later   bool         // it is in the line of retries that wait for their budget
	offered bool         // it has its turn
	running bool
	judged  bool // how it ended is known
	noted   bool // it is among its client's notices
	held    core.Held
}

// ticketShare is a ticket's share of one resource.
type ticketShare struct {
	*limited
	key   *limitedKey
	round uint64 // fair resources: keys take turns. While the ticket is in a line, key.rounds has it
}

// Before orders by priority, then by rounds of the keys, then by age.
func (t *Ticket) Before(o *Ticket) bool {
	if t.Priority != o.Priority {
		return t.Priority > o.Priority
	}
	if a, b := t.round(), o.round(); a != b {
		return a < b
	}
	return t.Compare(o) < 0
}

// lineTicket orders the tickets of one key by priority, then by age; those that came before keys took turns go first.
// Their rounds have the same order.
type lineTicket Ticket

// Before orders the tickets of one key.
func (t *lineTicket) Before(o *lineTicket) bool {
	if t.Priority != o.Priority {
		return t.Priority > o.Priority
	}
	if first := t.in.round == 0; first != (o.in.round == 0) {
		return first
	}
	return (*Ticket)(t).Compare((*Ticket)(o)) < 0
}

// Moved notes the place in the line.
func (t *lineTicket) Moved(to int) { t.index = to }

// IsRun reports whether the ticket is a run's.
func (t *Ticket) IsRun() bool { return t.Token.Step == core.NoStep }

// Moved notes the place in the line.
func (t *Ticket) Moved(to int) { t.index = to }

// New returns a limiter that has nothing to count.
func New() *Limiter { return &Limiter{resources: make(map[Resource]*limited)} }

// Bound is one of the limits of a ticket.
type Bound struct {
	Resource
	Limits *policy.QueueLimits
	Since  core.Time // how new they are: the newest ones count
}

// Add makes an attempt or a run known. before is why it was held when its run was last in memory.
func (l *Limiter) Add(
	t *Ticket, key string, bounds []Bound, before core.Held, since, now core.Time,
) {
	defer l.lock(t.Client, now)()
	t.index = heap.Gone
	if !t.IsRun() {
		l.order++
		t.Order = l.order
	}
	for _, b := range bounds {
		p := l.resources[b.Resource]
		if p == nil {
			p = &limited{Resource: b.Resource, keys: make(map[string]*limitedKey), due: Never, index: heap.Gone}
			l.resources[b.Resource] = p
		}
		l.renew(p, b)
		k := p.keys[key]
		if k == nil {
			k = &limitedKey{
				name: key, index: heap.Gone,
				ages: ranked[*Ticket]{compare: (*Ticket).Compare}, rounds: ranked[uint64]{compare: cmp.Compare[uint64]},
			}
			p.keys[key] = k
		}
		k.tickets++
		share := ticketShare{limited: p, key: k}
		if p.limits.Fair {
			k.round = max(k.round, p.round) + 1
			share.round = k.round
		}
		t.shares = append(t.shares, share)
		byBreaker := before.Reason == core.HeldBreaker && before.Service == p.Service && before.Name == p.Name
		if byBreaker && p.limits.Breaker.Failures > 0 {
			p.breaker.restore(before, since, p.limits.Breaker, l.now)
		}
	}
}

// renew gives a resource the limits that came with a ticket, unless its own are newer. What waits goes on with them.
func (l *Limiter) renew(p *limited, b Bound) {
	changed := p.limits != *b.Limits
	if b.Since < p.since || !changed && b.Since == p.since {
		return
	}
	p.since = b.Since
	if !changed {
		return
	}
	p.limits = *b.Limits
	if p.limits.Breaker.Failures == 0 {
		p.breaker = breaker{}
	}
	for _, k := range p.keys {
		l.sortKey(p, k)
	}
	l.look(p)
	l.tellAgain(p)
}

// Start takes a share of each resource that an attempt needs, or returns why it is held. Then it waits in a line.
func (l *Limiter) Start(t *Ticket, now core.Time) (core.Held, bool) {
	defer l.lock(t.Client, now)()
	if l.loads > 0 && (t.IsRun() || l.remote) {
		l.waitForLoad(t)
		return core.Held{}, false
	}
	if t.IsRun() && t.offered && l.yield(t) {
		return core.Held{}, false
	}
	for i := range t.shares {
		s := &t.shares[i]
		held := s.refuses(t, l.now)
		if held.Reason == core.HeldNone {
			continue
		}
		was := t.in
		l.takeBack(t)
		l.wait(t, s, held)
		l.look(s.limited)
		if was != nil && was != s {
			l.look(was.limited)
		}
		return held, false
	}
	l.takeBack(t)
	for i := range t.shares {
		t.shares[i].take(t, l.now)
	}
	t.running, t.held = true, core.Held{}
	l.lookAll(t.shares)
	return core.Held{}, true
}

// Undo gives back what an attempt took that did not start.
func (l *Limiter) Undo(t *Ticket) {
	defer l.lock(t.Client, 0)()
	if !t.running {
		return
	}
	for i := range t.shares {
		s := &t.shares[i]
		s.starts.undo(s.limits.Rate)
		s.key.starts.undo(s.limits.KeyRate)
		if t.Retry {
			s.tries.undo(s.limits.Retries)
		}
		l.returnTurn(s)
	}
	l.end(t)
}

// Pass gives up the turn of a ticket that finds no worker, if it has one. It is in no line until it asks again.
func (l *Limiter) Pass(t *Ticket) {
	defer l.lock(t.Client, 0)()
	if !t.offered {
		return
	}
	p := t.in.limited
	l.takeBack(t)
	t.held = core.Held{}
	l.look(p)
}

// Ended takes in how an attempt ended; only the first word counts.
func (l *Limiter) Ended(t *Ticket, failed bool, now core.Time) {
	defer l.lock(t.Client, now)()
	if t.judged || !t.running {
		return
	}
	t.judged = true
	for i := range t.shares {
		p := t.shares[i].limited
		changed := p.breaker.ended(t, failed, p.limits.Breaker, l.now)
		l.look(p)
		if changed {
			l.tellAgain(p)
		}
	}
}

// Leave forgets a ticket: its work is over, or it no longer waits.
func (l *Limiter) Leave(t *Ticket, now core.Time) {
	defer l.lock(t.Client, now)()
	l.end(t)
}

// end removes a ticket from all counts.
func (l *Limiter) end(t *Ticket) {
	l.takeBack(t)
	for i := range t.shares {
		s := &t.shares[i]
		if t.running {
			s.running--
			s.key.running--
			delete(s.key.runs, t)
		} else {
			l.returnTurn(s)
		}
		if s.breaker.probe == t {
			s.breaker.probe = nil // it reports nothing: another one goes first
		}
		l.sortKey(s.limited, s.key)
		s.key.tickets--
	}
	t.running = false
	shares := t.shares
	t.shares = nil
	l.lookAll(shares)
	for i := range shares {
		l.forgetKey(shares[i].limited, shares[i].key)
	}
}

// forgetKey drops a key of which nothing is left to count.
func (l *Limiter) forgetKey(p *limited, k *limitedKey) {
	if k.tickets == 0 && k.starts.count(p.limits.KeyRate, l.now) == 0 && (!p.limits.Fair || k.round <= p.round) {
		delete(p.keys, k.name)
	}
}

// lock locks the limiter. The function that it returns unlocks it, and then wakes the clients that have news, but for
// the caller, which looks itself.
func (l *Limiter) lock(asks *Client, now core.Time) (unlock func()) {
	l.mu.Lock()
	l.now = max(l.now, now)
	return func() {
		called := l.called
		l.called = nil
		l.mu.Unlock()
		for _, t := range called {
			if t.Client != asks {
				t.Client.Wake(t.Queue, t.Type)
			}
		}
	}
}

// NextDue returns the instant at which tick must be called; zero: nothing happens by time alone.
func (l *Limiter) NextDue() core.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dues.Len() == 0 {
		return 0
	}
	return l.dues.First().due
}

// Tick offers the turns that have come with time.
func (l *Limiter) Tick(asks *Client, now core.Time) {
	defer l.lock(asks, now)()
	for l.dues.Len() > 0 && l.dues.First().due <= l.now {
		l.look(l.dues.First())
	}
}

// Turns returns the tickets of a client whose turn it is.
func (l *Limiter) Turns(c *Client) []*Ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.called.Store(false)
	turns := c.turns
	c.turns = nil
	return turns
}

// Notices returns tickets of a client that are held for another reason now, at most that many, with the reasons.
func (l *Limiter) Notices(c *Client, most int) []Notice {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(most, len(c.notices))
	out := make([]Notice, 0, n)
	for _, t := range c.notices[:n] {
		t.noted = false
		out = append(out, Notice{t, t.held})
	}
	c.notices = c.notices[n:]
	c.noted.Store(len(c.notices) > 0)
	return out
}

// Notice is why a ticket is held now.
type Notice struct {
	*Ticket
	Held core.Held
}
