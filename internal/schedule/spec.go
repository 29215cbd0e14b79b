package schedule

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/cron"
)

// Overlap decides what happens when a firing is due and an earlier run has not ended.
type Overlap string

// Overlap policies.
const (
	OverlapSkip   Overlap = "skip"
	OverlapQueue  Overlap = "queue"
	OverlapCancel Overlap = "cancel"
	OverlapAllow  Overlap = "allow"
	OverlapNewest Overlap = "newest"
)

// Spec defines when a schedule fires, and the rules for its firings and their runs.
type Spec struct {
	Cron     string  `json:"cron"`               // expressions, separated by semicolons
	Except   string  `json:"except,omitempty"`   // dates on which it does not fire, separated by semicolons
	Zone     string  `json:"zone,omitempty"`     // the zone of the times and the dates; default UTC
	Skipped  string  `json:"skipped,omitempty"`  // local times that a change of the clock skips: shift, skip
	Repeated string  `json:"repeated,omitempty"` // those that it shows twice: first, both
	Overlap  Overlap `json:"overlap,omitempty"`
	CatchUp  string  `json:"catchUp,omitempty"`  // how late a firing may be; default 1m
	Jitter   string  `json:"jitter,omitempty"`   // each firing is delayed by a part of it
	Timeout  string  `json:"timeout,omitempty"`  // the limit of each run, from when it begins
	NotAfter string  `json:"notAfter,omitempty"` // a time of day, 06:00: no run begins then or later, or lives longer
	// MaxFailures is how many runs fail one after the other before the schedule pauses itself; 0 if it never does.
	MaxFailures int `json:"maxFailures,omitempty"`
}

// DefaultCatchUp is how late a firing may be by default.
const DefaultCatchUp = time.Minute

// Table is a Spec, parsed.
type Table struct {
	times    []cron.Timetable
	except   []dates
	zone     *time.Location
	anchor   time.Time // the firings of intervals are counted from here
	catchUp  time.Duration
	jitter   time.Duration
	timeout  time.Duration
	notAfter *cron.Timetable
}

// dates is a span of dates; of those without a year, in each year.
type dates struct {
	from, to string // 2006-01-02, or 01-02
}

// Parse reads a schedule's times. The firings of an interval are counted from the anchor.
func (s Spec) Parse(anchor time.Time) (*Table, error) {
	t := &Table{anchor: anchor, catchUp: DefaultCatchUp}
	var errs []error
	check := func(field string, err error) {
		if err != nil {
			errs = append(errs, wrap(field, err))
		}
	}
	var common cron.Timetable
	var err error
	common.Zone, err = cron.ParseZone(s.Zone)
	check("zone", err)
	common.Gap, err = cron.ParseGap(s.Skipped)
	check("skipped", err)
	common.Fold, err = cron.ParseFold(s.Repeated)
	check("repeated", err)
	t.zone = common.Zone
	for text := range strings.SplitSeq(s.Cron, ";") {
		one := common
		one.Spec, err = cron.Parse(strings.TrimSpace(text))
		check("", err)
		t.times = append(t.times, one)
	}
	if s.Except != "" {
		for text := range strings.SplitSeq(s.Except, ";") {
			d, err := parseDates(strings.TrimSpace(text))
			check("except", err)
			t.except = append(t.except, d)
		}
	}
	switch s.Overlap {
	case "", OverlapSkip, OverlapQueue, OverlapCancel, OverlapAllow, OverlapNewest:
	default:
		check("overlap", fmt.Errorf("%q where skip, queue, cancel, allow or newest is expected", s.Overlap))
	}
	for _, f := range []struct {
		name, text string
		to         *time.Duration
	}{{"catchUp", s.CatchUp, &t.catchUp}, {"jitter", s.Jitter, &t.jitter}, {"timeout", s.Timeout, &t.timeout}} {
		if f.text == "" {
			continue
		}
		*f.to, err = duration.Parse(f.text)
		check(f.name, err)
	}
	if s.NotAfter != "" {
		t.notAfter, err = parseTimeOfDay(s.NotAfter, common.Zone)
		check("notAfter", err)
	}
	if s.MaxFailures < 0 {
		check("maxFailures", errors.New("it is negative"))
	}
	return t, errors.Join(errs...)
}

// wrap names the field that an error is about.
func wrap(field string, err error) error {
	if field == "" || err == nil {
		return err
	}
	return fmt.Errorf("%s: %w", field, err)
}

// parseTimeOfDay reads a time of day, as the instants at which clocks show it.
func parseTimeOfDay(text string, zone *time.Location) (*cron.Timetable, error) {
	at, err := time.Parse("15:04", text)
	if err != nil {
		return nil, fmt.Errorf("%q is not a time of day; write it as 06:00", text)
	}
	spec, err := cron.Parse(fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour()))
	return &cron.Timetable{Spec: spec, Zone: zone}, err
}

const (
	fullDate   = "2006-01-02"
	yearlyDate = "01-02"
)

// parseDates reads a date, 2026-12-25 or in each year 12-25, or a span of dates, 2026-12-24..2027-01-01.
func parseDates(text string) (dates, error) {
	from, to, span := strings.Cut(text, "..")
	if !span {
		to = from
	}
	d := dates{strings.TrimSpace(from), strings.TrimSpace(to)}
	for _, layout := range []string{fullDate, yearlyDate} {
		first, errFrom := time.Parse(layout, d.from)
		last, errTo := time.Parse(layout, d.to)
		switch {
		case errFrom != nil || errTo != nil:
		case last.Before(first):
			return d, fmt.Errorf("%q ends before it begins", text)
		default:
			return d, nil
		}
	}
	return d, fmt.Errorf("%q is not a date; write it as 2026-12-25, in each year as 12-25, a span as "+
		"2026-12-24..2027-01-01", text)
}

// excepts reports whether no firing is on the date of an instant.
func (t *Table) excepts(at time.Time) bool {
	local := at.In(t.zone)
	for _, d := range t.except {
		date := local.Format(yearlyDate)
		if len(d.from) == len(fullDate) {
			date = local.Format(fullDate)
		}
		if d.from <= date && date <= d.to {
			return true
		}
	}
	return false
}

// mostExcepted is how many years of excepted firings are skipped before a schedule counts as one that never fires
// again.
const mostExcepted = 10

// Next returns the first firing after an instant, in the schedule's zone, zero if there is none.
func (t *Table) Next(after time.Time) time.Time {
	for last := after.AddDate(mostExcepted, 0, 0); !after.After(last); {
		var next time.Time
		for _, one := range t.times {
			// An interval keeps its beat: its firings are counted from the anchor, whatever fired in between.
			at := one.Next(one.Before(t.anchor, after.Add(1)))
			if next.IsZero() || !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		if next.IsZero() || !t.excepts(next) {
			return next
		}
		after = next
	}
	return time.Time{}
}

// latest returns the last instant at which a run for the firing may begin or be open, zero if there is none.
func (t *Table) latest(firing time.Time) time.Time {
	if t.notAfter == nil {
		return time.Time{}
	}
	return t.notAfter.Next(firing)
}

// delay returns the delay of a firing: a part of the jitter that depends only on the schedule and the firing.
func (t *Table) delay(name string, firing time.Time) time.Duration {
	if t.jitter <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s@%d", name, firing.Unix())
	return time.Duration(h.Sum64() % uint64(t.jitter)).Truncate(time.Millisecond)
}
