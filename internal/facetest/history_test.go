package facetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/policy"
)

func TestHistoryEvents(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ int) (int, error) {
		err := pawl.Do(ctx, "pay", func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("too slow")
		}, pawl.AttemptTimeout("1m"), pawl.Retry("fixed(2, 1h)"))
		return 0, err
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := w.Start(t.Context(), e, "r", 5, pawl.By("ann", "a test")); err != nil {
			t.Fatal(err)
		}
		e.Skip(30 * time.Minute)
		some, err := e.HistoryEvents(t.Context(), "r", 0)
		if err != nil || len(some) == 0 {
			t.Fatalf("%d events, %v", len(some), err)
		}
		e.Skip(time.Hour)
		all, err := e.HistoryEvents(t.Context(), "r", 0)
		if err != nil {
			t.Fatal(err)
		}
		rest, err := e.HistoryEvents(t.Context(), "r", len(some))
		if err != nil || len(some)+len(rest) != len(all) || rest[0].Number != len(some)+1 {
			t.Errorf("%d events, then %d of %d, %v", len(some), len(rest), len(all), err)
		}
		if none, err := e.HistoryEvents(t.Context(), "r", len(all)); err != nil || len(none) != 0 {
			t.Errorf("after the last one: %v, %v", none, err)
		}
		var said []string
		for _, ev := range all {
			said = append(said, strings.TrimSpace(ev.Type+" "+ev.Step))
		}
		for _, want := range []string{"run.started", "attempt.started pay", "step.retry_scheduled pay", "run.failed"} {
			if !slices.Contains(said, want) {
				t.Errorf("%q is not in %q", want, said)
			}
		}
		first, i := all[0], slices.Index(said, "attempt.ended pay")
		if first.Actor != "ann" || first.Why != "a test" || string(first.Data) != "5" || first.Text == "" {
			t.Errorf("the start is %+v", first)
		}
		if ended := all[i]; ended.Limit != policy.LimitStartToClose || ended.Took != time.Minute || ended.Attempt != 1 {
			t.Errorf("the first attempt's end is %+v", ended)
		}
		if _, err := e.HistoryEvents(t.Context(), "none", 0); !errors.Is(err, pawl.ErrNotFound) ||
			!strings.Contains(fmt.Sprint(err), "none") {
			t.Errorf("of no run: %v", err)
		}
	}, w)
}

// TestPhases checks that every phase of runs and steps has a constant.
func TestPhases(t *testing.T) {
	closed := map[client.Phase]bool{
		client.PhasePending: false, client.PhaseScheduled: false, client.PhaseRunning: false,
		client.PhaseWaiting: false, client.PhaseBackingOff: false, client.PhaseSuspended: false,
		client.PhasePaused: false, client.PhaseSucceeded: true, client.PhaseFailed: true,
		client.PhaseTimedOut: true, client.PhaseCancelled: true, client.PhaseTerminated: true,
		client.PhaseContinued: true, client.PhaseSkipped: true,
	}
	for _, p := range knownPhases() {
		want, known := closed[p]
		if !known || p.Closed() != want {
			t.Errorf("%s: known %t, closed %t", p, known, p.Closed())
		}
		delete(closed, p)
	}
	if len(closed) > 0 {
		t.Errorf("nothing has these phases: %v", closed)
	}
}

// knownPhases returns the phases of the machine, each once.
func knownPhases() []client.Phase {
	var all []client.Phase
	add := func(name string) bool {
		if !strings.HasPrefix(name, "unknown") && !slices.Contains(all, client.Phase(name)) {
			all = append(all, client.Phase(name))
		}
		return !strings.HasPrefix(name, "unknown")
	}
	for p := core.RunPhase(0); add(p.String()); p++ {
	}
	for p := core.StepPhase(0); add(p.String()); p++ {
	}
	return all
}
