package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/pawlflow"
)

func init() { rows["B11"] = testBreakerOfService }

// shop is a service that answers with an error until it is well again.
type shop struct {
	mu         sync.Mutex
	well       bool
	failed     int
	succeeded  int
	at, most   int // requests at the same time
	failedTold chan int
}

func (s *shop) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.at++
	s.most = max(s.most, s.at)
	well := s.well
	if well {
		s.succeeded++
	} else {
		s.failed++
		select {
		case s.failedTold <- s.failed:
		default:
		}
	}
	s.mu.Unlock()
	if !well {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	s.mu.Lock()
	s.at--
	s.mu.Unlock()
}

func (s *shop) recover() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.well = true
}

// testBreakerOfService checks a service that many runs use and that fails for a while. Few attempts reach it meanwhile:
// those that were on their way when its breaker opened, and after each pause one probe. When it is well again all
// succeed. The record says why attempts were held and until when.
func testBreakerOfService(t *testing.T) {
	const runs, concurrency, failures, pause, mute = 40, 3, 3, 50 * time.Millisecond, 100 * time.Millisecond
	s := &shop{failedTold: make(chan int, 1000)}
	server := httptest.NewServer(s)
	defer server.Close()
	doc, err := flow.Parse("buy.yaml", fmt.Appendf(nil, `
pawl: 1
name: buy
services:
  shop:
    retry: exponential(5, 1ms)
    limits: {concurrency: %d, breaker: {failures: %d, pause: %s, maxPause: %s}}
steps:
  - {name: pay, service: shop, http: "%s"}
`, concurrency, failures, pause, mute, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	w := pawlflow.Define[map[string]any, any](doc)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := pawl.Open(ctx, pawl.Config{
		Database: "sqlite:" + filepath.Join(t.TempDir(), "b11.db"), Workflows: []pawl.Definition{w},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	var all []pawl.Run[any]
	began := time.Now()
	for i := range runs {
		r, err := w.Start(ctx, e, fmt.Sprintf("run-%d", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	// Before the breaker opens, failures attempts fail and concurrency-1 others are on their way. What fails after
	// them is a probe.
	const before, probes = failures + concurrency - 1, 3
	for n := range s.failedTold {
		if n >= before+probes {
			break
		}
	}
	held := heldRuns(ctx, t, e, all)
	s.recover()
	most := before + 1 + max(probes, int(time.Since(began)/pause)) // no probe goes within a pause after another one
	for _, r := range all {
		if _, err := r.Result(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if s.failed > most || s.succeeded != runs || s.most > concurrency {
		t.Errorf("%d attempts failed and %d succeeded, %d at once", s.failed, s.succeeded, s.most)
	}
	if held < runs/2 {
		t.Errorf("%d of %d runs were held by the breaker", held, runs)
	}
	checkProbes(ctx, t, e, all, mute)
}

// heldRuns counts the runs whose step is held by the breaker of the service.
func heldRuns(ctx context.Context, t *testing.T, e *pawl.Engine, all []pawl.Run[any]) (n int) {
	t.Helper()
	for _, r := range all {
		x, err := e.Explain(ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		s := x.Steps[0]
		if strings.HasPrefix(s.Held, "held by service shop: its last attempts have failed") && !s.HeldUntil.IsZero() {
			n++
		}
	}
	return n
}

// checkProbes reads from the histories that while the service failed at most one attempt ran at a time, once its
// breaker was open. Another one may begin beside a probe that has said nothing for that long, as on a busy machine.
func checkProbes(ctx context.Context, t *testing.T, e *pawl.Engine, all []pawl.Run[any], mute time.Duration) {
	t.Helper()
	type span struct{ from, to time.Time }
	var failed []span
	var opened time.Time
	for _, r := range all {
		x, err := e.Explain(ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range x.Steps[0].Attempts {
			if a.Outcome != "succeeded" {
				failed = append(failed, span{a.StartedAt, a.EndedAt})
			}
		}
	}
	ends := make([]time.Time, 0, len(failed))
	for _, f := range failed {
		ends = append(ends, f.to)
	}
	for _, at := range ends {
		before := 0
		for _, other := range ends {
			if !other.After(at) {
				before++
			}
		}
		if before >= 3 && (opened.IsZero() || at.Before(opened)) {
			opened = at
		}
	}
	for i, f := range failed {
		if !f.from.After(opened) {
			continue
		}
		for k, other := range failed {
			if i != k && !other.from.Before(f.from) && other.from.After(opened) && other.from.Before(f.to) &&
				other.from.Sub(f.from) < mute {
				t.Errorf("two probes at once: %v and %v", f, other)
			}
		}
	}
}
