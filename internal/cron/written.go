package cron

import (
	"errors"
	"fmt"
)

// Written is a timetable in its written form.
type Written struct{ Cron, Zone, Skipped, Repeated string }

// Parse reads a timetable.
func (w Written) Parse() (t Timetable, err error) {
	var errs [4]error
	t.Spec, errs[0] = Parse(w.Cron)
	t.Zone, errs[1] = ParseZone(w.Zone)
	t.Gap, errs[2] = ParseGap(w.Skipped)
	t.Fold, errs[3] = ParseFold(w.Repeated)
	for i, field := range []string{"", "zone", "skipped", "repeated"} {
		if field != "" && errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", field, errs[i])
		}
	}
	return t, errors.Join(errs[:]...)
}
