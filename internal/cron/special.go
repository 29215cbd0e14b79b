package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// rule reports whether a date matches, which is given in UTC.
type rule func(date time.Time) bool

// daysIn returns how many days the month of a date has.
func daysIn(date time.Time) int {
	return time.Date(date.Year(), date.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// dayRule reads a day of the month that depends on the month: L, L-3, 15W, LW. ok is false if the text is another one.
func dayRule(text string) (r rule, ok bool, err error) {
	switch {
	case text == "l":
		return func(d time.Time) bool { return d.Day() == daysIn(d) }, true, nil
	case text == "lw":
		return func(d time.Time) bool { return nearestWeekday(d, daysIn(d)) }, true, nil
	case strings.HasPrefix(text, "l-"):
		n, err := number(text[2:], 1, 30, nil)
		return func(d time.Time) bool { return d.Day() == daysIn(d)-n }, true, err
	case strings.HasSuffix(text, "w"):
		n, err := number(strings.TrimSuffix(text, "w"), 1, 31, nil)
		return func(d time.Time) bool { return n <= daysIn(d) && nearestWeekday(d, n) }, true, err
	default:
		return nil, false, nil
	}
}

// nearestWeekday reports whether a date is the day from Monday to Friday that is nearest to a day of its month, within
// that month.
func nearestWeekday(date time.Time, day int) bool {
	at := time.Date(date.Year(), date.Month(), day, 0, 0, 0, 0, time.UTC)
	switch at.Weekday() {
	case time.Saturday:
		if day--; day == 0 {
			day = 3
		}
	case time.Sunday:
		if day++; day > daysIn(date) {
			day -= 3
		}
	default:
	}
	return date.Day() == day
}

// weekdayRule reads a weekday that depends on the month: friL is the last Friday, fri#2 the second one. ok is false if
// the text is another one.
func weekdayRule(text string) (r rule, ok bool, err error) {
	if name, nth, found := strings.Cut(text, "#"); found {
		day, err := number(name, 0, 7, weekdayNames)
		if err != nil {
			return nil, true, err
		}
		n, err := strconv.Atoi(nth)
		if err != nil || n < 1 || n > 5 {
			return nil, true, fmt.Errorf("%q names no week of a month: write a number from 1 to 5, as in %s#1", nth,
				name)
		}
		return func(d time.Time) bool { return int(d.Weekday()) == day%7 && (d.Day()-1)/7+1 == n }, true, nil
	}
	name, found := strings.CutSuffix(text, "l")
	if !found {
		return nil, false, nil
	}
	if name == "" {
		return nil, true, fmt.Errorf("say which weekday is the last of its month, as in 5L or friL; "+
			"the last day of a month is L in the field before the month: %q", "0 0 L * *")
	}
	day, err := number(name, 0, 7, weekdayNames)
	return func(d time.Time) bool { return int(d.Weekday()) == day%7 && d.Day()+7 > daysIn(d) }, true, err
}

// matchesAny reports whether a date matches one of the rules.
func matchesAny(rules []rule, date time.Time) bool {
	for _, r := range rules {
		if r(date) {
			return true
		}
	}
	return false
}

// takeRules reads the parts of a field that depend on the month. It returns the other parts.
func takeRules(text string, read func(string) (rule, bool, error)) (rest string, rules []rule, err error) {
	var others []string
	for part := range strings.SplitSeq(text, ",") {
		r, ok, err := read(part)
		switch {
		case err != nil:
			return "", nil, err
		case ok:
			rules = append(rules, r)
		default:
			others = append(others, part)
		}
	}
	return strings.Join(others, ","), rules, nil
}
