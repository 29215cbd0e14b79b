package minutes

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/engine/limit"
	"github.com/pawl-dev/pawl/internal/overview"
)

const (
	recentParts = 30 // parts of what is recent, each so long
	recentEach  = 10 * time.Second
	aMinute     = int(time.Minute / recentEach)
	mostRecent  = 1000 // queues and services that are counted
)

// recent counts what queues and services did of late. It is not kept.
type recent struct {
	mu       sync.Mutex
	queues   map[TaskType]*ring
	services map[string]*ring
	held     map[limit.Resource]int // attempts that were held back, since the beginning
}

// TaskType is a type of attempts in a task queue.
type TaskType struct{ Queue, Type string }

// ring has the last parts of time; all counts since the beginning.
type ring struct {
	parts   [recentParts]part
	retries int
}

type part struct {
	at                       int64 // the number of the part
	began, retries, attempts int
	waited                   overview.Spread
}

func newRecent() recent {
	return recent{queues: map[TaskType]*ring{}, services: map[string]*ring{}, held: map[limit.Resource]int{}}
}

func partAt(at core.Time) int64 { return at.Std().UnixMilli() / recentEach.Milliseconds() }

// now returns the part that an instant is in.
func (r *ring) now(at core.Time) *part {
	n := partAt(at)
	p := &r.parts[n%recentParts]
	if p.at != n {
		*p = part{at: n}
	}
	return p
}

// last calls fn with the parts that are not older than so many, the oldest first; nil: nothing was counted in one.
func (r *ring) last(at core.Time, parts int, fn func(*part)) {
	for n := partAt(at) - int64(parts) + 1; n <= partAt(at); n++ {
		if p := &r.parts[n%recentParts]; p.at == n {
			fn(p)
		} else {
			fn(nil)
		}
	}
}

func ringOf[K comparable](all map[K]*ring, key K) *ring {
	r := all[key]
	if r == nil {
		if len(all) >= mostRecent {
			return &ring{} // it is not kept
		}
		r = &ring{}
		all[key] = r
	}
	return r
}

// ended counts an attempt of a step that has ended.
func (r *recent) ended(o *engine.Observation, retry bool, waited time.Duration) {
	service := ""
	if o.Spec.Share != nil {
		service = o.Spec.Share.Service
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := ringOf(r.services, service)
	p := all.now(o.At)
	if p.attempts++; retry {
		p.retries++
		all.retries++
	}
	if waited >= 0 {
		q := ringOf(r.queues, TaskType{o.Spec.Queue, o.Spec.Type}).now(o.At)
		q.began++
		q.waited.Add(waited)
	}
}

// heldBack counts an attempt that limits hold.
func (r *recent) heldBack(h core.Held) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if place := (limit.Resource{Service: h.Service, Name: h.Name}); len(r.held) < mostRecent || r.held[place] > 0 {
		r.held[place]++
	}
}

// Held returns how many attempts limits have held back since the beginning.
func (c *Counter) Held() map[limit.Resource]int {
	c.recent.mu.Lock()
	defer c.recent.mu.Unlock()
	return maps.Clone(c.recent.held)
}

// QueueRecent is what a task queue did of late.
type QueueRecent struct {
	PerMinute int
	P50, P95  time.Duration
}

// Queues returns what the task queues did in the last five minutes.
func (c *Counter) Queues() map[TaskType]QueueRecent {
	r, now := &c.recent, c.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[TaskType]QueueRecent{}
	for key, ring := range r.queues {
		var all overview.Minute
		ring.last(now, recentParts, func(p *part) {
			if p != nil {
				all.Join(overview.Minute{Waited: p.waited})
			}
		})
		q := QueueRecent{P50: all.Waited.Within(0.5), P95: all.Waited.Within(0.95)}
		ring.last(now, aMinute, func(p *part) {
			if p != nil {
				q.PerMinute += p.began
			}
		})
		out[key] = q
	}
	return out
}

// ServiceRecent is how the attempts at a service went of late.
type ServiceRecent struct {
	Name                         string
	Attempts, Retries, PerMinute int
	Parts                        []int
	All                          int
}

// Services returns how the attempts at services went in the last five minutes, by their names.
func (c *Counter) Services() []ServiceRecent {
	r, now := &c.recent, c.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]ServiceRecent, 0, len(r.services))
	for _, name := range slices.Sorted(maps.Keys(r.services)) {
		s := ServiceRecent{Name: name, All: r.services[name].retries}
		r.services[name].last(now, recentParts, func(p *part) {
			n := 0
			if p != nil {
				n = p.retries
				s.Attempts, s.Retries = s.Attempts+p.attempts, s.Retries+n
			}
			s.Parts = append(s.Parts, n)
		})
		for _, n := range s.Parts[recentParts-aMinute:] {
			s.PerMinute += n
		}
		out = append(out, s)
	}
	return out
}
