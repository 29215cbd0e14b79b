package server

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cases"
)

// TestPolicies checks that the client returns about policies the same as the server's lab.
func TestPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		r := api.PolicyRequest{
			Policy: json.RawMessage(
				`"retry: 'exponential(5, 1s, jitter=0.5)'\ntimeout: {startToClose: 10s, deadline: 30s}"`),
			Script: []api.Act{{Run: api.Duration(time.Second), End: "error"}, {End: "ok"}},
		}
		lab := cases.Lab{}
		want, wantErr := lab.ExplainPolicy(t.Context(), r)
		got, err := b.client.ExplainPolicy(t.Context(), r)
		sameJSON(t, "explained", got, want, err, wantErr)
		wantSim, wantErr := lab.SimulatePolicy(t.Context(), r)
		gotSim, err := b.client.SimulatePolicy(t.Context(), r)
		sameJSON(t, "simulated", gotSim, wantSim, err, wantErr)
		r.Policy = json.RawMessage(`{"retry": {"maxAttempts": 0}}`)
		wantLint, wantErr := lab.LintPolicy(t.Context(), r)
		gotLint, err := b.client.LintPolicy(t.Context(), r)
		sameJSON(t, "lint", gotLint, wantLint, err, wantErr)
		r.System = "cron"
		if _, err = b.client.LintPolicy(t.Context(), r); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("an unknown system: %v", err)
		}
	})
}

func sameJSON(t *testing.T, what string, got, want any, err, wantErr error) {
	t.Helper()
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if err != nil || wantErr != nil || string(a) != string(b) {
		t.Errorf("%s: %s, %v\nwant %s, %v", what, a, err, b, wantErr)
	}
}
