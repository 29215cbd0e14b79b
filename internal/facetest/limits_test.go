package facetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/policy"
)

// gauge counts what runs at the same time.
type gauge struct {
	mu       sync.Mutex
	at, most map[string]int
	order    []string
}

func (g *gauge) run(key string, takes time.Duration) {
	g.mu.Lock()
	if g.at == nil {
		g.at, g.most = map[string]int{}, map[string]int{}
	}
	g.order = append(g.order, key)
	for _, k := range []string{"", key} {
		g.at[k]++
		g.most[k] = max(g.most[k], g.at[k])
	}
	g.mu.Unlock()
	<-time.After(takes) // a virtual pause
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at[""]--
	g.at[key]--
}

// TestQueueLimits checks that local steps and calls share the limits of their queue, whatever run they are of, and keys
// take turns.
func TestQueueLimits(t *testing.T) {
	var g gauge
	work := func(_ context.Context, key string) (string, error) {
		g.run(key, time.Second)
		return key, nil
	}
	handler := pawl.Handle("render", work)
	w := pawl.Define("w", func(ctx pawl.Context, key string) (string, error) {
		opts := []pawl.StepOption{pawl.Queue("pdf"), pawl.Key(key)}
		if _, err := handler.Call(ctx, "call", key, opts...); err != nil {
			return "", err
		}
		return pawl.Step(ctx, "step", func(ctx context.Context) (string, error) { return work(ctx, key) }, opts...)
	})
	cfg := pawl.Config{
		Workflows: []pawl.Definition{w},
		Queues:    map[string]policy.QueueLimits{"pdf": {Concurrency: 3, PerKey: 2, Fair: true}},
	}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		must(t, e.Serve("pdf", 100, handler))
		var all []pawl.Run[string]
		for i := range 12 {
			r := started(t, e, w, fmt.Sprint(i), []string{"a", "a", "a", "b"}[i%4])
			all = append(all, r)
		}
		begin := time.Now()
		for _, r := range all {
			if _, err := r.Result(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if g.most[""] != 3 || g.most["a"] != 2 || g.most["b"] > 2 {
			t.Errorf("at once: %v", g.most)
		}
		if took := time.Since(begin); took < 8*time.Second {
			t.Errorf("24 steps of 1s, 3 at once, took %s", took)
		}
		if first := strings.Join(g.order[:6], ""); strings.Count(first, "b") < 2 {
			t.Errorf("b did not have its turns: %v", g.order)
		}
	})
}

// TestHeldStep checks that a deadline goes on while a step is held, and that Explain gives the reason.
func TestHeldStep(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, opts string) (int, error) {
		var more []pawl.StepOption
		if opts != "" {
			more = append(more, pawl.QueueTimeout(opts))
		}
		return pawl.Step(ctx, "pay", func(context.Context) (int, error) { return 1, nil },
			append(more, pawl.Service("bank"))...)
	})
	cfg := pawl.Config{
		Workflows: []pawl.Definition{w},
		Services:  map[string]policy.QueueLimits{"bank": {Rate: policy.Rate{N: 1, Per: time.Minute}}},
	}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		start := func(id, wait string) pawl.Run[int] {
			r := started(t, e, w, id, wait)
			e.Skip(time.Second)
			return r
		}
		begin := time.Now()
		first, patient, hasty := start("first", ""), start("patient", ""), start("hasty", "10s")
		if _, err := first.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		x, err := e.Explain(t.Context(), "patient")
		if err != nil {
			t.Fatal(err)
		}
		s := x.Steps[0]
		if !strings.HasPrefix(s.Held, "held by service bank: its rate is used up") ||
			!s.HeldUntil.Equal(begin.Add(time.Minute)) {
			t.Errorf("%q, until %s", s.Held, s.HeldUntil)
		}
		if _, err := hasty.Result(t.Context()); !errors.Is(err, pawl.ErrTimedOut) {
			t.Errorf("the limit of a step that is held: %v", err)
		}
		if _, err := patient.Result(t.Context()); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
}

func TestBadQueueLimits(t *testing.T) {
	for _, c := range []struct {
		cfg  pawl.Config
		want string
	}{
		{
			pawl.Config{Queues: map[string]policy.QueueLimits{"a": {Concurrency: -1}}},
			`Config.Queues["a"]: concurrency: -1`,
		},
		{
			pawl.Config{Services: map[string]policy.QueueLimits{"b": {Rate: policy.Rate{N: 5}}}},
			`Config.Services["b"]: rate: the time`,
		},
		{
			pawl.Config{Services: map[string]policy.QueueLimits{"": {PerKey: 1}}},
			`Config.Services[""]: the name is empty`,
		},
		{
			pawl.Config{Services: map[string]policy.QueueLimits{"c": {Breaker: policy.Breaker{Pause: time.Second}}}},
			`breaker.failures: say how many`,
		},
	} {
		c.cfg.Database = "memory:"
		_, err := pawl.Open(t.Context(), c.cfg)
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
