package facetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/dialect/temporal"
	"github.com/pawl-dev/pawl/pawltest"
)

type tenantKey struct{}

// tenants is a propagator for a tenant. With the tenant "bad" it panics where it reads it.
type tenants struct{}

func (tenants) ToHeaders(ctx context.Context) map[string]string {
	if tenant, ok := ctx.Value(tenantKey{}).(string); ok {
		return map[string]string{"tenant": tenant}
	}
	return nil
}

func (tenants) FromHeaders(ctx context.Context, headers map[string]string) context.Context {
	if headers["tenant"] == "bad" {
		panic("this tenant is not known")
	}
	return context.WithValue(ctx, tenantKey{}, headers["tenant"])
}

func withTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// sightings notes where which tenant was seen, in the context and in the headers.
type sightings struct {
	sync.Mutex
	seen map[string]string
}

func (s *sightings) note(place string, ctx context.Context, headers map[string]string) {
	s.Lock()
	defer s.Unlock()
	if s.seen == nil {
		s.seen = map[string]string{}
	}
	s.seen[place] = fmt.Sprint(ctx.Value(tenantKey{}), "/", headers["tenant"], "/", headers["shop"])
}

func (s *sightings) step(place string) func(ctx context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		info := pawl.Attempt(ctx)
		s.note(place, ctx, info.Headers)
		return 0, nil
	}
}

func (s *sightings) check(t *testing.T, want string, places ...string) {
	t.Helper()
	s.Lock()
	defer s.Unlock()
	if got := slices.Sorted(maps.Keys(s.seen)); !slices.Equal(got, places) {
		t.Errorf("seen in %q, want %q", got, places)
	}
	for place, got := range s.seen {
		if got != want {
			t.Errorf("%s saw %q, want %q", place, got, want)
		}
	}
}

// TestHeadersGoAlong checks that a tenant in the context of a start is in the contexts of everything that the start
// causes, after a crash and in the runs that follow as well, although no code hands it on.
func TestHeadersGoAlong(t *testing.T) {
	var s sightings
	child := pawl.Define("child", func(ctx pawl.Context, _ int) (int, error) {
		s.note("child", ctx, pawl.Info(ctx).Headers)
		return pawl.Step(ctx, "s", s.step("step of child"))
	})
	handler := pawl.Handle("handle", func(ctx context.Context, _ int) (int, error) {
		return s.step("handler")(ctx)
	})
	w := pawl.Define("w", func(ctx pawl.Context, n int) (int, error) {
		name := fmt.Sprint("body ", n)
		s.note(name, ctx, pawl.Info(ctx).Headers)
		if n == 2 {
			return n, nil
		}
		both := pawl.Go(ctx, "branch", func(ctx pawl.Context) (int, error) {
			s.note("branch", ctx, pawl.Info(ctx).Headers)
			return pawl.Step(ctx, "s", s.step("step of branch"))
		})
		if _, err := both.Get(ctx); err != nil {
			return 0, err
		}
		if err := pawl.Sleep(ctx, "rest", "1h"); err != nil {
			return 0, err
		}
		if _, err := pawl.Step(ctx, "s", s.step("step")); err != nil {
			return 0, err
		}
		if _, err := handler.Call(ctx, "h", 1); err != nil {
			return 0, err
		}
		if _, err := pawl.Child(ctx, "c", child, 1); err != nil {
			return 0, err
		}
		return 0, pawl.ContinueAsNew(ctx, 2)
	}, pawl.OnExit(func(ctx context.Context, _ int, _ error) error {
		_, err := s.step("hook")(ctx)
		return err
	}))
	cfg := pawl.Config{Workflows: []pawl.Definition{w, child}, Propagators: []pawl.Propagator{tenants{}}}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		must(t, e.Serve("", 1, handler))
		r, err := w.Start(withTenant(t.Context(), "acme"), e, "x", 1, pawl.Headers(map[string]string{"shop": "eu"}))
		if err != nil {
			t.Fatal(err)
		}
		e.Skip(time.Minute)
		e.Crash()
		must(t, e.Serve("", 1, handler))
		if _, err := reopened(e, r).Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.check(t, "acme/acme/eu", "body 1", "body 2", "branch", "child", "handler", "hook", "step", "step of branch",
			"step of child")
		d, err := e.DescribeRun(t.Context(), r.ID)
		if want := map[string]string{"tenant": "acme", "shop": "eu"}; err != nil || !maps.Equal(d.Headers, want) {
			t.Errorf("described with %v, %v", d.Headers, err)
		}
		x, err := e.Explain(t.Context(), r.ID)
		if err != nil || !maps.Equal(x.Headers, d.Headers) {
			t.Errorf("explained with %v, %v", x.Headers, err)
		}
		again, err := e.RestartRun(t.Context(), r.ID, client.RestartRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if d, err := e.DescribeRun(t.Context(), again); err != nil || d.Headers["tenant"] != "acme" {
			t.Errorf("started again with %v, %v", d.Headers, err)
		}
	})
}

// TestHeadersOfRunRetriesAndCron checks that runs that the engine itself starts next have the headers too.
func TestHeadersOfRunRetriesAndCron(t *testing.T) {
	var s sightings
	retried := pawl.Define("retried", func(ctx pawl.Context, _ int) (int, error) {
		info := pawl.Info(ctx)
		s.note(fmt.Sprint("attempt ", info.Attempt), ctx, info.Headers)
		if info.Attempt < 3 {
			return 0, errors.New("not yet")
		}
		return 0, nil
	}, pawl.RunRetry("fixed(3, 1m)"))
	daily := pawl.Define("daily", func(ctx pawl.Context, _ int) (int, error) {
		s.note("cron "+pawl.Now(ctx).UTC().Format("15:04"), ctx, pawl.Info(ctx).Headers)
		return 0, nil
	}, temporal.Workflow(temporal.WorkflowOptions{
		CronSchedule: "0 */12 * * *", WorkflowExecutionTimeout: 24 * time.Hour,
	}))
	cfg := pawl.Config{
		Workflows: []pawl.Definition{retried, daily}, Propagators: []pawl.Propagator{tenants{}},
	}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		for _, w := range []*pawl.Workflow[int, int]{retried, daily} {
			_, err := w.Start(withTenant(t.Context(), "acme"), e, "", 1, pawl.Headers(map[string]string{"shop": "eu"}))
			if err != nil {
				t.Fatal(err)
			}
		}
		e.Skip(48 * time.Hour)
		s.check(t, "acme/acme/eu", "attempt 1", "attempt 2", "attempt 3", "cron 00:00", "cron 12:00")
	})
}

// TestHeadersOfSchedules checks that the firings of a schedule have the headers that it was made with, until it is
// changed. Headers of the context in which a program ensures its schedules are not theirs.
func TestHeadersOfSchedules(t *testing.T) {
	var s sightings
	w := pawl.Define("job", func(ctx pawl.Context, _ int) (int, error) {
		s.note(pawl.Now(ctx).UTC().Format("15:04"), ctx, pawl.Info(ctx).Headers)
		return 0, nil
	})
	cfg := pawl.Config{Workflows: []pawl.Definition{w}, Propagators: []pawl.Propagator{tenants{}}}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		hourly := client.Schedule{Cron: "0 * * * *"}
		ensure := func(headers map[string]string) pawl.ScheduleHandle {
			t.Helper()
			h, err := w.EnsureSchedule(withTenant(t.Context(), "start-up"), e, "s", hourly, 1, pawl.Headers(headers))
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		ensure(map[string]string{"tenant": "acme", "shop": "eu"})
		e.Skip(2*time.Hour + time.Minute)
		s.check(t, "acme/acme/eu", "01:00", "02:00")
		s.seen = nil
		h := ensure(map[string]string{"tenant": "acme", "shop": "us"})
		if _, err := h.Trigger(t.Context(), "now"); err != nil {
			t.Fatal(err)
		}
		e.Skip(time.Hour)
		s.check(t, "acme/acme/us", "02:01", "03:00")
		if d, err := h.Describe(t.Context()); err != nil || d.Headers["shop"] != "us" {
			t.Errorf("described with %v, %v", d.Headers, err)
		}
		_, err := w.EnsureSchedule(t.Context(), e, "t", hourly, 1, pawl.Headers(map[string]string{"": "x"}))
		if !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("a header without a key: %v", err)
		}
	})
}

// TestBrokenPropagator checks that a run goes on without the headers that its propagator fails to give.
func TestBrokenPropagator(t *testing.T) {
	var s sightings
	w := pawl.Define("w", func(ctx pawl.Context, _ int) (int, error) {
		s.note("body", ctx, pawl.Info(ctx).Headers)
		return pawl.Step(ctx, "s", s.step("step"))
	})
	cfg := pawl.Config{Workflows: []pawl.Definition{w}, Propagators: []pawl.Propagator{tenants{}}}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(withTenant(t.Context(), "bad"), e, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Result(t.Context()); err != nil {
			t.Error(err)
		}
		s.check(t, "<nil>/bad/", "body", "step")
	})
}

func TestHeadersRefused(t *testing.T) {
	w := labelled()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for want, headers := range map[string]map[string]string{
			"empty key": {"": "x"}, "contains =": {"a=b": "x"}, "control character": {"a": "x\ny"},
			"101 bytes":                  {strings.Repeat("x", 101): "a"},
			"4101 bytes, more than 4096": {"trace": strings.Repeat("x", 4096)},
			"not UTF-8":                  {"\xff": "a"},
		} {
			_, err := w.Start(t.Context(), e, "", "x", pawl.Headers(headers))
			if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("start: %v, want %q", err, want)
			}
		}
		r, err := w.Start(t.Context(), e, "", "x", pawl.Headers(map[string]string{"a": "1", "b": "2"}),
			pawl.Headers(map[string]string{"a": ""}))
		if err != nil {
			t.Fatal(err)
		}
		if d, err := e.DescribeRun(t.Context(), r.ID); err != nil || len(d.Headers) != 1 || d.Headers["b"] != "2" {
			t.Errorf("headers %v, %v", d.Headers, err)
		}
	}, w)
}
