package facetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestAllOf checks that the results come in the order of the futures, not of their ends; the first error in that order
// is returned when all have ended.
func TestAllOf(t *testing.T) {
	late := errors.New("late")
	w := pawl.Define("w", func(ctx pawl.Context, minutes []int) ([]int, error) {
		var futures []*pawl.Future[int]
		for _, m := range minutes {
			futures = append(futures, pawl.Go(ctx, "part", func(ctx pawl.Context) (int, error) {
				if err := pawl.Sleep(ctx, "rest", time.Duration(max(m, -m))*time.Minute); err != nil {
					return 0, err
				}
				return pawl.Step(ctx, "end", func(context.Context) (int, error) {
					if m < 0 {
						return 0, late
					}
					return m, nil
				})
			}))
		}
		return pawl.All(ctx, futures...)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for _, c := range []struct {
			in   []int
			fail bool
		}{{in: []int{3, 1, 2}}, {in: []int{}}, {in: []int{-1, 3}, fail: true}} {
			began := time.Now()
			r := started(t, e, w, "", c.in)
			e.Skip(90 * time.Second)
			e.Crash()
			got, err := pawl.RunOf[[]int](e, r.ID).Result(t.Context())
			if (err != nil) != c.fail || (err == nil && !slices.Equal(got, c.in)) {
				t.Errorf("%v: %v, %v", c.in, got, err)
			}
			if took := time.Since(began); len(c.in) > 0 && took < 3*time.Minute {
				t.Errorf("%v: it took %s", c.in, took)
			}
		}
	}, w)
}

// TestSelect checks that the winner is the same when the body is called again, although the others have results by
// then.
func TestSelect(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ int) (string, error) {
		answer := pawl.Event[string]("answer").WaitAsync(ctx)
		patience := pawl.SleepAsync(ctx, "patience", "1h")
		first, err := pawl.Select(ctx, answer, patience)
		if err != nil {
			return "", err
		}
		if err := pawl.Sleep(ctx, "rest", "3h"); err != nil {
			return "", err
		}
		switch first {
		case answer:
			return answer.Get(ctx)
		case patience:
			_, err := patience.Get(ctx)
			return "nobody", err
		default:
			return "", errors.New("neither")
		}
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for want, after := range map[string]time.Duration{"bob": 30 * time.Minute, "nobody": 90 * time.Minute} {
			r := started(t, e, w, "", 0)
			e.Skip(after)
			must(t, pawl.Event[string]("answer").Send(t.Context(), e, r.ID, "bob"))
			e.Skip(2 * time.Hour)
			e.Crash()
			if got, err := pawl.RunOf[string](e, r.ID).Result(t.Context()); got != want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
	}, w)
}

// TestUnreadBranches checks that a panic of a branch fails the run although nobody waits for the branch, and that an
// error of such a branch is logged.
func TestUnreadBranches(t *testing.T) {
	for name, c := range map[string]struct {
		branch, body error
		read         bool
		want         string // a part of the run's failure; empty: it succeeds
		logged       string
	}{
		"panic":                 {errBank, nil, false, "the branch panics", ""},
		"panic that is read":    {errBank, nil, true, "", ""},
		"panic and an error":    {errBank, errors.New("own"), false, "own", "the branch panics"},
		"an error":              {errors.New("ordinary"), nil, false, "", "ordinary"},
		"an error that is read": {errors.New("ordinary"), nil, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
				b := pawl.Go(ctx, "side", func(ctx pawl.Context) (none, error) {
					if err := pawl.Sleep(ctx, "sleep", time.Second); err != nil {
						return none{}, err
					}
					if c.branch == errBank {
						panic("the branch panics")
					}
					return none{}, c.branch
				})
				if c.read {
					_, _ = b.Get(ctx)
				}
				return "", errors.Join(pawl.Sleep(ctx, "long", time.Hour), c.body)
			})
			var logged strings.Builder
			cfg := pawl.Config{Workflows: []pawl.Definition{w}, Log: slog.New(slog.NewTextHandler(&logged, nil))}
			pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
				_, err := run(t, e.Engine, w, none{})
				got := fmt.Sprint(err)
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(got, c.want) {
					t.Errorf("the run ended with %v, want %q", err, c.want)
				}
				var bug *pawl.PanicError
				if c.want == "the branch panics" && (!errors.As(err, &bug) || !strings.Contains(got, `"side"`)) {
					t.Errorf("the error does not tell of the panic in the branch: %v", err)
				}
			})
			log := logged.String()
			if !strings.Contains(log, c.logged) || c.logged == "" && strings.Contains(log, "side") {
				t.Errorf("the log is %s, want %q", log, c.logged)
			}
		})
	}
}
