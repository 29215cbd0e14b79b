package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/nightly"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const hello pawl.Event[string] = "hello"

// order returns a workflow and its child with a bit of everything that a body does: local steps that fail, branches,
// sleeps, events, children and hooks.
func order(exits *atomic.Int64) (whole, part *pawl.Workflow[int, int]) {
	part = pawl.Define("part", func(ctx pawl.Context, n int) (int, error) {
		return pawl.Step(ctx, "double", func(context.Context) (int, error) { return 2 * n, nil })
	})
	whole = pawl.Define("order", func(ctx pawl.Context, n int) (int, error) {
		squares, err := pawl.Map(ctx, "square", 2, []int{1, 2, 3}, func(ctx pawl.Context, i int) (int, error) {
			return pawl.Step(ctx, "do", func(ctx context.Context) (int, error) {
				if pawl.Attempt(ctx).Number < i {
					return 0, errors.New("not yet")
				}
				return i * i, nil
			}, pawl.Retry("fixed(9, 200ms)"))
		})
		if err != nil {
			return 0, err
		}
		if err := pawl.Sleep(ctx, "rest", "3s"); err != nil {
			return 0, err
		}
		word, err := hello.Wait(ctx)
		if err != nil {
			return 0, err
		}
		twice, err := pawl.Child(ctx, "twice", part, n)
		return squares[0] + squares[1] + squares[2] + len(word) + twice, err
	}, pawl.OnExit(func(context.Context, int, error) error {
		exits.Add(1)
		return nil
	}))
	return whole, part
}

// TestServed checks that runs come to their ends whatever is lost, comes twice or comes late between the server and two
// processes, one of which dies; and the server is started again.
func TestServed(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var exits atomic.Int64
				w, part := order(&exits)
				b := newBed(t)
				chance := func(n uint64) *rand.Rand {
					if seed == 0 {
						return nil
					}
					return rand.New(rand.NewPCG(seed, n))
				}
				one, two := b.serve(chance(1), w, part), b.serve(chance(2), w, part)
				<-time.After(time.Second)
				const count = 8
				var all []pawl.Run[int]
				for i := range count {
					r, err := w.Start(t.Context(), b, "", i)
					ok(t, err)
					all = append(all, r)
				}
				<-time.After(time.Second)
				one.cut.Store(true)
				<-time.After(time.Second)
				b.close()
				<-time.After(time.Second)
				b.open()
				for _, r := range all {
					if err := hello.Send(t.Context(), b, r.ID, "hello"); err != nil {
						t.Error(err)
					}
				}
				for i, r := range all {
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					got, err := pawl.RunOf[int](b, r.ID).Result(ctx)
					cancel()
					if err != nil || got != 1+4+9+5+2*i {
						d, _ := b.svc.Run(t.Context(), r.ID)
						t.Errorf("run %d: %d, %v, %q", i, got, err, d.Problem)
					}
				}
				if n := exits.Load(); n < count {
					t.Errorf("the hook was called %d times", n)
				}
				one.cut.Store(false)
				one.end()
				two.end()
				b.close()
			})
		})
	}
}

// TestNobodyServes checks that a run whose workflow nobody serves waits and says so. It goes on as soon as somebody
// does, and two processes share the runs.
func TestNobodyServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := make(chan string, 100)
		made := func(name string) pawl.Definition {
			return pawl.Define("w", func(ctx pawl.Context, _ any) (string, error) {
				return name, pawl.Do(ctx, "work", func(context.Context) error {
					names <- name
					return nil
				})
			}, pawl.RunTimeout("2h"))
		}
		ref := pawl.Ref[any, string]("w")
		b := newBed(t)
		if _, err := ref.Start(t.Context(), b, "", nil); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("a workflow that nobody has served: %v", err)
		}
		first := b.serve(nil, made("first"))
		<-time.After(time.Second)
		first.end()
		b.close()
		b.open() // the description of the workflow is stored
		r, err := ref.Start(t.Context(), b, "", nil)
		ok(t, err)
		<-time.After(time.Minute)
		run, err := b.svc.Run(t.Context(), r.ID)
		ok(t, err)
		if !strings.Contains(run.Problem, `no process serves workflow "w"`) {
			t.Errorf("the problem of the run is %q", run.Problem)
		}
		if d, err := b.DescribeRun(t.Context(), r.ID); err != nil || d.Phase != client.PhaseRunning ||
			d.Deadline.Sub(d.CreatedAt) != 2*time.Hour {
			t.Errorf("%+v, %v", d, err)
		}
		one, two := b.serve(nil, made("one")), b.serve(nil, made("two"))
		all := []pawl.Run[string]{r}
		<-time.After(time.Second)
		for range 10 {
			r, err := ref.Start(t.Context(), b, "", nil)
			ok(t, err)
			all = append(all, r)
		}
		for _, r := range all {
			_, err := pawl.RunOf[string](b, r.ID).Result(t.Context())
			ok(t, err)
		}
		count := map[string]int{}
		for range all {
			count[<-names]++
		}
		if count["one"] < 3 || count["two"] < 3 || len(names) > 0 {
			t.Errorf("they have worked: %v, and %d more", count, len(names))
		}
		if run, err := b.svc.Run(t.Context(), r.ID); err != nil || run.Problem != "" {
			t.Errorf("the problem of a run that has ended: %q, %v", run.Problem, err)
		}
		one.end()
		two.end()
		b.close()
	})
}

// TestLeave checks that a process that stops lets its steps end, and others go on with its runs at once.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := make(chan struct{}, 10)
		w := pawl.Define("w", func(ctx pawl.Context, _ any) (int, error) {
			n, err := pawl.Step(ctx, "slow", func(ctx context.Context) (int, error) {
				began <- struct{}{}
				select {
				case <-time.After(20 * time.Second):
					return pawl.Attempt(ctx).Number, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			return n, errors.Join(err, pawl.Do(ctx, "next", func(context.Context) error { return nil }))
		})
		b := newBed(t)
		one := b.serve(nil, w)
		<-time.After(time.Second)
		from := time.Now()
		r, err := w.Start(t.Context(), b, "", nil)
		ok(t, err)
		<-began
		two := b.serve(nil, w)
		one.stop()
		n, err := r.Result(t.Context())
		if took := time.Since(from); n != 1 || err != nil || took > 21*time.Second {
			t.Errorf("attempt %d, %v, after %s", n, err, took)
		}
		one.end()
		two.end()
		b.close()
	})
}

// TestAnotherNodeGoesOn checks that the call of the body that a new node wants takes the place of the old one: a node
// stops while a process has a lease of it, and another node goes on with its run before the process has noticed.
func TestAnotherNodeGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := make(chan struct{}, 10)
		var calls atomic.Int64
		w := pawl.Define("w", func(ctx pawl.Context, _ any) (int64, error) {
			if err := pawl.Do(ctx, "first", func(context.Context) error { return nil }); err != nil {
				return 0, err
			}
			return pawl.Step(ctx, "slow", func(ctx context.Context) (int64, error) {
				n := calls.Add(1)
				began <- struct{}{}
				if n == 1 {
					<-ctx.Done()
				}
				return n, ctx.Err()
			})
		})
		before := newBed(t)
		after := &bed{T: t, journal: before.journal} // not started yet
		nodes := newNodeList()
		nodes.put("after", &line{bed: after})
		nodes.put("before", &line{bed: before})
		p := after.serveAt(nodes, nodes.line("after"), w)
		<-time.After(time.Second)
		r, err := w.Start(t.Context(), before, "", nil)
		ok(t, err)
		<-began
		before.close()
		after.open()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if n, err := pawl.RunOf[int64](after, r.ID).Result(ctx); n != 2 || err != nil {
			t.Errorf("the result is that of call %d, %v", n, err)
		}
		p.end()
		after.close()
	})
}

// TestRunsGoFromNodeToNode checks that no run is forgotten when many runs go from node to node again and again while a
// process serves them: a node dies, and the process may hear of that before or after the next one has the runs.
func TestRunsGoFromNodeToNode(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ any) (int, error) {
		for i := range 30 {
			if err := pawl.Do(ctx, fmt.Sprint("step ", i), func(context.Context) error { return nil }); err != nil {
				return 0, err
			}
			if err := pawl.Sleep(ctx, fmt.Sprint("sleep ", i), 300*time.Millisecond); err != nil {
				return 0, err
			}
		}
		return 30, nil
	})
	seeds := uint64(nightly.Few(1, 10))
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			store := memory.New()
			list := newNodeList()
			start := func(name string) *bed {
				b := &bed{T: t, journal: store}
				b.start()
				list.put(name, &line{bed: b})
				return b
			}
			on := start("0")
			on.take()
			p := on.serveAt(list, list.line("0"), w)
			<-time.After(time.Second)
			var all []pawl.Run[int]
			for range 50 {
				r, err := w.Start(t.Context(), on, "", nil)
				ok(t, err)
				all = append(all, r)
			}
			for i := range 6 {
				name := fmt.Sprint(i)
				next := start(fmt.Sprint(i + 1))
				<-time.After(time.Second + time.Duration(rnd.IntN(600))*time.Millisecond)
				list.line(name).cut.Store(true)
				on.close()
				if heard := rnd.IntN(3); heard == 0 {
					list.remove(name)
				} else {
					time.AfterFunc(time.Duration(heard-1)*time.Millisecond, func() { list.remove(name) })
				}
				next.take()
				on = next
			}
			for i, r := range all {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				if n, err := pawl.RunOf[int](on, r.ID).Result(ctx); n != 30 || err != nil {
					t.Errorf("seed %d: run %d: %d, %v", seed, i, n, err)
				}
				cancel()
			}
			p.end()
			on.close()
		})
	}
}

// TestStuckBodyInACluster checks that a body that could not go on is called again by the node that has its run, where a
// process serves several nodes.
func TestStuckBodyInACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		w := pawl.Define("w", func(pawl.Context, any) (int, error) {
			n := calls.Add(1)
			if n == 1 {
				<-time.After(time.Minute) //pawlvet:ignore the mistake that is tested: longer than a body may take
			}
			return int(n), nil
		})
		a, other := newBed(t), newBed(t)
		list := newNodeList()
		list.put("a", &line{bed: a})
		list.put("other", &line{bed: other})
		p := a.serveAt(list, list.line("a"), w)
		<-time.After(time.Second)
		r, err := w.Start(t.Context(), a, "", nil)
		ok(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if n, err := pawl.RunOf[int](a, r.ID).Result(ctx); n != 2 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		<-time.After(time.Minute) // the first call returns
		p.end()
		a.close()
		other.close()
	})
}

// TestChangedCode checks that a process with other code does not go on with a run, and says why. One with the run's
// code does.
func TestChangedCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := func(step string) pawl.Definition {
			return pawl.Define("w", func(ctx pawl.Context, _ any) (string, error) {
				if err := pawl.Do(ctx, step, func(context.Context) error { return nil }); err != nil {
					return "", err
				}
				return hello.Wait(ctx)
			})
		}
		b := newBed(t)
		p := b.serve(nil, made("charge"))
		<-time.After(time.Second)
		r, err := pawl.Ref[any, string]("w").Start(t.Context(), b, "", nil)
		ok(t, err)
		<-time.After(time.Second)
		p.end()
		p = b.serve(nil, made("pay"))
		ok(t, hello.Send(t.Context(), b, r.ID, "hi"))
		<-time.After(time.Second)
		run, err := b.svc.Run(t.Context(), r.ID)
		ok(t, err)
		if !strings.Contains(run.Problem, "charge") || !strings.Contains(run.Problem, "pay") {
			t.Errorf("the problem of the run is %q", run.Problem)
		}
		p.end()
		p = b.serve(nil, made("charge"))
		if got, err := r.Result(t.Context()); got != "hi" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		p.end()
		b.close()
	})
}

// TestUpdates checks that updates reach the bodies, which refuse or answer them. One that is sent while nobody serves
// waits.
func TestUpdates(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			const add pawl.Update[int, int] = "add"
			w := pawl.Define("w", func(ctx pawl.Context, sum int) (int, error) {
				for range 3 {
					err := add.Handle(ctx, func(n int) error {
						if n < 0 {
							return errors.New("negative")
						}
						return nil
					}, func(ctx pawl.Context, n int) (int, error) {
						more, err := pawl.Step(ctx, "count", func(context.Context) (int, error) { return n, nil })
						sum += more
						return sum, err
					})
					if err != nil {
						return 0, err
					}
				}
				return sum, nil
			})
			b := newBed(t)
			bad := func() *rand.Rand {
				if seed == 0 {
					return nil
				}
				return rand.New(rand.NewPCG(seed, 7))
			}
			p := b.serve(bad(), w)
			<-time.After(10 * time.Second)
			r, err := w.Start(t.Context(), b, "", 10)
			ok(t, err)
			if n, err := add.Send(t.Context(), b, r.ID, 5); n != 15 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			var refused *pawl.UpdateError
			if _, err := add.Send(t.Context(), b, r.ID, -1); !errors.As(err, &refused) || !refused.Refused {
				t.Errorf("a negative one: %v", err)
			}
			p.end()
			short, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err = add.Send(short, b, r.ID, 1)
			cancel()
			if err == nil || !strings.Contains(err.Error(), "no process serves") {
				t.Errorf("while nobody serves: %v", err)
			}
			sent := make(chan int)
			go func() {
				n, err := add.Send(t.Context(), b, r.ID, 6)
				if err != nil {
					t.Error(err)
				}
				sent <- n
			}()
			<-time.After(time.Second)
			p = b.serve(bad(), w)
			if n := <-sent; n != 21 {
				t.Errorf("the sum is %d", n)
			}
			if n, err := add.Send(t.Context(), b, r.ID, 7); n != 28 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			if n, err := r.Result(t.Context()); n != 28 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			if _, err := add.Send(t.Context(), b, r.ID, 7); !errors.Is(err, pawl.ErrRunClosed) {
				t.Errorf("after the end: %v", err)
			}
			p.end()
			b.close()
		})
	}
}
