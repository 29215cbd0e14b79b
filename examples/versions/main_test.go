package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestVersions deploys one version after the other while an order waits.
func TestVersions(t *testing.T) {
	var log strings.Builder
	d := &depot{&log, time.Hour}
	v := map[string]*pawl.Workflow[string, string]{}
	for _, code := range []string{"v1", "wrong", "v2"} {
		w, err := d.version(code)
		if err != nil {
			t.Fatal(err)
		}
		v[code] = w
	}
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, err := v["v1"].Start(t.Context(), e, "old", "old")
		if err != nil {
			t.Fatal(err)
		}
		e.Skip(time.Minute)

		// A test in continuous integration does this: it replays histories of runs with the new code before it is
		// deployed.
		history, err := e.History(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		pawltest.Replay(t, v["v2"], history)
		var changed *pawl.ChangedError
		if err := pawl.Replay(t.Context(), pawl.Config{}, v["wrong"], history); !errors.As(err, &changed) {
			t.Errorf("replay of the wrong code: %v", err)
		}

		e.Restart(v["wrong"])
		e.Skip(2 * time.Hour)
		if err := e.Problem(r.ID); !errors.As(err, &changed) || changed.Asked != `step "wrap"` {
			t.Errorf("the wrong code: %v", err)
		}
		e.Restart(v["v2"])
		if out, err := pawl.RunOf[string](e, r.ID).Result(t.Context()); out != "sent" || err != nil {
			t.Errorf("the old order: %s, %v", out, err)
		}
		r, err = v["v2"].Start(t.Context(), e, "new", "new")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := r.Result(t.Context()); out != "sent and wrapped" || err != nil {
			t.Errorf("the new order: %s, %v", out, err)
		}
		done := strings.Join(strings.Fields(log.String()), " ")
		if done != "old pack old send new pack new wrap new send" {
			t.Error(done)
		}
	}, v["v1"])
}
