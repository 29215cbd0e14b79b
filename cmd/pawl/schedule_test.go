package main

import (
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

// TestSchedulesOfAProgram checks that the command shows the schedules of a Go program, also while that has the
// database.
func TestSchedulesOfAProgram(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	path := filepath.Join(dir, "shop.db")
	backup := pawl.Define("backup", func(_ pawl.Context, what string) (string, error) { return what, nil })
	e := library(t, path, backup)
	check := func(refused bool, want string, args ...string) {
		t.Helper()
		out, err := command(t, dir, append(args, "--database", "sqlite:"+path)...).CombinedOutput()
		if (err != nil) != refused || !regexp.MustCompile(want).Match(out) {
			t.Errorf("%v: %v\n%s\nwant %s", args, err, out, want)
		}
	}
	check(false, `There is no schedule`, "schedule", "list")
	s := client.Schedule{Cron: "30 2 1 1 *", Zone: "Europe/Berlin", Overlap: client.OverlapQueue, CatchUp: time.Hour}
	h, err := backup.EnsureSchedule(ctx, e, "yearly", s, "home")
	if err != nil {
		t.Fatal(err)
	}
	check(false, `(?s)NAME .*yearly +backup +30 2 1 1 \* Europe/Berlin +\d+-01-01 02:30:00 CET, in .* +- +0`,
		"schedule", "list")
	check(false, `(?s)yearly starts runs of backup.*overlap +queue.*catch up +1h.*missed +0`,
		"schedule", "show", "yearly")
	if _, err := h.Trigger(ctx, "at once"); err != nil {
		t.Fatal(err)
	}
	if err := h.Pause(ctx, "holidays"); err != nil {
		t.Fatal(err)
	}
	for d := (client.ScheduleDescription{}); d.Paused.IsZero(); {
		if d, err = h.Describe(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	check(false, `(?s)next +paused since `+time.Now().Format("2006"), "schedule", "show", "yearly")
	check(false, `"zone": "Europe/Berlin"`, "schedule", "list", "-o", "json")
	check(false, `"yearly@.*-now"`, "run", "list", "--label", "pawl.schedule=yearly", "-o", "json")
	check(true, `there is no schedule "none"`, "schedule", "show", "none")
	check(true, `there is no schedule "none"`, "schedule", "pause", "none")
	check(true, `a backfill needs a span`, "schedule", "backfill", "yearly")
	check(false, `schedule yearly: resumed; next: 20`, "schedule", "resume", "yearly", "--reason", "back")
	check(false, `a run begins: yearly@.*-now`, "schedule", "trigger", "yearly")
	check(false, `the span has 2 firings`, "schedule", "backfill", "yearly", "--from", "2024-01-01T00:00:00Z",
		"--before", "2025-02-01T00:00:00Z")
	e = library(t, path, backup)
	h = pawl.ScheduleOf(e, "yearly")
	for d := (client.ScheduleDescription{Paused: time.Now()}); !d.Paused.IsZero(); {
		if d, err = h.Describe(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for made := 0; made < 4; { // two triggers, and the firings of two years
		runs, err := e.ListRuns(ctx, client.Query{Workflow: "backup", Phases: []client.Phase{client.PhaseSucceeded}})
		if err != nil {
			t.Fatal(err)
		}
		made = len(runs)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	check(true, `what\? Choose a verb`, "schedule")
}
