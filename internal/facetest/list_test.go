package facetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

// ids lists the workflow ids of the runs that a query finds, page by page.
func ids(t *testing.T, c pawl.Client, q client.Query) string {
	t.Helper()
	var out []string
	for q.Limit = 2; ; {
		runs, err := c.ListRuns(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			out = append(out, r.WorkflowID)
			q.After = r.ID
		}
		if len(runs) < q.Limit {
			return strings.Join(out, " ")
		}
	}
}

// labelled sets a label of its own from the body, and waits.
func labelled() *pawl.Workflow[string, int] {
	return pawl.Define("labelled", func(ctx pawl.Context, state string) (int, error) {
		for _, value := range []string{state, state + "!"} {
			if err := pawl.SetLabel(ctx, "state", value); err != nil {
				return 0, err
			}
			if err := pawl.Sleep(ctx, "rest", time.Hour); err != nil {
				return 0, err
			}
		}
		return 0, pawl.SetLabel(ctx, "customer", "")
	})
}

func TestLabels(t *testing.T) {
	w := labelled()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for _, r := range []struct{ id, customer, region string }{
			{"a", "1", "eu"}, {"b", "2", "eu"}, {"c", "1", "us"},
		} {
			_, err := w.Start(t.Context(), e, r.id, "new",
				pawl.Labels(map[string]string{"customer": r.customer}),
				pawl.Labels(map[string]string{"region": r.region}))
			if err != nil {
				t.Fatal(err)
			}
			e.Skip(time.Second)
		}
		find := func(want string, labels ...string) {
			t.Helper()
			q := client.Query{Labels: map[string]string{}}
			for _, l := range labels {
				key, value, _ := strings.Cut(l, "=")
				q.Labels[key] = value
			}
			if got := ids(t, e, q); got != want {
				t.Errorf("%v: found %q, want %q", labels, got, want)
			}
		}
		e.Skip(time.Minute)
		find("c a", "customer=1")
		find("b a", "region=eu")
		find("a", "region=eu", "customer=1")
		find("c b a", "state=new")
		find("", "state=old")
		e.Crash() // bodies are called again, and change nothing by that
		e.Skip(time.Hour)
		find("", "state=new")
		find("c b a", "state=new!")
		e.Skip(time.Hour)
		find("", "customer=1")
		find("c", "region=us")
		d, err := e.DescribeRun(t.Context(), "c")
		if want := map[string]string{"region": "us", "state": "new!"}; err != nil || !maps.Equal(d.Labels, want) {
			t.Errorf("labels %v, want %v; %v", d.Labels, want, err)
		}
		x, err := e.Explain(t.Context(), "c")
		if err != nil || !maps.Equal(x.Labels, d.Labels) {
			t.Errorf("explained with labels %v; %v", x.Labels, err)
		}
		again, err := e.RestartRun(t.Context(), "c", client.RestartRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if d, err := e.DescribeRun(t.Context(), again); err != nil || d.Labels["region"] != "us" {
			t.Errorf("started again with %v; %v", d.Labels, err)
		}
	}, w)
}

// TestLabelsOfAChain checks that the runs that follow have the labels as they were at the end; children have none.
func TestLabelsOfAChain(t *testing.T) {
	child := pawl.Define("child", func(ctx pawl.Context, _ int) (int, error) { return 0, nil })
	w := pawl.Define("chain", func(ctx pawl.Context, n int) (int, error) {
		if _, err := pawl.Child(ctx, "child", child, 0); err != nil || n == 3 {
			return n, err
		}
		if err := pawl.Sleep(ctx, "rest", "1m"); err != nil {
			return 0, err
		}
		if err := pawl.SetLabel(ctx, fmt.Sprint("part", n), "done"); err != nil {
			return 0, err
		}
		return 0, pawl.ContinueAsNew(ctx, n+1)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "x", 1, pawl.Labels(map[string]string{"customer": "1"}))
		if _, err := r.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"customer": "1", "part1": "done", "part2": "done"}
		if d, err := e.DescribeRun(t.Context(), "x"); err != nil || !maps.Equal(d.Labels, want) {
			t.Errorf("labels %v, want %v; %v", d.Labels, want, err)
		}
		runs, err := e.ListRuns(t.Context(), client.Query{Labels: map[string]string{"customer": "1"}})
		if err != nil || len(runs) != 3 {
			t.Errorf("%d runs have the label, want the chain's 3: %v", len(runs), err)
		}
	}, w, child)
}

func TestLabelsRefused(t *testing.T) {
	many := map[string]string{}
	for n := range 51 {
		many[fmt.Sprint("key", n)] = "x"
	}
	w := labelled()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for want, labels := range map[string]map[string]string{
			"empty key": {"": "x"}, "contains =": {"a=b": "x"}, "control character": {"a": "x\ny"},
			"501 bytes": {"a": strings.Repeat("x", 501)}, "101 bytes": {strings.Repeat("x", 101): "a"},
			"51 labels": many, "not UTF-8": {"\xff": "a"},
		} {
			_, err := w.Start(t.Context(), e, "", "x", pawl.Labels(labels))
			if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("start: %v, want %q", err, want)
			}
			_, err = e.ListRuns(t.Context(), client.Query{Labels: labels})
			if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("list: %v, want %q", err, want)
			}
		}
	}, w)
}

func TestListByTime(t *testing.T) {
	w := labelled()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		began := time.Now()
		for _, id := range []string{"a", "b", "c", "d"} {
			if _, err := w.Start(t.Context(), e, id, "x"); err != nil {
				t.Fatal(err)
			}
			e.Skip(time.Hour)
		}
		at := func(hours int) time.Time { return began.Add(time.Duration(hours) * time.Hour) }
		for want, q := range map[string]client.Query{
			"d c b a": {},
			"d c":     {CreatedFrom: at(2)},
			"b a":     {CreatedBefore: at(2)},
			"c b":     {CreatedFrom: at(1), CreatedBefore: at(3)},
			"b":       {CreatedFrom: at(1), CreatedBefore: at(2), Phases: []client.Phase{"succeeded"}},
			"":        {CreatedFrom: at(3), Phases: []client.Phase{"succeeded"}},
		} {
			if got := ids(t, e, q); got != want {
				t.Errorf("%+v: found %q, want %q", q, got, want)
			}
		}
	}, w)
}

// TestListStuck checks that the list finds a run whose code has changed and one whose workflow is not here, with the
// reasons.
func TestListStuck(t *testing.T) {
	define := func(step string) *pawl.Workflow[string, int] {
		return pawl.Define("order", func(ctx pawl.Context, _ string) (int, error) {
			if err := pawl.Sleep(ctx, step, time.Hour); err != nil {
				return 0, err
			}
			return 0, pawl.Do(ctx, "pay", func(context.Context) error { return nil })
		})
	}
	before, other := define("before"), labelled()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for _, id := range []string{"a", "b"} {
			if _, err := before.Start(t.Context(), e, id, ""); err != nil {
				t.Fatal(err)
			}
			e.Skip(time.Second)
		}
		if _, err := other.Start(t.Context(), e, "c", "x"); err != nil {
			t.Fatal(err)
		}
		if got := ids(t, e, client.Query{Stuck: true}); got != "" {
			t.Errorf("stuck are %q", got)
		}
		e.Restart(define("after"))
		e.Skip(2 * time.Hour)
		if got := ids(t, e, client.Query{Stuck: true}); got != "c b a" {
			t.Errorf("stuck are %q", got)
		}
		if got := ids(t, e, client.Query{Stuck: true, Workflow: "order"}); got != "b a" {
			t.Errorf("stuck are %q", got)
		}
		runs, err := e.ListRuns(t.Context(), client.Query{})
		if err != nil {
			t.Fatal(err)
		}
		for want, r := range map[string]client.Summary{"is not registered": runs[0], "the code has changed": runs[1]} {
			if !strings.Contains(r.Problem, want) {
				t.Errorf("the problem of %s is %q", r.WorkflowID, r.Problem)
			}
		}
		d, err := e.DescribeRun(t.Context(), "a")
		if err != nil || !strings.Contains(d.Problem, "the code has changed") {
			t.Errorf("it is described with the problem %q; %v", d.Problem, err)
		}
		x, err := e.Explain(t.Context(), "a")
		if err != nil || x.Problem != d.Problem {
			t.Errorf("it is explained with the problem %q; %v", x.Problem, err)
		}
		e.Restart(before, other)
		e.Skip(3 * time.Hour)
		if got := ids(t, e, client.Query{Stuck: true}); got != "" {
			t.Errorf("stuck are %q", got)
		}
		if d, err := e.DescribeRun(t.Context(), "a"); err != nil || d.Problem != "" || d.Phase != "succeeded" {
			t.Errorf("it is %s with the problem %q; %v", d.Phase, d.Problem, err)
		}
	}, before, other)
}
