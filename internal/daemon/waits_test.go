package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// TestWhyWaits checks which attempts wait until somebody acts: those that no worker takes, and those that an open
// breaker has held for long.
func TestWhyWaits(t *testing.T) {
	since := core.Time(time.Hour.Microseconds())
	breaker := core.Held{Reason: core.HeldBreaker, Service: true, Name: "maps"}
	limit := core.Held{Reason: core.HeldConcurrency, Name: "reports"}
	for _, c := range []struct {
		what   string
		held   core.Held
		nobody bool
		after  time.Duration
		want   string
	}{
		{"a worker is busy", core.Held{}, false, time.Hour, ""},
		{"no worker", core.Held{}, true, time.Minute, `no worker takes "pdf" tasks from the queue reports`},
		{"a limit holds it", limit, true, time.Hour, ""},
		{"a breaker holds it", breaker, false, 19 * time.Minute, ""},
		{
			"a breaker holds it for long", breaker, false, 20 * time.Minute,
			"the breaker of service maps has held it since " + since.String(),
		},
	} {
		wait := engine.Wait{Since: since, Held: c.held}
		why := whyWaits(engine.QueueStats{Queue: "reports", Type: "pdf"}, wait, c.nobody, since.Add(c.after))
		got := ""
		if why != nil {
			got = why.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q", c.what, got)
		}
	}
}

// TestWaitsKeepNobody checks that who asks which attempts wait is kept no longer than its context lasts, while one look
// at the queues goes on for all, and that what it found is used for a while.
func TestWaitsKeepNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w waits
		looks, back := 0, make(chan struct{})
		find := func(ctx context.Context) (map[core.RunID]error, error) {
			looks++
			<-back
			return map[core.RunID]error{{1}: errors.New("no worker")}, ctx.Err()
		}
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := w.at(ctx, 1, find); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		close(back)
		synctest.Wait()
		for range 2 {
			if known, err := w.at(t.Context(), 2, find); err != nil || len(known) != 1 || looks != 1 {
				t.Errorf("%v, %v after %d looks", known, err, looks)
			}
		}
		later := core.Time(1).Add(waitsAge)
		if _, err := w.at(t.Context(), later, find); err != nil || looks != 2 {
			t.Errorf("%v after %d looks", err, looks)
		}
	})
}
