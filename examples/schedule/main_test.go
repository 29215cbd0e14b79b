package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestReports checks that the reports of an outage are made up for, and each firing has one.
func TestReports(t *testing.T) {
	var out strings.Builder
	w := workflow(&out)
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		begin := time.Now()
		keepFor := func(d time.Duration) {
			t.Helper()
			ctx, stop := context.WithTimeout(t.Context(), d)
			defer stop()
			if err := keep(ctx, e.Engine, w); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		keepFor(5 * time.Second)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		e.Reopen()
		keepFor(5 * time.Second)
		for at := 2 * time.Second; at < 70*time.Second; at += 2 * time.Second {
			line := fmt.Sprintf("sales sales@%s\n", begin.Add(at).UTC().Format(time.RFC3339))
			if n := strings.Count(out.String(), line); n != 1 {
				t.Errorf("%d times %q", n, line)
			}
		}
	}, w)
}
