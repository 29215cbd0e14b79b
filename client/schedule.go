package client

import (
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// Overlap specifies what a schedule does when the run before has not ended.
type Overlap string

// The overlap policies.
const (
	OverlapSkip   = Overlap(schedule.OverlapSkip)   // this firing is left out (the default)
	OverlapQueue  = Overlap(schedule.OverlapQueue)  // it waits for its turn
	OverlapCancel = Overlap(schedule.OverlapCancel) // the run before is told to stop, then it begins
	OverlapAllow  = Overlap(schedule.OverlapAllow)  // both run
	OverlapNewest = Overlap(schedule.OverlapNewest) // it waits, and those that wait already are left out
)

// Schedule specifies when runs of a workflow start again and again. pawl.Workflow.EnsureSchedule puts it into effect.
type Schedule struct {
	// Cron has five fields (minute hour day month weekday), or is "@daily", "@every 90m" and the like. Several are
	// separated by semicolons.
	Cron string
	// The dates on which it does not fire, separated by semicolons: "2026-12-25", in each year "12-25", or from
	// one to another, "2026-12-24..2027-01-01".
	Except string
	Zone   string // IANA name; default UTC
	// When the clocks change, they skip some local times and show others twice. A firing at a time that the clocks skip
	// is at the instant of the change, or with OmitSkipped left out; one at a time that they show twice is at the first
	// of them, or with FireTwice at both. A schedule whose hour is * runs by elapsed time, and neither adds nor leaves
	// out a firing.
	OmitSkipped, FireTwice bool
	Overlap                Overlap
	// CatchUp is how late a firing may be, after an outage. Later ones are left out. Default a minute; negative: no
	// firing may be late.
	CatchUp time.Duration
	// Jitter delays each firing by a part of it. Default none.
	Jitter time.Duration
	// Timeout is the limit of each run, from when it begins. Default the workflow's.
	Timeout time.Duration
	// NotAfter is a time of day: "06:00". No run begins after that instant, or lives longer. Default none.
	NotAfter string
	// MaxFailures is how many runs may fail one after the other before the schedule pauses itself. Default any number.
	MaxFailures int
}

// Next returns the first n firings after t. It is how to look at a schedule before it is put into effect.
func (s Schedule) Next(t time.Time, n int) ([]time.Time, error) {
	table, err := s.spec().Parse(t)
	if err != nil {
		return nil, err
	}
	var out []time.Time
	for range n {
		if t = table.Next(t); t.IsZero() {
			break
		}
		out = append(out, t)
	}
	return out, nil
}

// The words of the inside for local times that the clocks skip, or show twice.
const skipGap, bothTimes = "skip", "both"

// spec returns the schedule in the words of the inside.
func (s Schedule) spec() schedule.Spec {
	out := schedule.Spec{
		Cron: s.Cron, Except: s.Except, Zone: s.Zone, Overlap: schedule.Overlap(s.Overlap), CatchUp: amount(s.CatchUp),
		Jitter: amount(s.Jitter), Timeout: amount(s.Timeout), NotAfter: s.NotAfter, MaxFailures: s.MaxFailures,
	}
	if s.OmitSkipped {
		out.Skipped = skipGap
	}
	if s.FireTwice {
		out.Repeated = bothTimes
	}
	if s.CatchUp < 0 {
		out.CatchUp = duration.Format(0)
	}
	return out
}

func amount(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return duration.Format(d)
}

// scheduleOf returns a schedule that is kept, which is valid.
func scheduleOf(s schedule.Spec) Schedule {
	out := Schedule{
		Cron: s.Cron, Except: s.Except, Zone: s.Zone, OmitSkipped: s.Skipped == skipGap,
		FireTwice: s.Repeated == bothTimes, Overlap: Overlap(s.Overlap), NotAfter: s.NotAfter,
		MaxFailures: s.MaxFailures,
	}
	for to, text := range map[*time.Duration]string{
		&out.CatchUp: s.CatchUp, &out.Jitter: s.Jitter, &out.Timeout: s.Timeout,
	} {
		*to, _ = duration.Parse(text)
	}
	if s.CatchUp != "" && out.CatchUp == 0 {
		out.CatchUp = -1
	}
	return out
}

// ScheduleDescription is the present state of a schedule.
type ScheduleDescription struct {
	Schedule
	Name        string
	Workflow    string
	Input       []byte            // encoded
	Labels      map[string]string // the labels of the runs that it starts
	Headers     map[string]string // the headers of these runs
	Next        time.Time         // the next firing; zero if it is paused, or never fires again
	Last        time.Time         // the last firing that started a run
	LastRun     string            // the workflow id of that run
	Paused      time.Time         // the instant since which it is paused; zero if it is not
	PauseReason string            // why it is paused
	Open        []string          // the workflow ids of its runs that have not ended
	Fired       int               // firings that started a run
	Missed      int               // firings that started no run
	Failures    int               // how many runs have failed one after the other
	// RecentMissed are the newest rows of missed firings, the oldest first. Backfill makes up for them.
	RecentMissed []MissedFirings
	Deadline     time.Time // it ends then, with all its runs; zero: never
	Problem      string    // why it cannot go on until somebody acts; see Summary
}

// MissedFirings is a row of firings that started no run.
type MissedFirings struct {
	From, To time.Time // the first and the last one
	Count    int
	// Reason is "late": no engine was there to start them within the catch-up window; "paused"; "overlap": the run
	// before had not ended; "skipped": an operator has taken it out; "notAfter": its latest time of day had passed;
	// "refused": its run could not be started, and Note says why.
	Reason string
	Note   string
}
