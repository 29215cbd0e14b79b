package conformance

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/pawlhttp"
)

func init() { rows["B13"] = clocksElsewhereCountForNothing }

const farFlow = `{pawl: 1, name: f, timeout: 1h, steps: [{name: a, task: {queue: far, type: Double, input: 21}, ` +
	`timeout: {scheduleToClose: 30m, startToClose: 20m, heartbeat: 10m}, retry: "fixed(2, 1ms)"}]}`

// clocksElsewhereCountForNothing checks that a worker elsewhere gets durations and never an instant, and a clock that
// is hours off on its side of the network changes nothing.
func clocksElsewhereCountForNothing(t *testing.T) {
	d := newDistant(t)
	d.start(farFlow)
	tasks, err := d.client.Poll(t.Context(), api.PollRequest{Queue: "far", Wait: api.Duration(10 * time.Second)})
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%v %v", tasks, err)
	}
	left := tasks[0].Left
	if left.Deadline <= api.Duration(19*time.Minute) || left.Deadline > api.Duration(20*time.Minute) ||
		left.Limit != "startToClose" || left.Heartbeat != api.Duration(10*time.Minute) {
		t.Errorf("the worker is told what is left as %+v", left)
	}
	text, err := json.Marshal(tasks[0])
	if err != nil {
		t.Fatal(err)
	}
	var told any
	if err := json.Unmarshal(text, &told); err != nil {
		t.Fatal(err)
	}
	noInstant(t, "task", told)
	done := []api.TaskReport{{Task: tasks[0].Task, Kind: api.TaskComplete, Output: []byte("42")}}
	if answers, err := d.client.Report(t.Context(), done); err != nil || answers[0].Error != nil {
		t.Fatalf("%+v %v", answers, err)
	}

	before := time.Now()
	run := d.start(farFlow)
	off := withClocksOff(t, d.url)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	double := pawl.Handle("Double", func(ctx context.Context, n int) (int, error) {
		pawl.Heartbeat[int]{}.Beat(ctx, n)
		if at, ok := ctx.Deadline(); !ok || time.Until(at) < 19*time.Minute || time.Until(at) > 20*time.Minute {
			t.Errorf("the function has until %s, %t", time.Until(at), ok)
		}
		return 2 * n, nil
	})
	go func() {
		ended <- pawlhttp.Worker{Server: off, Queue: "far", Handlers: []pawl.AnyHandler{double}}.Run(ctx)
	}()
	if out, err := d.client.Wait(t.Context(), run); err != nil || out.Phase != api.RunSucceeded {
		t.Errorf("%+v %v", out, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	r, err := d.client.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Steps[0]
	for _, at := range []api.Time{s.Attempts[0].StartedAt, s.Attempts[0].EndedAt, r.EndedAt} {
		if at.Std().Before(before.Truncate(time.Millisecond)) || at.Std().After(time.Now()) {
			t.Errorf("it was at %s, the test began at %s", at, before)
		}
	}
	if kept := s.ScheduleToClose.Sub(s.ScheduledAt); kept != 30*time.Minute || len(s.Attempts) != 1 {
		t.Errorf("the deadline is %s after the first scheduling, %d attempts", kept, len(s.Attempts))
	}
}

// withClocksOff returns the address of the server as seen through a network on whose other side it is five hours later.
func withClocksOff(t *testing.T, server string) string {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	later := func(h http.Header) { h.Set("Date", time.Now().Add(5*time.Hour).UTC().Format(http.TimeFormat)) }
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target); later(r.Out.Header) },
		ModifyResponse: func(r *http.Response) error { later(r.Header); return nil },
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	return s.URL
}

// noInstant fails the test for each text and number that may be an instant within ten years of now.
func noInstant(t *testing.T, place string, v any) {
	t.Helper()
	near := func(at time.Time) bool { return time.Until(at).Abs() < 10*365*24*time.Hour }
	switch v := v.(type) {
	case map[string]any:
		for key, in := range v {
			noInstant(t, place+"."+key, in)
		}
	case []any:
		for _, in := range v {
			noInstant(t, place, in)
		}
	case string:
		for _, layout := range []string{time.RFC3339, http.TimeFormat, time.DateTime} {
			if at, err := time.Parse(layout, v); err == nil {
				t.Errorf("%s is the instant %s", place, at)
			}
		}
	case float64:
		if n := int64(v); near(time.Unix(n, 0)) || near(time.UnixMilli(n)) || near(time.UnixMicro(n)) ||
			near(time.Unix(0, n)) {
			t.Errorf("%s may be an instant: %d", place, n)
		}
	}
}
