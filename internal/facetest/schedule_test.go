package facetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/pawltest"
)

// job returns a workflow that takes as long as its input says.
func job() *pawl.Workflow[string, string] {
	return pawl.Define("job", func(ctx pawl.Context, d string) (string, error) {
		return "done", pawl.Sleep(ctx, "work", d)
	})
}

// ensure puts the schedule "s" into effect.
func ensure[In, Out any](t *testing.T, e *pawltest.Env, s client.Schedule, w *pawl.Workflow[In, Out], in In,
	opts ...pawl.StartOption,
) pawl.ScheduleHandle {
	t.Helper()
	h, err := w.EnsureSchedule(t.Context(), e, "s", s, in, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// times lists when the job's runs were started, and how they stand.
func times(t *testing.T, e *pawltest.Env) string {
	t.Helper()
	runs, err := e.ListRuns(t.Context(), client.Query{Workflow: "job", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := len(runs) - 1; i >= 0; i-- {
		out = append(out, runs[i].CreatedAt.Format("15:04:05")+" "+string(runs[i].Phase))
	}
	return strings.Join(out, ", ")
}

func TestScheduleOverlap(t *testing.T) {
	for overlap, want := range map[client.Overlap]string{
		client.OverlapSkip: "00:10:00 succeeded, 00:30:00 succeeded, 00:50:00 waiting",
		client.OverlapAllow: "00:10:00 succeeded, 00:20:00 succeeded, 00:30:00 succeeded, 00:40:00 succeeded, " +
			"00:50:00 waiting",
		client.OverlapCancel: "00:10:00 cancelled, 00:20:00 cancelled, 00:30:00 cancelled, 00:40:00 cancelled, " +
			"00:50:00 waiting",
		client.OverlapQueue: "00:10:00 succeeded, 00:25:00 succeeded, 00:40:00 succeeded, 00:55:00 waiting",
	} {
		w := job()
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			s := client.Schedule{Cron: "*/10 * * * *", Overlap: overlap, CatchUp: 24 * time.Hour}
			ensure(t, e, s, w, "15m")
			e.Skip(55 * time.Minute)
			if got := times(t, e); got != want {
				t.Errorf("%s: got %s, want %s", overlap, got, want)
			}
		}, w)
	}
}

// TestScheduleWaitsForItsTurn checks that a schedule that waits for the end of its last run is woken by that end, also
// where the end comes by another run of a chain, or while the engine is down.
func TestScheduleWaitsForItsTurn(t *testing.T) {
	const day = 24 * time.Hour
	long := pawl.Define("job", func(ctx pawl.Context, part int) (string, error) {
		if err := pawl.Sleep(ctx, "work", 10*day); err != nil || part == 3 {
			return "done", err
		}
		return "", pawl.ContinueAsNew(ctx, part+1)
	})
	for overlap, want := range map[client.Overlap]int{
		client.OverlapQueue: 2, client.OverlapSkip: 2, client.OverlapCancel: 26,
	} {
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			ensure(t, e, client.Schedule{Cron: "@daily", Overlap: overlap, CatchUp: 60 * 24 * time.Hour}, long, 1)
			e.Skip(25*day + time.Hour) // the chain's third run
			e.Crash()
			must(t, e.Close())
			<-time.After(8 * day) // the chain ends meanwhile
			e.Reopen()
			e.Skip(time.Hour)
			runs, err := e.ListRuns(t.Context(), client.Query{Workflow: "job", Limit: 1000})
			chains := map[string]bool{}
			for _, r := range runs {
				chains[r.WorkflowID] = true
			}
			if err != nil || len(chains) != want {
				t.Errorf("%s: %d runs were fired, want %d: %v, %v", overlap, len(chains), want, chains, err)
			}
		}, long)
	}
}

func TestScheduleCatchesUp(t *testing.T) {
	for catchUp, want := range map[time.Duration]int{0: 6, 25 * time.Minute: 9, 2 * time.Hour: 12} {
		w := job()
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			s := client.Schedule{Cron: "*/10 * * * *", Overlap: client.OverlapAllow, CatchUp: catchUp}
			ensure(t, e, s, w, "1s")
			e.Skip(35 * time.Minute) // three firings
			must(t, e.Close())
			<-time.After(60 * time.Minute) // six more, until 01:35
			e.Reopen()
			e.Skip(30 * time.Minute)
			if got := strings.Count(times(t, e), "succeeded"); got != want {
				t.Errorf("catch up %s: %d runs, want %d: %s", catchUp, got, want, times(t, e))
			}
		}, w)
	}
}

func TestScheduleGoesOnForLong(t *testing.T) {
	w := job()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		h := ensure(t, e, client.Schedule{Cron: "@hourly"}, w, "1s")
		e.Skip(10*24*time.Hour + time.Minute)
		if got := strings.Count(times(t, e), "succeeded"); got != 240 {
			t.Errorf("%d runs in ten days, want 240", got)
		}
		must(t, e.Operate(t.Context(), "@s", pawl.Operation{Op: client.OpPause}))
		e.Skip(24*time.Hour + 30*time.Minute)
		must(t, e.Operate(t.Context(), "@s", pawl.Operation{Op: client.OpResume}))
		e.Skip(2 * time.Hour)
		if got := strings.Count(times(t, e), "succeeded"); got != 242 {
			t.Errorf("%d runs, want 242", got)
		}
		must(t, h.Delete(t.Context(), ""))
		e.Skip(24 * time.Hour)
		if got := strings.Count(times(t, e), "succeeded"); got != 242 {
			t.Errorf("%d runs after the schedule was deleted, want 242", got)
		}
	}, w)
}

func TestScheduleRefuses(t *testing.T) {
	w := job()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for want, s := range map[string]client.Schedule{
			"fields": {Cron: "daily"}, "unknown time zone": {Cron: "@daily", Zone: "Mars/Base"},
			"overlap": {Cron: "@daily", Overlap: "maybe"},
			"jitter":  {Cron: "@daily", Jitter: -time.Minute}, "notAfter": {Cron: "@daily", NotAfter: "late"},
		} {
			if _, err := w.EnsureSchedule(t.Context(), e, "s", s, ""); !errors.Is(err, pawl.ErrInvalid) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v", s, err)
			}
		}
	}, w)
}

func ExampleSchedule_Next() {
	s := client.Schedule{Cron: "30 2 * * *", Zone: "Europe/Berlin"}
	times, err := s.Next(time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC), 3)
	for _, at := range times {
		fmt.Println(at.Format(time.RFC3339))
	}
	fmt.Println(err)
	// Output:
	// 2026-03-28T02:30:00+01:00
	// 2026-03-29T03:00:00+02:00
	// 2026-03-30T02:30:00+02:00
	// <nil>
}

// TestScheduleFindsItsRun checks that a firing whose run exists already, with another input, does not keep the
// schedule from the next one.
func TestScheduleFindsItsRun(t *testing.T) {
	w := job()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		ensure(t, e, client.Schedule{Cron: "*/10 * * * *"}, w, "1m")
		id := "s@" + time.Now().UTC().Truncate(10*time.Minute).Add(10*time.Minute).Format(time.RFC3339)
		if _, err := w.Start(t.Context(), e, id, "2m", pawl.IdempotencyKey("@"+id)); err != nil {
			t.Fatal(err)
		}
		e.Skip(25 * time.Minute)
		if got, want := times(t, e), "00:00:00 succeeded, 00:20:00 succeeded"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}, w)
}

// TestScheduleTriggersOnce checks that a trigger that comes twice, since its sender or the schedule was killed after
// the start and before it was noted, starts one run, also where that run has ended meanwhile.
func TestScheduleTriggersOnce(t *testing.T) {
	w := job()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		ensure(t, e, client.Schedule{Cron: "@daily"}, w, "1m")
		payload, err := json.Marshal(schedule.Change{Op: schedule.OpTrigger, Run: schedule.TriggerID("s", time.Now())})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r := client.SendRequest{Name: schedule.Event, Payload: payload}
			must(t, e.SendEvent(t.Context(), "@s", r))
			e.Skip(5 * time.Minute)
		}
		if got, want := times(t, e), "00:00:00 succeeded"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}, w)
}
