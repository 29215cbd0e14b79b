package overview

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// Minute is what a process has counted within one minute. Child runs are not counted.
type Minute struct {
	At      api.Time     `json:"at"` // its beginning
	Started int          `json:"started,omitempty"`
	Failed  int          `json:"failed,omitempty"`  // runs that failed or timed out in it
	Retries int          `json:"retries,omitempty"` // attempts after which another one follows
	Took    Spread       `json:"took,omitempty"`    // the lengths of the runs that ended in it
	Waited  Spread       `json:"waited,omitempty"`  // how long the attempts that began in it had waited for a worker
	Late    api.Duration `json:"late,omitempty"`    // how late the latest timer was
}

// Spread counts lengths of time. Its keys are powers of spreadBase in microseconds, so that a share of it is found
// within a tenth.
type Spread map[int]int

const spreadBase = 1.2

// Add counts a length of time.
func (s *Spread) Add(d time.Duration) {
	if *s == nil {
		*s = Spread{}
	}
	(*s)[int(math.Round(math.Log(float64(max(d.Microseconds(), 1)))/math.Log(spreadBase)))]++
}

// Within returns the length that a share of what was counted does not exceed; 0: nothing was counted.
func (s Spread) Within(share float64) time.Duration {
	all := 0
	for _, n := range s {
		all += n
	}
	if all == 0 {
		return 0
	}
	before, wanted := 0, min(int(float64(all)*share), all-1)
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if before += s[key]; before > wanted {
			return time.Duration(math.Pow(spreadBase, float64(key))*1000) * time.Nanosecond
		}
	}
	return 0
}

// Join adds what another minute has counted.
func (m *Minute) Join(o Minute) {
	m.Started, m.Failed, m.Retries = m.Started+o.Started, m.Failed+o.Failed, m.Retries+o.Retries
	m.Late = max(m.Late, o.Late)
	m.Took, m.Waited = joined(m.Took, o.Took), joined(m.Waited, o.Waited)
}

func joined(a, b Spread) Spread {
	if len(b) == 0 {
		return a
	}
	out := maps.Clone(a)
	if out == nil {
		out = Spread{}
	}
	for key, n := range b {
		out[key] += n
	}
	return out
}

func (m *Minute) sample() api.Sample {
	length := func(s Spread) api.Duration { return api.Duration(s.Within(0.95).Round(time.Microsecond)) }
	return api.Sample{
		Started: m.Started, Failed: m.Failed, Retries: m.Retries, RunP95: length(m.Took), WaitP95: length(m.Waited),
		Late: m.Late,
	}
}

// counting joins what was counted by minute to parts of a span of time. What was before the first minute is taken from
// the runs.
type counting struct {
	from  api.Time
	each  time.Duration
	since api.Time
	parts []Minute
}

// newCounting returns the parts of a span: at most parts of them, whole minutes long.
func newCounting(from, to api.Time, since api.Time) *counting {
	each := max((to.Sub(from) / parts).Round(time.Minute), time.Minute)
	n := int((to.Sub(from) + each - 1) / each)
	begin := api.At(to.Std().Add(-time.Duration(n) * each))
	return &counting{from: begin, each: each, since: since, parts: make([]Minute, n)}
}

// at returns the part that has an instant; nil: none has.
func (c *counting) at(t api.Time) *Minute {
	i := int(t.Sub(c.from) / c.each)
	if t < c.from || i < 0 || i >= len(c.parts) {
		return nil
	}
	return &c.parts[i]
}

// run counts a run where nothing counted by minute.
func (c *counting) run(r api.RunSummary) {
	if p := c.at(r.CreatedAt); p != nil && r.CreatedAt < c.since {
		p.Started++
	}
	p := c.at(r.EndedAt)
	if p == nil || r.EndedAt >= c.since {
		return
	}
	if p.Took.Add(r.EndedAt.Sub(r.CreatedAt)); r.Phase == api.RunFailed || r.Phase == api.RunTimedOut {
		p.Failed++
	}
}

// counted returns the parts, and all of them together.
func (c *counting) counted() api.Counted {
	out := api.Counted{Since: c.since, From: c.from, Each: api.Duration(c.each), Parts: []api.Sample{}}
	var all Minute
	for i := range c.parts {
		out.Parts = append(out.Parts, c.parts[i].sample())
		all.Join(c.parts[i])
	}
	out.All = all.sample()
	return out
}

// Minutes reads what was counted by minute in a span of time, and since when that is done.
type Minutes func(ctx context.Context, from, to api.Time) (minutes []Minute, since api.Time, err error)

// minutes joins what was counted by minute to the parts of a span.
func (s Sources) minutes(ctx context.Context, from, to api.Time) (*counting, error) {
	if s.Minutes == nil {
		return newCounting(from, to, to+1), nil
	}
	all, since, err := s.Minutes(ctx, from, to)
	if err != nil {
		return nil, err
	}
	c := newCounting(from, to, since)
	for _, m := range all {
		if p := c.at(m.At); p != nil {
			p.Join(m)
		}
	}
	return c, nil
}
