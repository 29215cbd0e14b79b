package server

import (
	"cmp"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// Limits limit the requests of one token, and those of all. They can be changed while the server runs.
type Limits struct {
	Rate  int // requests of a token in a second, on average; 0: unlimited
	Waits int // streams, polls and waits for the end of a run that a token has open at once; 0: unlimited
	// AllWaits limits those of all tokens together; 0: unlimited.
	AllWaits int
	// Bytes bounds the bodies of all requests that the server works on at once. Default: mostBytes.
	Bytes int64
	// Queued bounds the attempts of a namespace that wait for a worker: while there are more, no run is started over
	// the API; 0 if nothing does.
	Queued int
}

// burst is for how long a token may save up its rate.
const burst = 2 * time.Second

// usage counts the current requests of tokens, by the id of the token.
type usage struct {
	mu      sync.Mutex
	limits  Limits
	free    map[string]time.Time // the instant from which on everything that the rate allows is free again
	waiting map[string]int
	allWait int
	swept   time.Time

	bytes   int64 // bytes of the bodies in the server's hands
	bytesOf map[string]int64
}

func newUsage(l Limits) *usage {
	return &usage{
		limits: l.whole(), free: map[string]time.Time{}, waiting: map[string]int{}, bytesOf: map[string]int64{},
	}
}

// whole returns the limits with their defaults.
func (l Limits) whole() Limits {
	l.Bytes = cmp.Or(l.Bytes, mostBytes)
	return l
}

// SetLimits changes the limits for later requests.
func (s *Server) SetLimits(l Limits) {
	s.others.Range(func(_, other any) bool {
		other.(*Server).SetLimits(l)
		return true
	})
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	s.usage.limits = l.whole()
}

// mayStart refuses a start while too many attempts of the namespace wait for a worker, as queued counts them.
func (u *usage) mayStart(queued func() int) error {
	u.mu.Lock()
	most := u.limits.Queued
	u.mu.Unlock()
	if most <= 0 || queued == nil || queued() < most {
		return nil
	}
	return &api.Error{
		Code:    api.CodeLimited,
		Message: fmt.Sprintf("%d attempts or more wait for a worker, so no run is started for now", most),
		Hint:    "start more workers, or ask again later; pawl server --queued says how many may wait",
	}
}

// waits are the routes whose requests may stay open for long.
var waits = map[string]bool{
	"GET /api/v1/runs/{run}/events": true, "GET /api/v1/events": true,
	"POST /api/v1/bodies/news": true, "POST /api/v1/bodies/nodes": true,
	"PUT " + taskContent: true, "GET " + taskContent: true,
	"POST /api/v1/tasks/poll": true, "POST /api/v1/bulk/{operation}": true, "POST /api/v1/runs/{run}/updates": true,
}

// waitsIfAsked are the routes whose requests have a parameter for how long they wait.
var waitsIfAsked = map[string]bool{"GET /api/v1/runs/{run}": true, "GET /api/v1/runs/{run}/outcome": true}

// mayWait reports whether a request may stay open for long.
func mayWait(r *http.Request, pattern string) bool {
	return waits[pattern] || waitsIfAsked[pattern] && r.URL.Query().Has("wait")
}

// begin counts a request, or refuses it. The caller calls end when the request has ended.
func (u *usage) begin(r *http.Request, pattern string) (end func(), p *httpapi.Problem) {
	c := callerOf(r.Context())
	if c == nil || c.local || c.token.ID == "" {
		return func() {}, nil
	}
	return u.beginOf(c.token, mayWait(r, pattern))
}

// Begin counts a request of a token that came by another protocol, or refuses it. waits: it may stay open for long. The
// caller calls end when the request has ended. Errors: CodeLimited.
func Begin(s *Server, token api.Token, waits bool) (end func(), err error) {
	end, p := s.usage.beginOf(token, waits)
	if p != nil {
		return nil, &api.Error{Code: api.CodeLimited, Message: p.Detail}
	}
	return end, nil
}

// beginOf counts a request of a token, or refuses it.
func (u *usage) beginOf(token api.Token, waits bool) (end func(), p *httpapi.Problem) {
	u.mu.Lock()
	defer u.mu.Unlock()
	id, now := token.ID, time.Now()
	if rate := u.limits.Rate; rate > 0 {
		free := u.free[id]
		if free.Before(now) {
			free = now
		}
		if free.Sub(now) > burst {
			return nil, limited("the token %q makes more than %d requests in a second", token.Name, rate)
		}
		u.free[id] = free.Add(time.Second / time.Duration(rate))
		u.sweep(now)
	}
	if !waits {
		return func() {}, nil
	}
	if most := u.limits.Waits; most > 0 && u.waiting[id] >= most {
		return nil, limited("the token %q has %d streams, polls and waits open", token.Name, most)
	}
	if most := u.limits.AllWaits; most > 0 && u.allWait >= most {
		return nil, limited("all tokens together have %d streams, polls and waits open", most)
	}
	u.waiting[id]++
	u.allWait++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.allWait--
		if u.waiting[id]--; u.waiting[id] == 0 {
			delete(u.waiting, id)
		}
	}, nil
}

// beginBody counts the bytes of a body before it is read, or refuses it. One token has at most half of all, so that
// others can be served beside it. end has to be called when the request has ended.
func (u *usage) beginBody(c *caller, size int64) (end func(), p *httpapi.Problem) {
	id := ""
	if c != nil && !c.local {
		id = c.token.ID
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.bytes+size > u.limits.Bytes {
		return nil, limited("the server has %d bytes of requests to work on at present", u.bytes)
	}
	if id != "" && u.bytesOf[id]+size > u.limits.Bytes/2 {
		return nil, limited("the token %q has requests of %d bytes open", c.token.Name, u.bytesOf[id])
	}
	u.bytes += size
	if id != "" {
		u.bytesOf[id] += size
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.bytes -= size
		if id == "" {
			return
		}
		if u.bytesOf[id] -= size; u.bytesOf[id] == 0 {
			delete(u.bytesOf, id)
		}
	}, nil
}

// sweep forgets tokens that are not used at present.
func (u *usage) sweep(now time.Time) {
	if now.Sub(u.swept) < time.Minute {
		return
	}
	u.swept = now
	for id, free := range u.free {
		if free.Before(now) {
			delete(u.free, id)
		}
	}
}

func limited(format string, args ...any) *httpapi.Problem {
	return httpapi.ProblemOf(&api.Error{
		Code: api.CodeLimited, Message: fmt.Sprintf(format, args...), Hint: "ask again later, or less often",
	})
}
