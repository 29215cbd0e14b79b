//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawlhttp"
)

// TestServesBodies checks that a process serves workflows to pawl server with a worker's token, for the namespace of
// the token.
func TestServesBodies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const database = "sqlite:p.db"
	token := func(name, role string, more ...string) string {
		return createToken(t, dir, database, append([]string{name, "--role", role}, more...)...)
	}
	worker, operator := token("w", "worker", "--namespace", "blue"), token("o", "operate", "--namespace", "blue")
	mail, stranger := token("m", "worker", "--queue", "mail"), token("s", "operate")
	p := startServer(t, dir, "--namespaces", "blue", "--database", database)

	const add pawl.Update[int, int] = "add"
	sum := pawl.Define("sum", func(ctx pawl.Context, n int) (int, error) {
		err := add.Handle(ctx, nil, func(ctx pawl.Context, more int) (int, error) {
			n += more
			return n, nil
		})
		if err != nil {
			return 0, err
		}
		return pawl.Step(ctx, "double", func(context.Context) (int, error) { return 2 * n, nil })
	})
	job := pawl.Define("job", func(_ pawl.Context, n int) (int, error) { return n, nil })
	calls := make(chan string, 10)
	pair := pawl.Define("pair", func(ctx pawl.Context, n int) (int, error) {
		for _, name := range []string{"a", "b"} {
			one, err := pawl.Step(ctx, name, func(context.Context) (int, error) { calls <- name; return 1, nil })
			if err != nil {
				return 0, err
			}
			n += one
		}
		return n, nil
	})
	serve := func(ctx context.Context, token string) error {
		return pawlhttp.Serve(ctx, p.address, pawlhttp.ServeConfig{
			Token:     token,
			Workflows: []pawl.Definition{sum, job, pair},
		})
	}
	for token, want := range map[string]string{mail: "queues mail", operator: "role operate", "nonsense": "token"} {
		if err := serve(t.Context(), token); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: %v", want, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, worker) }()

	c, err := pawlhttp.Connect(p.address, pawlhttp.ClientConfig{Token: operator})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := sum.Start(t.Context(), c, "s-1", 1)
	for errors.Is(err, pawl.ErrNotFound) { // it has not joined yet
		r, err = sum.Start(t.Context(), c, "s-1", 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	if status, text := p.ask(stranger, "GET", "/api/v1/runs/s-1", ""); status != http.StatusNotFound {
		t.Errorf("the run in another namespace: %d %s", status, text)
	}
	if status, text := p.ask(stranger, "POST", "/api/v1/runs", `{"workflow":"sum"}`); status != http.StatusNotFound {
		t.Errorf("the workflow in another namespace: %d %s", status, text)
	}
	if n, err := add.Send(t.Context(), c, r.ID, 4); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := r.Result(t.Context()); n != 10 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := job.EnsureSchedule(t.Context(), c, "often", client.Schedule{Cron: "@every 1s"}, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := job.EnsureSchedule(t.Context(), c, "queued", client.Schedule{
		Cron: "@every 1s", Overlap: client.OverlapQueue,
	}, 3); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"often", "queued"} {
		runs := 0
		for tries := 0; runs < 2; tries++ {
			if tries == 500 {
				status, text := p.ask(operator, "GET", "/api/v1/runs?limit=4", "")
				t.Fatalf("the schedule has started nothing in 10s: %d %s", status, text)
			}
			all, err := c.ListRuns(t.Context(), client.Query{
				Labels: map[string]string{"pawl.schedule": name}, Phases: []client.Phase{client.PhaseSucceeded},
			})
			if err != nil {
				t.Fatal(err)
			}
			runs = len(all)
			pause(t, 20*time.Millisecond)
		}
	}
	p.schedules(operator)
	rerunServed(t, c, pair, calls)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// schedules looks at the schedule "often", which fires each second, and changes it.
func (p *process) schedules(token string) {
	p.Helper()
	type schedule struct {
		Name   string
		Next   time.Time
		Paused *struct{ At time.Time }
	}
	call := func(method, path, body string, out any) {
		p.Helper()
		status, text := p.ask(token, method, "/api/v1/schedules"+path, body)
		if err := json.Unmarshal([]byte(text), out); status != http.StatusOK || err != nil {
			p.Fatalf("%s %s: %d %s %v", method, path, status, text, err)
		}
	}
	var all struct{ Schedules []schedule }
	call("GET", "", "", &all)
	if len(all.Schedules) != 2 || all.Schedules[1].Name != "often" || all.Schedules[1].Next.IsZero() {
		p.Errorf("%+v", all)
	}
	for _, paused := range []bool{true, false} {
		verb := map[bool]string{true: "pause", false: "resume"}[paused]
		call("POST", "/often/"+verb, `{"reason":"test"}`, &struct{}{})
		var s schedule
		for end := time.Now().Add(patience); ; {
			s = schedule{}
			call("GET", "/often", "", &s)
			if (s.Paused != nil) == paused || time.Now().After(end) {
				break
			}
			pause(p.T, 20*time.Millisecond)
		}
		if (s.Paused != nil) != paused {
			p.Errorf("%+v, want paused %t", s, paused)
		}
	}
	var changed struct{ WorkflowID string }
	call("POST", "/often/trigger", `{}`, &changed)
	for end := time.Now().Add(patience); ; pause(p.T, 20*time.Millisecond) {
		status, text := p.ask(token, "GET", "/api/v1/runs/"+changed.WorkflowID+"/outcome?wait=10s", "")
		if status == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			p.Fatalf("the triggered run %q: %d %s", changed.WorkflowID, status, text)
		}
	}
	from, to := time.Now().Add(-time.Minute).UTC(), time.Now().Add(-55*time.Second).UTC()
	span := `{"from":"` + from.Format(time.RFC3339) + `","before":"` + to.Format(time.RFC3339) + `"}`
	call("POST", "/often/backfill", span, &changed)
	if status, text := p.ask(token, "POST", "/api/v1/schedules/nothing/pause", `{}`); status != http.StatusNotFound {
		p.Errorf("a schedule that is not there: %d %s", status, text)
	}
}

// rerunServed makes one of two steps again in a new run, and keeps the result of the other.
func rerunServed(t *testing.T, c pawl.Client, pair *pawl.Workflow[int, int], calls <-chan string) {
	t.Helper()
	r, err := pair.Start(t.Context(), c, "", 1)
	if err == nil {
		_, err = r.Result(t.Context())
	}
	if err != nil || len(calls) != 2 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	<-calls
	<-calls
	id, err := c.RestartRun(t.Context(), r.ID, client.RestartRequest{Steps: []string{"b"}})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := pawl.RunOf[int](c, id).Result(t.Context()); n != 3 || err != nil || len(calls) != 1 || <-calls != "b" {
		t.Errorf("%d, %v, and %d calls more", n, err, len(calls))
	}
	if _, err = c.RestartRun(t.Context(), id, client.RestartRequest{From: "c"}); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("a step that is not there: %v", err)
	}
}
