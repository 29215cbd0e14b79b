package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/disktest"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
)

// slowDisk is an engine on a disk whose reads can be made slow or broken. All its runs have left memory: to fire a
// timer, the engine must read.
type slowDisk struct {
	*testing.T
	e       *Engine
	runs    []core.RunID
	arrived chan time.Duration // when the runs' tasks came, after the start
	began   time.Time
	fault   atomic.Pointer[func() error] // called before each read
}

// onSlowDisk runs a test with runs that sleep for 20 s, in virtual time. It begins 10 s after their start.
func onSlowDisk(t *testing.T, runs int, test func(s *slowDisk)) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New(t)
		j, err := sqlite.Open(d.Path("pawl.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := &slowDisk{T: t, began: time.Now(), arrived: make(chan time.Duration, runs)}
		s.e, _ = open(t, j, -1, func(k core.Task) core.Input {
			s.arrived <- time.Since(s.began)
			return succeed(k)
		})
		for range runs {
			s.runs = append(s.runs, mustStart(t, s.e, flow("sleeper", nap(20*time.Second), task())))
		}
		<-time.After(10 * time.Second)
		if n := s.e.Stats().Loaded; n != 0 {
			t.Fatalf("%d runs are in memory", n)
		}
		d.Fault(func(op disktest.Op, _ string) error {
			if fault := s.fault.Load(); fault != nil && op == disktest.Read {
				return (*fault)()
			}
			return nil
		})
		test(s)
		s.fault.Store(nil)
		for _, id := range s.runs {
			if out, err := s.e.Result(t.Context(), id); err != nil || out.Phase != core.RunSucceeded {
				t.Errorf("run %s: %s, %v", id, out.Phase, err)
			}
		}
		closeEngine(t, s.e)
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}

// wait waits until all timers have fired, and returns how late the last one did.
func (s *slowDisk) wait() (latest time.Duration) {
	s.Helper()
	for range s.runs {
		latest = max(latest, <-s.arrived-20*time.Second)
	}
	synctest.Wait()
	if late := s.e.Stats().Late; late > latest || late < latest-100*time.Millisecond {
		s.Errorf("Stats tells of a timer that was %s late; the last one was %s late", late, latest)
	}
	return latest
}

// TestTimersDoNotWaitForOthersReads checks that timers fire in time while callers list runs and each of their reads
// takes long.
func TestTimersDoNotWaitForOthersReads(t *testing.T) {
	onSlowDisk(t, 3, func(s *slowDisk) {
		const callers = 4
		fault := func() error {
			if time.Since(s.began) < 15*time.Second { // the engine reads later
				<-time.After(time.Minute)
			}
			return nil
		}
		s.fault.Store(&fault)
		listed := make(chan error, callers)
		for range callers {
			go func() {
				_, err := s.e.List(context.Background(), journal.Query{})
				listed <- err
			}()
		}
		if latest := s.wait(); latest > 10*time.Millisecond {
			s.Errorf("a timer was %s late", latest)
		}
		for range callers {
			if err := <-listed; err != nil {
				s.Error(err)
			}
		}
	})
}

// TestTimersAfterFailedReads checks that the timers of runs that cannot be read for a while, although they are due,
// fire soon after that.
func TestTimersAfterFailedReads(t *testing.T) {
	onSlowDisk(t, 3, func(s *slowDisk) {
		fault := func() error {
			if time.Since(s.began) < 31*time.Second {
				return errors.New("broken")
			}
			return nil
		}
		s.fault.Store(&fault)
		if latest := s.wait(); latest < 11*time.Second || latest > 12*time.Second {
			s.Errorf("a timer was %s late, the disk was broken for 11s after it was due", latest)
		}
	})
}

// TestTimersReadEarlier checks that runs are read earlier after the first timers if reading always takes long, so that
// their timers fire in time.
func TestTimersReadEarlier(t *testing.T) {
	onSlowDisk(t, 20, func(s *slowDisk) {
		fault := func() error { <-time.After(time.Second); return nil }
		s.fault.Store(&fault)
		if latest := s.wait(); latest < time.Second {
			s.Error("the first timers are not late, so this test shows nothing")
		}
		s.began = time.Now()
		for n := range s.runs {
			s.runs[n] = mustStart(s.T, s.e, flow("sleeper", nap(2*time.Minute), task()))
		}
		for range s.runs {
			if late := <-s.arrived - 2*time.Minute; late > 10*time.Millisecond {
				s.Errorf("a later timer was %s late", late)
			}
		}
	})
}
