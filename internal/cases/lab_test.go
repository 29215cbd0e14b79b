package cases

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/judge"
)

// TestLab checks that the lab explains, simulates and lints policies of several systems, and refuses senseless ones.
func TestLab(t *testing.T) {
	var lab Lab
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	e, err := lab.ExplainPolicy(t.Context(), api.PolicyRequest{
		Policy: raw(`{"retry": "exponential(5, 1s)", "timeout": {"startToClose": "10s", "scheduleToClose": "30s"}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	never := 0
	for _, a := range e.Attempts {
		if a.Never {
			never++
		}
	}
	if len(e.Attempts) != 5 || never == 0 || len(e.Marks) != 1 || e.Attempts[0].Limit != "startToClose" {
		t.Errorf("%+v", e)
	}
	s, err := lab.SimulatePolicy(t.Context(), api.PolicyRequest{
		System: "temporal", Policy: raw(
			`"startToCloseTimeout: 10s\nretryPolicy: {maximumAttempts: 3, initialInterval: 1s}\n"`),
		Script: []api.Act{{Run: api.Duration(time.Second), End: "error"}, {End: "ok"}},
	})
	if err != nil || s.Phase != "succeeded" || len(s.Attempts) != 2 || s.At != api.Duration(2*time.Second) {
		t.Errorf("%+v, %v", s, err)
	}
	f, err := lab.LintPolicy(t.Context(), api.PolicyRequest{Policy: raw(`{"retry": {"maxAttempts": 0}}`)})
	if err != nil || !slices.ContainsFunc(f, func(f judge.Finding) bool { return f.Code == "never-runs" }) {
		t.Errorf("%+v, %v", f, err)
	}
	two := 2.0
	for what, r := range map[string]api.PolicyRequest{
		"nothing":           {},
		"an unknown system": {System: "cron", Policy: raw(`{}`)},
		"an unknown field":  {Policy: raw(`{"retries": 3}`)},
		"broken YAML":       {Policy: raw(`"retry: ["`)},
		"a random number":   {Policy: raw(`{}`), Random: &two},
		"an unknown end":    {Policy: raw(`{}`), Script: []api.Act{{End: "well"}}},
		"too many attempts": {Policy: raw(`{}`), Attempts: 100_000},
	} {
		if _, err := lab.ExplainPolicy(t.Context(), r); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}
