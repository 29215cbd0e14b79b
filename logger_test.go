package pawl_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestLoggerSaysThingsOnce: nothing is said again by a body that goes on in another process.
func TestLoggerSaysThingsOnce(t *testing.T) {
	w := pawl.Define("talk", func(ctx pawl.Context, _ none) (string, error) {
		log := pawl.Logger(ctx).WithGroup("body").With("by", "test")
		for i := range 3 {
			log.Info("before", "i", i)
			if err := pawl.Sleep(ctx, "nap", "1h"); err != nil {
				return "", err
			}
		}
		log.Info("after")
		return "", nil
	})
	var out bytes.Buffer
	var id string
	pawltest.RunWith(t, pawl.Config{Log: slog.New(slog.NewTextHandler(&out, nil)), Workflows: []pawl.Definition{w}},
		func(t *testing.T, e *pawltest.Env) {
			r, err := w.Start(t.Context(), e, "r", none{})
			if err != nil {
				t.Fatal(err)
			}
			id = r.ID
			for range 3 {
				e.Skip(50 * time.Minute)
				e.Crash(w)
			}
			if _, err := reopened(e, r).Result(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	for _, line := range []string{"body.by=test body.i=0\n", "body.by=test body.i=1\n", "body.i=2\n", "msg=after run=" +
		id + " workflow=talk body.by=test\n"} {
		if got := strings.Count(out.String(), line); got != 1 {
			t.Errorf("%q is there %d times:\n%s", line, got, &out)
		}
	}
}
