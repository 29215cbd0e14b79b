package cases

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/policy"
)

// delays are the times between the attempts of a simulation.
func delays(s api.Simulated) (out []time.Duration) {
	for i := range s.Attempts[1:] {
		out = append(out, (s.Attempts[i+1].At - *s.Attempts[i].Ended).Std())
	}
	return out
}

// TestExplainNamedStep: the delays of a named step are those that its attempts have, and its past comes first.
func TestExplainNamedStep(t *testing.T) {
	p, err := policy.DecodePolicy(map[string]any{"retry": "exponential(6, 1s, jitter=1)"})
	if err != nil {
		t.Fatal(err)
	}
	id := core.NewRunID(1_780_000_000_000_000, 1, 2, 3)
	known := service.KnownStep{
		Run: id, Key: "pages[3]", Policy: p, Origin: 7,
		Past: []core.Act{{Queue: time.Second, Run: time.Minute, End: "error"}, {Run: time.Second, End: "lost"}},
	}
	lab := Lab{Step: func(context.Context, string, string) (service.KnownStep, error) { return known, nil }}
	e, err := lab.ExplainPolicy(t.Context(), api.PolicyRequest{Run: id.String(), Step: "pages[3]"})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Attempts) != 7 || e.Past != 2 || e.Origin != 7 { // a lost one uses up none
		t.Fatalf("%+v", e)
	}
	other, err := lab.ExplainPolicy(t.Context(), api.PolicyRequest{Policy: json.RawMessage(
		`{"retry": "exponential(6, 1s, jitter=1)"}`)})
	if err != nil || slices.Equal(delays(other.Simulated), delays(e.Simulated)) {
		t.Errorf("the delays are those of any step: %v, %v", delays(e.Simulated), err)
	}
	if a := e.Attempts[0]; a.Started.Std() != time.Second || a.Ended.Std() != time.Second+time.Minute {
		t.Errorf("the first attempt was %+v", a)
	}
	again, err := lab.SimulatePolicy(t.Context(), api.PolicyRequest{
		Run: "x", Step: "y", Policy: json.RawMessage(`{"retry":"fixed(2, 9s)"}`),
	})
	if err != nil || len(again.Attempts) != 3 || again.Attempts[1].At-*again.Attempts[0].Ended != api.Duration(9*time.Second) {
		t.Errorf("under another policy: %+v, %v", again, err)
	}
}

// TestLab explains, simulates and lints policies of several systems, and refuses what makes no sense.
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
		System: "temporal", Policy: raw(`"startToCloseTimeout: 10s\nretryPolicy: {maximumAttempts: 3, initialInterval: 1s}\n"`),
		Script: []api.Act{{Run: api.Duration(time.Second), End: "error"}, {End: "ok"}},
	})
	if err != nil || s.Phase != "succeeded" || len(s.Attempts) != 2 || s.At != api.Duration(2*time.Second) {
		t.Errorf("%+v, %v", s, err)
	}
	f, err := lab.LintPolicy(t.Context(), api.PolicyRequest{Policy: raw(`{"retry": {"maxAttempts": 0}}`)})
	if err != nil || !slices.ContainsFunc(f, func(f policy.Finding) bool { return f.Code == "never-runs" }) {
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
		"a run alone":       {Run: "x"},
		"a run":             {Run: "x", Step: "y"},
		"too many attempts": {Policy: raw(`{}`), Attempts: 100_000},
	} {
		if _, err := lab.ExplainPolicy(t.Context(), r); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}
