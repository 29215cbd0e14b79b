// Package cron evaluates cron expressions in time zones. When daylight-saving time starts or ends, some local times do
// not exist and others happen twice. [Gap] and [Fold] are explicit rules for these times; other cron libraries drop or
// repeat firings without telling.
package cron

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
)

// Gap is the rule for a local time that a change of the clock skips.
type Gap uint8

// The rules for gaps.
const (
	Shift Gap = iota // it fires at the instant of the change
	Skip             // it does not fire that day
)

// Fold is the rule for a local time that a change of the clock repeats.
type Fold uint8

// The rules for folds.
const (
	First Fold = iota // it fires the first time only
	Both              // it fires both times
)

// Spec is a parsed expression.
type Spec struct {
	minutes, hours, days, months, weekdays []bool        // whether the number at this index matches
	everyHour                              bool          // the hour is *: the schedule follows elapsed time
	anyDay, anyWeekday                     bool          // the field starts with *
	every                                  time.Duration // the interval of @every; 0: an expression of five fields
	dayRules, weekdayRules                 []rule        // L, 15W, fri#2 and the like
}

var shorthands = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

var (
	monthNames   = strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")
	weekdayNames = strings.Fields("sun mon tue wed thu fri sat")
)

// Parse reads an expression: five fields (minute, hour, day of month, month, day of week), one of @hourly @daily
// @weekly @monthly @yearly, or "@every 90m". A field is *, a number, a name, a range a-b, any of these with a step /n,
// or a list of them. If day of month and day of week are both restricted, a date that matches one of them matches; a
// field that begins with * or is ? alone restricts nothing.
//
// As in Quartz, the day of month may be L (the last one), L-3 (three days before it), 15W (the weekday nearest to the
// 15th, in the same month) or LW, and the day of week friL (the last Friday of the month) or fri#2 (the second one).
// Weekdays count from 0, which is Sunday.
func Parse(text string) (*Spec, error) {
	trimmed := strings.ToLower(strings.TrimSpace(text))
	if rest, ok := strings.CutPrefix(trimmed, "@every "); ok {
		d, err := duration.Parse(strings.TrimSpace(rest))
		if err != nil {
			return nil, fmt.Errorf("cron: %q: %w", text, err)
		}
		if d < time.Second {
			return nil, fmt.Errorf("cron: %q: the interval must be at least one second", text)
		}
		return &Spec{every: d}, nil
	}
	if full, ok := shorthands[trimmed]; ok {
		trimmed = full
	}
	fields := strings.Fields(trimmed)
	if len(fields) != 5 {
		hint := ""
		if len(fields) == 6 || len(fields) == 7 {
			hint = "; a field for seconds, or for years, is left out"
		}
		return nil, fmt.Errorf("cron: %q has %d fields where 5 are expected: minute hour day month weekday%s",
			text, len(fields), hint)
	}
	if fields[2] == "?" && fields[4] == "?" {
		return nil, fmt.Errorf("cron: %q: ? in both fields of days names no day; write * in one of them", text)
	}
	for _, i := range []int{2, 4} {
		if fields[i] == "?" {
			fields[i] = "*"
		}
	}

	s := &Spec{
		everyHour:  fields[1] == "*",
		anyDay:     strings.HasPrefix(fields[2], "*"),
		anyWeekday: strings.HasPrefix(fields[4], "*"),
	}
	var err error
	if fields[2], s.dayRules, err = takeRules(fields[2], dayRule); err != nil {
		return nil, fmt.Errorf("cron: %q: day: %w", text, err)
	}
	if fields[4], s.weekdayRules, err = takeRules(fields[4], weekdayRule); err != nil {
		return nil, fmt.Errorf("cron: %q: weekday: %w", text, err)
	}
	for i, f := range []struct {
		name     string
		to       *[]bool
		low, top int
		names    []string
	}{
		{"minute", &s.minutes, 0, 59, nil},
		{"hour", &s.hours, 0, 23, nil},
		{"day", &s.days, 1, 31, nil},
		{"month", &s.months, 1, 12, monthNames},
		{"weekday", &s.weekdays, 0, 7, weekdayNames},
	} {
		set, err := parseField(fields[i], f.low, f.top, f.names)
		if err != nil {
			return nil, fmt.Errorf("cron: %q: %s: %w", text, f.name, err)
		}
		*f.to = set
	}
	s.weekdays[0] = s.weekdays[0] || s.weekdays[7] // Sunday is 0 or 7
	if !s.possible() {
		return nil, fmt.Errorf("cron: %q never fires: no such day in these months", text)
	}
	return s, nil
}

func parseField(text string, low, top int, names []string) ([]bool, error) {
	set := make([]bool, top+1)
	if text == "" {
		return set, nil // the parts are combined as rules
	}
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			n, err := strconv.Atoi(stepText)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("step %q is not a number of at least 1", stepText)
			}
			step = n
		}
		from, to := low, top
		if span != "*" {
			first, last, ranged := strings.Cut(span, "-")
			var err error
			if from, err = number(first, low, top, names); err != nil {
				return nil, err
			}
			switch {
			case ranged:
				if to, err = number(last, low, top, names); err != nil {
					return nil, err
				}
			case !stepped:
				to = from
			}
			if to < from {
				return nil, fmt.Errorf("range %q ends before it starts", span)
			}
		}
		for i := from; i <= to; i += min(step, top+1) { // a greater step would overflow
			set[i] = true
		}
	}
	return set, nil
}

func number(text string, low, top int, names []string) (int, error) {
	if i := slices.Index(names, text); i >= 0 {
		return i + low, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil && strings.ContainsAny(text, "lw#?") && len(text) < 4:
		return 0, fmt.Errorf("%q is not a number from %d to %d; L and W belong in the field of days, as in L or 15W, "+
			"and # in that of weekdays, as in fri#2", text, low, top)
	case err != nil || n < low || n > top:
		return 0, fmt.Errorf("%q is not a number from %d to %d", text, low, top)
	}
	return n, nil
}

// possible reports whether any date can match. 30 February, for example, cannot.
func (s *Spec) possible() bool {
	if !s.anyWeekday && (slices.Contains(s.weekdays[:7], true) || len(s.weekdayRules) > 0) {
		return slices.Contains(s.months, true)
	}
	longest := [...]int{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	for m := 1; m <= 12; m++ {
		for d := 1; s.months[m] && d <= longest[m]; d++ {
			leap := time.Date(2024, time.Month(m), d, 0, 0, 0, 0, time.UTC)
			if s.days[d] || matchesAny(s.dayRules, leap) {
				return true
			}
		}
	}
	return false
}

// Next returns the first firing after t, in t's location.
//
// A schedule whose hour is * follows elapsed time: a change of the clock neither adds nor removes a firing. Any other
// schedule names local times. Gap and fold are the rules for those that a change of the clock skips or repeats.
func (s *Spec) Next(t time.Time, gap Gap, fold Fold) time.Time {
	if s.every > 0 {
		return t.Truncate(time.Second).Add(s.every)
	}
	if s.everyHour {
		gap, fold = Skip, Both
	}
	y, m, d := t.Date()
	var found time.Time
	// Start one day early: that day may repeat its last hour after midnight. Look nine years ahead: the next 29
	// February may be eight years away.
	for day := -1; day < 9*366; day++ {
		date := time.Date(y, m, d+day, 0, 0, 0, 0, time.UTC)
		if s.matches(date) {
			found = s.earlier(found, date, t, gap, fold)
		}
		// A later date may still have an earlier firing, but not once the date is past the firing's own.
		if !found.IsZero() && date.After(time.Date(found.Year(), found.Month(), found.Day(), 0, 0, 0, 0, time.UTC)) {
			return found
		}
	}
	return found
}

// matches reports whether the schedule fires on the date, which is given in UTC.
func (s *Spec) matches(date time.Time) bool {
	if !s.months[date.Month()] {
		return false
	}
	day := s.days[date.Day()] || matchesAny(s.dayRules, date)
	weekday := s.weekdays[date.Weekday()] || matchesAny(s.weekdayRules, date)
	if s.anyDay || s.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// earlier returns the first firing after t of a date, or the one that was found before if that is earlier or the date
// has none.
func (s *Spec) earlier(found, date, t time.Time, gap Gap, fold Fold) time.Time {
	least, most := offsets(date, t.Location())
	for h := range 24 {
		if end := date.Add(time.Duration(h+1) * time.Hour); !s.hours[h] || !end.Add(-least).After(t) {
			continue
		}
		for m := range 60 {
			if !s.minutes[m] {
				continue
			}
			wall := date.Add(time.Duration(h)*time.Hour + time.Duration(m)*time.Minute)
			// A time fires between its instants with the two offsets. Only a few times of a day need a closer look.
			if !wall.Add(-least).After(t) {
				continue
			}
			if !found.IsZero() && wall.Add(-most).After(found) {
				return found
			}
			for _, at := range firings(wall, t.Location(), gap, fold) {
				if at.After(t) && (found.IsZero() || at.Before(found)) {
					found = at
				}
			}
		}
	}
	return found
}

// offsets returns the least and the greatest offset that holds in loc around a date, which is given in UTC: at all
// instants that [instants] looks at for its times.
func offsets(date time.Time, loc *time.Location) (least, most time.Duration) {
	const day = 24 * time.Hour
	for at, first := date.Add(-day).In(loc), true; ; first = false {
		_, seconds := at.Zone()
		offset := time.Duration(seconds) * time.Second
		if first {
			least, most = offset, offset
		}
		least, most = min(least, offset), max(most, offset)
		if _, at = at.ZoneBounds(); at.IsZero() || !at.Before(date.Add(2*day)) {
			return least, most
		}
	}
}

// firings lists the instants at which a local time fires, which is given as if in UTC.
func firings(wall time.Time, loc *time.Location, gap Gap, fold Fold) []time.Time {
	at, changed := instants(wall, loc)
	switch {
	case len(at) > 1 && fold == First:
		return at[:1]
	case len(at) == 0 && gap == Shift:
		return []time.Time{changed}
	default:
		return at
	}
}

// instants returns the instants at which clocks in loc show a local time, which is given as if in UTC. There may be
// one, two or none. If there are none, changed is the instant of the change that skips the time.
func instants(wall time.Time, loc *time.Location) (at []time.Time, changed time.Time) {
	shows := func(t time.Time) bool {
		_, offset := t.Zone()
		return t.Add(time.Duration(offset) * time.Second).Equal(wall)
	}
	// Try the offsets that hold around that time: before and after a change they differ.
	const day = 24 * time.Hour
	for _, near := range []time.Time{wall.Add(-day), wall, wall.Add(day)} {
		_, offset := near.In(loc).Zone()
		t := wall.Add(-time.Duration(offset) * time.Second).In(loc)
		if shows(t) && !slices.ContainsFunc(at, t.Equal) {
			at = append(at, t)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	if len(at) > 0 {
		return at, time.Time{}
	}
	// No such time exists: by the offset before the change, it lies in the zone period that the change started.
	_, offset := wall.Add(-day).In(loc).Zone()
	start, _ := wall.Add(-time.Duration(offset) * time.Second).In(loc).ZoneBounds()
	return nil, start.In(loc)
}
