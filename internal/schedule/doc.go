// Package schedule decides what a schedule does. A schedule has a name, a workflow that it starts, and times. It is a
// run of its own kind, which takes turns: see core.Turn. Its value is a [State]. Each turn is [State.Turn], which is
// pure: it takes the state, the events since the last turn, and the instant, and returns the next state, the instant of
// the next turn, and the runs to start and stop.
//
// Each firing is dealt with once. It starts a run, or it is missed, with the reason. A run that was started is
// independent of the schedule, which only learns of its end.
package schedule

import (
	"fmt"
	"strings"
	"time"
)

// Names that are stored.
const (
	Workflow = "pawl.schedule" // the workflow of the runs that are schedules
	Prefix   = "@"             // begins the workflow id of a schedule
	Event    = "pawl.schedule" // changes a schedule; its payload is a Change in JSON
	Label    = "pawl.schedule" // the label of the runs that a schedule starts: its name
)

// Reserved refuses names that a caller may not give to a run: those of schedules, and labels that Pawl itself assigns.
// A firing that is made up for has the label of its schedule.
func Reserved(workflow, workflowID string, labels map[string]string, firing bool) error {
	if strings.HasPrefix(workflowID, Prefix) && workflow != Workflow {
		return fmt.Errorf("the workflow id %q begins with %q, as those of schedules do: choose another one",
			workflowID, Prefix)
	}
	for key := range labels {
		if strings.HasPrefix(key, "pawl.") && (key != Label || !firing) {
			return fmt.Errorf("the label %q begins with \"pawl.\", as those that Pawl gives itself: choose another key",
				key)
		}
	}
	return nil
}

// RunID returns the workflow id of the run that a firing starts.
func RunID(name string, firing time.Time) string {
	return name + "@" + firing.UTC().Format(time.RFC3339)
}

// TriggerID returns a workflow id for a run that is started now, whatever the timetable is.
func TriggerID(name string, now time.Time) string {
	return name + "@" + now.UTC().Format(time.RFC3339Nano) + "-now"
}

// NameOf returns the name of the schedule that has a workflow id, or false if it is not a schedule's.
func NameOf(workflowID string) (string, bool) { return strings.CutPrefix(workflowID, Prefix) }
