package facetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/journal/memory"
	"github.com/pawl-dev/pawl/pawltest"
)

// plan is a random body: what it does, one thing after the other.
type plan struct {
	Op    string // step, flaky, sleep, event, go, map, any, child
	Ms    int
	Parts []plan
}

func randomPlan(rng *rand.Rand, depth int) []plan {
	ops := []string{"step", "step", "flaky", "sleep", "event"}
	if depth > 0 {
		ops = append(ops, "go", "map", "select", "child")
	}
	out := make([]plan, 1+rng.IntN(4))
	for i := range out {
		out[i] = plan{Op: ops[rng.IntN(len(ops))], Ms: rng.IntN(30_000)}
		switch out[i].Op {
		case "go", "map", "select", "child":
			out[i].Parts = randomPlan(rng, depth-1)
		}
	}
	return out
}

// world counts what the steps do outside.
type world struct {
	mu    sync.Mutex
	calls map[string]int
}

func (w *world) count(a client.AttemptInfo) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[a.IdempotencyKey]++
	return w.calls[a.IdempotencyKey]
}

// work returns a step's result: a function of the step, so that every execution of a plan gives the same.
func (w *world) work(ctx context.Context, ms, failures int) (string, error) {
	a := pawl.Attempt(ctx)
	if err := wait(ctx, time.Duration(ms)*time.Millisecond); err != nil {
		return "", err
	}
	if w.count(a) <= failures {
		return "", errors.New("not yet")
	}
	return a.Step, nil
}

func (w *world) perform(ctx pawl.Context, child *pawl.Workflow[[]plan, string], list []plan) (string, error) {
	out := ""
	for _, p := range list {
		got, err := w.one(ctx, child, p)
		if err != nil {
			return out, fmt.Errorf("%s: %w", p.Op, err)
		}
		out += got + ";"
	}
	return out, nil
}

func (w *world) one(ctx pawl.Context, child *pawl.Workflow[[]plan, string], p plan) (string, error) {
	part := func(ctx pawl.Context) (string, error) { return w.perform(ctx, child, p.Parts) }
	switch p.Op {
	case "step":
		return pawl.Step(ctx, "step", func(ctx context.Context) (string, error) { return w.work(ctx, p.Ms, 0) })
	case "flaky":
		return pawl.Step(ctx, "flaky", func(ctx context.Context) (string, error) { return w.work(ctx, p.Ms, 2) },
			pawl.Retry("fixed(9, 3s)"))
	case "sleep":
		return "slept", pawl.Sleep(ctx, "sleep", time.Duration(p.Ms)*time.Millisecond)
	case "event":
		_, err := pawl.Event[string]("event").Wait(ctx, pawl.Within(time.Duration(1+p.Ms)*time.Millisecond))
		if !errors.Is(err, pawl.ErrDeadlineExceeded) {
			return "", fmt.Errorf("the wait ended with %w", err)
		}
		return "none", nil
	case "go":
		f := pawl.Go(ctx, "go", part)
		beside, err := w.one(ctx, child, plan{Op: "step", Ms: p.Ms})
		if err != nil {
			return "", err
		}
		got, err := f.Get(ctx)
		return beside + "|" + got, err
	case "map":
		got, err := pawl.Map(ctx, "map", 2, []int{1, 2, 3},
			func(ctx pawl.Context, _ int) (string, error) { return part(ctx) })
		return fmt.Sprint(got), err
	case "select":
		a, b := pawl.Go(ctx, "a", part), pawl.Go(ctx, "b", part)
		winner, err := pawl.Select(ctx, a, b)
		if err != nil {
			return "", err
		}
		first := 0
		if winner == b {
			first = 1
		}
		// Which one was first depends on time alone; a step tells whether the body believes the same when called again.
		told, err := pawl.Step(ctx, "first", func(context.Context) (int, error) { return first, nil })
		if err != nil || told != first {
			return "", fmt.Errorf("%d was first, then %d: %w", told, first, err)
		}
		return "select", second(pawl.All(ctx, a, b))
	default:
		return pawl.Child(ctx, "child", child, p.Parts)
	}
}

// brittle is a journal whose appends fail now and then: the engine forgets what was not durable and reads it again.
type brittle struct {
	journal.Journal
	mu  sync.Mutex
	rng *rand.Rand // nil: it holds
}

func (b *brittle) Append(ctx context.Context, batch *journal.Batch) error {
	b.mu.Lock()
	fails := b.rng != nil && b.rng.IntN(20) == 0
	b.mu.Unlock()
	if fails {
		return journal.ErrFull
	}
	return b.Journal.Append(ctx, batch)
}

// TestRandomBodies executes random bodies, undisturbed, with restarts, with crashes and with a journal that fails, and
// compares. PAWL_TEST_SEEDS sets how many.
func TestRandomBodies(t *testing.T) {
	seeds := uint64(nightly.Few(20, 150))
	if text := os.Getenv("PAWL_TEST_SEEDS"); text != "" {
		seeds, _ = strconv.ParseUint(text, 10, 64)
	}
	for seed := range seeds {
		want := ""
		for _, fault := range []string{"none", "restarts", "crashes", "journal"} {
			rng := rand.New(rand.NewPCG(seed, 0))
			list := randomPlan(rng, 2)
			w := &world{calls: map[string]int{}}
			var child *pawl.Workflow[[]plan, string]
			body := func(ctx pawl.Context, list []plan) (string, error) { return w.perform(ctx, child, list) }
			child = pawl.Define("child", body)
			parent := pawl.Define("parent", body)
			j := &brittle{Journal: memory.New()}
			cfg := pawl.Config{Workflows: []pawl.Definition{parent, child}, Journal: j}
			if fault == "crashes" {
				cfg.Journal = memory.New()
			}
			pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
				r := started(t, e, parent, "p", list)
				if fault == "journal" {
					j.mu.Lock()
					j.rng = rand.New(rand.NewPCG(seed, 1))
					j.mu.Unlock()
				}
				for i := range 8 {
					e.Skip(time.Duration(rng.IntN(20_000)) * time.Millisecond)
					switch {
					case fault == "restarts":
						e.Restart()
					case fault == "crashes" && i%2 == 0: // four: a fifth one may stop a step
						e.Crash()
					}
				}
				j.mu.Lock()
				j.rng = nil
				j.mu.Unlock()
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				got, err := pawl.RunOf[string](e, r.ID).Result(ctx)
				if err != nil {
					d, _ := e.DescribeRun(t.Context(), r.ID)
					t.Fatalf("seed %d, %s: %v\n%+v\nproblem: %v\nplan: %+v", seed, fault, err,
						d.Steps, e.Problem(r.ID), list)
				}
				if fault == "none" {
					want = got
				}
				if got != want {
					t.Fatalf("seed %d, %s: got %s\nwant %s\nplan: %+v", seed, fault, got, want, list)
				}
				history, err := e.History(t.Context(), "p")
				if err != nil {
					t.Fatal(err)
				}
				pawltest.Replay(t, parent, history)
			})
		}
	}
}
