package facetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/pawltest"
)

// deposit changes the sum of an account.
const deposit pawl.Update[int, int] = "deposit"

type overdrawn struct{ By int }

func (o *overdrawn) Error() string { return fmt.Sprintf("overdrawn by %d", o.By) }

func init() { pawl.RegisterError[*overdrawn]("overdrawn") }

// account sums up changes until the sum is 100. It refuses what would make it negative, and fails for 13.
func account(charged func(ctx context.Context) error) *pawl.Workflow[int, int] {
	return pawl.Define("account", func(ctx pawl.Context, sum int) (int, error) {
		for sum < 100 {
			err := deposit.Handle(ctx, func(by int) error {
				if sum+by < 0 {
					return &overdrawn{-sum - by}
				}
				return nil
			}, func(ctx pawl.Context, by int) (int, error) {
				if by == 13 {
					return 0, errors.New("bad luck")
				}
				if err := pawl.Do(ctx, "charge", charged); err != nil {
					return 0, err
				}
				sum += by
				return sum, nil
			})
			if err != nil {
				return sum, err
			}
		}
		return sum, nil
	})
}

func nothingToDo(context.Context) error { return nil }

// sent sends a change and expects an answer.
func sent(t *testing.T, c pawl.Client, id string, by, want int, opts ...pawl.SendOption) {
	t.Helper()
	if got, err := deposit.Send(t.Context(), c, id, by, opts...); err != nil || got != want {
		t.Errorf("a change by %d is answered with %d, %v, want %d", by, got, err, want)
	}
}

func TestUpdate(t *testing.T) {
	w := account(nothingToDo)
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "account-1", 10)
		if err != nil {
			t.Fatal(err)
		}
		sent(t, e, r.ID, 5, 15)
		_, err = deposit.Send(t.Context(), e, "account-1", -16)
		var refused *pawl.UpdateError
		var own *overdrawn
		if !errors.As(err, &refused) || !refused.Refused || !errors.As(err, &own) || own.By != 1 {
			t.Errorf("a change that is not allowed: %v", err)
		}
		_, err = deposit.Send(t.Context(), e, "account-1", 13)
		if !errors.As(err, &refused) || refused.Refused || !strings.Contains(err.Error(), "bad luck") {
			t.Errorf("a change that fails: %v", err)
		}
		_, err = pawl.Update[string, int]("deposit").Send(t.Context(), e, "account-1", "no number")
		if !errors.As(err, &refused) || !refused.Refused {
			t.Errorf("a change of another type: %v", err)
		}
		e.Skip(time.Hour) // the body is unwound
		sent(t, e, r.ID, 5, 20, pawl.SendID("a"))
		e.Restart()
		sent(t, e, r.ID, 1, 21)
		sent(t, e, r.ID, 5, 20, pawl.SendID("a"))
		e.Crash()
		sent(t, e, r.ID, 5, 20, pawl.SendID("a"))
		sent(t, e, r.ID, 79, 100, pawl.SendID("last"))
		if got, err := r.Result(t.Context()); err != nil || got != 100 {
			t.Errorf("the account has %d, %v", got, err)
		}
		sent(t, e, r.ID, 79, 100, pawl.SendID("last")) // known, also after the end
		if _, err := deposit.Send(t.Context(), e, r.ID, 1); !errors.Is(err, pawl.ErrRunClosed) {
			t.Errorf("a change after the end: %v", err)
		}
		if n := len(recordsOf[core.UpdateAccepted](t, e, r.ID)); n != 5 {
			t.Errorf("%d updates were accepted, want 5", n)
		}
		if n := len(recordsOf[core.UpdateAnswered](t, e, r.ID)); n != 5 {
			t.Errorf("%d updates were answered, want 5", n)
		}
	}, w)
}

// TestUpdateBeforeItsBody sends an update before the body comes to it, and gives up.
func TestUpdateBeforeItsBody(t *testing.T) {
	w := pawl.Define("slow", func(ctx pawl.Context, _ none) (int, error) {
		if err := pawl.Sleep(ctx, "first", "2h"); err != nil {
			return 0, err
		}
		sum := 0
		err := deposit.Handle(ctx, nil, func(_ pawl.Context, by int) (int, error) {
			sum += by
			return sum, nil
		}, pawl.Within("3h"))
		return sum, err
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "slow", none{}, pawl.StartAt(time.Now().Add(time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()
		_, err = deposit.Send(short, e, r.ID, 1)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has not accepted") {
			t.Errorf("a caller gave up: %v", err)
		}
		sent(t, e, r.ID, 7, 7)
		if got, err := r.Result(t.Context()); err != nil || got != 7 {
			t.Errorf("got %d, %v", got, err)
		}
		again := started(t, e, w, "slow", none{})
		if _, err := again.Result(t.Context()); !errors.Is(err, pawl.ErrDeadlineExceeded) {
			t.Errorf("no update came: %v", err)
		}
	}, w)
}

// TestUpdateSurvivesCrash crashes the engine while an accepted update is being handled. The caller asks again with the
// id and gets the answer; what the handler had done is not done again.
func TestUpdateSurvivesCrash(t *testing.T) {
	for _, ended := range []bool{false, true} {
		charges := 0
		gate := make(chan struct{})
		w := account(func(ctx context.Context) error {
			charges++
			if charges == 1 && !ended {
				<-gate
			}
			return nil
		})
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			gate = make(chan struct{})
			r := started(t, e, w, "", 10)
			lost := make(chan error, 1)
			go func() {
				_, err := deposit.Send(t.Context(), e.Engine, r.ID, 5, pawl.SendID("a"))
				lost <- err
			}()
			e.Settle()
			e.Crash()
			close(gate)
			if err := <-lost; (err == nil) != ended || err != nil && !errors.Is(err, pawl.ErrClosed) {
				t.Errorf("the caller of the crashed engine got %v", err)
			}
			sent(t, e, r.ID, 5, 15, pawl.SendID("a"))
			sent(t, e, r.ID, 1, 16)
			if n := len(recordsOf[core.UpdateAnswered](t, e, r.ID)); n != 2 {
				t.Errorf("%d answers, want 2", n)
			}
		}, w)
	}
}

// TestUpdatesOfChain sends updates to runs that continue as new: an answer stays known, and an update that no run has
// accepted goes on to the next one.
func TestUpdatesOfChain(t *testing.T) {
	w := pawl.Define("chain", func(ctx pawl.Context, sum int) (int, error) {
		if err := pawl.Sleep(ctx, "first", "1h"); err != nil {
			return 0, err
		}
		if sum >= 3 {
			return sum, nil
		}
		err := deposit.Handle(ctx, nil, func(_ pawl.Context, by int) (int, error) {
			sum += by
			return sum, nil
		})
		if err != nil {
			return 0, err
		}
		return 0, pawl.ContinueAsNew(ctx, sum)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "chain", 0)
		sent(t, e, "chain", 1, 1, pawl.SendID("a"))
		var both sync.WaitGroup
		both.Go(func() { sent(t, e, r.ID, 1, 2, pawl.SendID("b")) })
		both.Go(func() { sent(t, e, "chain", 1, 2, pawl.SendID("b")) })
		both.Wait()
		e.Restart()
		sent(t, e, "chain", 1, 1, pawl.SendID("a"))
		sent(t, e, "chain", 1, 3, pawl.SendID("c"))
		sent(t, e, r.ID, 1, 2, pawl.SendID("b"))
		if _, err := deposit.Send(t.Context(), e, "chain", 1); !errors.Is(err, pawl.ErrRunClosed) {
			t.Errorf("an update that no run accepts: %v", err)
		}
		if got, err := r.Result(t.Context()); err != nil || got != 3 {
			t.Errorf("got %d, %v", got, err)
		}
	}, w)
}

// TestUpdateOfEndingRun ends runs while an update waits to be accepted or answered.
func TestUpdateOfEndingRun(t *testing.T) {
	const slow pawl.Update[none, none] = "slow"
	w := pawl.Define("ends", func(ctx pawl.Context, accepts bool) (none, error) {
		if !accepts {
			return none{}, pawl.Sleep(ctx, "s", "1h")
		}
		return none{}, slow.Handle(ctx, nil, func(ctx pawl.Context, _ none) (none, error) {
			return none{}, pawl.Sleep(ctx, "s", "1h")
		})
	})
	for _, accepts := range []bool{false, true} {
		for _, op := range []client.Op{client.OpCancelGracefully, client.OpTerminate} {
			pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
				r, err := w.Start(t.Context(), e, "", accepts)
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				time.AfterFunc(time.Minute, func() {
					ended <- e.Operate(t.Context(), r.ID, pawl.Operation{Op: op})
				})
				_, err = slow.Send(t.Context(), e, r.ID, none{}, pawl.SendID("a"))
				if err := <-ended; err != nil {
					t.Error(err)
				}
				_, again := slow.Send(t.Context(), e, r.ID, none{}, pawl.SendID("a"))
				var answer *pawl.UpdateError
				switch {
				case !accepts && (!errors.Is(err, pawl.ErrRunClosed) || !errors.Is(again, pawl.ErrRunClosed)):
					t.Errorf("%s before it is accepted: %v, then %v", op, err, again)
				case accepts && (!errors.As(err, &answer) || answer.Refused || !errors.Is(err, pawl.ErrCancelled)):
					t.Errorf("%s before it is answered: %v", op, err)
				case accepts && (again == nil || again.Error() != err.Error()):
					t.Errorf("%s: the answer was %v, and is %v", op, err, again)
				}
			}, w)
		}
	}
}

// TestUpdateOfPausedRun sends an update to a run that is paused, and to one that is paused while the update waits.
func TestUpdateOfPausedRun(t *testing.T) {
	w := account(nothingToDo)
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "", 10)
		e.Settle()
		must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpPause}))
		if _, err := deposit.Send(t.Context(), e, r.ID, 1); !errors.Is(err, pawl.ErrConflict) {
			t.Errorf("an update of a paused run: %v", err)
		}
		must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpResume}))
		sent(t, e, r.ID, 1, 11)
	}, w)
}

// TestUpdateMisused makes calls that make no sense.
func TestUpdateMisused(t *testing.T) {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := pawl.Update[int, int]("").Send(t.Context(), e, "r", 1); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("without a name: %v", err)
		}
		if _, err := deposit.Send(t.Context(), e, "nobody", 1); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("an unknown run: %v", err)
		}
		for name, body := range map[string]func(ctx pawl.Context) error{
			"no handler": func(ctx pawl.Context) error { return deposit.Handle(ctx, nil, nil) },
			"a step while it validates": func(ctx pawl.Context) error {
				return deposit.Handle(ctx, func(int) error { return pawl.Sleep(ctx, "s", "1s") },
					func(pawl.Context, int) (int, error) { return 0, nil })
			},
		} {
			w := pawl.Define(strings.ReplaceAll(name, " ", "-"), func(ctx pawl.Context, _ none) (none, error) {
				return none{}, body(ctx)
			})
			r := started(t, e, w, "", none{})
			if _, err := deposit.Send(t.Context(), e, r.ID, 1); err == nil {
				t.Errorf("%s: the update has an answer", name)
			}
		}
	})
}

// TestUpdatePanics refuses an update whose validator panics, and fails a run whose handler does.
func TestUpdatePanics(t *testing.T) {
	w := pawl.Define("panics", func(ctx pawl.Context, _ none) (none, error) {
		return none{}, deposit.Handle(ctx, func(by int) error {
			if by == 0 {
				panic("no change")
			}
			return nil
		}, func(pawl.Context, int) (int, error) { panic("no way") })
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "", none{})
		if err != nil {
			t.Fatal(err)
		}
		var answer *pawl.UpdateError
		var panicked *pawl.PanicError
		_, err = deposit.Send(t.Context(), e, r.ID, 0)
		if !errors.As(err, &answer) || !answer.Refused || !errors.As(err, &panicked) {
			t.Errorf("the validator panics: %v", err)
		}
		if _, err = deposit.Send(t.Context(), e, r.ID, 1); !errors.As(err, &answer) || answer.Refused {
			t.Errorf("the handler panics: %v", err)
		}
		if _, err := r.Result(t.Context()); !errors.As(err, &panicked) {
			t.Errorf("the run ends with %v", err)
		}
	}, w)
}

// TestUpdatesOfBranches checks that two branches can take updates of one name beside a third that takes others.
func TestUpdatesOfBranches(t *testing.T) {
	const stop pawl.Update[none, none] = "stop"
	w := pawl.Define("branches", func(ctx pawl.Context, _ none) (string, error) {
		take := func(ctx pawl.Context) (int, error) {
			taken := 0
			return taken, deposit.Handle(ctx, nil, func(ctx pawl.Context, by int) (int, error) {
				taken = by
				return by, pawl.Sleep(ctx, "s", "1m")
			})
		}
		ended := pawl.Go(ctx, "stop", func(ctx pawl.Context) (none, error) {
			return none{}, stop.Handle(ctx, nil, func(pawl.Context, none) (none, error) { return none{}, nil })
		})
		a, b := pawl.Go(ctx, "a", take), pawl.Go(ctx, "b", take)
		if err := errors.Join(second(pawl.All(ctx, a, b)), second(ended.Get(ctx))); err != nil {
			return "", err
		}
		return "done", nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "", none{})
		began := time.Now()
		var both sync.WaitGroup
		for by := 1; by <= 2; by++ {
			both.Go(func() { sent(t, e, r.ID, by, by) })
		}
		both.Wait()
		if took := time.Since(began); took > 90*time.Second {
			t.Errorf("two updates took %s, one after the other", took)
		}
		e.Crash()
		if _, err := stop.Send(t.Context(), e, r.ID, none{}); err != nil {
			t.Error(err)
		}
		if got, err := r.Result(t.Context()); err != nil || got != "done" {
			t.Errorf("got %q, %v", got, err)
		}
	}, w)
}

// TestUpdatesReadNoHistory checks that an update costs the same however many came before: the run's history is not read
// again for each, also while the view keeps up with the journal. After a restart it is read once.
func TestUpdatesReadNoHistory(t *testing.T) {
	const add pawl.Update[int, int] = "add"
	w := pawl.Define("sum", func(ctx pawl.Context, n int) (int, error) {
		sum := 0
		for range n {
			err := add.Handle(ctx, nil, func(_ pawl.Context, by int) (int, error) { sum += by; return sum, nil })
			if err != nil {
				return 0, err
			}
		}
		return sum, nil
	})
	bubble(t, func(t *testing.T) {
		j := memory.New()
		var reads atomic.Int32
		j.Fault = func(op memory.Op, _ *journal.Batch) error {
			if op == memory.OpHistory {
				reads.Add(1)
			}
			return nil
		}
		e := open(t, j, w)
		const each = 250
		r := started(t, e, w, "sum", 2*each)
		for half := range 2 {
			before := reads.Load()
			for i := range each {
				got, err := add.Send(t.Context(), e, r.ID, 1, pawl.SendID(fmt.Sprint(half, "-", i)))
				if want := half*each + i + 1; err != nil || got != want {
					t.Fatalf("update %d: %d, %v", want, got, err)
				}
				<-time.After(100 * time.Millisecond)
			}
			if n := reads.Load() - before; n > 10 {
				t.Errorf("half %d: the history was read %d times for %d updates", half, n, each)
			}
			if half == 1 {
				break
			}
			must(t, e.Close())
			e = open(t, j, w)
			got, err := add.Send(t.Context(), e, r.ID, 1, pawl.SendID(fmt.Sprint(0, "-", each-1)))
			if err != nil || got != each {
				t.Errorf("an update that is repeated after a restart: %d, %v", got, err)
			}
		}
		if got, err := pawl.RunOf[int](e, r.ID).Result(t.Context()); err != nil || got != 2*each {
			t.Errorf("%d, %v", got, err)
		}
	})
}
