package schedules

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/internal/schedule"
)

// kindGo is the kind of workflows that only their own program can execute: whoever names one brings no commands.
const kindGo = "go"

// Brings returns the kind of the workflow that a start brings along: a schedule brings what it starts.
func Brings(kind string, input []byte) string {
	if kind != schedule.Kind {
		return kind
	}
	var t schedule.Target
	if json.Unmarshal(input, &t) != nil || t.Source == "" {
		return kindGo
	}
	return t.Kind
}

// BringsChange returns the kind of the workflow that an event brings along, if it changes a schedule.
func BringsChange(event string, payload []byte) string {
	var c schedule.Change
	if event != schedule.Event || json.Unmarshal(payload, &c) != nil || c.Target == nil || c.Target.Source == "" {
		return kindGo
	}
	return c.Target.Kind
}
