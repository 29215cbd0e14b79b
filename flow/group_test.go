package flow

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// TestItemsOfAGroupThatHasEnded checks an engine that was gone for a while, so that the limit of an item and then
// that of its group expire in one entry. No other item begins in the group that has ended.
func TestItemsOfAGroupThatHasEnded(t *testing.T) {
	doc, err := Parse("flow.yaml", []byte(`pawl: 1
name: flow
steps:
  - {name: each, forEach: [a, b, c], concurrency: 1, task: {type: x}, timeout: {scheduleToStart: 1m}}
`))
	if err != nil {
		t.Fatal(err)
	}
	def, err := Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	start := policy.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	r := core.NewRun(core.RunID{6: 0x70, 15: 1})
	take := func(in core.Input, at core.Time) {
		t.Helper()
		if _, err := core.Advance(r, def, in, at); err != nil {
			t.Fatal(err)
		}
	}
	take(core.Start{Workflow: "flow"}, start)
	take(core.Operation{
		Op: core.OpExtend, Step: 0, Limit: policy.LimitScheduleToClose, To: start.Add(90 * time.Second),
	}, start)
	take(core.Tick{}, start.Add(time.Hour))
	if len(r.Steps) != 2 || r.Phase != core.RunTimedOut && r.Phase != core.RunFailed {
		t.Errorf("the run is %s", r.Phase)
		for i := range r.Steps {
			t.Errorf("step %s is %s", r.Steps[i].Key(), r.Steps[i].Phase)
		}
	}
}
