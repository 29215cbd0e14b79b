package daemon_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/policy"
)

// TestOpenAfterLease checks that a daemon waits for the lease of a process that was killed, and no longer than that for
// one that is alive, nor at all if it is told not to.
func TestOpenAfterLease(t *testing.T) {
	const term = 3 * time.Second
	refused := errors.New("nodes share it")
	for name, c := range map[string]struct {
		alive, silent bool
		says          error // the answer of Held
		want          error
		from, to      time.Duration
	}{
		"killed":            {from: term, to: term + time.Second},
		"alive":             {alive: true, want: journal.ErrHeld, from: term + time.Second, to: term + 2*time.Second},
		"nodes":             {says: refused, want: refused},
		"nobody asked":      {silent: true, want: journal.ErrHeld},
		"alive, for silent": {alive: true, silent: true, want: journal.ErrHeld},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := memory.New()
				j.Term, j.Now = term, func() core.Time { return policy.At(time.Now()) }
				lease, err := j.Acquire(t.Context(), 0, "the first one")
				ok(t, err)
				if c.alive {
					gone := make(chan struct{})
					defer close(gone)
					go func() {
						for {
							select {
							case <-time.After(term / 3):
								_, _ = j.Renew(t.Context(), 0, lease.Epoch)
							case <-gone:
								return
							}
						}
					}()
				}
				asked := 0
				cfg := daemon.Config{Journal: j, Log: quiet, Owner: "the second one"}
				if !c.silent {
					cfg.Held = func(_ context.Context, err *journal.HeldError) error {
						if asked++; err.Owner != "the first one" || err.Term != term {
							t.Errorf("%+v", err)
						}
						return c.says
					}
				}
				d, err := daemon.New(cfg)
				ok(t, err)
				began := time.Now()
				if err := d.Open(t.Context()); !errors.Is(err, c.want) {
					t.Errorf("%v instead of %v", err, c.want)
				}
				if took := time.Since(began); took < c.from || took > c.to {
					t.Errorf("after %s", took)
				}
				if (asked == 1) == c.silent {
					t.Errorf("asked %d times", asked)
				}
				ok(t, d.Shutdown(t.Context()))
			})
		})
	}
}
