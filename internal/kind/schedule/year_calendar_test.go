package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/schedule"
)

// timetable is when a schedule of the simulated year fires. It works that out by itself, day by day, from the clocks
// of its zone alone, to check what the schedules do.
type timetable struct {
	zone     string
	times    []times
	except   []string // dates: 2028-05-01, or in each year 05-01
	skips    bool     // no firing at local times that the clocks skip
	both     bool     // two at those that they show twice
	every    time.Duration
	overlap  schedule.Overlap
	catchUp  time.Duration
	jitter   time.Duration
	notAfter string
	failures int
}

// times is one expression of a timetable: the local times of some dates.
type times struct {
	minute  int
	hours   []int // nil: each hour that passes
	day     int   // day of the month; 0: each, -1: the last one
	weekday int   // 0: each, 1 to 7
}

func (x times) String() string {
	hours, day, weekday := "*", "*", "*"
	if x.hours != nil {
		hours = strings.Trim(strings.ReplaceAll(fmt.Sprint(x.hours), " ", ","), "[]")
	}
	switch {
	case x.day < 0:
		day = "L"
	case x.day > 0:
		day = fmt.Sprint(x.day)
	}
	if x.weekday > 0 {
		weekday = fmt.Sprint(x.weekday % 7)
	}
	return fmt.Sprintf("%d %s %s * %s", x.minute, hours, day, weekday)
}

var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Asia/Kolkata",
	"Africa/Casablanca",
}

// newTimetable draws a timetable.
func newTimetable(r *rand.Rand) *timetable {
	one := func(from ...time.Duration) time.Duration { return from[r.IntN(len(from))] }
	t := &timetable{
		zone: zones[r.IntN(len(zones))], skips: r.IntN(3) == 0, both: r.IntN(3) == 0,
		catchUp: one(time.Minute, time.Minute, time.Hour, 6*time.Hour, 72*time.Hour),
		jitter:  one(0, 0, 0, 20*time.Minute),
		overlap: []schedule.Overlap{"", "skip", "queue", "cancel", "allow", "newest"}[r.IntN(6)],
	}
	if r.IntN(8) == 0 {
		t.every = time.Duration(5+r.IntN(60)) * time.Hour
		return t
	}
	if r.IntN(4) == 0 {
		t.except = append(t.except, fmt.Sprintf("%02d-%02d", 1+r.IntN(12), 1+r.IntN(28)), "2028-03-26")
	}
	if r.IntN(6) == 0 {
		t.notAfter = fmt.Sprintf("%02d:00", 3+r.IntN(12))
	}
	if r.IntN(4) == 0 {
		t.failures = 2 + r.IntN(2)
	}
	for range 1 + r.IntN(2) {
		x := times{minute: 5 * r.IntN(12), hours: []int{r.IntN(5)}}
		switch r.IntN(8) {
		case 0:
			x.weekday = 1 + r.IntN(7)
		case 1:
			x.day = 1 + r.IntN(31)
		case 2:
			x.day = -1
		case 3:
			x.day, x.weekday = 13, 5
		case 4:
			x.hours = []int{x.hours[0], 12, 18}
		case 5:
			x.hours, x.weekday = nil, 7
		}
		t.times = append(t.times, x)
	}
	return t
}

// spec returns the timetable as a schedule has it.
func (t *timetable) spec() schedule.Spec {
	var all []string
	for _, x := range t.times {
		all = append(all, x.String())
	}
	if t.every > 0 {
		all = append(all, "@every "+t.every.String())
	}
	s := schedule.Spec{
		Cron: strings.Join(all, "; "), Zone: t.zone, Except: strings.Join(t.except, "; "), Overlap: t.overlap,
		CatchUp: t.catchUp.String(), NotAfter: t.notAfter, MaxFailures: t.failures,
	}
	if t.jitter > 0 {
		s.Jitter = t.jitter.String()
	}
	if t.skips {
		s.Skipped = "skip"
	}
	if t.both {
		s.Repeated = "both"
	}
	return s
}

// firings returns the instants after one and up to another at which the timetable fires. An interval counts from the
// anchor.
func (t *timetable) firings(after, until, anchor time.Time) (all []time.Time) {
	zone, err := time.LoadLocation(t.zone)
	if err != nil {
		panic(err)
	}
	add := func(at time.Time) {
		at = at.UTC()
		local := at.In(zone)
		excepted := slices.Contains(t.except, local.Format("2006-01-02")) ||
			slices.Contains(t.except, local.Format("01-02"))
		if at.After(after) && !at.After(until) && !excepted && !slices.ContainsFunc(all, at.Equal) {
			all = append(all, at)
		}
	}
	for at := anchor; t.every > 0 && !at.After(until); at = at.Add(t.every) {
		if at.After(anchor) {
			add(at)
		}
	}
	first, last := after.AddDate(0, 0, -2), until.AddDate(0, 0, 2)
	date := time.Date(first.Year(), first.Month(), first.Day(), 0, 0, 0, 0, time.UTC)
	for ; date.Before(last); date = date.AddDate(0, 0, 1) {
		for _, x := range t.times {
			if x.on(date) {
				t.onDate(date, x, zone, add)
			}
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// onDate adds the firings of an expression on a date.
func (t *timetable) onDate(date time.Time, x times, zone *time.Location, add func(at time.Time)) {
	end := date.Add(50 * time.Hour)
	for at := date.Add(-26 * time.Hour); x.hours == nil && at.Before(end); at = at.Add(5 * time.Minute) {
		if local := at.In(zone); local.YearDay() == date.YearDay() && local.Minute() == x.minute {
			add(at)
		}
	}
	for _, hour := range x.hours {
		local := date.Add(time.Duration(hour)*time.Hour + time.Duration(x.minute)*time.Minute)
		for _, at := range t.shown(local, zone) {
			add(at)
		}
	}
}

// on reports whether an expression holds on a date. One that restricts both day and weekday holds where either does.
func (x times) on(date time.Time) bool {
	weekday := x.weekday == 0 || int(date.Weekday()) == x.weekday%7
	day := x.day == 0 || date.Day() == x.day || x.day < 0 && date.AddDate(0, 0, 1).Day() == 1
	if x.day != 0 && x.weekday != 0 {
		return day || weekday
	}
	return day && weekday
}

// shown returns when the clocks of a zone show a local time, which is given as one of UTC, as far as the timetable
// fires then.
func (t *timetable) shown(local time.Time, zone *time.Location) (all []time.Time) {
	var change time.Time // the last change of the clocks before the time, as far as that is skipped
	offset := func(at time.Time) time.Duration {
		_, seconds := at.In(zone).Zone()
		return time.Duration(seconds) * time.Second
	}
	before := offset(local.Add(-15 * time.Hour))
	for at := local.Add(-15 * time.Hour); at.Before(local.Add(15 * time.Hour)); at = at.Add(5 * time.Minute) {
		now := offset(at)
		if at.Add(now).Equal(local) {
			all = append(all, at)
		}
		if now != before {
			before, change = now, at
		}
	}
	switch {
	case len(all) > 1 && !t.both:
		return all[:1]
	case len(all) == 0 && !t.skips:
		return []time.Time{change}
	}
	return all
}
