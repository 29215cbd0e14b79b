package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/scheduled"
	"github.com/pawl-dev/pawl/internal/schedules"
	"github.com/pawl-dev/pawl/pawltest"
)

// printing returns the only step of a flow, which prints a text.
func printing(text string) string {
	return fmt.Sprintf("\nsteps: [{name: work, exec: {command: [print, %q]}}]\n", text)
}

// printed returns what the attempts have printed.
func (c *calendar) printed() string {
	var all []string
	for i := range c.stage.seen {
		all = append(all, c.stage.command(i)[1])
	}
	return strings.Join(all, " ")
}

// flowsHaveOneSchedule checks that a flow with a cron has one schedule, which a second start leaves alone, and that an
// edit counts from the next firing on, whether the flow is started or lies in a folder.
func flowsHaveOneSchedule(t *testing.T) {
	const hourly = `cron: "0 * * * *"`
	inCalendar(t, nil, func(t *testing.T, c *calendar) {
		if made := c.ensure(hourly + printing("a")); !made.Made {
			t.Errorf("%+v", made)
		}
		c.pass(90 * time.Minute)
		if again := c.ensure(hourly + printing("a")); again.Made || len(again.Changed) > 0 {
			t.Errorf("the second start did %+v", again)
		}
		c.pass(hour)
		if again := c.ensure(hourly + printing("b")); !slices.Equal(again.Changed, []string{"workflow"}) {
			t.Errorf("the edit did %+v", again)
		}
		c.pass(hour)
		if again := c.ensure(`cron: "45 * * * *"` + printing("b")); !slices.Contains(again.Changed, "times") {
			t.Errorf("the edit of the cron did %+v", again)
		}
		c.pass(hour)
		if all, err := schedules.List(t.Context(), c.svc, c.now()); err != nil || len(all) != 1 {
			t.Errorf("%d schedules, %v", len(all), err)
		}
		c.want("01 01:00 succeeded, 01 02:00 succeeded, 01 03:00 succeeded, 01 03:45 succeeded")
		if got := c.printed(); got != "a a b b" {
			t.Errorf("printed %s", got)
		}
	})
	inCalendar(t, nil, func(t *testing.T, c *calendar) {
		var files sync.Map // texts by name
		files.Store("n.yaml", hourly+printing("a"))
		files.Store("plain.yaml", quick)
		k := c.serve(&files)
		c.pass(90 * time.Minute)
		files.Store("n.yaml", hourly+printing("b"))
		c.pass(hour)
		files.Delete("n.yaml")
		c.pass(hour)
		if p := c.schedule().Paused; p == nil || !strings.Contains(p.Reason, "its file n.yaml is gone") {
			t.Errorf("%+v", p)
		}
		files.Store("n.yaml", hourly+printing("c"))
		c.pass(hour)
		k.Close()
		c.want("01 01:00 succeeded, 01 02:00 succeeded, 01 04:00 succeeded")
		c.missed("01 03:00 paused")
		if got := c.printed(); got != "a b c" {
			t.Errorf("printed %s", got)
		}
	})
}

// serve keeps the schedules of a folder's files, as a server does.
func (c *calendar) serve(files *sync.Map) *scheduled.Keeper {
	read := scheduled.Reader(&c.store.Flows)
	return scheduled.Keep(c.t.Context(), scheduled.Config{
		Service: c.svc, Read: read, Now: c.now, Tell: func(text string) { c.t.Log(text) },
		Files: func(context.Context) (all []scheduled.File) {
			for name, text := range files.Range {
				d, err := c.store.Keep(c.flow(text.(string)))
				all = append(all, scheduled.File{Name: name.(string), Definition: d})
				must(c.t, err)
			}
			return all
		},
	})
}

// pausesHold checks that nothing begins while a schedule is paused, whatever else is done to it or becomes of the
// process, and that what was missed meanwhile is counted.
func pausesHold(t *testing.T) {
	script := map[string][]try{"work": {{run: 90 * time.Minute}, ok}}
	inCalendar(t, script, func(t *testing.T, c *calendar) {
		const text = `cron: {schedule: "0 * * * *", overlap: queue, catchUp: 12h}` + quick
		c.ensure(text)
		c.pass(130 * time.Minute)
		c.do(schedule.OpPause, schedules.ScheduleChange{Reason: "a move", Actor: "ann"})
		c.pass(90 * time.Minute) // the run ends, and a firing waits for that
		c.ensure(text)
		c.ensure(strings.Replace(text, "0 * * * *", "30 * * * *", 1))
		c.away(hour) // it is 4:40 then
		c.do(schedule.OpPause, schedules.ScheduleChange{Reason: "again", Actor: "bob"})
		c.pass(hour)
		c.want("01 01:00 succeeded")
		c.missed("01 03:00 paused, 01 04:30-05:30 (2) paused")
		if s := c.schedule(); s.Paused.Reason != "a move" || s.Paused.Actor != "ann" || s.Next != 0 || s.Missed != 3 {
			t.Errorf("%+v", s)
		}
		c.do(schedule.OpResume, schedules.ScheduleChange{})
		c.pass(hour)
		c.want("01 01:00 succeeded, 01 02:00 at 05:40 succeeded, 01 06:30 succeeded")
	})
}

// schedulesAreOperatedOn checks the verbs of schedules: on the engine, by a server, and in Go.
func schedulesAreOperatedOn(t *testing.T) {
	t.Run("engine", verbsOfSchedules)
	t.Run("server", func(t *testing.T) {
		before := through
		defer func() { through = before }()
		through = overHTTP
		verbsOfSchedules(t)
	})
	t.Run("go", verbsInGo)
}

func verbsOfSchedules(t *testing.T) {
	inCalendar(t, nil, func(t *testing.T, c *calendar) {
		c.ensure(`cron: "0 * * * *"` + quick)
		next, err := schedules.Next(t.Context(), c.svc, "n", 3, c.now())
		if err != nil || len(next) != 3 || next[2].Std().UTC().Hour() != 3 {
			t.Errorf("next are %v, %v", next, err)
		}
		c.do(schedule.OpSkip, schedules.ScheduleChange{})
		c.do(schedule.OpSkip, schedules.ScheduleChange{Firing: next[2]})
		c.do(schedule.OpUnskip, schedules.ScheduleChange{Firing: next[2]})
		c.pass(10 * time.Minute)
		if out := c.do(schedule.OpTrigger, schedules.ScheduleChange{}); !strings.HasSuffix(out.WorkflowID, "-now") {
			t.Errorf("%+v", out)
		}
		c.pass(3 * hour)
		c.want("now at 00:10 succeeded, 01 02:00 succeeded, 01 03:00 succeeded")
		c.missed("01 01:00 skipped")
		midnight := api.At(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
		span := schedules.ScheduleChange{From: midnight, DryRun: true}
		if out := c.do(schedule.OpBackfill, span); out.Firings != 4 {
			t.Errorf("the span has %d firings", out.Firings)
		}
		c.want("now at 00:10 succeeded, 01 02:00 succeeded, 01 03:00 succeeded")
		for want, wrong := range map[string]schedules.ScheduleChange{
			"ends in the future": {From: midnight, Before: api.At(c.now().Add(hour))},
			"more than 100":      {From: api.At(c.now().Add(-5 * day))},
			"more than 3":        {From: midnight, Limit: 3},
			"needs a span":       {},
		} {
			if why := c.refused(schedule.OpBackfill, wrong); !strings.Contains(why, want) {
				t.Errorf("%q, want %q", why, want)
			}
		}
		span.DryRun = false
		c.do(schedule.OpBackfill, span)
		c.pass(time.Minute)
		got := c.told()
		if strings.Count(got, "succeeded") != 5 || !strings.Contains(got, "01 01:00 at 03:10 succeeded") ||
			!strings.Contains(got, "01 00:00 at 03:10 succeeded") {
			t.Errorf("after the backfill: %s", got)
		}
		if why := c.refused(schedule.OpUnskip, schedules.ScheduleChange{}); !strings.Contains(why, "taken out") {
			t.Error(why)
		}
		if was := c.do(schedules.VerbRemove, schedules.ScheduleChange{}).Schedule; was.Name != "n" || was.Fired == 0 {
			t.Errorf("removed was %+v", was)
		}
		c.pass(day)
		if all, err := schedules.List(t.Context(), c.svc, c.now()); err != nil || len(all) != 0 || len(c.runs()) != 5 {
			t.Errorf("%v, %v; %s", all, err, c.told())
		}
		if why := c.refused(schedule.OpTrigger, schedules.ScheduleChange{}); !strings.Contains(why, "no schedule") {
			t.Error(why)
		}
	})
}

func verbsInGo(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) { return 0, pawl.Sleep(ctx, "s", "1m") })
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		start := time.Now()
		s, err := w.EnsureSchedule(t.Context(), e, "n", client.Schedule{Cron: "0 * * * *"}, nothing{})
		must(t, err)
		if at, err := s.Skip(t.Context(), time.Time{}, ""); err != nil || at.Sub(start) != hour {
			t.Errorf("%s, %v", at, err)
		}
		_, err = s.Trigger(t.Context(), "")
		must(t, err)
		e.Skip(130 * time.Minute)
		must(t, s.Pause(t.Context(), "a move"))
		e.Skip(hour)
		if n, err := s.Backfill(t.Context(), start.Add(time.Second), time.Now(), ""); err != nil || n != 3 {
			t.Errorf("%d firings, %v", n, err)
		}
		if _, err := s.Backfill(t.Context(), start, time.Now().Add(time.Second), ""); err == nil {
			t.Error("a backfill of the future is not refused")
		}
		must(t, s.Resume(t.Context(), ""))
		e.Skip(10 * time.Minute)
		runs, err := e.ListRuns(t.Context(), client.Query{Workflow: "w"})
		if d, derr := s.Describe(t.Context()); err != nil || derr != nil || len(runs) != 4 || d.Missed != 2 {
			t.Errorf("%d runs, %+v; %v, %v", len(runs), d, err, derr)
		}
		must(t, s.Delete(t.Context(), ""))
		all, err := e.ListSchedules(t.Context())
		if err != nil || len(all) > 0 {
			t.Errorf("%v, %v", all, err)
		}
	}, w)
}

// chainsOfTemporalStay checks that Temporal's cron is one chain of runs, and no schedule, and that what it waits for
// its first firing counts in no limit.
func chainsOfTemporalStay(t *testing.T) {
	c := temporalWork(t, "startToCloseTimeout: 1d",
		`cronSchedule: "0 * * * *", workflowRunTimeout: 10m, workflowExecutionTimeout: 90m`)
	perform(t, c, map[string][]try{"work": {{run: 5 * time.Minute}, hangs}}, func(s *stage) {
		s.pass(30 * time.Minute)
		if r := s.run(); r.Phase != core.RunPending {
			s.t.Errorf("while it waits, the run is %s", r.Phase)
		}
	}, func(s *stage, r *core.Run) {
		s.wantAttempts("work@1h-1h5m ok", "work@2h-2h5m ok")
		if r.Next == (core.RunID{}) {
			s.t.Error("no run follows the first one")
		}
		page, err := s.engine.List(s.t.Context(), journal.Query{Limit: 10})
		must(s.t, err)
		for _, row := range page.Runs {
			if row.Workflow != "w" {
				s.t.Errorf("there is a run of %s", row.Workflow)
			}
		}
	})
}
