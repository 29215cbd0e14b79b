package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/policy"
)

// share makes an engine one of several on a journal.
func share(c *Config) { c.Shared = true }

func takeAll(t *testing.T, e *Engine, partitions ...int) {
	t.Helper()
	for _, n := range partitions {
		if err := e.Take(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPartitionsMove moves partitions between two engines while runs are at work. Every run ends, each engine refuses
// what the other has, and both can read everything.
func TestPartitionsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.NewPartitions(4)
		a, _ := open(t, j, 2, succeed, share)
		b, _ := open(t, j, 2, succeed, share)
		_, err := a.Start(t.Context(), StartRequest{Definition: flow("f", task()).definition()})
		if !errors.Is(err, errHeld) {
			t.Errorf("a start on an engine without partitions: %v", err)
		}
		takeAll(t, a, 0, 1, 2, 3)
		if err := b.Take(t.Context(), 0); !errors.Is(err, errHeld) {
			t.Errorf("b took what a has: %v", err)
		}
		var ids []core.RunID
		for n := range 20 {
			s, err := a.Start(t.Context(), StartRequest{
				Definition: flow("f", task(), nap(time.Second), task()).definition(),
				Start:      core.Start{WorkflowID: fmt.Sprint("order-", n)},
			})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, s.Run)
		}
		<-time.After(500 * time.Millisecond)
		for _, n := range []int{1, 3} {
			if err := a.Give(n); err != nil {
				t.Fatal(err)
			}
			takeAll(t, b, n)
		}
		if fmt.Sprint(a.Owned(), b.Owned()) != "[0 2] [1 3]" {
			t.Fatal(a.Owned(), b.Owned())
		}
		for _, id := range ids {
			own, other := a, b
			if a.PartitionOf(id)%2 == 1 {
				own, other = b, a
			}
			if out, err := own.Result(t.Context(), id); err != nil || out.Phase != core.RunSucceeded {
				t.Fatal(out, err)
			}
			if _, err := other.Result(t.Context(), id); !errors.Is(err, errHeld) {
				t.Errorf("the result of a run that is elsewhere: %v", err)
			}
			if got, err := other.Inspect(t.Context(), id); err != nil || got.Phase != core.RunSucceeded {
				t.Errorf("a run that is elsewhere was read as %v, %v", got, err)
			}
		}
		closeEngine(t, a)
		takeAll(t, b, 0, 2)
		page, err := b.List(t.Context(), journal.Query{})
		if err != nil || len(page.Runs) != 20 {
			t.Errorf("%d runs are listed, %v", len(page.Runs), err)
		}
		if err := b.Err(); err != nil {
			t.Error(err)
		}
		closeEngine(t, b)
	})
}

// TestFeedFollowsPartitions reads a feed of an engine that takes and gives partitions meanwhile.
func TestFeedFollowsPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.NewPartitions(2)
		a, _ := open(t, j, 2, succeed, share)
		ctx, cancel := context.WithCancel(t.Context())
		seen, feed := make(chan core.RunID, 100), make(chan error)
		came := 0
		go func() {
			feed <- a.Feed(ctx, "all", func(_ int, _ uint64, entries []core.Entry) error {
				if len(entries) == 0 {
					came++
				}
				for i := range entries {
					seen <- entries[i].Run
				}
				return nil
			})
		}()
		for n := range 2 {
			takeAll(t, a, n)
			synctest.Wait()
			if came != n+1 {
				t.Errorf("the feed told %d times that a partition has come, of %d", came, n+1)
			}
			s, err := a.Start(t.Context(), StartRequest{Definition: flow("f", nap(time.Second)).definition()})
			if err != nil {
				t.Fatal(err)
			}
			if got := <-seen; got != s.Run {
				t.Errorf("the feed brought %s instead of %s", got, s.Run)
			}
			if err := a.Give(n); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-feed; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		closeEngine(t, a)
	})
}

// TestLeaseEnds checks that an owner which reaches its database no more stops when its lease has ended, by its own
// clock, while the process and its other partitions go on.
func TestLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.NewPartitions(2)
		j.Term, j.Now = 3*time.Second, func() core.Time { return core.Time(time.Now().UnixMicro()) }
		var cut atomic.Bool
		j.Fault = func(op memory.Op, _ *journal.Batch) error {
			if cut.Load() && op == memory.OpRenew {
				return errors.New("the connection was cut")
			}
			return nil
		}
		a, _ := open(t, j, 2, succeed, share)
		takeAll(t, a, 0, 1)
		synctest.Wait()
		cut.Store(true)
		<-time.After(4 * time.Second)
		if owned := a.Owned(); len(owned) != 0 {
			t.Errorf("it goes on with %v after its leases have ended", owned)
		}
		if err := a.Err(); err != nil {
			t.Error(err)
		}
		cut.Store(false)
		takeAll(t, a, 0, 1)
		closeEngine(t, a)
	})
}

// TestLeaseEndsWhileTheDatabaseIsSlow checks that an owner stops as soon as its lease has ended, also if what it asks
// the database takes long to fail.
func TestLeaseEndsWhileTheDatabaseIsSlow(t *testing.T) {
	const term = 3 * time.Second
	for _, slow := range []time.Duration{400 * time.Millisecond, 10 * time.Second} {
		t.Run(slow.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := memory.NewPartitions(2)
				j.Term, j.Now = term, func() core.Time { return core.Time(time.Now().UnixMicro()) }
				var cut atomic.Bool
				j.Fault = func(op memory.Op, _ *journal.Batch) error {
					if !cut.Load() || op != memory.OpRenew {
						return nil
					}
					<-time.After(slow)
					return errors.New("the connection was cut")
				}
				a, _ := open(t, j, 2, succeed, share)
				takeAll(t, a, 0)
				synctest.Wait()
				cut.Store(true)
				<-time.After(term)
				synctest.Wait()
				if a.Runs(0) {
					t.Error("it goes on when its lease has ended")
				}
				<-time.After(slow)
				closeEngine(t, a)
			})
		})
	}
}

// TestLimitsOfAMovedPartition gives a partition away whose run has the only place of a queue. The engine counts what it
// owns: a run of another partition begins there, the given one with its next owner, and the attempt that was at work is
// stopped. An engine that did not get a partition waits for none of its places.
func TestLimitsOfAMovedPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.NewPartitions(2)
		one := func(c *Config) { c.Queues = map[string]policy.QueueLimits{"bills": {Concurrency: 1}} }
		a, atA := open(t, j, 9, nil, share, one)
		b, atB := open(t, j, 9, nil, share, one)
		takeAll(t, a, 0, 1)
		if err := b.Take(t.Context(), 0); !errors.Is(err, errHeld) {
			t.Error(err)
		}
		var ids []core.RunID
		for n := range 2 {
			id := core.NewRunID(core.Time(time.Now().UnixMicro()), uint16(n), 1, uint64(n))
			s, err := a.Start(t.Context(), StartRequest{
				Definition: flow("f", task()).definition(),
				RunID:      id,
				Start:      core.Start{Queue: core.RunQueue{Name: "bills"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, s.Run)
			synctest.Wait()
		}
		if began := atA.dispatched(); len(began) != 1 || began[0].Token.Run != ids[0] {
			t.Fatalf("began: %v", began)
		}
		if err := a.Give(0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if began := atA.dispatched(); len(began) != 1 || began[0].Token.Run != ids[1] {
			t.Errorf("after its partition was given away, a began %v", began)
		}
		if len(atA.revoked) != 1 || atA.revoked[0].Run != ids[0] {
			t.Errorf("stopped: %v", atA.revoked)
		}
		takeAll(t, b, 0)
		synctest.Wait()
		began := atB.dispatched()
		if len(began) != 1 || began[0].Token.Run != ids[0] || began[0].Token.Attempt != 2 {
			t.Errorf("the next owner began %v", began)
		}
		closeEngine(t, a)
		closeEngine(t, b)
	})
}

// TestPlacesThatCome takes a partition whose run has a place in a queue that is full already. Both runs go on, and
// nothing more begins until fewer are open than the limit. Meanwhile the owner before admits another run: what is open
// on both engines together is more than the limit of each.
func TestPlacesThatCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.NewPartitions(3)
		one := func(c *Config) { c.Queues = map[string]policy.QueueLimits{"bills": {Concurrency: 1}} }
		a, atA := open(t, j, 9, nil, share, one)
		b, atB := open(t, j, 9, nil, share, one)
		takeAll(t, a, 0, 2)
		takeAll(t, b, 1)
		begin := func(e *Engine, partition uint16, n uint64) core.RunID {
			id := core.NewRunID(core.Time(time.Now().UnixMicro()), partition, 1, n)
			_, err := e.Start(t.Context(), StartRequest{
				Definition: flow("f", task()).definition(),
				RunID:      id,
				Start:      core.Start{Queue: core.RunQueue{Name: "bills"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return id
		}
		began := func(what string, at *fakeWorkers, want ...core.RunID) []core.Task {
			t.Helper()
			synctest.Wait()
			got := at.dispatched()
			var ids []core.RunID
			for _, task := range got {
				ids = append(ids, task.Token.Run)
			}
			if !slices.Equal(ids, want) {
				t.Fatalf("%s: began %v, not %v", what, ids, want)
			}
			return got
		}
		moves, keeps := begin(a, 0, 1), begin(b, 1, 2)
		atOld, atNew := begin(a, 2, 3), begin(b, 1, 4)
		began("the first run of a", atA, moves)
		kept := began("the first run of b", atB, keeps)
		if err := a.Give(0); err != nil {
			t.Fatal(err)
		}
		began("a has room again", atA, atOld)
		takeAll(t, b, 0)
		moved := began("b goes on with the run that came", atB, moves)
		b.Report(keeps, succeed(kept[0]))
		began("one place is still taken", atB)
		b.Report(moves, succeed(moved[0]))
		began("there is room", atB, atNew)
		closeEngine(t, a)
		closeEngine(t, b)
	})
}

// lateBodies come to the step of their run when they are called.
type lateBodies struct {
	quickBodies
	came  bool
	asked chan struct{} // has room for one
}

func (b *lateBodies) CanBegin(run core.RunID, _, _, _ string) bool {
	if !b.came {
		b.engine.Consult(run)
		b.asked <- struct{}{}
	}
	return b.came
}

func (b *lateBodies) Consult(n News) (decides bool) {
	b.came = true
	b.engine.Begin(n.Run, 0)
	return false
}

// TestBodyIsCalledWhileAPartitionComes checks that a body can be asked and can answer before the engine has said that
// it runs the partition.
func TestBodyIsCalledWhileAPartitionComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.NewPartitions(1)
		at := func() (*lateBodies, *fakeWorkers) {
			b := &lateBodies{asked: make(chan struct{}, 1)}
			e, w := open(t, j, 9, nil, share, func(c *Config) {
				c.Kinds = map[string]Kind{"plan": {Compile: compilePlan, Bodies: b}}
			})
			b.engine = e
			return b, w
		}
		a, atA := at()
		b, atB := at()
		takeAll(t, a.engine, 0)
		mustStart(t, a.engine, flow("f", task()))
		synctest.Wait()
		if began := atA.dispatched(); len(began) != 1 {
			t.Fatalf("a began %v", began)
		}
		if err := a.engine.Give(0); err != nil {
			t.Fatal(err)
		}
		b.engine.opening.Lock()
		taken := make(chan error)
		go func() { taken <- b.engine.Take(t.Context(), 0) }()
		<-b.asked // the attempt is lost, and the next one needs the body
		b.engine.opening.Unlock()
		if err := <-taken; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if began := atB.dispatched(); len(began) != 1 || began[0].Token.Attempt != 2 {
			t.Errorf("the next owner began %v", began)
		}
		closeEngine(t, a.engine)
		closeEngine(t, b.engine)
	})
}
