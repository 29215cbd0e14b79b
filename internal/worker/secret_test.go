package worker

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/secret"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

// TestNoSecretCountsForNothing checks that an attempt which lacks a secret is given back after a pause, as one that
// never began.
func TestNoSecretCountsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mark := secret.Mark("01")
		payload, err := json.Marshal(ExecPayload{
			Command: []string{"true"}, Env: map[string]string{"T": secret.Placeholder(mark, secret.OfSecret, "token")},
			Placeholders: &secret.Placeholders{Mark: mark},
		})
		if err != nil {
			t.Fatal(err)
		}
		e := NewExec(ExecConfig{Secrets: secret.NewStore(nil)})
		began := time.Now()
		res := e.Execute(t.Context(), &core.Task{StepName: "a", Payload: payload}, workertest.NewSigns())
		f := res.Failure
		if f == nil || f.Kind != policy.KindLost || f.Type != core.TypeNotBegun ||
			!strings.Contains(f.Message, "token") {
			t.Errorf("%+v", f)
		}
		if took := time.Since(began); took != secretPause {
			t.Errorf("it was given back after %s", took)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
