package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/schedule"
)

// clock drives a schedule through time, as an engine does: it makes a turn whenever one is due or news come, and keeps
// what the turns do.
type clock struct {
	t      *testing.T
	s      *schedule.State
	now    time.Time
	wake   time.Time
	log    []string // events, with the time of day
	failed []string // runs that know that the last one has failed
	last   []schedule.Start
}

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// begin makes a schedule at an instant.
func begin(t *testing.T, spec schedule.Spec, now time.Time) *clock {
	t.Helper()
	c := &clock{t: t, s: &schedule.State{
		Name: "n", Spec: spec, Target: schedule.Target{Workflow: "w", Definition: "dd"},
	}, now: now}
	if err := c.s.Check(); err != nil {
		t.Fatal(err)
	}
	c.turn()
	return c
}

// turn makes a turn now. The state goes through its stored form, as it does between two turns.
func (c *clock) turn(news ...schedule.News) {
	c.t.Helper()
	text, err := c.s.Encode()
	if err != nil {
		c.t.Fatal(err)
	}
	if c.s, err = schedule.Decode(text); err != nil {
		c.t.Fatal(err)
	}
	turn, err := c.s.Turn(c.now, news)
	if err != nil {
		c.t.Fatal(err)
	}
	c.last = turn.Start
	for _, id := range turn.Stop {
		c.note("stop " + c.short(id))
	}
	for _, s := range turn.Start {
		c.note("start " + c.short(s.WorkflowID))
		if s.Failed {
			c.failed = append(c.failed, c.short(s.WorkflowID))
		}
	}
	if turn.Over {
		c.note("over")
	}
	if c.wake = turn.Wake; !c.wake.IsZero() && !c.wake.After(c.now) {
		c.t.Fatalf("the next turn at %s is not after this one at %s", c.wake, c.now)
	}
}

func (c *clock) note(text string) { c.log = append(c.log, c.now.Format("02 15:04 ")+text) }

// short names a run by the time of its firing.
func (c *clock) short(id string) string {
	text := strings.TrimPrefix(id, "n@")
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.Format("15:04")
	}
	return text
}

// until lets time pass, with each turn that is due.
func (c *clock) until(at time.Time) {
	c.t.Helper()
	for !c.wake.IsZero() && !c.wake.After(at) {
		c.now = c.wake
		c.turn()
	}
	c.now = at
}

// at lets time pass until so long after midnight of the Monday.
func (c *clock) at(d time.Duration) { c.t.Helper(); c.until(monday.Add(d)) }

// outage lets time pass while nobody is there, and then makes the turns that are due.
func (c *clock) outage(d time.Duration) {
	c.t.Helper()
	c.now = monday.Add(d)
	if !c.wake.IsZero() && !c.wake.After(c.now) {
		c.turn()
	}
}

// ends lets the run of a firing end.
func (c *clock) ends(firing time.Duration, phase string) {
	c.t.Helper()
	c.turn(schedule.News{Ended: &schedule.Ended{
		WorkflowID: schedule.RunID("n", monday.Add(firing)), Phase: phase, Message: "boom",
	}})
}

func (c *clock) change(change schedule.Change) { c.t.Helper(); c.turn(schedule.News{Change: &change}) }

// want compares what happened.
func (c *clock) want(want ...string) {
	c.t.Helper()
	if !slices.Equal(c.log, want) {
		c.t.Errorf("happened:\n%s\nwant:\n%s", strings.Join(c.log, "\n"), strings.Join(want, "\n"))
	}
	c.log = nil
}

// missed compares the rows of what was missed.
func (c *clock) missed(want ...string) {
	c.t.Helper()
	var got []string
	state := c.s.Settled(c.now)
	for _, m := range state.Recent {
		got = append(got, fmt.Sprintf("%s to %s %d %s", m.From.Format("15:04"), m.To.Format("15:04"), m.Count,
			m.Reason))
	}
	if !slices.Equal(got, want) {
		c.t.Errorf("missed %q, want %q", got, want)
	}
}

const (
	minute = time.Minute
	hour   = time.Hour
)

var hourly = schedule.Spec{Cron: "0 * * * *"}

func with(change func(*schedule.Spec)) schedule.Spec {
	s := hourly
	change(&s)
	return s
}

// TestOverlap checks what each policy does with firings while a run has not ended: of the firings at 1:00 to 4:00 the
// first one's run takes until 3:30.
func TestOverlap(t *testing.T) {
	for policy, want := range map[schedule.Overlap][]string{
		schedule.OverlapSkip:   {"02 01:00 start 01:00", "02 04:00 start 04:00"},
		schedule.OverlapQueue:  {"02 01:00 start 01:00", "02 03:30 start 02:00"},
		schedule.OverlapNewest: {"02 01:00 start 01:00", "02 03:30 start 03:00"},
		schedule.OverlapAllow: {
			"02 01:00 start 01:00", "02 02:00 start 02:00", "02 03:00 start 03:00", "02 04:00 start 04:00",
		},
		schedule.OverlapCancel: {
			"02 01:00 start 01:00", "02 02:00 stop 01:00", "02 03:00 stop 01:00", "02 03:30 start 03:00",
			"02 04:00 stop 03:00",
		},
	} {
		t.Run(string(policy), func(t *testing.T) {
			c := begin(t, with(func(s *schedule.Spec) { s.Overlap = policy }), monday.Add(30*minute))
			c.at(3*hour + 30*minute)
			c.ends(hour, "succeeded")
			c.at(4*hour + 10*minute)
			c.want(want...)
			switch policy {
			case schedule.OverlapSkip:
				c.missed("02:00 to 03:00 2 overlap")
			case schedule.OverlapNewest, schedule.OverlapCancel:
				c.missed("02:00 to 02:00 1 overlap")
			default:
				c.missed()
			}
		})
	}
}

// TestOutage checks that firings that are too late are missed, and those within the catch-up window begin one after
// the other, whatever the overlap policy says of a firing on time.
func TestOutage(t *testing.T) {
	c := begin(t, with(func(s *schedule.Spec) { s.CatchUp = "2h30m" }), monday)
	c.at(hour)
	c.ends(hour, "succeeded")
	c.outage(6*hour + 10*minute)
	c.want("02 01:00 start 01:00", "02 06:10 start 04:00")
	c.missed("02:00 to 03:00 2 late")
	c.ends(4*hour, "failed")
	c.ends(5*hour, "succeeded")
	c.at(7 * hour)
	c.ends(6*hour, "succeeded")
	c.want("02 06:10 start 05:00", "02 06:10 start 06:00")
	c.missed("02:00 to 03:00 2 late", "07:00 to 07:00 1 overlap")
	if c.s.Fired != 4 || c.s.Missed != 3 {
		t.Errorf("%d fired, %d missed", c.s.Fired, c.s.Missed)
	}
}

// TestLongOutage checks that a hundred years of seconds are missed in no time, and counted as far as that makes sense.
func TestLongOutage(t *testing.T) {
	c := begin(t, schedule.Spec{Cron: "@every 1s"}, monday)
	c.now = monday.AddDate(100, 0, 0)
	c.turn()
	if c.s.Missed != 10_000 || len(c.s.Waiting)+len(c.s.Open) != 61 {
		t.Errorf("%d missed, %d wait", c.s.Missed, len(c.s.Waiting)+len(c.s.Open))
	}
}

// TestPause checks that nothing begins while a schedule is paused, also not what waits, and that what was missed is
// counted by the times that held then, although they change meanwhile.
func TestPause(t *testing.T) {
	c := begin(t, with(func(s *schedule.Spec) { s.Overlap = schedule.OverlapQueue }), monday)
	c.at(2*hour + minute)
	c.change(schedule.Change{Op: schedule.OpPause, Reason: "a move", Actor: "ann"})
	c.ends(hour, "succeeded")
	c.at(4*hour + 30*minute)
	c.missed("03:00 to 04:00 2 paused")
	if c.s.Paused.Reason != "a move" || !c.wake.IsZero() {
		t.Errorf("%+v, wakes at %s", c.s.Paused, c.wake)
	}
	c.change(schedule.Change{Op: schedule.OpUpdate, Spec: &schedule.Spec{
		Cron: "30 * * * *", Overlap: schedule.OverlapQueue,
	}})
	c.at(6 * hour)
	c.missed("03:00 to 04:00 2 paused", "05:30 to 05:30 1 paused")
	c.want("02 01:00 start 01:00")
	c.change(schedule.Change{Op: schedule.OpResume})
	c.want("02 06:00 start 02:00")
	c.ends(2*hour, "succeeded")
	c.at(6*hour + 30*minute)
	c.want("02 06:30 start 06:30")
	if c.s.Missed != 3 {
		t.Errorf("%d missed", c.s.Missed)
	}
}

// TestFailures checks that a schedule pauses itself after so many failures in a row, and says why.
func TestFailures(t *testing.T) {
	c := begin(t, with(func(s *schedule.Spec) { s.MaxFailures = 2 }), monday)
	for i, phase := range []string{"failed", "succeeded", "timed_out", "cancelled", "failed"} {
		c.at(time.Duration(i+1) * hour)
		c.ends(time.Duration(i+1)*hour, phase)
	}
	if c.s.Paused == nil || !strings.Contains(c.s.Paused.Reason, "2 runs have failed one after the other, the last "+
		"one is n@2026-03-02T05:00:00Z: boom") {
		t.Fatalf("%+v", c.s.Paused)
	}
	c.at(9 * hour)
	c.missed("06:00 to 09:00 4 paused")
	c.change(schedule.Change{Op: schedule.OpResume})
	if c.s.Failures != 0 || c.s.Paused != nil {
		t.Errorf("after the resume: %+v", c.s)
	}
}

// TestAfterFailure checks that the next run knows that the last one has failed, by a firing as well as by hand.
func TestAfterFailure(t *testing.T) {
	c := begin(t, with(func(s *schedule.Spec) { s.Overlap = schedule.OverlapAllow }), monday)
	trigger := func(run string) { c.change(schedule.Change{Op: schedule.OpTrigger, Run: "n@" + run}) }
	c.at(hour)
	trigger("before")
	c.ends(hour, "failed")
	trigger("by hand")
	c.at(2 * hour)
	c.ends(2*hour, "succeeded")
	trigger("after")
	c.at(3 * hour)
	if want := []string{"by hand", "02:00"}; !slices.Equal(c.failed, want) {
		t.Errorf("%q know that the last one has failed, want %q", c.failed, want)
	}
}

// TestRowsHaveNoGaps checks that a row of missed firings spans none that was missed for another reason, also where that
// was told before.
func TestRowsHaveNoGaps(t *testing.T) {
	c := begin(t, with(func(s *schedule.Spec) { s.Overlap = schedule.OverlapNewest }), monday)
	c.change(schedule.Change{Op: schedule.OpSkip, Firing: monday.Add(3 * hour)})
	c.at(6*hour + minute)
	c.want("02 01:00 start 01:00")
	c.missed("03:00 to 03:00 1 skipped", "02:00 to 02:00 1 overlap", "04:00 to 05:00 2 overlap")
}

// TestRowsEndWithTheTimes checks that a row of missed firings does not go on after an edit: by the new times no other
// firing was between the two, and by the old ones there was one.
func TestRowsEndWithTheTimes(t *testing.T) {
	c := begin(t, hourly, monday)
	c.at(2*hour + 30*minute)
	c.ends(hour, "succeeded")
	c.at(3*hour + 30*minute)
	c.change(schedule.Change{Op: schedule.OpUpdate, Spec: &schedule.Spec{Cron: "0 4 * * *"}})
	c.at(5 * hour)
	c.want("02 01:00 start 01:00", "02 03:00 start 03:00")
	c.missed("02:00 to 02:00 1 overlap", "04:00 to 04:00 1 overlap")
}

// TestRowsOfAQueue checks that firings which have waited while times changed are told in one row when they are given
// up.
func TestRowsOfAQueue(t *testing.T) {
	c := begin(t, with(func(s *schedule.Spec) { s.Overlap = schedule.OverlapQueue }), monday)
	c.at(30*hour + minute)
	c.change(schedule.Change{Op: schedule.OpSkip, Firing: monday.Add(33 * hour)})
	c.change(schedule.Change{Op: schedule.OpUpdate, Spec: &schedule.Spec{Cron: "0 */3 * * *", Overlap: "queue"}})
	c.at(36*hour + minute)
	c.change(schedule.Change{Op: schedule.OpUpdate, Spec: &schedule.Spec{Cron: "30 * * * *", Overlap: "newest"}})
	c.at(36*hour + 31*minute)
	c.want("02 01:00 start 01:00")
	c.missed("09:00 to 09:00 1 skipped", "02:00 to 06:00 29 overlap", "12:00 to 12:00 1 overlap")
}

// TestWaitingMayOverlap checks that firings which wait for a run to end begin when times change to some that may
// overlap.
func TestWaitingMayOverlap(t *testing.T) {
	c := begin(t, with(func(s *schedule.Spec) { s.Overlap = schedule.OverlapQueue }), monday)
	c.at(3*hour + minute)
	c.change(schedule.Change{Op: schedule.OpUpdate, Spec: &schedule.Spec{Cron: hourly.Cron, Overlap: "allow"}})
	c.at(4*hour + minute)
	c.want("02 01:00 start 01:00", "02 03:01 start 02:00", "02 03:01 start 03:00", "02 04:00 start 04:00")
	c.missed()
}

// TestSkipAndUnskip checks that a firing which is taken out starts no run, and is told of.
func TestSkipAndUnskip(t *testing.T) {
	c := begin(t, hourly, monday)
	for _, h := range []time.Duration{1, 2, 3} {
		c.change(schedule.Change{Op: schedule.OpSkip, Firing: monday.Add(h * hour)})
	}
	c.change(schedule.Change{Op: schedule.OpUnskip, Firing: monday.Add(2 * hour)})
	c.at(3*hour + minute)
	c.want("02 02:00 start 02:00")
	c.missed("01:00 to 01:00 1 skipped", "03:00 to 03:00 1 skipped")
}

// TestJitter checks that each firing waits for a part of the jitter, always the same, and that its run is for the
// firing itself.
func TestJitter(t *testing.T) {
	spec := with(func(s *schedule.Spec) { s.Jitter, s.Overlap = "30m", schedule.OverlapAllow })
	delays := map[string]bool{}
	for range 2 {
		c := begin(t, spec, monday)
		c.at(20*hour + 45*minute)
		if len(c.log) != 20 {
			t.Fatalf("%d runs: %s", len(c.log), c.log)
		}
		for _, line := range c.log {
			at, firing, _ := strings.Cut(line, " start ")
			if firing[3:] != "00" || at[3:5] != firing[:2] || at[6:] >= "30" {
				t.Errorf("the run for %s began at %s", firing, at)
			}
			delays[line] = true
		}
	}
	if len(delays) != 20 {
		t.Errorf("the delays of 20 firings are others the second time: %d", len(delays))
	}
}

// TestJitterBeyondFirings checks that no firing counts as late because one before it waits longer.
func TestJitterBeyondFirings(t *testing.T) {
	c := begin(t, schedule.Spec{Cron: "* * * * *", Jitter: "30m", Overlap: schedule.OverlapAllow}, monday)
	c.at(20 * hour)
	c.missed()
	if n := len(c.log); n < 19*60+30 {
		t.Errorf("%d runs were started", n)
	}
}

// TestEditWithinJitter checks that a firing which waits for its part of the jitter begins at once when times change,
// since the new ones do not have it.
func TestEditWithinJitter(t *testing.T) {
	c := begin(t, with(func(s *schedule.Spec) { s.Jitter = "30m" }), monday)
	c.at(hour + time.Second)
	c.want()
	c.change(schedule.Change{Op: schedule.OpUpdate, Spec: &schedule.Spec{Cron: "30 * * * *", Overlap: "allow"}})
	c.at(hour + 31*minute)
	c.want("02 01:00 start 01:00", "02 01:30 start 01:30")
}

// TestNotAfter checks that a run neither begins nor goes on at a time of day.
func TestNotAfter(t *testing.T) {
	c := begin(t, schedule.Spec{Cron: "30 1 * * *", Zone: "Europe/Berlin", NotAfter: "06:00", CatchUp: "12h"}, monday)
	turn := func(d time.Duration) schedule.Turn {
		c.now = monday.Add(d)
		out, err := c.s.Turn(c.now, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := turn(4*hour + 59*minute) // 5:59 in Berlin, for 1:30
	if len(out.Start) != 1 || !out.Start[0].NotAfter.Equal(monday.Add(5*hour)) {
		t.Errorf("%+v", out.Start)
	}
	c.ends(30*minute, "succeeded")
	if out = turn(29 * hour); len(out.Start) != 0 {
		t.Errorf("%+v", out.Start)
	}
	c.missed("00:30 to 00:30 1 notAfter")
}

// TestTrigger checks that a run which is asked for begins at once, also while the schedule is paused, and holds up
// nothing.
func TestTrigger(t *testing.T) {
	c := begin(t, hourly, monday)
	c.change(schedule.Change{Op: schedule.OpPause})
	c.change(schedule.Change{Op: schedule.OpTrigger, Run: "n@by-hand"})
	c.change(schedule.Change{Op: schedule.OpResume})
	c.at(hour)
	c.want("02 00:00 start by-hand", "02 01:00 start 01:00")
}

// TestBackfill checks that the firings of a span get runs, in order or at once, but not those to come.
func TestBackfill(t *testing.T) {
	c := begin(t, with(func(s *schedule.Spec) { s.Overlap = schedule.OverlapQueue }), monday.Add(5*hour+minute))
	span := schedule.Change{Op: schedule.OpBackfill, From: monday.Add(2 * hour), Before: monday.Add(400 * hour)}
	c.change(span)
	c.want("02 05:01 start 02:00")
	c.ends(2*hour, "failed")                       // does not hold up the next one
	c.turn(schedule.News{Refused: &schedule.Ended{ // it had a run
		WorkflowID: schedule.RunID("n", monday.Add(3*hour)), Phase: "succeeded",
	}})
	c.want("02 05:01 start 03:00", "02 05:01 start 04:00")
	if b := c.s.Backfills[0]; b.Started != 2 || b.Had != 1 {
		t.Errorf("%+v", b)
	}
	c.ends(4*hour, "succeeded")
	c.ends(5*hour, "succeeded")
	c.want("02 05:01 start 05:00")
	if len(c.s.Backfills) != 0 {
		t.Errorf("%+v", c.s.Backfills)
	}
	span.AtOnce = true
	c.change(span)
	c.want("02 05:01 start 02:00", "02 05:01 start 03:00", "02 05:01 start 04:00", "02 05:01 start 05:00")
	c.at(6 * hour)
	c.want("02 06:00 start 06:00")
}

// TestHugeBackfill checks that one of 200 years starts a part of its runs with each turn, and no more than there may
// be.
func TestHugeBackfill(t *testing.T) {
	c := begin(t, hourly, monday)
	c.change(schedule.Change{Op: schedule.OpBackfill, From: monday.AddDate(-200, 0, 0), Before: monday, AtOnce: true})
	if len(c.log) != 100 {
		t.Errorf("%d runs in one turn", len(c.log))
	}
	c.at(minute)
	if len(c.log) != schedule.MostBackfilled || len(c.s.Backfills) != 0 {
		t.Errorf("%d runs, %d backfills", len(c.log), len(c.s.Backfills))
	}
}

// TestRefused checks that a run that could not be started is a missed firing with its reason, and a failure.
func TestRefused(t *testing.T) {
	c := begin(t, with(func(s *schedule.Spec) { s.MaxFailures = 1 }), monday)
	c.at(hour)
	c.turn(schedule.News{Refused: &schedule.Ended{
		WorkflowID: schedule.RunID("n", monday.Add(hour)), Message: "its input is wrong",
	}})
	c.missed("01:00 to 01:00 1 refused")
	if c.s.Recent[0].Note != "its input is wrong" || c.s.Paused == nil {
		t.Errorf("%+v", c.s)
	}
}

// TestUntil checks that a schedule is over when its end has come and its last run has ended.
func TestUntil(t *testing.T) {
	c := begin(t, hourly, monday)
	c.s.Until = monday.Add(2 * hour)
	c.at(30 * minute)
	c.turn()
	c.at(5 * hour)
	c.want("02 01:00 start 01:00")
	c.ends(hour, "succeeded")
	c.want("02 05:00 over")
}
