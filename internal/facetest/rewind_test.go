package facetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/journal/memory"
	"github.com/pawl-dev/pawl/pawltest"
)

// store notes which steps were executed. Those that are broken fail.
type store struct {
	mu     sync.Mutex
	calls  []string
	broken map[string]bool
}

var errBroken = errors.New("broken")

func (s *store) do(key string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		info := pawl.Attempt(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, info.Step)
		if s.broken[key] {
			return "", errBroken
		}
		return key, nil
	}
}

func (s *store) step(ctx pawl.Context, key string) error {
	_, err := pawl.Step(ctx, key, s.do(key))
	return err
}

// mend lets steps succeed from now on, and forgets what was executed.
func (s *store) mend(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
	for _, key := range keys {
		delete(s.broken, key)
	}
}

func (s *store) executed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.calls)
	return strings.Join(s.calls, " ")
}

// audited ignores the failure of one step, charges, and ships.
func audited(ctx pawl.Context, s *store) error {
	_ = s.step(ctx, "audit")
	if err := s.step(ctx, "charge"); err != nil {
		return err
	}
	return s.step(ctx, "ship")
}

// refunds compensates a failure, and hands it on.
func refunds(ctx pawl.Context, s *store) error {
	if err := s.step(ctx, "charge"); err != nil {
		return err
	}
	if err := s.step(ctx, "ship"); err != nil {
		if err := s.step(ctx, "refund"); err != nil {
			return err
		}
		return fmt.Errorf("refunded: %w", err)
	}
	return s.step(ctx, "tell")
}

// TestRetryRun checks that a retry of a run repeats the failed step that its failure came from. Failures that the
// body had dealt with are not repeated, and its decisions about the failure are dropped. Nothing that was decided
// before, or beside it, is done twice.
func TestRetryRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		broken string // the step that fails; the part after a bar stays broken
		body   func(ctx pawl.Context, s *store) error
		want   string // the steps that are executed after the retry
		refuse string // the text of the refusal, if there is one
	}{
		{"a failure that was ignored", "ship|audit", audited, "ship", ""},
		{"a compensation", "ship", refunds, "ship tell", ""},
		{"a compensation that failed", "ship,refund", refunds, "refund", ""},
		{"several providers", "a,b,c", func(ctx pawl.Context, s *store) error {
			var all []error
			for _, name := range []string{"a", "b", "c"} {
				err := s.step(ctx, name)
				if err == nil {
					return s.step(ctx, "tell")
				}
				all = append(all, err)
			}
			return errors.Join(all...)
		}, "a tell", ""},
		{"the last of several providers", "a,b", func(ctx pawl.Context, s *store) error {
			if s.step(ctx, "a") == nil {
				return nil
			}
			return s.step(ctx, "b")
		}, "b", ""},
		{"a step that was begun before", "ship", func(ctx pawl.Context, s *store) error {
			ship := pawl.Async(ctx, "ship", s.do("ship"))
			if err := s.step(ctx, "charge"); err != nil {
				return err
			}
			if _, err := ship.Get(ctx); err != nil {
				return errors.Join(err, s.step(ctx, "refund"))
			}
			return s.step(ctx, "tell")
		}, "ship tell", ""},
		{"some items of a map", "item 1,item 3", func(ctx pawl.Context, s *store) error {
			_, err := pawl.Map(ctx, "items", 0, []int{0, 1, 2, 3}, func(ctx pawl.Context, n int) (none, error) {
				if err := s.step(ctx, fmt.Sprintf("item %d", n)); err != nil {
					return none{}, err
				}
				return none{}, s.step(ctx, "done")
			})
			if err != nil {
				return errors.Join(err, s.step(ctx, "clean up"))
			}
			return s.step(ctx, "tell")
		}, "items[1]/done items[1]/item 1 items[3]/done items[3]/item 3 tell", ""},
		{"branches", "left,right", func(ctx pawl.Context, s *store) error {
			branch := func(name string) *pawl.Future[none] {
				return pawl.Go(ctx, name, func(ctx pawl.Context) (none, error) {
					if err := s.step(ctx, "charge"); err != nil {
						return none{}, err
					}
					if err := s.step(ctx, name); err != nil {
						return none{}, errors.Join(err, s.step(ctx, "refund"))
					}
					return none{}, nil
				})
			}
			return second(pawl.All(ctx, branch("left"), branch("right"), branch("middle")))
		}, "left/left right/right", ""},
		{"a race", "fast", func(ctx pawl.Context, s *store) error {
			fast := pawl.Async(ctx, "fast", s.do("fast"))
			slow := pawl.Event[none]("never").WaitAsync(ctx, pawl.Within("1h"))
			first, err := pawl.Select(ctx, fast, slow)
			if err != nil || first != fast {
				return err
			}
			_, err = fast.Get(ctx)
			return err
		}, "fast", ""},
		{"a branch that goes on from another's failure", "a", func(ctx pawl.Context, s *store) error {
			a := pawl.Async(ctx, "a", s.do("a"))
			b := pawl.Go(ctx, "b", func(ctx pawl.Context) (none, error) {
				if _, err := a.Get(ctx); err != nil {
					return none{}, s.step(ctx, "instead")
				}
				return none{}, nil
			})
			if _, err := b.Get(ctx); err != nil {
				return err
			}
			err := s.step(ctx, "after")
			_, failed := a.Get(ctx)
			return errors.Join(err, failed)
		}, "a after", ""},
		{"an error of the body's own", "ship", func(ctx pawl.Context, s *store) error {
			if s.step(ctx, "ship") != nil {
				return errors.Join(s.step(ctx, "refund"), errors.New("not shipped"))
			}
			return nil
		}, "", `retry one of its failed steps instead: "ship"`},
		{"an error of the body's own, and no failed step", "", func(ctx pawl.Context, s *store) error {
			return errors.Join(s.step(ctx, "ship"), errors.New("no"))
		}, "", "restart it instead"},
		{"a success", "ship", func(ctx pawl.Context, s *store) error {
			_ = s.step(ctx, "ship")
			return nil
		}, "", `the run has succeeded: its body has dealt with all failures; retry one of its failed steps`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &store{broken: map[string]bool{}}
			mended, stays, _ := strings.Cut(c.broken, "|")
			for _, key := range strings.Split(mended+","+stays, ",") {
				s.broken[key] = true
			}
			w := pawl.Define("w", func(ctx pawl.Context, _ none) (none, error) { return none{}, c.body(ctx, s) })
			pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
				r, err := w.Start(t.Context(), e, "", none{})
				if err != nil {
					t.Fatal(err)
				}
				_, _ = r.Result(t.Context())
				s.mend(strings.Split(mended, ",")...)
				err = e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryRun})
				if c.refuse != "" {
					if !errors.Is(err, pawl.ErrConflict) || !strings.Contains(err.Error(), c.refuse) {
						t.Errorf("refused with %v; want %q", err, c.refuse)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				_, _ = r.Result(t.Context())
				if got := s.executed(); got != c.want {
					t.Errorf("executed %q; want %q; problem: %v", got, c.want, e.Problem(r.ID))
				}
			}, w)
		})
	}
}

// TestRetryStepGoesBack checks that an operator who names a step goes back to it, once the run has ended. Earlier the
// body's decisions after the failure may be under way.
func TestRetryStepGoesBack(t *testing.T) {
	s := &store{broken: map[string]bool{"ship": true}}
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (none, error) {
		if err := s.step(ctx, "ship"); err == nil {
			return none{}, s.step(ctx, "tell")
		}
		if err := s.step(ctx, "refund"); err != nil {
			return none{}, err
		}
		_, err := pawl.Event[none]("looked at").Wait(ctx)
		return none{}, errors.Join(err, errors.New("not shipped"))
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "", none{})
		if err != nil {
			t.Fatal(err)
		}
		e.Settle()
		retry := pawl.Operation{Op: client.OpRetryStep, Step: "ship"}
		err = e.Operate(t.Context(), r.ID, retry)
		if !errors.Is(err, pawl.ErrConflict) || !strings.Contains(err.Error(), `has gone on with step "refund"`) {
			t.Errorf("%v", err)
		}
		err = e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryRun})
		if !errors.Is(err, pawl.ErrConflict) {
			t.Errorf("of an open run: %v", err)
		}
		must(t, pawl.Event[none]("looked at").Send(t.Context(), e, r.ID, none{}))
		if _, err := r.Result(t.Context()); err == nil {
			t.Fatal("it succeeded")
		}
		for range 2 { // it fails a second time, and is retried again
			s.mend()
			must(t, e.Operate(t.Context(), r.ID, retry))
			_, _ = r.Result(t.Context()) // the wait takes the same event again
			if got := s.executed(); got != "refund ship" {
				t.Errorf("executed %q; problem: %v", got, e.Problem(r.ID))
			}
		}
		s.mend("ship")
		must(t, e.Operate(t.Context(), r.ID, retry))
		if _, err := r.Result(t.Context()); err != nil || s.executed() != "ship tell" {
			t.Errorf("executed %q, %v", s.executed(), err)
		}
	}, w)
}

// TestRetryOfACancelledRun checks that a retry resumes the work that the end of the run has stopped. Steps that had
// failed before, and were dealt with, stay failed.
func TestRetryOfACancelledRun(t *testing.T) {
	s := &store{broken: map[string]bool{"audit": true}}
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (none, error) {
		_ = s.step(ctx, "audit")
		if err := pawl.Sleep(ctx, "nap", "1h"); err != nil {
			return none{}, err
		}
		return none{}, s.step(ctx, "ship")
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "", none{})
		e.Settle()
		must(t, r.Cancel(t.Context(), "a mistake"))
		_, _ = r.Result(t.Context())
		s.mend("audit")
		must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryRun}))
		if _, err := r.Result(t.Context()); err != nil || s.executed() != "ship" {
			t.Errorf("executed %q, %v; problem: %v", s.executed(), err, e.Problem(r.ID))
		}
	}, w)
}

// TestRetryOfAChild checks that the failure of a child run is the failure of its step, which starts another child.
// The parent's work beside it stays.
func TestRetryOfAChild(t *testing.T) {
	s := &store{broken: map[string]bool{"pack": true}}
	child := pawl.Define("child", func(ctx pawl.Context, _ none) (none, error) { return none{}, s.step(ctx, "pack") })
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (none, error) {
		if err := s.step(ctx, "charge"); err != nil {
			return none{}, err
		}
		if _, err := pawl.Child(ctx, "packing", child, none{}); err != nil {
			return none{}, errors.Join(err, s.step(ctx, "refund"))
		}
		return none{}, s.step(ctx, "ship")
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "", none{})
		_, _ = r.Result(t.Context())
		s.mend("pack")
		must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryRun}))
		if _, err := r.Result(t.Context()); err != nil || s.executed() != "pack ship" {
			t.Errorf("executed %q, %v; problem: %v", s.executed(), err, e.Problem(r.ID))
		}
	}, w, child)
}

// TestRetryWithScopes checks that a body that cancels its scopes when it returns, as it does by defer, begins anew in
// them. Work done in a scope before the failure stays.
func TestRetryWithScopes(t *testing.T) {
	s := &store{broken: map[string]bool{"ship": true}}
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (none, error) {
		inner, cancel := pawl.WithCancel(ctx)
		defer cancel()
		beside := pawl.Event[none]("packed").WaitAsync(inner, pawl.Within("1h"))
		if err := s.step(inner, "charge"); err != nil {
			return none{}, err
		}
		if err := s.step(inner, "ship"); err != nil {
			return none{}, err
		}
		_, err := beside.Get(ctx)
		return none{}, errors.Join(err, s.step(inner, "tell"))
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "", none{})
		_, _ = r.Result(t.Context())
		s.mend("ship")
		must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryRun}))
		must(t, pawl.Event[none]("packed").Send(t.Context(), e, r.ID, none{}))
		if _, err := r.Result(t.Context()); err != nil || s.executed() != "ship tell" {
			t.Errorf("executed %q, %v; problem: %v", s.executed(), err, e.Problem(r.ID))
		}
	}, w)
}

// TestRetryAfterACancelledScope checks a step that did not begin, because the scope was cancelled, in a branch that
// went on without waiting for it. A retry that takes back the cancel also drops the branch's later decisions.
func TestRetryAfterACancelledScope(t *testing.T) {
	s := &store{broken: map[string]bool{"ship": true}}
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (none, error) {
		inner, cancel := pawl.WithCancel(ctx)
		beside := pawl.Go(inner, "beside", func(ctx pawl.Context) (none, error) {
			if err := pawl.Sleep(pawl.Detached(ctx), "rest", "1m"); err != nil {
				return none{}, err
			}
			pack := pawl.Async(ctx, "pack", s.do("pack"))
			err := s.step(pawl.Detached(ctx), "tell")
			_, packed := pack.Get(ctx)
			return none{}, errors.Join(err, packed)
		})
		err := s.step(ctx, "ship")
		if err != nil {
			cancel()
		}
		_, _ = beside.Get(ctx)
		return none{}, err
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "", none{})
		_, _ = r.Result(t.Context())
		s.mend("ship")
		must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryRun}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		const want = "beside/pack beside/tell ship"
		if _, err := r.Result(ctx); err != nil || s.executed() != want {
			t.Errorf("executed %q, %v; problem: %v", s.executed(), err, e.Problem(r.ID))
		}
	}, w)
}

// TestRetryUndoesLabelsAndEvents checks that a label that the body set when it had seen the failure is gone after the
// retry, and the event that it took then is there for the wait that comes instead.
func TestRetryUndoesLabelsAndEvents(t *testing.T) {
	s := &store{broken: map[string]bool{"ship": true}}
	advice := pawl.Event[string]("advice")
	w := pawl.Define("order", func(ctx pawl.Context, _ none) (string, error) {
		if err := s.step(ctx, "ship"); err != nil {
			err = errors.Join(err, pawl.SetLabel(ctx, "state", "stuck"))
			_, waited := advice.Wait(ctx)
			return "", errors.Join(err, waited)
		}
		return advice.Wait(ctx)
	}, pawl.Defaults(pawl.Retry("none")))
	e := open(t, memory.New(), w)
	run := started(t, e, w, "a", none{}, pawl.Labels(map[string]string{"state": "new", "customer": "42"}))
	must(t, advice.Send(t.Context(), e, "a", "take the train"))
	if _, err := run.Result(t.Context()); err == nil {
		t.Fatal("it succeeded")
	}
	s.mend("ship")
	must(t, e.Operate(t.Context(), "a", pawl.Operation{Op: client.OpRetryRun}))
	if got, err := run.Result(t.Context()); err != nil || got != "take the train" {
		t.Errorf("%q, %v", got, err)
	}
	d, err := e.DescribeRun(t.Context(), "a")
	if want := map[string]string{"state": "new", "customer": "42"}; err != nil || !maps.Equal(d.Labels, want) {
		t.Errorf("the labels are %v, want %v; %v", d.Labels, want, err)
	}
	found, err := e.ListRuns(t.Context(), client.Query{Labels: map[string]string{"state": "new"}})
	if err != nil || len(found) != 1 {
		t.Errorf("found %d runs by the label, %v", len(found), err)
	}
}
