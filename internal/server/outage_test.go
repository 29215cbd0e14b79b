package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// swallowing is a service whose storage answers nothing while it is away, until the caller gives up.
type swallowing struct {
	api.Service
	away *atomic.Bool
}

func (s swallowing) gone(ctx context.Context) error {
	if !s.away.Load() {
		return nil
	}
	<-ctx.Done()
	return &api.Error{Code: api.CodeCancelled, Err: ctx.Err()}
}

func (s swallowing) Run(ctx context.Context, name string) (*api.Run, error) {
	if err := s.gone(ctx); err != nil {
		return nil, err
	}
	return s.Service.Run(ctx, name)
}

func (s swallowing) Wait(ctx context.Context, name string) (api.Outcome, error) {
	if err := s.gone(ctx); err != nil {
		return api.Outcome{}, err
	}
	return s.Service.Wait(ctx, name)
}

func (s swallowing) Runs(ctx context.Context, q api.Query) (api.Page, error) {
	if err := s.gone(ctx); err != nil {
		return api.Page{}, err
	}
	return s.Service.Runs(ctx, q)
}

func (s swallowing) Start(ctx context.Context, r api.StartRequest) (api.Started, error) {
	if err := s.gone(ctx); err != nil {
		return api.Started{}, err
	}
	return s.Service.Start(ctx, r)
}

// TestRequestsWhileTheStorageIsSilent checks that a request is answered within 2 s while the storage answers nothing:
// a read was not carried out, of a change nobody knows. A long read goes on while the storage answers. The log gives
// the reason of each failure.
func TestRequestsWhileTheStorageIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		var said bytes.Buffer
		b := newBed(t, func(c *Config) {
			c.Service = swallowing{c.Service, &away}
			c.Log = slog.New(slog.NewJSONHandler(&said, nil))
			c.Routes = func(r Routes, _ api.Service) {
				r.Handle(Anyone, "GET /slow",
					func(http.ResponseWriter, *http.Request) { <-time.After(20 * time.Second) })
			}
		})
		if status, _, body := b.plain("GET", "/slow", ""); status != http.StatusOK {
			t.Errorf("a read that takes long: %d %s", status, body)
		}
		away.Store(true)
		var all sync.WaitGroup
		for _, c := range []struct {
			method, path, body, key string
			code                    api.Code
			within                  time.Duration
		}{
			{"GET", "/runs/x", "", "", api.CodeStalled, 2 * time.Second},
			{"GET", "/runs?limit=3", "", "", api.CodeStalled, 2 * time.Second},
			{"GET", "/runs/x/outcome", "", "", api.CodeStalled, 2 * time.Second},
			{"GET", "/runs/x/outcome?wait=3s", "", "", api.CodeStalled, 5 * time.Second},
			{"POST", "/runs", `{"workflow":"order"}`, "", api.CodeUncertain, 2 * time.Second},
		} {
			all.Go(func() {
				began := time.Now()
				status, header, body := b.plain(c.method, httpapi.Base+c.path, c.body)
				b.problem(c.path, status, header, body, http.StatusServiceUnavailable, c.code, "does not answer")
				if took := time.Since(began); took > c.within || header.Get("Retry-After") == "" {
					t.Errorf("%s: after %s, %v", c.path, took, header)
				}
			})
		}
		all.Wait()
		if text := said.String(); strings.Count(text, `"code":"stalled","detail":"the storage does not answer`) != 4 {
			t.Errorf("the log: %s", text)
		}
	})
}

// deaf is a service whose lists go on, whatever becomes of their callers, until the storage is back.
type deaf struct {
	swallowing
	back chan struct{}
}

func (s deaf) Runs(ctx context.Context, q api.Query) (api.Page, error) {
	if s.away.Load() {
		<-s.back
	}
	return s.Service.Runs(ctx, q)
}

// TestLookThatNobodyEnds checks that requests are answered in time also if the look whether the storage answers does
// not end itself, and that all goes on when the storage is back.
func TestLookThatNobodyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		back := make(chan struct{})
		b := newBed(t, func(c *Config) { c.Service = deaf{swallowing{c.Service, &away}, back} })
		away.Store(true)
		for range 3 {
			began := time.Now()
			status, header, body := b.plain("GET", httpapi.Base+"/runs/x", "")
			b.problem("a run", status, header, body, http.StatusServiceUnavailable, api.CodeStalled, "does not answer")
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("after %s", took)
			}
		}
		away.Store(false)
		close(back)
		if status, _, body := b.plain("GET", httpapi.Base+"/runs", ""); status != http.StatusOK {
			t.Errorf("when it is back: %d %s", status, body)
		}
	})
}

// follow opens a stream or a poll as the bearer of a token, and returns what comes until it ends, and when that was.
func (g *guarded) follow(ctx context.Context, role, method, path, body string) (ended func() (string, time.Duration)) {
	g.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://pawl"+path, strings.NewReader(body))
	if err != nil {
		g.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+g.tokens[role].Token)
	out, began := make(chan string, 1), time.Now()
	transport := &http.Transport{DialContext: g.listener.Dial}
	go func() {
		defer transport.CloseIdleConnections()
		res, err := transport.RoundTrip(req)
		if err != nil {
			out <- err.Error()
			return
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		out <- res.Status + " " + string(text)
	}()
	return func() (string, time.Duration) {
		text := <-out
		return text, time.Since(began)
	}
}

// TestRevocationEndsWhatIsOpen checks that a token that is revoked, or whose time is over, has no open streams and
// polls a few seconds later.
func TestRevocationEndsWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		polling := `{"queue":"mail","wait":"1m"}`
		stream := g.follow(t.Context(), api.RoleRead, "GET", httpapi.Base+"/events", "")
		poll := g.follow(t.Context(), api.RoleWorker, "POST", httpapi.Base+"/tasks/poll", polling)
		synctest.Wait()
		for _, role := range []string{api.RoleRead, api.RoleWorker} {
			if err := g.keeper.RevokeToken(t.Context(), "my "+role); err != nil {
				t.Fatal(err)
			}
		}
		for what, ended := range map[string]func() (string, time.Duration){"stream": stream, "poll": poll} {
			if text, took := ended(); took > 5*time.Second || !strings.Contains(text, `"no_token"`) {
				t.Errorf("the %s: after %s: %s", what, took, text)
			}
		}
	})
}

// TestRevokedWorkerGetsNoTask checks that a worker whose token was just revoked gets no task with its open poll:
// another one gets it at once.
func TestRevokedWorkerGetsNoTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		polling := `{"queue":"mail","wait":"1m"}`
		poll := g.follow(t.Context(), api.RoleWorker, "POST", httpapi.Base+"/tasks/poll", polling)
		synctest.Wait()
		if err := g.keeper.RevokeToken(t.Context(), "my worker"); err != nil {
			t.Fatal(err)
		}
		source := "pawl: 1\nname: mail\nsteps: [{name: send, task: {type: send, queue: mail}}]\n"
		d := definition(source)
		d.Name = "mail"
		if _, err := g.embedded.Start(t.Context(), api.StartRequest{Definition: d}); err != nil {
			t.Fatal(err)
		}
		text, took := poll()
		if took > time.Second || strings.Contains(text, `"task"`) || !strings.HasPrefix(text, "401") {
			t.Errorf("the revoked one, after %s: %s", took, text)
		}
		_, _, body := g.as(api.RoleAdmin, "POST", httpapi.Base+"/tasks/poll", polling)
		if !strings.Contains(body, `"task"`) {
			t.Errorf("another one: %s", body)
		}
	})
}

// TestSecretsAreNotKept checks that no answer with a secret is kept: these requests take no idempotency key.
func TestSecretsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		for pattern := range secretAnswers {
			_, path, _ := strings.Cut(pattern, " ")
			path = strings.ReplaceAll(path, "{webhook}", "x")
			status, header, body := g.plain("POST", path, `{"name":"x","role":"read"}`, "Idempotency-Key", "k",
				"Authorization", "Bearer "+g.tokens[api.RoleAdmin].Token)
			g.problem(pattern, status, header, body, http.StatusBadRequest, api.CodeInvalid, "has a secret")
		}
		// The answers of routes outside that list have no field for a secret.
		schemas := g.server.api.OpenAPI().Components.Schemas
		for path, item := range g.server.api.OpenAPI().Paths {
			if item.Post == nil || secretAnswers["POST "+path] {
				continue
			}
			for _, response := range item.Post.Responses {
				content := response.Content["application/json"]
				if content == nil || content.Schema == nil || content.Schema.Ref == "" {
					continue
				}
				for name := range schemas.SchemaFromRef(content.Schema.Ref).Properties {
					if name == "token" || name == "secret" {
						t.Errorf("POST %s answers with %q: add it to secretAnswers", path, name)
					}
				}
			}
		}
	})
}

// damaged is a service whose storage can be read now and then.
type damaged struct {
	api.Service
	err *atomic.Pointer[error]
}

func (d damaged) Runs(ctx context.Context, q api.Query) (api.Page, error) {
	if err := d.err.Load(); err != nil {
		return api.Page{}, *err
	}
	return d.Service.Runs(ctx, q)
}

// TestDamageStays checks that a server whose storage was found damaged once is not ready any more, even if a later read
// succeeds.
func TestDamageStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fault atomic.Pointer[error]
		broken := errors.New("page 7 is damaged")
		b := newBed(t, func(c *Config) {
			c.Service = damaged{c.Service, &fault}
			c.Damaged = func(err error) bool { return errors.Is(err, broken) }
		})
		fault.Store(&broken)
		for _, when := range []string{"while it cannot be read", "later"} {
			status, header, body := b.plain("GET", "/readyz", "")
			b.problem(when, status, header, body, http.StatusServiceUnavailable, api.CodeClosed, "page 7 is damaged")
			fault.Store(nil)
		}
	})
}

// TestDrainAndShutdown checks that a server that drains says so and answers all else. When it stops, streams end at
// once.
func TestDrainAndShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		other := newBed(t, func(c *Config) { c.Namespace = "blue" })
		g.server.AddNamespace(other.server)
		stream := g.follow(t.Context(), api.RoleRead, "GET", httpapi.Base+"/events", "")
		synctest.Wait()
		g.server.Drain()
		if status, _, _ := g.plain("GET", "/readyz", ""); status != http.StatusServiceUnavailable {
			t.Errorf("/readyz: %d", status)
		}
		if status, _, body := g.as(api.RoleRead, "GET", httpapi.Base+"/runs", ""); status != http.StatusOK {
			t.Errorf("a request: %d %s", status, body)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := g.server.Shutdown(ctx); err != nil || time.Since(began) > time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if _, took := stream(); took > time.Second {
			t.Errorf("the stream ended after %s", took)
		}
		if other.server.over.Err() == nil {
			t.Error("the streams of another namespace go on")
		}
	})
}

// TestUnknownCallersInTheLog checks that requests without a token that counts are told of every few seconds only, with
// how many there were.
func TestUnknownCallersInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		g := newGuarded(t, func(c *Config) { c.Log = slog.New(slog.NewJSONHandler(&said, nil)) })
		for range 100 {
			g.plain("GET", httpapi.Base+"/runs", "", "Authorization", "Bearer nobody")
		}
		<-time.After(unknownEvery)
		g.plain("GET", httpapi.Base+"/runs", "", "Authorization", "Bearer nobody")
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[1], `"alike":99`) {
			t.Errorf("%d lines: %s", len(lines), lines)
		}
	})
}

// TestChunkedBodyEndsTheConnection checks that a body whose length is not said ends its connection: what a proxy may
// take for another request is none.
func TestChunkedBodyEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		conn, err := b.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			_, _ = io.WriteString(conn, "POST /api/v1/policies/lint HTTP/1.1\r\nHost: localhost\r\n"+
				"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+
				"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}()
		text, _ := io.ReadAll(conn)
		n := strings.Count(string(text), "HTTP/1.1 ")
		if n != 1 || !strings.Contains(string(text), "Connection: close") {
			t.Errorf("%d answers: %s", n, text)
		}
	})
}
