package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// TestTimerIsSetSeldom checks that a timer that goes off earlier than needed is left as it is. One that goes off later
// is set anew, and so is one that has gone off. The process stood still if the loop wakes much later than the timer
// goes off, whatever the loop waits for.
func TestTimerIsSetSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Config{Journal: memory.New(), Kinds: plans})
		if err != nil {
			t.Fatal(err)
		}
		l := newLoop(e.at(0))
		if err := l.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.timer = time.NewTimer(time.Hour)
		l.p.residents.window.Before = l.clock.Read() // no window is to be read
		const due = 10 * time.Second
		for _, c := range []struct {
			what string
			was  time.Duration // when the timer goes off, from now; 0: it is not set
			want time.Duration
		}{
			{"is not set", 0, due},
			{"goes off later", 2 * due, due},
			{"goes off in time", due, due},
			{"goes off earlier", due / 2, due / 2},
			{"has gone off", -due, due},
		} {
			now := l.clock.Read()
			l.prune = now.Add(due) // there is nothing else to do
			l.timerAt = 0
			if c.was != 0 {
				l.timerAt = now.Add(c.was)
			}
			l.timer.Reset(c.was)
			began := time.Now()
			l.sleep(now)
			if slept := time.Since(began); slept != c.want {
				t.Errorf("where the timer %s, the loop sleeps for %s, want %s", c.what, slept, c.want)
			}
			if until := l.stall.Until.Sub(now); until != c.want {
				t.Errorf("where the timer %s, the loop says that it sleeps for %s, want %s", c.what, until, c.want)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
