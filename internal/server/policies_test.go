package server

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestPreviewIsWhatHappens: the attempts that a preview of an open step shows are those that come, to the microsecond.
func TestPreviewIsWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		flow := "pawl: 1\nname: order\nsteps:\n" +
			"  - {name: each, forEach: \"${{ 1..3 }}\", fail: {kind: error}, retry: 'exponential(6, 1s, jitter=0.5)'," +
			" timeout: {scheduleToClose: 20s}}\n"
		st, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(flow)})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second) // the second attempts have failed, too
		shown, err := b.client.ExplainPolicy(t.Context(), api.PolicyRequest{Run: st.Run, Step: "each[1]"})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		r, err := b.client.Run(t.Context(), st.Run)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range r.Steps {
			if s.Step != "each[1]" {
				continue
			}
			if shown.Past == 0 || shown.Past >= len(s.Attempts) || shown.Origin != s.ScheduledAt {
				t.Errorf("%d attempts are past, of %d; scheduled at %s and %s", shown.Past, len(s.Attempts), shown.Origin,
					s.ScheduledAt)
			}
			for i, a := range shown.Attempts {
				switch {
				case a.Never != (i >= len(s.Attempts)):
					t.Errorf("attempt %d never begins: %v; there are %d", i+1, a.Never, len(s.Attempts))
				case !a.Never && a.At.Std() != s.Attempts[i].ReadyAt.Sub(shown.Origin):
					t.Errorf("attempt %d is shown at %s and came at %s", i+1, a.At, s.Attempts[i].ReadyAt.Sub(shown.Origin))
				}
			}
			if shown.Reason != s.Reason || shown.Phase != string(s.Phase) {
				t.Errorf("shown: %s %s; it became %s %s", shown.Phase, shown.Reason, s.Phase, s.Reason)
			}
		}
		found, err := b.client.LintPolicy(t.Context(), api.PolicyRequest{Policy: json.RawMessage(`{"retry":{"maxAttempts":0}}`)})
		if err != nil || len(found) != 1 {
			t.Errorf("%+v, %v", found, err)
		}
		_, err = b.client.SimulatePolicy(t.Context(), api.PolicyRequest{Run: st.Run, Step: "none"})
		if api.CodeOf(err) != api.CodeNotFound {
			t.Error(err)
		}
	})
}
