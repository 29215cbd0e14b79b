package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

// stubborn is work that ends some time after it was asked or killed. A negative time means never.
type stubborn struct {
	afterAsk, afterKill time.Duration
	orphans             time.Duration // how much longer its children live
	leader              chan struct{}
	asked, killed       int
	end                 time.Time
}

func (s *stubborn) exited() <-chan struct{} { return s.leader }

func (s *stubborn) ask() {
	s.asked++
	s.endAfter(s.afterAsk)
}

func (s *stubborn) kill() {
	s.killed++
	if s.end.IsZero() {
		s.endAfter(s.afterKill)
	}
}

func (s *stubborn) endAfter(d time.Duration) {
	if d < 0 {
		return
	}
	s.end = time.Now().Add(d + s.orphans)
	time.AfterFunc(d, func() { close(s.leader) })
}

func (s *stubborn) gone() bool { return !s.end.IsZero() && !time.Now().Before(s.end) }

func TestStopWork(t *testing.T) {
	for name, c := range map[string]struct {
		work        stubborn
		grace, took time.Duration
		gone        bool
	}{
		"goes when asked":  {stubborn{afterAsk: time.Second}, 5 * time.Second, time.Second, true},
		"goes when killed": {stubborn{afterAsk: -1}, 5 * time.Second, 5 * time.Second, true},
		"goes late when killed": {
			stubborn{afterAsk: -1, afterKill: 4 * time.Second},
			5 * time.Second, 9 * time.Second, true,
		},
		"does not go":           {stubborn{afterAsk: -1, afterKill: -1}, 5 * time.Second, 10 * time.Second, false},
		"no grace":              {stubborn{afterAsk: -1}, 0, 0, true},
		"no grace, does not go": {stubborn{afterAsk: -1, afterKill: -1}, 0, time.Second, false},
		"orphans have the grace": {
			stubborn{afterAsk: time.Second, orphans: 2 * time.Second},
			5 * time.Second, 3 * time.Second, true,
		},
		"orphans stay to the kill": {
			stubborn{afterAsk: time.Second, orphans: time.Hour},
			5 * time.Second, 10 * time.Second, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := c.work
				w.leader = make(chan struct{})
				start := time.Now()
				killed, gone := stopWork(&w, c.grace)
				if gone != c.gone || killed != (w.killed > 0) {
					t.Errorf("killed is %v, gone is %v", killed, gone)
				}
				if took := time.Since(start); took < c.took || took > c.took+100*time.Millisecond {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				if w.asked != 1 || (w.killed > 0) != (c.took >= c.grace) {
					t.Errorf("asked %d times, killed %d times", w.asked, w.killed)
				}
			})
		})
	}
}
