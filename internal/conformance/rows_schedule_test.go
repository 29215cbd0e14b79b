package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/schedules"
)

func init() {
	rows["C1"] = schedulesFire
	rows["C2"] = firingsHappenOnce
	rows["C3"] = firingsAreOrdinaryRuns
	rows["C4"] = flowsHaveOneSchedule
	rows["C5"] = pausesHold
	rows["C6"] = schedulesAreOperatedOn
	rows["C7"] = chainsOfTemporalStay
}

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

// quick is the only step of a flow that ends at once.
const quick = "\nsteps: [{name: work, exec: x}]\n"

// schedulesFire checks when schedules fire, and what holds for their runs.
func schedulesFire(t *testing.T) {
	t.Run("times", timesOfSchedules)
	t.Run("clocks", clocksAreChanged)
	t.Run("overlap", overlapsAreDecided)
	t.Run("limits", firingsHaveLimits)
	t.Run("failures", failuresPause)
}

// timesOfSchedules checks the firings of expressions, several of them, intervals, exclusions and zones.
func timesOfSchedules(t *testing.T) {
	for cron, want := range map[string]string{
		`"0 9 * * *"`: "01 09:00, 02 09:00, 03 09:00",
		`{schedule: ["0 9 * * sat", "30 12 * * sun-mon"]}`:         "01 09:00, 02 12:30, 03 12:30",
		`{schedule: "@every 31h"}`:                                 "02 07:00, 03 14:00",
		`{schedule: "0 9 * * *", except: [01-02]}`:                 "01 09:00, 03 09:00",
		`{schedule: "0 9 * * *", except: 2000-01-01..2000-01-02}`:  "03 09:00",
		`{schedule: "0 9 * * *", zone: Asia/Tokyo}`:                "02 09:00, 03 09:00, 04 09:00",
		`{schedule: "0 9 * * *", zone: Asia/Tokyo, except: 01-02}`: "03 09:00, 04 09:00",
	} {
		inCalendar(t, nil, func(t *testing.T, c *calendar) {
			c.ensure("cron: " + cron + quick)
			c.pass(3*day + hour)
			var all []string
			for _, r := range c.runs() {
				zone, err := time.LoadLocation(r.Zone)
				must(t, err)
				all = append(all, r.ScheduledAt.Std().In(zone).Format("02 15:04"))
				if r.CreatedAt != r.ScheduledAt || r.Phase != api.RunSucceeded {
					t.Errorf("%s: the run for %s was made at %s, and is %s", cron, r.ScheduledAt, r.CreatedAt, r.Phase)
				}
			}
			if got := strings.Join(all, ", "); got != want {
				t.Errorf("%s: it fired at\n%s\nwant\n%s", cron, got, want)
			}
		})
	}
}

// clocksAreChanged checks what becomes of a local time that the clocks skip, or show twice.
func clocksAreChanged(t *testing.T) {
	const spring, autumn = 84*day + 12*hour, 301*day + 12*hour // noon of 25 March and of 28 October 2000
	for _, c := range []struct {
		rule string
		from time.Duration
		want string
	}{
		{"", spring, "26 03:00 +02, 27 02:30 +02, 28 02:30 +02"},
		{", skipped: skip", spring, "27 02:30 +02, 28 02:30 +02"},
		{"", autumn, "29 02:30 +02, 30 02:30 +01, 31 02:30 +01"},
		{", repeated: both", autumn, "29 02:30 +02, 29 02:30 +01, 30 02:30 +01, 31 02:30 +01"},
	} {
		inCalendar(t, nil, func(t *testing.T, k *calendar) {
			k.pass(c.from)
			k.ensure(`cron: {schedule: "30 2 * * *", zone: Europe/Berlin` + c.rule + "}" + quick)
			k.pass(2*day + 18*hour)
			zone, err := time.LoadLocation("Europe/Berlin")
			must(t, err)
			var all []string
			for _, r := range k.runs() {
				all = append(all, r.ScheduledAt.Std().In(zone).Format("02 15:04 -07"))
			}
			if got := strings.Join(all, ", "); got != c.want {
				t.Errorf("%q: it fired at\n%s\nwant\n%s", c.rule, got, c.want)
			}
		})
	}
}

// overlapsAreDecided checks what each policy does while a run has not ended: the run of 1:00 takes until 3:30.
func overlapsAreDecided(t *testing.T) {
	script := map[string][]try{"work": {{run: 150 * time.Minute}, {run: 30 * time.Minute}}}
	for overlap, want := range map[string][2]string{
		"skip": {"01 01:00 succeeded, 01 04:00 succeeded", "01 02:00-03:00 (2) overlap"},
		"queue": {
			"01 01:00 succeeded, 01 02:00 at 03:30 succeeded, 01 03:00 at 04:00 succeeded, 01 04:00 at 04:30 running",
			"",
		},
		"newest": {"01 01:00 succeeded, 01 03:00 at 03:30 succeeded, 01 04:00 succeeded", "01 02:00 overlap"},
		"cancel": {"01 01:00 cancelled, 01 02:00 succeeded, 01 03:00 succeeded, 01 04:00 succeeded", ""},
		"allow":  {"01 01:00 succeeded, 01 02:00 succeeded, 01 03:00 succeeded, 01 04:00 succeeded", ""},
	} {
		inCalendar(t, script, func(t *testing.T, c *calendar) {
			c.ensure(`cron: {schedule: "0 * * * *", overlap: ` + overlap + "}" + quick)
			c.pass(4*hour + 45*time.Minute)
			if got := c.told(); got != want[0] {
				t.Errorf("%s: the runs are\n%s\nwant\n%s", overlap, got, want[0])
			}
			c.missed(want[1])
		})
	}
}

// firingsHaveLimits checks the catch-up window, the jitter, the limit of each run and the time of day after which none
// goes on.
func firingsHaveLimits(t *testing.T) {
	inCalendar(t, map[string][]try{"work": {{run: 10 * time.Minute}}}, func(t *testing.T, c *calendar) {
		c.ensure(`cron: {schedule: "0 * * * *", catchUp: 150m}` + "\ntimeout: {run: 20m}" + quick)
		c.pass(90 * time.Minute)
		c.away(4*hour + 40*time.Minute) // it is 6:10 then
		c.pass(hour)
		c.want("01 01:00 succeeded, 01 04:00 at 06:10 succeeded, 01 05:00 at 06:20 succeeded, " +
			"01 06:00 at 06:30 succeeded, 01 07:00 succeeded")
		c.missed("01 02:00-03:00 (2) late")
	})
	inCalendar(t, map[string][]try{"work": {hangs}}, func(t *testing.T, c *calendar) {
		c.ensure(`cron: {schedule: "0 1 * * *", notAfter: "03:00", jitter: 30m}` + "\ntimeout: {run: 45m}" + quick)
		c.pass(8 * hour)
		r := c.runs()[0]
		delay := r.StartedAt.Sub(r.ScheduledAt)
		if delay <= 0 || delay >= 30*time.Minute || r.Phase != api.RunTimedOut ||
			r.EndedAt.Sub(r.StartedAt) != 45*time.Minute {
			t.Errorf("it began %s later, and %s after %s", delay, r.Phase, r.EndedAt.Sub(r.StartedAt))
		}
	})
	inCalendar(t, map[string][]try{"work": {hangs}}, func(t *testing.T, c *calendar) {
		c.ensure(`cron: {schedule: "0 1 * * *", notAfter: "03:00", catchUp: 12h}` + quick)
		c.pass(8 * hour)
		if r := c.runs()[0]; r.Phase != api.RunTimedOut || r.EndedAt.Sub(r.ScheduledAt) != 2*hour {
			t.Errorf("the run is %s, after %s", r.Phase, r.EndedAt.Sub(r.ScheduledAt))
		}
		c.away(day)
		c.missed("02 01:00 notAfter")
	})
}

// failuresPause checks that a schedule pauses itself after so many failures in a row, and says why.
func failuresPause(t *testing.T) {
	script := map[string][]try{"work": {broken, ok, broken, broken, ok}}
	inCalendar(t, script, func(t *testing.T, c *calendar) {
		c.ensure(`cron: {schedule: "0 * * * *", maxFailures: 2}` + quick)
		c.pass(6*hour + time.Minute)
		c.want("01 01:00 failed, 01 02:00 succeeded, 01 03:00 failed, 01 04:00 failed")
		p := c.schedule().Paused
		if p == nil || !strings.Contains(p.Reason, "2 runs have failed one after the other") ||
			!strings.Contains(p.Reason, "exit code 1") {
			t.Errorf("%+v", p)
		}
		c.missed("01 05:00-06:00 (2) paused")
		c.do(schedule.OpResume, schedules.ScheduleChange{})
		c.pass(hour)
		c.want("01 01:00 failed, 01 02:00 succeeded, 01 03:00 failed, 01 04:00 failed, 01 07:00 succeeded")
	})
}

// firingsHappenOnce checks that each firing has one run or is told as missed, whatever becomes of the process and of
// its clock.
func firingsHappenOnce(t *testing.T) {
	script := map[string][]try{"work": {{run: 25 * time.Minute}}}
	inCalendar(t, script, func(t *testing.T, c *calendar) {
		c.ensure(`cron: {schedule: "*/10 * * * *", overlap: queue, catchUp: 30m}` + quick)
		for _, d := range []time.Duration{
			10 * time.Minute, 0, time.Second, 7 * time.Minute, 3 * time.Minute, 2 * hour,
		} {
			c.pass(9*time.Minute + 59*time.Second)
			c.away(d)
		}
		c.do(schedule.OpSkip, schedules.ScheduleChange{})
		c.pass(20 * time.Minute)
		c.set(hour) // somebody sets the clock, and sets it back
		c.pass(20 * time.Minute)
		c.set(0)
		c.away(0)
		c.pass(90 * time.Minute)
		c.do(schedule.OpPause, schedules.ScheduleChange{Reason: "enough"})
		c.pass(45 * time.Minute)
		c.do(schedule.OpResume, schedules.ScheduleChange{})
		c.pass(20 * time.Minute)
		c.everyFiring(10 * time.Minute)
	})
}

// everyFiring checks that each firing up to now, which are so far apart, was dealt with once.
func (c *calendar) everyFiring(apart time.Duration) {
	c.t.Helper()
	s := c.schedule()
	met := map[time.Time]int{}
	for _, r := range c.runs() {
		met[r.ScheduledAt.Std().UTC()]++
	}
	for _, at := range s.Waiting {
		met[at.Std().UTC()]++
	}
	for _, m := range s.Recent {
		for at := m.From; !at.After(m.To); at = at.Add(apart) {
			met[at.UTC()]++
		}
	}
	reasons := map[string]bool{}
	for _, m := range s.Recent {
		reasons[m.Reason] = true
	}
	for _, want := range []string{schedule.MissedLate, schedule.MissedSkipped, schedule.MissedPaused} {
		if !reasons[want] {
			c.t.Errorf("nothing was missed as %s: %+v", want, s.Recent)
		}
	}
	n, due := 0, c.schedule().Next.Std().UTC()
	for at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(apart); at.Before(due); at = at.Add(apart) {
		if n++; met[at] != 1 {
			c.t.Errorf("the firing at %s was dealt with %d times", at.Format(time.RFC3339), met[at])
		}
		delete(met, at)
	}
	if len(met) > 0 || n < 30 {
		c.t.Errorf("there were %d firings, and others: %v", n, met)
	}
}

// firingsAreOrdinaryRuns checks that what is done to the run of a firing concerns it alone.
func firingsAreOrdinaryRuns(t *testing.T) {
	script := map[string][]try{"work": {broken, hangs, hangs, ok}}
	const text = `cron: {schedule: "30 1 * * *", zone: Europe/Berlin, overlap: allow}` +
		"\nsteps: [{name: work, exec: {command: [x, \"${{ run.scheduledAt.Format('2006-01-02 15:04 MST') }}\"]}}]\n"
	inCalendar(t, script, func(t *testing.T, c *calendar) {
		c.ensure(text)
		c.pass(3 * day)
		c.want("01 01:30 failed, 02 01:30 running, 03 01:30 running")
		before := c.schedule()
		all := c.runs()
		c.operate(all[0], api.OpRetryRun)
		c.operate(all[1], api.OpCancel)
		c.operate(all[2], api.OpPause)
		again, err := c.svc.Restart(t.Context(), all[1].Run, api.RestartRequest{Actor: "test"})
		must(t, err)
		c.pass(10 * time.Minute)
		const now = "01 01:30 succeeded, 02 01:30 cancelled, 03 01:30 paused, 02 01:30 at 01:00 succeeded"
		c.want(now)
		if r, err := c.svc.Run(t.Context(), again.Run); err != nil || r.Phase != api.RunSucceeded ||
			r.ScheduledAt != all[1].ScheduledAt {
			t.Errorf("the run that was made again is %+v, %v", r, err)
		}
		after := c.schedule()
		if after.Next != before.Next || after.Fired != before.Fired || after.Missed != 0 || after.Paused != nil ||
			after.LastRun != before.LastRun {
			t.Errorf("the schedule was %+v, and is %+v", before, after)
		}
		c.pass(hour)
		c.want(now + ", 04 01:30 succeeded")
		for i, want := range []string{
			"2000-01-01 01:30 CET", "2000-01-02 01:30 CET", "2000-01-03 01:30 CET", "2000-01-01 01:30 CET",
			"2000-01-02 01:30 CET", "2000-01-04 01:30 CET",
		} {
			if got := c.stage.command(i); len(got) != 2 || got[1] != want {
				t.Errorf("attempt %d has %q, want %s", i, got, want)
			}
		}
	})
}

// operate carries out an operation on a run.
func (c *calendar) operate(r *api.Run, op string) {
	c.t.Helper()
	must(c.t, c.svc.Operate(c.t.Context(), r.Run, api.Operation{Operation: op, Actor: "test"}))
	c.pass(time.Second)
}
