package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestStartByName checks that a run is started by the name of a flow, or with the text of one; the idempotency key may
// be a header.
func TestStartByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		key := []string{"Idempotency-Key", "k1", "Content-Type", "application/json"}
		status, header, body := b.plain("POST", "/api/v1/runs", `{"workflow":"order","input":{"n":3}}`, key...)
		var first, second api.Started
		if err := json.Unmarshal([]byte(body), &first); err != nil || status != 201 || first.Existing ||
			header.Get("Location") != "/api/v1/runs/"+first.Run {
			t.Fatalf("%d %v %s", status, header, body)
		}
		status, _, body = b.plain("POST", "/api/v1/runs", `{"workflow":"order","input":{"n":3}}`, key...)
		if err := json.Unmarshal([]byte(body), &second); err != nil || status != 200 || second.Run != first.Run {
			t.Errorf("%d %s", status, body)
		}
		status, header, body = b.plain("POST", "/api/v1/runs", `{"workflow":"order","key":"k2"}`, key...)
		b.problem("two keys", status, header, body, 400, api.CodeInvalid, "k1", "k2")
		text, err := json.Marshal(map[string]string{"flow": orderFlow, "workflowId": "w"})
		if err != nil {
			t.Fatal(err)
		}
		if status, _, body = b.plain("POST", "/api/v1/runs", string(text)); status != 201 {
			t.Errorf("%d %s", status, body)
		}
		if r, err := b.embedded.Run(t.Context(), "w"); err != nil || r.Workflow != "order" {
			t.Errorf("%+v, %v", r, err)
		}
		status, _, body = b.plain("GET", "/api/v1/flows", "")
		if status != 200 || !strings.Contains(body, `"name":"order"`) {
			t.Errorf("%d %s", status, body)
		}
	})
}

// TestOutcome checks that a caller that waits for a run gets its end at once, or its phase when the wait is over.
func TestOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		started, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)})
		if err != nil {
			t.Fatal(err)
		}
		path := "/api/v1/runs/" + started.Run + "/outcome"
		<-time.After(time.Second) // its first attempts have ended by then
		for query, want := range map[string]struct {
			status int
			took   time.Duration
		}{
			"": {202, 0}, "?wait=20s": {202, 20 * time.Second}, "?wait=10m": {202, 5 * time.Minute},
		} {
			from := time.Now()
			status, _, body := b.plain("GET", path+query, "")
			if took := time.Since(from); status != want.status || took != want.took ||
				!strings.Contains(body, `"phase":"waiting"`) {
				t.Errorf("%s: %d after %s: %s", query, status, took, body)
			}
		}
		if err := b.client.Send(t.Context(), started.Run, api.SendRequest{Name: "approved"}); err != nil {
			t.Fatal(err)
		}
		from := time.Now()
		status, _, body := b.plain("GET", path+"?wait=5m", "")
		if took := time.Since(from); status != 200 || took != 5*time.Minute ||
			!strings.Contains(body, `"output":{"n":7}`) {
			t.Errorf("%d after %s: %s", status, took, body)
		}
		if status, _, body := b.plain("GET", path, ""); status != 200 ||
			!strings.Contains(body, `"phase":"succeeded"`) {
			t.Errorf("%d %s", status, body)
		}
	})
}

// TestStream checks that a stream has a message for each event, and goes on after the last one that a client has seen.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		started, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)})
		if err != nil {
			t.Fatal(err)
		}
		path := "/api/v1/runs/" + started.Run + "/events"
		_, header, all := b.plain("GET", path, "") // the run ends half an hour later
		if header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%v", header)
		}
		if n := strings.Count(all, ": nothing new\n\n"); n < 100 {
			t.Errorf("in half an hour the stream showed %d times that it is alive", n)
		}
		messages := strings.Split(strings.ReplaceAll(all, ": nothing new\n\n", ""), "\n\n")
		last := len(messages) - 2 // the end, and nothing
		if !strings.HasPrefix(messages[0], "id: 1\ndata: {\"seq\":1,") || messages[last] != "event: end\ndata: {}" {
			t.Errorf("%s", all)
		}
		for query, headers := range map[string][]string{
			fmt.Sprintf("?after=%d", last-2):    nil,
			"?after=1":                          {"Last-Event-ID", fmt.Sprint(last - 2)},
			fmt.Sprintf("?after=%d&", last-2+0): {},
		} {
			_, _, rest := b.plain("GET", path+query, "", headers...)
			if want := strings.Join(messages[last-2:], "\n\n"); rest != want {
				t.Errorf("%s %v:\n%s\nwant\n%s", query, headers, rest, want)
			}
		}
	})
}

// TestWatchSurvivesACut checks that a client whose stream is cut goes on after the event that it has seen.
func TestWatchSurvivesACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		started, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)})
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		err = b.client.Watch(t.Context(), started.Run, 0, func(ev api.Event) error {
			if seen++; ev.Seq != seen {
				t.Errorf("event %d came as number %d", ev.Seq, seen)
			}
			if seen == 3 || seen == 7 {
				b.listener.Cut()
			}
			return nil
		})
		r, runErr := b.client.Run(t.Context(), started.Run)
		if err != nil || runErr != nil || seen != r.Events {
			t.Errorf("%d of %d events: %v, %v", seen, r.Events, err, runErr)
		}
	})
}

// TestShutdown checks that a server that closes ends the streams at once: whoever follows a run learns that the server
// is gone.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		started, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)})
		if err != nil {
			t.Fatal(err)
		}
		watched := make(chan error)
		go func() {
			watched <- b.client.Watch(t.Context(), started.Run, 0, func(api.Event) error { return nil })
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-watched; api.CodeOf(err) != api.CodeClosed {
			t.Errorf("the watcher was told %v", err)
		}
		_, err = b.client.Runs(t.Context(), api.Query{})
		if api.CodeOf(err) != api.CodeClosed || !strings.Contains(err.Error(), "the server cannot be reached") {
			t.Errorf("%v", err)
		}
		err = b.client.Operate(t.Context(), started.Run, api.Operation{Operation: api.OpCancelGracefully})
		if api.CodeOf(err) != api.CodeClosed {
			t.Errorf("an operation that was not sent: %v", err)
		}
	})
}

// failing is a service that fails in ways that callers must be told of.
type failing struct {
	api.Service
	err error
}

func (f *failing) Run(context.Context, string) (*api.Run, error) { panic("a bug") }

func (f *failing) Stats(context.Context) (api.Stats, error) {
	return api.Stats{Stalled: "the disk is full"}, nil
}

func (f *failing) Send(context.Context, string, api.SendRequest) error { return f.err }

// TestFailures checks that a panic of one request is answered and logged, and that the server goes on. The text of an
// error arrives whole.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		f := &failing{}
		b := newBed(t, func(c *Config) { c.Service, c.Log = f, slog.New(slog.NewTextHandler(&log, nil)) })
		status, header, body := b.plain("GET", "/api/v1/runs/x", "")
		b.problem("a panic", status, header, body, 500, api.CodeInternal)
		if strings.Contains(body, "a bug") || !strings.Contains(log.String(), "a bug") {
			t.Errorf("%s\n%s", body, log.String())
		}
		status, header, body = b.plain("GET", "/readyz", "")
		b.problem("not ready", status, header, body, 503, api.CodeStalled, "the disk is full")
		if header.Get("Retry-After") == "" {
			t.Errorf("%v", header)
		}
		if err := b.client.Ready(t.Context()); api.CodeOf(err) != api.CodeStalled {
			t.Errorf("%v", err)
		}
		if status, _, body := b.plain("GET", "/livez", ""); status != 200 || !strings.Contains(body, "ok") {
			t.Errorf("%d %s", status, body)
		}
		if status, _, body := b.plain("GET", "/version", ""); status != 200 || !strings.Contains(body, "1.2.3") {
			t.Errorf("%d %s", status, body)
		}
		for _, code := range api.Codes() {
			f.err = &api.Error{Code: code, Op: "signal", ID: "w 7", Message: "it <failed>", Hint: "do that"}
			err := b.client.Send(t.Context(), "x", api.SendRequest{Name: "n"})
			if err == nil || err.Error() != f.err.Error() || !errors.Is(err, api.Sentinel(code)) {
				t.Errorf("%s: %v became %v", code, f.err, err)
			}
		}
		f.err = errors.New("anything")
		if err := b.client.Send(t.Context(), "x", api.SendRequest{Name: "n"}); api.CodeOf(err) != api.CodeInternal ||
			err.Error() != "anything" {
			t.Errorf("%v", err)
		}
	})
}

// TestForeignServer checks that a server that is not Pawl's is not taken for one.
func TestForeignServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.server.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/readyz" {
				w.WriteHeader(http.StatusBadGateway)
			}
			fmt.Fprint(w, "<html>")
		})
		for _, err := range []error{
			b.client.Ready(t.Context()),
			func() error { _, err := b.client.Stats(t.Context()); return err }(),
		} {
			if api.CodeOf(err) != api.CodeInternal || !strings.HasPrefix(err.Error(), "the server answered ") {
				t.Errorf("%v", err)
			}
		}
	})
}

// TestCarry checks that any process that carries runs on carries on a resting run; where none rests, nothing is done.
func TestCarry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		started, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.client.Carry(t.Context(), started.Run, false); err != nil {
			t.Error(err)
		}
		if err := b.client.Carry(t.Context(), "nobody", false); api.CodeOf(err) != api.CodeNotFound {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var carried []string
		b := newBed(t, func(c *Config) {
			c.Carry = func(_ context.Context, run string, _ bool) error {
				carried = append(carried, run)
				return &api.Error{Code: api.CodeConflict, Message: "not this one"}
			}
		})
		if err := b.client.Carry(t.Context(), "w/1", false); api.CodeOf(err) != api.CodeConflict || len(carried) != 1 ||
			carried[0] != "w/1" {
			t.Errorf("%v, %v", carried, err)
		}
	})
}

// TestBulk checks that an operation on many runs reports the outcome for each.
func TestBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for i := range 4 {
			if _, err := b.client.Start(t.Context(), api.StartRequest{
				Definition: definition(orderFlow), WorkflowID: fmt.Sprint("w", i),
				Labels: map[string]string{"odd": fmt.Sprint(i%2 == 1)},
			}); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		if err := b.client.Operate(t.Context(), "w1", api.Operation{Operation: api.OpTerminate}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		body := `{"query":{"labels":{"odd":"true"}},"dryRun":true}`
		status, header, text := b.plain("POST", "/api/v1/bulk/pause", body)
		if status != 200 || header.Get("Content-Type") != "text/event-stream" ||
			strings.Count(text, `"done":false`) != 2 {
			t.Errorf("%d %v %s", status, header, text)
		}
		from := time.Now()
		body = `{"query":{"labels":{"odd":"true"}},"stopClock":true,"reason":"lunch","over":"1m"}`
		_, _, text = b.plain("POST", "/api/v1/bulk/pause", body)
		messages := strings.Split(strings.ReplaceAll(text, ": nothing new\n\n", ""), "\n\n")
		if time.Since(from) != time.Minute || len(messages) != 4 ||
			!strings.Contains(messages[0], `"w1","phase":"terminated","status":"terminated","done":false,"code":`) ||
			!strings.Contains(messages[1], `"w3","phase":"waiting","status":"retrying","done":true`) ||
			messages[2] != "event: end\ndata: {}" {
			t.Errorf("after %s: %q", time.Since(from), messages)
		}
		for name, phase := range map[string]api.RunPhase{"w0": api.RunWaiting, "w3": api.RunPaused} {
			if r, err := b.client.Run(t.Context(), name); err != nil || r.Phase != phase {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
		for body, says := range map[string]string{
			`{}`: "query", `{"query":{"phases":["asleep"]}}`: "asleep", `{"query":{"limit":3}}`: "/query/limit",
			`{"query":{},"runs":0}`: "/runs", `{"query":{},"over":"soon"}`: "soon",
		} {
			status, header, text := b.plain("POST", "/api/v1/bulk/pause", body)
			b.problem(body, status, header, text, 400, api.CodeInvalid, says)
		}
		status, header, text = b.plain("POST", "/api/v1/bulk/dance", `{"query":{}}`)
		b.problem("dance", status, header, text, 400, api.CodeInvalid, "dance")
	})
}
