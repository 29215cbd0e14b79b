package schedules

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// Brings reports whether a start with a definition of a kind brings along what the steps of a run do. A schedule brings
// what it starts.
func Brings(kind string, input []byte) bool {
	if kind != schedule.Kind {
		return api.BringsCode(kind)
	}
	var t schedule.Target
	return json.Unmarshal(input, &t) == nil && t.Source != "" && api.BringsCode(t.Kind)
}

// BringsChange reports whether an event brings along what the steps of a run do, because it changes what a schedule
// starts.
func BringsChange(event string, payload []byte) bool {
	var c schedule.Change
	return event == schedule.Event && json.Unmarshal(payload, &c) == nil && c.Target != nil && c.Target.Source != "" &&
		api.BringsCode(c.Target.Kind)
}
