package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

func nodeName(i int) string { return string(rune('a' + i)) }

// twoNodes returns two nodes, of which the first one has the runs, and a process that serves a workflow for both.
func twoNodes(t *testing.T, w pawl.Definition) (a, b *bed, list *nodeList, p *process) {
	t.Helper()
	store, list := memory.New(), newNodeList()
	a, b = &bed{T: t, journal: store}, &bed{T: t, journal: store}
	a.open()
	b.start()
	list.put(nodeName(0), &line{bed: a})
	list.put(nodeName(1), &line{bed: b})
	p = a.serveAt(list, list.line(nodeName(0)), w)
	<-time.After(time.Second)
	return a, b, list, p
}

// TestAttemptOfANodeThatHasGone checks that no decision rests on the end of an attempt of which the present node knows
// nothing: a node dies while an attempt is at work in a process, another node makes the attempt again, and then the
// first one ends.
func TestAttemptOfANodeThatHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts, seconds atomic.Int64
		release := make(chan struct{})
		w := pawl.Define("w", func(ctx pawl.Context, _ any) (string, error) {
			out, err := pawl.Step(ctx, "first", func(ctx context.Context) (string, error) {
				out, over := "one", (<-chan struct{})(release)
				if attempts.Add(1) == 2 {
					long, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
					defer cancel()
					out, over = "two", long.Done()
				}
				select {
				case <-over:
					return out, nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			})
			if err != nil {
				return "", err
			}
			return pawl.Step(ctx, "second", func(context.Context) (string, error) {
				seconds.Add(1)
				return "the second step saw " + out, nil
			})
		})
		a, b, list, p := twoNodes(t, w)
		r, err := w.Start(t.Context(), a, "", nil)
		ok(t, err)
		<-time.After(time.Second)
		list.line("a").cut.Store(true)
		a.close()
		b.take()
		<-time.After(2 * time.Second)
		close(release)
		<-time.After(2 * time.Second)
		if n, m := attempts.Load(), seconds.Load(); n != 2 || m != 0 {
			t.Errorf("the first step was begun %d times, and while it is at work the second one %d times", n, m)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		got, err := pawl.RunOf[string](b, r.ID).Result(ctx)
		if err != nil || got != "the second step saw two" || seconds.Load() != 1 {
			t.Errorf("%q, %v; the second step was begun %d times", got, err, seconds.Load())
		}
		p.end()
		b.close()
	})
}

// TestAttemptEndsWhileAnotherNodeIsHeard checks that the end of an attempt goes to the node that made it, although
// messages of the node that had the run before arrive while the attempt is at work.
func TestAttemptEndsWhileAnotherNodeIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int64
		release := make(chan struct{})
		w := pawl.Define("w", func(ctx pawl.Context, _ any) (int64, error) {
			return pawl.Step(ctx, "first", func(ctx context.Context) (int64, error) {
				n := attempts.Add(1)
				select {
				case <-release:
					return n, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
		})
		a, b, list, p := twoNodes(t, w)
		fromA := list.line("a").hold()
		r, err := w.Start(t.Context(), a, "", nil)
		ok(t, err)
		<-time.After(time.Second)
		a.close()
		b.take()
		<-time.After(time.Second)
		if attempts.Load() != 1 {
			t.Fatal("no attempt is at work")
		}
		fromB := list.line("b").hold()
		fromA()
		<-time.After(time.Second)
		close(release)
		<-time.After(time.Second)
		fromB()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if n, err := pawl.RunOf[int64](b, r.ID).Result(ctx); n != 1 || err != nil {
			t.Errorf("the result is that of attempt %d, %v", n, err)
		}
		p.end()
		b.close()
	})
}

// TestStepsSeeWhatIsRecorded checks many runs that go from node to node while their steps are at work, of which the
// process hears at some other time. Whatever attempts end meanwhile: each step sees the result of the one before that
// the run has in the end, and no run stops.
func TestStepsSeeWhatIsRecorded(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			var ends atomic.Int64
			var mu sync.Mutex
			rnd := rand.New(rand.NewPCG(seed, 1))
			random := func(n int) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(1+rnd.IntN(n)) * time.Millisecond
			}
			saw := map[string][]int64{} // the results of attempts by run and step
			const steps = 8
			w := pawl.Define("w", func(ctx pawl.Context, run int) (all []int64, err error) {
				last := int64(0)
				for i := range steps {
					before := last
					last, err = pawl.Step(ctx, fmt.Sprint("step ", i), func(ctx context.Context) (int64, error) {
						mu.Lock()
						key := fmt.Sprint(run, " ", i)
						saw[key] = append(saw[key], before)
						mu.Unlock()
						select {
						case <-time.After(random(3000)):
							return ends.Add(1), nil
						case <-ctx.Done():
							return 0, ctx.Err()
						}
					})
					if err != nil {
						return nil, err
					}
					all = append(all, last)
				}
				return all, nil
			})
			on, next, list, p := twoNodes(t, w)
			var all []pawl.Run[[]int64]
			for i := range 20 {
				r, err := w.Start(t.Context(), on, "", i)
				ok(t, err)
				all = append(all, r)
			}
			for i := range 5 {
				<-time.After(time.Second + random(600))
				release := list.line(nodeName(i)).hold()
				on.close()
				if i%2 == 0 {
					time.AfterFunc(random(2000), func() { list.remove(nodeName(i)) })
				}
				next.take()
				time.AfterFunc(random(2000), release)
				on, next = next, &bed{T: t, journal: on.journal}
				next.start()
				list.put(nodeName(i+2), &line{bed: next})
			}
			for run, r := range all {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				got, err := pawl.RunOf[[]int64](on, r.ID).Result(ctx)
				cancel()
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				mu.Lock()
				for i := 1; i < steps; i++ {
					for _, before := range saw[fmt.Sprint(run, " ", i)] {
						if before != got[i-1] {
							t.Errorf("seed %d: step %d saw %d, and the run has %d", seed, i, before, got[i-1])
						}
					}
				}
				mu.Unlock()
			}
			<-time.After(time.Minute)
			p.end()
			on.close()
			next.close()
		})
	}
}
