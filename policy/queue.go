package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/decode"
)

// QueueLimits hold back what shares a queue or a service. Zero values hold back nothing. They are counted in each
// process, over all runs.
type QueueLimits struct {
	Concurrency int     // attempts that run at the same time
	PerKey      int     // attempts of one key that run at the same time
	Rate        Rate    // attempts that start
	KeyRate     Rate    // attempts of one key that start
	Fair        bool    // keys take turns, within one priority; else the first come is the first served
	Retries     Rate    // attempts that start after a failed one: the budget that all retries share
	Breaker     Breaker // holds back everything while attempts fail
}

// Rate is how many may start within any time of that length.
type Rate struct {
	N   int
	Per time.Duration
}

// Breaker opens when that many of the last attempts have failed. While it is open, attempts are held. After the pause
// one of them goes first, the probe: its success closes the breaker, its failure doubles the pause. Errors and timeouts
// count as failures. A failure that the service itself returned (of kind failed, such as HTTP 404) shows that it works.
type Breaker struct {
	Failures int           // number of failures among these attempts that open it; 0 if there is no breaker
	Of       int           // the last attempts that are looked at; 0: as many as Failures, so those in a row
	Pause    time.Duration // the time until the first probe; 0: 10s
	MaxPause time.Duration // the longest doubled pause; 0: 5m, or Pause if that is longer
}

// The pauses of breakers that name none.
const (
	firstPause   = 10 * time.Second
	longestPause = 5 * time.Minute
)

// The greatest values of limits. A rate's starts are remembered one by one, and so are a breaker's attempts.
const (
	maxQueue = 1_000_000
	maxRate  = 100_000
	maxOf    = 10_000
)

// Zero reports whether the limits hold back nothing.
func (l *QueueLimits) Zero() bool { return l == nil || *l == QueueLimits{Fair: l.Fair} }

// PauseAfter returns how long the breaker stays open after the given number of probes have failed.
func (b Breaker) PauseAfter(probes int) time.Duration {
	pause, most := b.first(), b.longest()
	for ; probes > 0 && pause < most; probes-- {
		pause *= 2
	}
	return min(pause, most)
}

// longest returns the longest pause.
func (b Breaker) longest() time.Duration {
	if b.MaxPause == 0 {
		return max(longestPause, b.first())
	}
	return b.MaxPause
}

// first returns the pause after the breaker has opened.
func (b Breaker) first() time.Duration {
	if b.Pause == 0 {
		return firstPause
	}
	return b.Pause
}

// Window returns how many of the last attempts the breaker looks at.
func (b Breaker) Window() int { return max(b.Of, b.Failures) }

// Check returns the errors of limits that were made in code, by the name of the field.
func (l *QueueLimits) Check() error {
	fields := []struct {
		name  string
		n     int
		limit int
	}{
		{"concurrency", l.Concurrency, maxQueue},
		{"perKey", l.PerKey, maxQueue},
		{"breaker.failures", l.Breaker.Failures, maxOf},
		{"breaker.of", l.Breaker.Of, maxOf},
	}
	for _, f := range fields {
		if f.n < 0 || f.n > f.limit {
			return queueError(f.name, "%d is not between 0 and %d; 0 is no limit", f.n, f.limit)
		}
	}
	if l.Concurrency > 0 && l.PerKey > l.Concurrency {
		return queueError("perKey", "%d attempts of one key are more than the %d that run in all", l.PerKey,
			l.Concurrency)
	}
	rates := []struct {
		name string
		Rate
	}{{"rate", l.Rate}, {"keyRate", l.KeyRate}, {"retries", l.Retries}}
	for _, r := range rates {
		if r.Rate == (Rate{}) {
			continue
		}
		if err := r.check(); err != nil {
			return queueError(r.name, "%w", err)
		}
	}
	return l.Breaker.check()
}

func (r Rate) check() error {
	switch {
	case r.N < 1 || r.N > maxRate:
		return fmt.Errorf("%d starts are not between 1 and %d", r.N, maxRate)
	case r.Per < time.Millisecond || r.Per > 24*time.Hour:
		return fmt.Errorf("the time %s is not between 1ms and 24h", duration.Format(r.Per))
	default:
		return nil
	}
}

func (b Breaker) check() error {
	switch {
	case b == Breaker{}:
		return nil
	case b.Failures == 0:
		return queueError("breaker.failures", "say how many failures open the breaker")
	case b.Of != 0 && b.Of < b.Failures:
		return queueError("breaker.of", "%d attempts cannot have %d failures: the breaker would never open",
			b.Of, b.Failures)
	case b.Pause < 0:
		return queueError("breaker.pause", "%s is negative", b.Pause)
	case b.MaxPause < 0:
		return queueError("breaker.maxPause", "%s is negative", b.MaxPause)
	case b.MaxPause != 0 && b.MaxPause < b.first():
		return queueError("breaker.maxPause", "%s is shorter than the pause, %s", duration.Format(b.MaxPause),
			duration.Format(b.first()))
	default:
		return nil
	}
}

func queueError(field, format string, args ...any) error {
	return decode.Under(fmt.Errorf(format, args...), strings.Split(field, ".")...)
}

// parseRate reads a rate as a text: 10/1s, 100/1m, 5/s.
func parseRate(text string) (Rate, error) {
	count, per, ok := strings.Cut(text, "/")
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if !ok || err != nil {
		return Rate{}, fmt.Errorf("%q is not a rate: write a number and a time, such as 10/1s or 100/1m", text)
	}
	if per = strings.TrimSpace(per); per != "" && (per[0] < '0' || per[0] > '9') {
		per = "1" + per
	}
	d, err := duration.Parse(per)
	if err != nil {
		return Rate{}, err
	}
	r := Rate{n, d}
	return r, r.check()
}

// String writes the rate in the form that parseRate reads, or returns "" if there is none.
func (r Rate) String() string {
	if r == (Rate{}) {
		return ""
	}
	return strconv.Itoa(r.N) + "/" + duration.Format(r.Per)
}

// The keys of the mappings that DecodeQueueLimits reads.
var (
	queueKeys   = []string{"concurrency", "perKey", "rate", "keyRate", "fair", "retries", "breaker"}
	breakerKeys = []string{"failures", "of", "pause", "maxPause"}
)

// DecodeQueueLimits reads the limits of a queue or a service from a mapping that a YAML or JSON decoder returned. For
// nil it returns nil: no limits.
func DecodeQueueLimits(v any) (*QueueLimits, error) {
	if v == nil {
		return nil, nil
	}
	f := decode.Read(v, queueKeys...)
	l := &QueueLimits{
		Concurrency: f.Int("concurrency", 0, 1, maxQueue), PerKey: f.Int("perKey", 0, 1, maxQueue),
		Rate: readRate(f, "rate"), KeyRate: readRate(f, "keyRate"), Retries: readRate(f, "retries"),
		Fair: f.Bool("fair", false),
	}
	if f.Has("breaker") {
		b := decode.Read(f.Value("breaker"), breakerKeys...)
		l.Breaker = Breaker{
			Failures: b.Int("failures", 0, 1, maxOf), Of: b.Int("of", 0, 1, maxOf),
			Pause: b.Duration("pause", 0), MaxPause: b.Duration("maxPause", 0),
		}
		if b.Err() == nil && l.Breaker.Failures == 0 {
			b.Keep("failures", errors.New("say how many failures open the breaker"))
		}
		f.Keep("breaker", b.Err())
	}
	if f.Err() != nil {
		return nil, f.Err()
	}
	if err := l.Check(); err != nil {
		return nil, err
	}
	return l, nil
}

func readRate(f *decode.Fields, key string) Rate {
	text := f.Text(key)
	if !f.Has(key) || f.Err() != nil {
		return Rate{}
	}
	r, err := parseRate(text)
	f.Keep(key, err)
	return r
}

type queueJSON struct {
	Concurrency int          `json:"concurrency,omitempty"`
	PerKey      int          `json:"perKey,omitempty"`
	Rate        string       `json:"rate,omitempty"`
	KeyRate     string       `json:"keyRate,omitempty"`
	Fair        bool         `json:"fair,omitempty"`
	Retries     string       `json:"retries,omitempty"`
	Breaker     *breakerJSON `json:"breaker,omitempty"`
}

type breakerJSON struct {
	Failures int               `json:"failures"`
	Of       int               `json:"of,omitempty"`
	Pause    duration.Duration `json:"pause,omitzero"`
	MaxPause duration.Duration `json:"maxPause,omitzero"`
}

// MarshalJSON writes the limits as DecodeQueueLimits reads them.
func (l QueueLimits) MarshalJSON() ([]byte, error) {
	out := queueJSON{
		Concurrency: l.Concurrency, PerKey: l.PerKey, Rate: l.Rate.String(), KeyRate: l.KeyRate.String(), Fair: l.Fair,
		Retries: l.Retries.String(),
	}
	if b := l.Breaker; b != (Breaker{}) {
		out.Breaker = &breakerJSON{b.Failures, b.Of, duration.Duration(b.Pause), duration.Duration(b.MaxPause)}
	}
	return json.Marshal(out)
}
