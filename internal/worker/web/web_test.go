package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/secret"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

func newTestHTTP(t *testing.T) *HTTP {
	t.Helper()
	h := NewHTTP(HTTPConfig{})
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

func httpTask(t *testing.T, payload map[string]any) core.Task {
	t.Helper()
	return workertest.Task("http", workertest.JSON(t, payload))
}

func TestHTTPSaysWhatItShould(t *testing.T) {
	var requests []*http.Request
	var bodies []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests, bodies = append(requests, r), append(bodies, string(body))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Odd", "a\xff")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id": 7}`))
	})
	h := newTestHTTP(t)
	ctx := worker.WithEnd(t.Context(), time.Now().Add(time.Hour))
	task := httpTask(t, map[string]any{
		"url": s.URL + "/a?x=1", "query": map[string]any{"y": []string{"2", "3"}, "z": "&"},
		"json":    map[string]any{"n": 1},
		"headers": map[string]string{"X-Mine": "1", "user-agent": "other"},
	})
	res := h.Execute(ctx, &task, workertest.NewSigns())
	if res.Failure != nil {
		t.Fatal(res.Failure)
	}
	for key, want := range map[string]string{"status": "201", "json": `{"id":7}`, "body": `"{\"id\": 7}"`} {
		if got := workertest.Field(t, res.Output, key); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	headers := []byte(workertest.Field(t, res.Output, "headers"))
	if got := workertest.Field(t, headers, "content-type"); got != `"application/json"` {
		t.Errorf("content-type is %s", got)
	}
	task.Token.Attempt = 3
	h.Execute(t.Context(), &task, workertest.NewSigns())
	first, second := requests[0], requests[1]
	if first.Method != http.MethodPost || first.URL.RawQuery != "x=1&y=2&y=3&z=%26" || bodies[0] != `{"n":1}` {
		t.Errorf("%s %s, body %s", first.Method, first.URL, bodies[0])
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "X-Mine": "1", "User-Agent": "other", "Pawl-Attempt": "2",
		"Idempotency-Key": workertest.Run.String() + "-4",
	} {
		if got := first.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if ms, _ := strconv.Atoi(first.Header.Get("Pawl-Deadline-Ms")); ms < 3_590_000 || ms > 3_600_000 {
		t.Errorf("Pawl-Deadline-Ms is %d", ms)
	}
	if second.Header.Get("Pawl-Attempt") != "3" || second.Header["Pawl-Deadline-Ms"] != nil ||
		second.Header.Get("Idempotency-Key") != first.Header.Get("Idempotency-Key") {
		t.Errorf("the second attempt says %v", second.Header)
	}
	a, b := first.Header.Get("Traceparent"), second.Header.Get("Traceparent")
	if len(a) != 55 || a[:36] != b[:36] || a == b {
		t.Errorf("traceparent %s, then %s", a, b)
	}
}

// TestHTTPPassesTheTraceOn checks that the trace of the run's headers goes with the request, unless the step has one of
// its own.
func TestHTTPPassesTheTraceOn(t *testing.T) {
	var got []string
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Traceparent")+" "+r.Header.Get("Tracestate"))
	})
	h := newTestHTTP(t)
	for _, own := range []map[string]string{nil, {"traceparent": "00-own"}} {
		task := httpTask(t, map[string]any{"url": s.URL, "headers": own})
		task.Headers = "tenant=acme\ntraceparent=00-run\ntracestate=a=1"
		if res := h.Execute(t.Context(), &task, workertest.NewSigns()); res.Failure != nil {
			t.Fatal(res.Failure)
		}
	}
	if want := []string{"00-run a=1", "00-own "}; !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

func TestHTTPStatuses(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		w.WriteHeader(code)
		if code != http.StatusNoContent && code != http.StatusNotModified {
			_, _ = fmt.Fprintf(w, "words about %d\nmore", code)
		}
	})
	h := newTestHTTP(t)
	for _, c := range []struct {
		code   int
		expect any
		kind   policy.Kind // 0: success
	}{
		{200, nil, 0},
		{204, nil, 0},
		{304, nil, policy.KindFailed},
		{400, nil, policy.KindFailed},
		{404, nil, policy.KindFailed},
		{408, nil, policy.KindError},
		{429, nil, policy.KindError},
		{500, nil, policy.KindError},
		{503, nil, policy.KindError},
		{404, []any{200, 404}, 0},
		{404, "4xx", 0},
		{200, []any{201}, policy.KindFailed},
		{503, []any{"2xx", "404"}, policy.KindError},
	} {
		payload := map[string]any{"url": s.URL + "/" + strconv.Itoa(c.code)}
		if c.expect != nil {
			payload["expect"] = c.expect
		}
		res := h.Execute(t.Context(), new(httpTask(t, payload)), workertest.NewSigns())
		if c.kind == 0 {
			if res.Failure != nil {
				t.Errorf("%d with %v: %v", c.code, c.expect, res.Failure)
			}
			continue
		}
		workertest.WantFailure(t, res.Failure, c.kind, "status")
		if res.Failure.Code != c.code || res.Failure.RetryAfter != nil ||
			workertest.Field(t, res.Output, "status") != strconv.Itoa(c.code) {
			t.Errorf("%d: %v, output %s", c.code, res.Failure, res.Output)
		}
		if c.code == 404 && !strings.HasSuffix(res.Failure.Message, "answered 404 Not Found: words about 404") {
			t.Error(res.Failure.Message)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]string{
		"": "none", "5": "5s", " 120 ": "2m0s", "-3": "none", "+3": "none", "0": "0s", "soon": "none", "1.5": "none",
		"Sun, 01 Mar 2026 12:00:30 GMT": "30s", "Sun, 01 Mar 2026 11:00:00 GMT": "0s",
		"99999999999999999": "2562047h47m16s", "99999999999999999999": "2562047h47m16s",
	} {
		got := "none"
		if after := RetryAfter(value, now); after != nil {
			got = after.String()
		}
		if got != want {
			t.Errorf("%q is %s, want %s", value, got, want)
		}
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		if r.URL.Path == "/date" {
			w.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		}
		if r.URL.Path == "/slow" { // its clock is: the date has passed here
			w.Header().Set("Date", time.Now().Add(-2*time.Hour).UTC().Format(http.TimeFormat))
			w.Header().Set("Retry-After", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	h := newTestHTTP(t)
	for path, most := range map[string]time.Duration{
		"/": 7 * time.Second, "/date": time.Hour, "/slow": time.Hour,
	} {
		task := httpTask(t, map[string]any{"url": s.URL + path})
		f := h.Execute(t.Context(), &task, workertest.NewSigns()).Failure
		workertest.WantFailure(t, f, policy.KindError, "status")
		if f.RetryAfter == nil || *f.RetryAfter > most || *f.RetryAfter < most-5*time.Second {
			t.Errorf("%s: %v", path, f.RetryAfter)
		}
	}
}

func TestHTTPConnections(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	drop := func(w http.ResponseWriter, promise string) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, promise)
		conn.Close()
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/drop":
			drop(w, "")
		case "/half":
			drop(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		case "/noise":
			drop(w, "hello\r\n\r\n")
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/away":
			w.Header().Set("Location", "ftp://example.test/")
			w.WriteHeader(http.StatusFound)
		}
	})
	h := newTestHTTP(t)
	for _, c := range []struct {
		payload        map[string]any
		kind           policy.Kind
		failure, words string
	}{
		{map[string]any{"url": "http://" + nobody.Addr().String()}, policy.KindError, "connection", "refused"},
		{map[string]any{"url": s.URL + "/drop"}, policy.KindError, "connection", "closed before"},
		{map[string]any{"url": s.URL + "/half"}, policy.KindError, "connection", "closed before"},
		{map[string]any{"url": s.URL + "/noise"}, policy.KindError, "connection", "malformed"},
		{map[string]any{"url": s.URL + "/loop"}, policy.KindFailed, "redirect", "10 redirects"},
		{map[string]any{"url": s.URL + "/away"}, policy.KindFailed, "invalid_url", "ftp"},
		{map[string]any{"url": "ftp://example.test/x"}, policy.KindFailed, "invalid_url", "use http or https"},
		{map[string]any{"url": "http://"}, policy.KindFailed, "invalid_url", "names no host"},
		{map[string]any{"url": "http://exa mple.test/"}, policy.KindFailed, "invalid_url", "cannot be read"},
		{map[string]any{"url": s.URL, "method": "GE T"}, policy.KindFailed, "invalid_request", "method"},
		{
			map[string]any{"url": s.URL, "headers": map[string]string{"a b": "c"}},
			policy.KindFailed,
			"invalid_request", "header",
		},
		{map[string]any{"url": s.URL, "expect": "6xx"}, policy.KindFailed, "invalid_payload", "is not a status"},
		{map[string]any{"url": s.URL, "json": 1, "body": "x"}, policy.KindFailed, "invalid_payload", "used together"},
		{map[string]any{}, policy.KindFailed, "invalid_payload", "url is missing"},
	} {
		f := h.Execute(t.Context(), new(httpTask(t, c.payload)), workertest.NewSigns()).Failure
		workertest.WantFailure(t, f, c.kind, c.failure)
		if !strings.Contains(f.Message, c.words) {
			t.Errorf("%v: %s", c.payload, f.Message)
		}
	}
}

// TestHTTPKeepsSecrets checks that messages contain no secrets, since they are stored and shown.
func TestHTTPKeepsSecrets(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	url := strings.Replace(s.URL, "http://", "http://user:hidden@", 1) + "/x?token=hidden"
	task := httpTask(t, map[string]any{"url": url})
	f := newTestHTTP(t).Execute(t.Context(), &task, workertest.NewSigns()).Failure
	if strings.Contains(f.Message, "hidden") || !strings.Contains(f.Message, "/x answered 404") {
		t.Error(f.Message)
	}
}

func TestHTTPStopsAtOnce(t *testing.T) {
	arrived := make(chan struct{}, 2)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = w.Write([]byte("some"))
			_ = http.NewResponseController(w).Flush()
		}
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	h := newTestHTTP(t)
	for _, path := range []string{"/head", "/body"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan worker.Result, 1)
		go func() {
			result <- h.Execute(ctx, new(httpTask(t, map[string]any{"url": s.URL + path})), workertest.NewSigns())
		}()
		<-arrived
		cancel(&worker.RevokedError{Kind: policy.KindTimeout})
		select {
		case res := <-result:
			workertest.WantFailure(t, res.Failure, policy.KindCancelled, "stopped")
		case <-time.After(workertest.Patience):
			t.Fatal("the request goes on")
		}
	}
}

func TestHTTPBodies(t *testing.T) {
	part := bytes.Repeat([]byte("x"), 64<<10)
	sent := make(chan int, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			n := 0
			for {
				if _, err := w.Write(part); err != nil {
					sent <- n
					return
				}
				n += len(part)
			}
		case "/huge":
			w.Header().Set("Content-Length", "5000000000")
			_, _ = w.Write(part)
		case "/limit":
			_, _ = w.Write(bytes.Repeat(part, maxResponse/len(part)))
		case "/over":
			_, _ = w.Write(bytes.Repeat(part, maxResponse/len(part)))
			_, _ = w.Write(part[:1])
		case "/error":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write(part)
		case "/raw":
			_, _ = w.Write([]byte("a\xffb"))
		case "/list":
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write([]byte(" [1, 2]\n"))
		}
	})
	h := newTestHTTP(t)
	get := func(path string) (worker.Result, *workertest.Signs) {
		signs := workertest.NewSigns()
		return h.Execute(t.Context(), new(httpTask(t, map[string]any{"url": s.URL + path})), signs), signs
	}
	res, signs := get("/endless")
	workertest.WantFailure(t, res.Failure, policy.KindFailed, "too_large")
	if n := <-sent; n > 100<<20 {
		t.Errorf("the server could send %d bytes", n)
	}
	if len(signs.Outputs) < 10 {
		t.Errorf("%d signs of life", len(signs.Outputs))
	}
	const want = "is larger than 1 MiB; fetch it with a command that writes a file"
	if !strings.HasSuffix(res.Failure.Message, want) {
		t.Errorf("it says %s", res.Failure.Message)
	}
	res, _ = get("/huge")
	workertest.WantFailure(t, res.Failure, policy.KindFailed, "too_large")
	res, _ = get("/over")
	workertest.WantFailure(t, res.Failure, policy.KindFailed, "too_large")
	if res, _ = get("/limit"); res.Failure != nil || len(workertest.Field(t, res.Output, "body")) != maxResponse+2 {
		t.Errorf("a body at its limit: %v", res.Failure)
	}
	res, _ = get("/error")
	workertest.WantFailure(t, res.Failure, policy.KindError, "status")
	if len(res.Failure.Details) > bodyDetails+200 || len(res.Failure.Message) > 400 {
		t.Errorf("details of %d bytes, message of %d", len(res.Failure.Details), len(res.Failure.Message))
	}
	if res, _ = get("/raw"); workertest.Field(t, res.Output, "body") != "\"a\uFFFDb\"" ||
		workertest.Field(t, res.Output, "json") != "" {
		t.Errorf("%s", res.Output)
	}
	if res, _ = get("/list"); workertest.Field(t, res.Output, "json") != "[1,2]" {
		t.Errorf("%s", res.Output)
	}
}

// TestHTTPCutBodies checks that a body that is too large stays so if a secret in it is redacted, and a secret through
// which the limit cuts is not shown by its half.
func TestHTTPCutBodies(t *testing.T) {
	const token = "hunter2hunter2"
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush() // the length is not announced
		if r.URL.Path == "/first" {
			_, _ = w.Write([]byte(token))
		}
		_, _ = w.Write(bytes.Repeat([]byte("x"), maxResponse-len(token)/2))
		_, _ = w.Write([]byte(token + "and more"))
	})
	store := secret.StoreOf(func(context.Context, string) (string, error) { return token, nil })
	h := NewHTTP(HTTPConfig{Secrets: func(*core.Task) *secret.Store { return store }})
	t.Cleanup(func() { _ = h.Close() })
	mark := secret.Mark("01")
	get := func(path string, expect ...int) worker.Result {
		payload := map[string]any{
			"url": s.URL + path, "placeholders": secret.Placeholders{Mark: mark},
			"headers": map[string]string{"X-Token": secret.Placeholder(mark, secret.OfSecret, "token")},
		}
		if len(expect) > 0 {
			payload["expect"] = expect
		}
		return h.Execute(t.Context(), new(httpTask(t, payload)), workertest.NewSigns())
	}
	workertest.WantFailure(t, get("/first").Failure, policy.KindFailed, "too_large")
	workertest.WantFailure(t, get("/half").Failure, policy.KindFailed, "too_large")
	res := get("/half", http.StatusTeapot)
	workertest.WantFailure(t, res.Failure, policy.KindFailed, "status")
	if body := workertest.Field(t, res.Output, "body"); !strings.HasSuffix(body, `xx"`) {
		t.Errorf("the body of the answer ends with %s", body[len(body)-20:])
	}
}

func TestHTTPFollowsRedirects(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if n > 0 {
			http.Redirect(w, r, "/"+strconv.Itoa(n-1), http.StatusTemporaryRedirect)
			return
		}
		_, _ = io.Copy(w, r.Body)
	})
	h := newTestHTTP(t)
	task := httpTask(t, map[string]any{"url": s.URL + "/10", "body": "kept"})
	res := h.Execute(t.Context(), &task, workertest.NewSigns())
	if res.Failure != nil || workertest.Field(t, res.Output, "body") != `"kept"` {
		t.Errorf("%s, %v", res.Output, res.Failure)
	}
	res = h.Execute(t.Context(), new(httpTask(t, map[string]any{"url": s.URL + "/11"})), workertest.NewSigns())
	workertest.WantFailure(t, res.Failure, policy.KindFailed, "redirect")
}
