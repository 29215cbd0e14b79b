package cron

import (
	"errors"
	"fmt"
	"time"
)

// Timetable is an expression in a time zone, with the rules for local times that changes of the clock skip and repeat.
type Timetable struct {
	Spec *Spec
	Zone *time.Location
	Gap  Gap
	Fold Fold
}

// Next returns the first firing after t; zero: there is none.
func (tt Timetable) Next(t time.Time) time.Time {
	return tt.Spec.Next(t.In(tt.Zone), tt.Gap, tt.Fold)
}

// Following returns the first firing after began that is not before t: those that have been missed are left out.
func (tt Timetable) Following(began, t time.Time) time.Time {
	next := tt.Next(began)
	if !next.Before(t) || next.IsZero() {
		return next
	}
	if every := tt.Spec.every; every > 0 {
		missed := (t.Sub(next) + every - 1) / every
		return next.Add(missed * every)
	}
	return tt.Next(t.Add(-1))
}

// ParseZone finds a time zone by its IANA name; "" is UTC. The zone of the machine is refused: it is another one elsewhere.
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
