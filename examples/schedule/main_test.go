package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reports keeps what the steps of all runs write, also at once.
type reports struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *reports) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

// count returns how often a line was written.
func (r *reports) count(line string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.text.String(), line)
}

// keepFor keeps the schedule for a time.
func keepFor(t *testing.T, e *pawltest.Env, w *pawl.Workflow[string, string], d time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	if err := keep(ctx, e.Engine, w); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// TestReports checks that the reports of an outage are made up for, and each firing has one.
func TestReports(t *testing.T) {
	var out reports
	w := workflow(&out)
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		begin := time.Now()
		keepFor(t, e, w, 5*time.Second)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		e.Reopen()
		keepFor(t, e, w, 5*time.Second)
		for at := 2 * time.Second; at < 70*time.Second; at += 2 * time.Second {
			line := fmt.Sprintf("sales sales@%s\n", begin.Add(at).UTC().Format(time.RFC3339))
			if n := out.count(line); n != 1 {
				t.Errorf("%d times %q", n, line)
			}
		}
	}, w)
}

// TestManyOutages checks that the program makes up for more outages than a schedule has backfills at a time.
func TestManyOutages(t *testing.T) {
	var out reports
	w := workflow(&out)
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		begin := time.Now()
		keepFor(t, e, w, 3*time.Second)
		for range 12 {
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			<-time.After(2 * time.Minute)
			e.Reopen()
			<-time.After(3 * time.Second) // the schedule fires, and nobody has looked at what was missed yet
		}
		keepFor(t, e, w, time.Minute)
		end := time.Now()
		for at := begin.Add(2 * time.Second); at.Before(end); at = at.Add(2 * time.Second) {
			line := fmt.Sprintf("sales sales@%s\n", at.UTC().Format(time.RFC3339))
			if n := out.count(line); n != 1 {
				t.Fatalf("%d times %q", n, line)
			}
		}
	}, w)
}
