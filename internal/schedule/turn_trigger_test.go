package schedule_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/schedule"
)

// TestTriggeredFailure checks that the end of a triggered run counts as that of others: what follows it knows of its
// failure, and a success ends the row of failures.
func TestTriggeredFailure(t *testing.T) {
	c := begin(t, with(func(s *schedule.Spec) { s.MaxFailures = 3 }), monday)
	trigger := func(run string) { c.change(schedule.Change{Op: schedule.OpTrigger, Run: "n@" + run}) }
	ended := func(run, phase string) {
		c.turn(schedule.News{Ended: &schedule.Ended{WorkflowID: "n@" + run, Phase: phase}})
	}
	trigger("first")
	ended("first", "failed")
	trigger("second")
	ended("second", "failed")
	c.at(hour)
	c.ends(hour, "succeeded")
	trigger("third")
	if want := []string{"second", "01:00"}; !slices.Equal(c.failed, want) || c.s.Failures != 0 {
		t.Errorf("%q know that the last one has failed, want %q; %d failures", c.failed, want, c.s.Failures)
	}
}

// TestTriggerOfItsOwn checks that what a triggered run has of its own is for that run alone.
func TestTriggerOfItsOwn(t *testing.T) {
	c := begin(t, with(func(s *schedule.Spec) { s.Timeout = "1h" }), monday)
	c.s.Input, c.s.Labels = json.RawMessage(`{"keep":7}`), map[string]string{"team": "db", "tier": "1"}
	spec := c.s.Spec
	spec.Timeout = "5m"
	own := schedule.Target{Input: json.RawMessage(`{"keep":2}`), Labels: map[string]string{"tier": "2"}}
	c.change(schedule.Change{Op: schedule.OpTrigger, Run: "n@own", Target: &own, Spec: &spec})
	if len(c.last) != 1 {
		t.Fatalf("%+v", c.last)
	}
	start := c.last[0]
	has := c.s.Over(start.Own)
	if string(has.Input) != `{"keep":2}` || has.Labels["team"] != "db" || has.Labels["tier"] != "2" ||
		start.Timeout != 5*minute || !start.Notify {
		t.Errorf("the run has %s, %v and %+v", has.Input, has.Labels, start)
	}
	c.at(hour)
	if len(c.last) != 1 || c.last[0].Own != nil || c.last[0].Timeout != hour ||
		string(c.s.Input) != `{"keep":7}` || c.s.Labels["tier"] != "1" {
		t.Errorf("the next one has %s, %v and %+v", c.s.Input, c.s.Labels, c.last)
	}
}
