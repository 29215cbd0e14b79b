package facetest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/journal/memory"
	"github.com/pawl-dev/pawl/pawltest"
)

// sharing is a random body whose branches share a variable: all that they do is named after all that happened before.
// So it can only be called again if its branches take their turns in the same order.
type sharing struct {
	seen uint32
}

func (s *sharing) happened(what string) {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, s.seen, what)
	s.seen = h.Sum32()
}

func (s *sharing) name(op string) string { return fmt.Sprintf("%s-%x", op, s.seen) }

func (s *sharing) perform(ctx pawl.Context, list []plan) (string, error) {
	for _, p := range list {
		if err := s.one(ctx, p); err != nil {
			return "", err
		}
		s.happened(p.Op)
	}
	return "", nil
}

// one does one thing. Many of them take equally long, so that ends come at the same instant.
func (s *sharing) one(ctx pawl.Context, p plan) error {
	part := func(ctx pawl.Context) (string, error) { return s.perform(ctx, p.Parts) }
	length := time.Duration(p.Ms%4) * 5 * time.Millisecond
	switch p.Op {
	case "step", "flaky", "child":
		_, err := pawl.Step(ctx, s.name("step"), func(ctx context.Context) (int, error) { return 1, wait(ctx, length) })
		if p.Ms%3 == 0 {
			s.happened(pawl.Now(ctx).String())
		}
		return err
	case "sleep":
		return pawl.Sleep(ctx, s.name("sleep"), length)
	case "event":
		_, err := pawl.Event[string](s.name("event")).Wait(ctx, pawl.Within(length+time.Millisecond))
		if !errors.Is(err, pawl.ErrDeadlineExceeded) {
			return fmt.Errorf("the wait ended with %w", err)
		}
		return nil
	case "go":
		f := pawl.Go(ctx, s.name("go"), part)
		return errors.Join(s.one(ctx, plan{Op: "step", Ms: p.Ms}), second(f.Get(ctx)))
	case "map":
		item := func(ctx pawl.Context, _ int) (string, error) { return part(ctx) }
		return second(pawl.Map(ctx, s.name("map"), 2, []int{1, 2, 3}, item))
	default:
		a, b := pawl.Go(ctx, s.name("a"), part), pawl.Go(ctx, s.name("b"), part)
		first, err := pawl.Select(ctx, a, b)
		s.happened(fmt.Sprint(first == a))
		return errors.Join(err, second(pawl.All(ctx, a, b)))
	}
}

// TestBranchesTakeTurns executes random bodies whose branches share a variable, with restarts, crashes and a journal
// that fails, and replays what they have left behind.
func TestBranchesTakeTurns(t *testing.T) {
	for seed := range uint64(nightly.Few(40, 400)) {
		for _, fault := range []string{"restarts", "crashes", "journal"} {
			rng := rand.New(rand.NewPCG(seed, 7))
			list := append(randomPlan(rng, 2), plan{Op: "map", Ms: 1, Parts: randomPlan(rng, 1)})
			w := pawl.Define("sharing", func(ctx pawl.Context, list []plan) (string, error) {
				return (&sharing{}).perform(ctx, list)
			})
			j := &brittle{Journal: memory.New()}
			cfg := pawl.Config{Workflows: []pawl.Definition{w}, Journal: j}
			if fault == "crashes" {
				cfg.Journal = memory.New()
			}
			pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
				r := started(t, e, w, "r", list)
				if fault == "journal" {
					j.mu.Lock()
					j.rng = rand.New(rand.NewPCG(seed, 1))
					j.mu.Unlock()
				}
				for i := range 8 {
					e.Skip(time.Duration(rng.IntN(30)) * time.Millisecond)
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
				e.Skip(time.Hour)
				if d, err := e.DescribeRun(t.Context(), "r"); err != nil || d.Phase != "succeeded" {
					t.Fatalf("seed %d, %s: %s, %v, %v\nproblem: %v\nplan: %+v", seed, fault, d.Phase, d.Failure, err,
						e.Problem(r.ID), list)
				}
				history, err := e.History(t.Context(), "r")
				if err != nil {
					t.Fatal(err)
				}
				pawltest.Replay(t, w, history)
			})
		}
	}
}

// TestSelectIsFair checks that each future that is there is returned in a loop, also after a restart.
func TestSelectIsFair(t *testing.T) {
	w := pawl.Define("fair", func(ctx pawl.Context, _ none) (string, error) {
		one := func(context.Context) (int, error) { return 1, nil }
		a, b, late := pawl.Async(ctx, "a", one), pawl.Async(ctx, "b", one), pawl.SleepAsync(ctx, "late", "3s")
		order := ""
		for i := range 9 {
			if err := pawl.Sleep(ctx, "pause", "1s"); err != nil {
				return "", err
			}
			first, err := pawl.Select(ctx, a, b, late)
			if err != nil {
				return "", err
			}
			order += map[pawl.Waitable]string{a: "a", b: "b", late: "c"}[first]
			if i == 4 {
				_, err := pawl.Step(ctx, order, func(context.Context) (int, error) { return 1, nil })
				if err != nil {
					return "", err
				}
			}
		}
		return order, nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "r", none{})
		e.Skip(6500 * time.Millisecond)
		e.Restart()
		if got, err := r.Result(t.Context()); err != nil || got != "abcabcabc" {
			t.Error(got, err)
		}
	}, w)
}
