package server

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// problem checks that an answer is a problem with a status and a code, whose text says all of says.
func (b *bed) problem(
	what string, status int, header http.Header, body string, want int, code api.Code, says ...string,
) {
	b.Helper()
	var p httpapi.Problem
	if header.Get("Content-Type") != httpapi.ProblemType || json.Unmarshal([]byte(body), &p) != nil {
		b.Errorf("%s: %d %v %s", what, status, header, body)
		return
	}
	if status != want || p.Status != want || p.Code != code || p.Title == "" || p.Detail == "" {
		b.Errorf("%s: %d %s, want %d %s", what, status, body, want, code)
	}
	for _, s := range says {
		if !strings.Contains(body, s) {
			b.Errorf("%s: %s does not say %s", what, body, s)
		}
	}
}

// TestBadRequests checks that each bad request is refused with a problem that says where and why.
func TestBadRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(c *Config) { c.MaxBody = 10_000 })
		started, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)})
		if err != nil {
			t.Fatal(err)
		}
		run := "/api/v1/runs/" + started.Run
		forged := base64.RawURLEncoding.EncodeToString([]byte("\x02 a cursor of another kind"))
		for _, c := range []struct {
			method, path, body string
			status             int
			code               api.Code
			says               []string
		}{
			{"POST", "/api/v1/runs", `{"workflow": "order"`, 400, api.CodeInvalid, []string{"unexpected end of JSON"}},
			{"POST", "/api/v1/runs", `{"workflow":"order"} {}`, 400, api.CodeInvalid, []string{"invalid character"}},
			{"POST", "/api/v1/runs", ``, 400, api.CodeInvalid, []string{"body is required"}},
			{"POST", "/api/v1/runs", `[]`, 400, api.CodeInvalid, []string{"expected object"}},
			{"POST", "/api/v1/runs", `null`, 400, api.CodeInvalid, []string{"expected object"}},
			{"POST", "/api/v1/runs", strings.Repeat(`[`, 9_000), 400, api.CodeInvalid, nil},
			{"POST", "/api/v1/runs", `{}`, 400, api.CodeInvalid, []string{"one of workflow, flow and definition"}},
			{
				"POST", "/api/v1/runs", `{"workflow":7}`,
				400, api.CodeInvalid,
				[]string{`"pointer":"/workflow"`, "expected string"},
			},
			{
				"POST", "/api/v1/runs", `{"workflw":"order"}`,
				400, api.CodeInvalid,
				[]string{`"pointer":"/workflw"`, "unexpected"},
			},
			{"POST", "/api/v1/runs", `{"workflow":"x"}`, 404, api.CodeNotFound, []string{"there is no flow x"}},
			{"POST", "/api/v1/runs", `{"flow":"pawl: 2"}`, 400, api.CodeInvalid, []string{"flow.yaml:1"}},
			{
				"POST", "/api/v1/runs", `{"workflow":"order","startAt":"tomorrow"}`,
				400, api.CodeInvalid,
				[]string{"not an instant"},
			},
			{"POST", "/api/v1/runs", `{"workflow":"order","timeout":"soon"}`, 400, api.CodeInvalid, []string{"soon"}},
			{
				"POST", "/api/v1/runs", `{"workflow":"order","queue":{"name":"q","priority":1e99}}`,
				400, api.CodeInvalid, nil,
			},
			{
				"POST", "/api/v1/runs", `{"workflow":"order","input":"` + strings.Repeat("x", 10_000) + `"}`, 413,
				api.CodeTooLarge,
				[]string{"more than 10000 bytes"},
			},
			{"GET", "/api/v1/runs?limit=0", "", 400, api.CodeInvalid, []string{`"parameter":"limit"`}},
			{"GET", "/api/v1/runs?limit=1001", "", 400, api.CodeInvalid, []string{`"parameter":"limit"`}},
			{"GET", "/api/v1/runs?limit=many", "", 400, api.CodeInvalid, []string{`"parameter":"limit"`}},
			{"GET", "/api/v1/runs?limits=3", "", 400, api.CodeInvalid, []string{`"parameter":"limits"`, "unknown"}},
			{"GET", "/api/v1/runs?label=x", "", 400, api.CodeInvalid, []string{"key=value"}},
			{"GET", "/api/v1/runs?phase=asleep", "", 400, api.CodeInvalid, []string{"asleep"}},
			{"GET", "/api/v1/runs?createdFrom=noon", "", 400, api.CodeInvalid, []string{`"parameter":"createdFrom"`}},
			{"GET", "/api/v1/runs?cursor=AAAA", "", 400, api.CodeInvalid, []string{"not a cursor"}},
			{"GET", "/api/v1/runs?cursor=" + forged, "", 400, api.CodeInvalid, []string{"not a cursor"}},
			{"GET", "/api/v1/runs/nobody", "", 404, api.CodeNotFound, []string{"there is no run", `"hint"`}},
			{"GET", "/api/v1/runs/" + started.Run[:3], "", 400, api.CodeInvalid, []string{"too short"}},
			{"GET", run + "/outcome?wait=long", "", 400, api.CodeInvalid, []string{`"parameter":"wait"`}},
			{"GET", run + "/events?after=x", "", 400, api.CodeInvalid, []string{`"parameter":"after"`}},
			{"GET", "/api/v1/runs/nobody/events", "", 404, api.CodeNotFound, nil},
			{"GET", "/api/v1/runs/nobody/outcome", "", 404, api.CodeNotFound, nil},
			{
				"GET", "/api/v1/definitions/..%2F..%2Fetc%2Fpasswd", "",
				400, api.CodeInvalid,
				[]string{"not the id of a definition"},
			},
			{"POST", run + "/events", `{}`, 400, api.CodeInvalid, []string{"name"}},
			{"POST", run + "/dance", ``, 400, api.CodeInvalid, []string{"dance"}},
			{"POST", run + "/steps/first/dance", `{}`, 400, api.CodeInvalid, []string{"dance"}},
			{"POST", run + "/steps/nothing/skip", `{}`, 404, api.CodeNotFound, []string{"no step"}},
			{"POST", run + "/extend", `{"by":"much"}`, 400, api.CodeInvalid, []string{"much"}},
			{"POST", run + "/extend", `{"by":"1h","actr":"me"}`, 400, api.CodeInvalid, []string{`"pointer":"/actr"`}},
			{"POST", run + "/resume", `{}`, 409, api.CodeConflict, nil},
			{"GET", "/api/v2/runs", "", 404, api.CodeNotFound, []string{"there is no /api/v2/runs"}},
			{"GET", "/", "", 404, api.CodeNotFound, nil},
			{"DELETE", "/api/v1/runs", "", 405, api.CodeInvalid, []string{"GET", "POST", "not DELETE"}},
			{"PUT", run, "{}", 405, api.CodeInvalid, []string{"not PUT"}},
		} {
			status, header, body := b.plain(c.method, c.path, c.body, "Content-Type", "application/json")
			what := c.method + " " + c.path + " " + c.body[:min(len(c.body), 80)]
			b.problem(what, status, header, body, c.status, c.code, c.says...)
		}
		page, err := b.client.Runs(t.Context(), api.Query{})
		if err != nil || len(page.Runs) != 1 {
			t.Errorf("a bad request started a run: %+v, %v", page, err)
		}
	})
}

// TestForeignPages checks that a web page of another site cannot use the server through the browser of somebody on this
// machine, and a body says that it is JSON.
func TestForeignPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"},
		} {
			status, h, body := b.plain("POST", "/api/v1/runs", `{"workflow":"order"}`, header...)
			b.problem(fmt.Sprint(header), status, h, body, 403, api.CodeInvalid, "another origin")
		}
		status, h, body := b.plain("POST", "/api/v1/runs", `{"workflow":"order"}`, "Content-Type", "text/plain")
		b.problem("text/plain", status, h, body, 415, api.CodeInvalid)
	})
	for host, own := range map[string]bool{
		"localhost": true, "localhost:7295": true, "127.0.0.1:80": true, "127.8.9.1": true, "[::1]:7295": true,
		"[::1]":            true,
		"pawl.localhost:1": true, "LOCALHOST.:7": true, "::ffff:127.0.0.1": true,
		"evil.example": false, "evil.example:7295": false, "10.0.0.1:7295": false, "localhost.evil.example": false,
		"": false, "127.0.0.1.evil.example:80": false, "0.0.0.0": false,
	} {
		if isLoopback(host) != own {
			t.Errorf("host %q is taken as this machine: %v", host, !own)
		}
	}
}

// TestSlowCallers checks that a caller that sends or reads slowly does not keep a connection, and one that sends too
// much of a header is refused.
func TestSlowCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for what, c := range map[string]struct {
			sends string
			gets  string
		}{
			"a header that never ends": {"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: b", ""},
			"a body that never ends": {
				"POST /api/v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
				"HTTP/1.1 408 ",
			},
			"nothing": {"", ""},
			"a large header": {
				"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("b", 22_000) + "\r\n\r\n", "HTTP/1.1 431 ",
			},
			"a line within a header": {
				"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: b\rSet-Cookie: c\r\n\r\n", "HTTP/1.1 400 ",
			},
		} {
			conn, err := b.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.WriteString(conn, c.sends) }()
			from := time.Now()
			answer, err := io.ReadAll(conn)
			if took := time.Since(from); err != nil || took > 3*time.Minute ||
				!strings.HasPrefix(string(answer), c.gets) || c.gets == "" && len(answer) > 0 {
				t.Errorf("%s: after %s %q, %v", what, took, answer, err)
			}
			if strings.Contains(c.gets, "408") && !strings.Contains(string(answer), `"code":"closed"`) {
				t.Errorf("%s: the client does not hear that it may repeat it: %q", what, answer)
			}
			conn.Close()
		}
	})
}

// TestEndlessBody checks that a body of which no length is said is read up to the bound and no further.
func TestEndlessBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(c *Config) { c.MaxBody = 10_000 })
		conn, err := b.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		sent := make(chan int)
		go func() {
			n, err := io.WriteString(conn,
				"POST /api/v1/runs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
			for chunk := strings.Repeat("x", 4096); err == nil; {
				n += len(chunk)
				_, err = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(chunk), chunk)
			}
			sent <- n // the server has closed the connection
		}()
		answer, _ := io.ReadAll(conn) // the end of the connection may come as an error
		if !strings.HasPrefix(string(answer), "HTTP/1.1 413 ") || !strings.Contains(string(answer), `"too_large"`) {
			t.Errorf("%q", answer)
		}
		conn.Close()
		if n := <-sent; n > 2<<20 {
			t.Errorf("the server has taken %d bytes", n)
		}
	})
}

// TestLargeBodyIsThrownAway checks that a caller gets the answer even if he sends a body a few times too large, and
// reads no answer before all of it is sent.
func TestLargeBodyIsThrownAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1 << 20
		b := newBed(t, func(c *Config) { c.MaxBody = most })
		conn, err := b.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		large := strings.Repeat("x", 5*most)
		if _, err := fmt.Fprintf(conn, "POST /api/v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s",
			len(large), large); err != nil {
			t.Fatal("the server does not take it:", err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(answer), "the body has more than 1048576 bytes") {
			t.Errorf("%q, %v", answer, err)
		}
	})
}

// TestRequestIDs checks that a request's id comes back only if nothing else could be made of it: it is in the answer's
// header and in logs.
func TestRequestIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for id, kept := range map[string]bool{
			"abc-1_2.Z": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "a b": false,
			"a\tb": false, `a"b`: false, "é": false, "a\x1b[31m": false, "a%0d%0aSet-Cookie:b": false, "": false,
		} {
			r := httptest.NewRequest("GET", "http://127.0.0.1/version", nil)
			r.Header[idHeader] = []string{id}
			rec := httptest.NewRecorder()
			b.server.http.Handler.ServeHTTP(rec, r)
			got := rec.Header().Get(idHeader)
			if (got == id) != kept || got == "" || strings.ContainsAny(got, "\r\n ") {
				t.Errorf("%q came back as %q", id, got)
			}
		}
	})
}

// TestSlowReaderOfAStream checks that a reader of a stream that takes nothing is cut; the run, and others who follow
// it, go on.
func TestSlowReaderOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		started, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := b.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /api/v1/runs/%s/events HTTP/1.1\r\nHost: x\r\n\r\n", started.Run)
		if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
		<-time.After(time.Second)
		if n := b.server.Streams(); n != 1 {
			t.Errorf("%d streams", n)
		}
		<-time.After(time.Minute)
		if n := b.server.Streams(); n != 0 {
			t.Errorf("%d streams after a minute in which nobody read", n)
		}
		if out, err := b.client.Wait(t.Context(), started.Run); err != nil || out.Phase != api.RunFailed {
			t.Errorf("%+v, %v", out, err)
		}
	})
}
