package cron

import (
	"errors"
	"fmt"
	"time"
)

// Timetable is an expression in a time zone, with the rules for local times that a change of the clock skips or
// repeats.
type Timetable struct {
	Spec *Spec
	Zone *time.Location
	Gap  Gap
	Fold Fold
}

// Next returns the first firing after t, or zero if there is none.
func (tt Timetable) Next(t time.Time) time.Time {
	return tt.Spec.Next(t.In(tt.Zone), tt.Gap, tt.Fold)
}

// Following returns the first firing after start that is not before t. It leaves out the firings that t has passed.
func (tt Timetable) Following(start, t time.Time) time.Time {
	next := tt.Next(start)
	if !next.Before(t) || next.IsZero() {
		return next
	}
	if every := tt.Spec.every; every > 0 {
		passed := (t.Sub(next) + every - 1) / every
		return next.Add(passed * every)
	}
	return tt.Next(t.Add(-1))
}

// Before returns an instant from which [Timetable.Next] finds the first firing that is not before t. The firings of an
// interval are counted from one of them, or from where the interval began: the anchor.
func (tt Timetable) Before(anchor, t time.Time) time.Time {
	every := tt.Spec.every
	if every == 0 {
		return t.Add(-1)
	}
	anchor = anchor.Truncate(time.Second) // as Next does
	last := anchor.Add(t.Sub(anchor) / every * every)
	for !last.Before(t) {
		last = last.Add(-every)
	}
	return last
}

// ParseZone finds a time zone by its IANA name; "" is UTC. It refuses "Local", because that is another zone on another
// machine, where the same run may be continued.
func ParseZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New(`"Local" is another zone on another machine; name one such as Europe/Berlin`)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%w; name one such as Europe/Berlin", err)
	}
	return zone, nil
}

// ParseGap reads shift, which is the default, or skip.
func ParseGap(text string) (Gap, error) {
	switch text {
	case "", "shift":
		return Shift, nil
	case "skip":
		return Skip, nil
	default:
		return Shift, fmt.Errorf("%q where shift or skip is expected", text)
	}
}

// ParseFold reads first, which is the default, or both.
func ParseFold(text string) (Fold, error) {
	switch text {
	case "", "first":
		return First, nil
	case "both":
		return Both, nil
	default:
		return First, fmt.Errorf("%q where first or both is expected", text)
	}
}
