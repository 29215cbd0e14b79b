package daemon

import (
	"testing"
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
