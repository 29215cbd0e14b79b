package facetest

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/core"
	historyfile "github.com/pawl-dev/pawl/internal/history"
	"github.com/pawl-dev/pawl/journal/memory"
)

// TestProgressSurvives checks that a kill at any instant loses a second of progress at most, whatever the heartbeat
// limit is, and that a step that heartbeats all the time costs one record a second.
func TestProgressSurvives(t *testing.T) {
	for name, opts := range map[string][]pawl.StepOption{
		"no limit": nil, "a minute": {pawl.HeartbeatTimeout("1m")}, "an hour": {pawl.HeartbeatTimeout("1h")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testProgress(t, append(opts, pawl.Timeout("1d"))) })
		})
	}
}

func testProgress(t *testing.T, opts []pawl.StepOption) {
	const pause, beats = 30 * time.Millisecond, 1000
	begun := make(chan time.Time, 1)
	w := pawl.Define("import", func(ctx pawl.Context, _ int) (int, error) {
		return pawl.Step(ctx, "rows", func(ctx context.Context) (int, error) {
			begun <- time.Now()
			for n := range beats {
				<-time.After(pause)
				pawl.Heartbeat[int]{}.Beat(ctx, n)
			}
			return beats, nil
		}, opts...)
	})
	e, err := pawl.Open(t.Context(), pawl.Config{Journal: memory.New(), Workflows: []pawl.Definition{w}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	run := started(t, e, w, "", 0)
	start := <-begun
	for range 40 { // instants at which the process might be killed
		<-time.After(707 * time.Millisecond)
		synctest.Wait()
		given := int(time.Since(start)/pause) - 1
		lag := given - progress(t, e, run.ID)
		if lost := time.Duration(lag) * pause; given >= int(time.Second/pause) && lost > time.Second {
			t.Errorf("after %v the details of the last %v were not on disk", time.Since(start), lost)
		}
	}
	if _, err := run.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	reports := 0
	eachBeat(t, e, run.ID, func(core.AttemptBeat) { reports++ })
	if seconds := int(beats * pause / time.Second); reports > seconds {
		t.Errorf("%d heartbeats were recorded in %d seconds", reports, seconds)
	}
}

// progress returns the details that a process would find after a kill; -1: none.
func progress(t *testing.T, e *pawl.Engine, run string) int {
	last := -1
	eachBeat(t, e, run, func(b core.AttemptBeat) {
		if n, err := strconv.Atoi(string(b.Details)); err == nil {
			last = n
		}
	})
	return last
}

// eachBeat calls fn with the heartbeats that a run's journal holds.
func eachBeat(t *testing.T, e *pawl.Engine, run string, fn func(core.AttemptBeat)) {
	t.Helper()
	history, err := e.History(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := historyfile.Read(history)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		for _, rec := range entry.Records {
			if b, ok := rec.(core.AttemptBeat); ok {
				fn(b)
			}
		}
	}
}
