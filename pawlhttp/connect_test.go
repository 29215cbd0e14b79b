package pawlhttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/memnet"
	"github.com/pawl-dev/pawl/journal/memory"
	"github.com/pawl-dev/pawl/pawlhttp"
	"github.com/pawl-dev/pawl/pawltest"
)

// connect returns a client of a server that serves the engine of a test.
func connect(t *testing.T, e *pawltest.Env, cfg pawl.Config) pawl.Client {
	t.Helper()
	at := memnet.Listen()
	served := &http.Server{Handler: pawlhttp.Handler(e.Engine, nil)}
	over := make(chan error)
	go func() { over <- served.Serve(at) }()
	through := &http.Transport{DialContext: at.Dial}
	c, err := pawlhttp.Connect("http://127.0.0.1:7295", pawlhttp.ClientConfig{
		Transport: through, Codec: cfg.Codec, Propagators: cfg.Propagators,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = served.Close()
		<-over
	})
	return c
}

// both runs a test with the engine, and with a client of its server.
func both(t *testing.T, cfg pawl.Config, test func(t *testing.T, e *pawltest.Env, c pawl.Client)) {
	t.Helper()
	t.Run("engine", func(t *testing.T) {
		pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) { test(t, e, e.Engine) })
	})
	t.Run("server", func(t *testing.T) {
		pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) { test(t, e, connect(t, e, cfg)) })
	})
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	paid    pawl.Event[int]             = "paid"
	approve pawl.Update[string, string] = "approve"
)

// stage is what an order waits for.
var stage pawl.State[string]

var errShort = errors.New("too short")

func init() { pawl.RegisterErrorValue("pawlhttp_test.short", errShort) }

// order waits for an event and for an update, in whichever order they come.
func order() *pawl.Workflow[string, string] {
	return pawl.Define("order", func(ctx pawl.Context, name string) (string, error) {
		_ = stage.Set(ctx, "waits for "+name)
		sum, err := paid.Wait(ctx)
		if err != nil {
			return "", err
		}
		by := ""
		err = approve.Handle(ctx, func(who string) error {
			if len(who) < 3 {
				return errShort
			}
			return nil
		}, func(_ pawl.Context, who string) (string, error) {
			by = who
			return "thank you, " + who, nil
		})
		if err != nil {
			return "", err
		}
		return pawl.Step(ctx, "ship", func(context.Context) (string, error) {
			if sum == 0 {
				return "", errShort
			}
			return name + " by " + by, nil
		})
	})
}

func TestTalk(t *testing.T) {
	w := order()
	both(t, pawl.Config{Workflows: []pawl.Definition{w}}, func(t *testing.T, e *pawltest.Env, c pawl.Client) {
		ctx := t.Context()
		r, err := w.Start(ctx, c, "o-1", "books", pawl.Labels(map[string]string{"city": "Bonn"}), pawl.By("me", "test"))
		ok(t, err)
		if _, err := w.Start(ctx, c, "o-1", "books"); !errors.Is(err, pawl.ErrConflict) {
			t.Errorf("a second start: %v", err)
		}
		again, err := w.Start(ctx, c, "o-1", "books", pawl.UseExisting())
		if err != nil || again.ID != r.ID || !again.Existing {
			t.Errorf("the run that is there: %+v, %v", again, err)
		}
		e.Settle()
		if state, err := stage.Get(ctx, c, "o-1"); err != nil || state != "waits for books" {
			t.Errorf("state %q, %v", state, err)
		}
		short, cancel := context.WithTimeout(ctx, 45*time.Second)
		if _, err := approve.Send(short, c, "o-1", "Eve"); !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "the body has not accepted it") {
			t.Errorf("an update for which the body does not wait: %v", err)
		}
		cancel()
		e.Settle() // the server has noticed that the caller is gone
		ok(t, paid.Send(ctx, c, "o-1", 7, pawl.SendID("p")))
		_, err = approve.Send(ctx, c, "o-1", "Al")
		var refused *pawl.UpdateError
		if !errors.As(err, &refused) || !refused.Refused || !errors.Is(err, errShort) {
			t.Errorf("refused: %v", err)
		}
		if thanks, err := approve.Send(ctx, c, "o-1", "Ann"); err != nil || thanks != "thank you, Ann" {
			t.Errorf("answer %q, %v", thanks, err)
		}
		if out, err := r.Result(ctx); err != nil || out != "books by Ann" {
			t.Errorf("result %q, %v", out, err)
		}
		if err := paid.Send(ctx, c, "o-1", 7); !errors.Is(err, pawl.ErrRunClosed) {
			t.Errorf("an event for a run that has ended: %v", err)
		}
		if _, err := c.DescribeRun(ctx, "o-2"); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("a run that is not there: %v", err)
		}
	})
}

// TestUpdateWaits checks that an update that is answered after more than one request's time has its answer.
func TestUpdateWaits(t *testing.T) {
	w := order()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		c := connect(t, e, pawl.Config{})
		_, err := w.Start(t.Context(), c, "o-1", "books")
		ok(t, err)
		sent := make(chan error, 1)
		time.AfterFunc(10*time.Minute, func() { sent <- paid.Send(t.Context(), c, "o-1", 1) })
		if thanks, err := approve.Send(t.Context(), c, "o-1", "Ann"); err != nil || thanks != "thank you, Ann" {
			t.Errorf("answer %q, %v", thanks, err)
		}
		ok(t, <-sent)
	}, w)
}

// TestSeenAlike checks that a client of a server tells the same of runs as the engine.
func TestSeenAlike(t *testing.T) {
	w := order()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		ctx, c := t.Context(), connect(t, e, pawl.Config{})
		for _, id := range []string{"a", "b", "c"} {
			_, err := w.Start(ctx, c, id, id, pawl.RunDeadline(time.Now().Add(time.Hour)))
			ok(t, err)
			e.Skip(time.Second)
		}
		ok(t, paid.Send(ctx, c, "a", 0))
		_, err := approve.Send(ctx, c, "a", "Ann")
		ok(t, err)
		if _, err := pawl.RunOf[string](c, "a").Result(ctx); !errors.Is(err, errShort) {
			t.Errorf("the run's own error: %v", err)
		}
		for _, id := range []string{"a", "b"} {
			here, err := e.DescribeRun(ctx, id)
			ok(t, err)
			there, err := c.DescribeRun(ctx, id)
			ok(t, err)
			if !reflect.DeepEqual(here, there) {
				t.Errorf("run %s\nengine %+v\nserver %+v", id, here, there)
			}
			events, err := e.HistoryEvents(ctx, id, 1)
			ok(t, err)
			if got, err := c.HistoryEvents(ctx, id, 1); err != nil || !reflect.DeepEqual(got, events) {
				t.Errorf("events of %s\nengine %+v\nserver %+v, %v", id, events, got, err)
			}
			x, err := e.Explain(ctx, id)
			ok(t, err)
			y, err := c.Explain(ctx, id)
			ok(t, err)
			if len(x.Steps) == 0 || !reflect.DeepEqual(x.Steps, y.Steps) || x.Why != y.Why {
				t.Errorf("explained %s\nengine %+v\nserver %+v", id, x, y)
			}
		}
		for name, q := range map[string]client.Query{
			"all": {}, "open": {Phases: []client.Phase{"waiting"}}, "one": {Limit: 1},
			"soon":     {DeadlineWithin: 2 * time.Hour},
			"by input": {Input: map[string]string{"x": "1"}}, "late": {WillMiss: true}, "retrying": {Retrying: true},
		} {
			here, err := e.ListRuns(ctx, q)
			ok(t, err)
			if there, err := c.ListRuns(ctx, q); err != nil || !reflect.DeepEqual(here, there) {
				t.Errorf("%s\nengine %+v\nserver %+v, %v", name, here, there, err)
			}
		}
	}, w)
}

// TestPages checks that a list goes on after its last run, in either order.
func TestPages(t *testing.T) {
	w := order()
	both(t, pawl.Config{Workflows: []pawl.Definition{w}}, func(t *testing.T, e *pawltest.Env, c pawl.Client) {
		ctx := t.Context()
		for i, id := range []string{"a", "b", "c"} {
			_, err := w.Start(ctx, c, id, id, pawl.RunDeadline(time.Now().Add(time.Duration(3-i)*time.Hour)))
			ok(t, err)
			e.Skip(time.Second)
		}
		for name, q := range map[string]client.Query{
			"newest": {Limit: 1}, "deadline": {Limit: 1, DeadlineWithin: 10 * time.Hour},
		} {
			var got string
			for {
				page, err := c.ListRuns(ctx, q)
				ok(t, err)
				if len(page) == 0 {
					break
				}
				got, q.After = got+page[0].WorkflowID, page[0].ID
			}
			if got != "cba" {
				t.Errorf("%s: the pages have %q", name, got)
			}
		}
		if _, err := c.ListRuns(ctx, client.Query{After: "x"}); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("a page after no run: %v", err)
		}
	})
}

func TestOperate(t *testing.T) {
	fails := true
	w := pawl.Define("w", func(ctx pawl.Context, n int) (int, error) {
		one, err := pawl.Step(ctx, "one", func(context.Context) (int, error) { return n, nil })
		if err != nil {
			return 0, err
		}
		two, err := pawl.Step(ctx, "two", func(context.Context) (int, error) {
			if fails {
				return 0, errShort
			}
			return 2, nil
		}, pawl.Retry("fixed(100, 1h)"))
		return one + two, err
	})
	both(t, pawl.Config{Workflows: []pawl.Definition{w}}, func(t *testing.T, e *pawltest.Env, c pawl.Client) {
		ctx := t.Context()
		fails = true
		r, err := w.Start(ctx, c, "r", 40)
		ok(t, err)
		e.Settle()
		err = c.Operate(ctx, "r", pawl.Operation{Op: client.OpComplete, Step: "three", Output: 1})
		if !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("a step that is not there: %v", err)
		}
		ok(t, c.Operate(ctx, "r", pawl.Operation{Op: client.OpComplete, Step: "two", Output: 2, Actor: "me"}))
		if out, err := r.Result(ctx); err != nil || out != 42 {
			t.Errorf("result %d, %v", out, err)
		}
		id, err := c.RestartRun(ctx, "r", client.RestartRequest{Steps: []string{"two"}})
		ok(t, err)
		e.Settle()
		ok(t, c.Operate(ctx, id, pawl.Operation{Op: client.OpFail, Step: "two", Err: errShort}))
		if _, err := pawl.RunOf[int](c, id).Result(ctx); !errors.Is(err, errShort) {
			t.Errorf("the error of the operator: %v", err)
		}
		fails = false
		if id, err = c.RestartRun(ctx, id, client.RestartRequest{Actor: "me", Reason: "once more"}); err != nil {
			t.Fatal(err)
		}
		if out, err := pawl.RunOf[int](c, id).Result(ctx); err != nil || out != 42 {
			t.Errorf("result %d, %v", out, err)
		}
	})
}

func TestSchedules(t *testing.T) {
	w := pawl.Define("job", func(_ pawl.Context, n int) (int, error) { return n, nil })
	both(t, pawl.Config{Workflows: []pawl.Definition{w}}, func(t *testing.T, e *pawltest.Env, c pawl.Client) {
		_, err := w.EnsureSchedule(t.Context(), c, "hourly", client.Schedule{Cron: "@hourly"}, 1)
		ok(t, err)
		e.Skip(150 * time.Minute)
		ok(t, pawl.ScheduleOf(c, "hourly").Pause(t.Context(), "holidays"))
		e.Settle()
		all, err := c.ListSchedules(t.Context())
		ok(t, err)
		if len(all) != 1 || all[0].Paused.IsZero() || all[0].LastRun == "" {
			t.Errorf("the schedules are %+v", all)
		}
		runs, err := c.ListRuns(t.Context(), client.Query{Workflow: "job"})
		if err != nil || len(runs) != 2 {
			t.Errorf("%d runs, %v", len(runs), err)
		}
	})
}

// TestStuck checks that a body that cannot go on is reported, and found.
func TestStuck(t *testing.T) {
	gone := pawl.Ref[int, int]("gone")
	both(t, pawl.Config{Workflows: []pawl.Definition{gone}}, func(t *testing.T, e *pawltest.Env, c pawl.Client) {
		e.AllowStuck() // nobody has the workflow
		_, err := gone.Start(t.Context(), c, "g", 1)
		ok(t, err)
		e.Skip(time.Second)
		found, err := c.ListRuns(t.Context(), client.Query{Stuck: true})
		if err != nil || len(found) != 1 || !strings.Contains(found[0].Problem, "not registered here") {
			t.Errorf("found %+v, %v", found, err)
		}
		if x, err := c.Explain(t.Context(), "g"); err != nil || x.Problem != found[0].Problem {
			t.Errorf("explained %q, %v", x.Problem, err)
		}
	})
}

// TestAllow checks that whom the program does not let in gets nothing, and a token of the client goes along.
func TestAllow(t *testing.T) {
	w := order()
	e, err := pawl.Open(t.Context(), pawl.Config{Journal: memory.New(), Workflows: []pawl.Definition{w}})
	ok(t, err)
	defer func() { _ = e.Close() }()
	s := httptest.NewServer(pawlhttp.Handler(e, func(r *http.Request) bool {
		return r.Header.Get("Authorization") == "Bearer sesame"
	}))
	defer s.Close()
	for token, want := range map[string]error{"sesame": nil, "": pawl.ErrInvalid} {
		c, err := pawlhttp.Connect(s.URL, pawlhttp.ClientConfig{Token: token})
		ok(t, err)
		_, err = c.ListRuns(t.Context(), client.Query{})
		if (err == nil) != (want == nil) {
			t.Errorf("with the token %q: %v", token, err)
		}
		_ = c.Close()
	}
	for _, address := range []string{"127.0.0.1:7295", "http://h/path", "ftp://h", ""} {
		if _, err := pawlhttp.Connect(address, pawlhttp.ClientConfig{}); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%q: %v", address, err)
		}
	}
	_, err = pawlhttp.Connect("http://pawl.example", pawlhttp.ClientConfig{Token: "x"})
	if !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("a token without encryption: %v", err)
	}
}

// TestRestartOfAFiring checks that a run of a schedule is restarted as such, also with other options, and that no
// caller gives a run a label of Pawl's own that way.
func TestRestartOfAFiring(t *testing.T) {
	w := pawl.Define("job", func(_ pawl.Context, n int) (int, error) { return n, nil })
	both(t, pawl.Config{Workflows: []pawl.Definition{w}}, func(t *testing.T, e *pawltest.Env, c pawl.Client) {
		ctx := t.Context()
		_, err := w.EnsureSchedule(ctx, c, "hourly", client.Schedule{Cron: "@hourly"}, 1)
		ok(t, err)
		e.Skip(90 * time.Minute)
		ofSchedule := client.Query{Workflow: "job", Labels: map[string]string{"pawl.schedule": "hourly"}}
		fired, err := c.ListRuns(ctx, ofSchedule)
		if ok(t, err); len(fired) != 1 {
			t.Fatalf("%d runs fired", len(fired))
		}
		_, err = c.RestartRun(ctx, fired[0].ID, client.RestartRequest{})
		ok(t, err)
		e.Settle()
		if all, err := c.ListRuns(ctx, ofSchedule); err != nil || len(all) != 2 {
			t.Errorf("%d runs of the schedule after a restart, %v", len(all), err)
		}
	})
}
