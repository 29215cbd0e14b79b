package flow

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/policy"
)

// TestPlacesOfAnotherSystem checks that a flow that was made of another system's document keeps the places in that
// document where it is written out and read again, those of retry policies and of the flow itself among them.
func TestPlacesOfAnotherSystem(t *testing.T) {
	retry := policy.DefaultRetry()
	retry.MaxAttempts = 3
	f, err := Of(&flow.Document{
		Name: "w", Place: "flow.json:1:2", Output: flow.V("${{ 1 }}"),
		Steps: []*flow.Step{{
			Name: "a", Action: &flow.Noop{}, Place: "flow.json:7:5",
			Policy: policy.Policy{Retry: retry, Limits: policy.Limits{
				ScheduleToClose: &policy.Limit{After: time.Minute, Origin: "flow.json:7:9, timeout"},
			}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := f.Definition.Specs[0].Policy
	if f.Document.Place != "flow.json:1:2" || f.Document.Steps[0].Place != "flow.json:7:5" ||
		p.Retry.Origin != "flow.json:7:5" || p.ScheduleToClose.Origin != "flow.json:7:9, timeout" {
		t.Errorf("the flow is at %q, its step at %q, the retry at %q, the limit at %q", f.Document.Place,
			f.Document.Steps[0].Place, p.Retry.Origin, p.ScheduleToClose.Origin)
	}
}
