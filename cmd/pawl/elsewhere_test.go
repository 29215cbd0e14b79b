package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawlflow"
)

// TestOperateWithoutTheProgram checks that operations of the command on runs of a Go program are recorded, and reach
// the bodies when the program opens the database. Until then none of their limits fires and no compensation runs.
func TestOperateWithoutTheProgram(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	path := filepath.Join(dir, "pawl.db")
	undone := make(chan struct{}, 1)
	book := pawl.Define("book", func(ctx pawl.Context, _ any) (string, error) {
		word, err := pawl.Event[string]("word").Wait(ctx)
		if errors.Is(err, pawl.ErrCancelled) {
			return "", errors.Join(err, pawl.Do(pawl.Detached(ctx), "undo", func(context.Context) error {
				undone <- struct{}{}
				return nil
			}))
		}
		return word, err
	}, pawl.RunTimeout("2h"))
	failing := true
	flaky := pawl.Define("flaky", func(ctx pawl.Context, _ any) (string, error) {
		return pawl.Step(ctx, "try", func(context.Context) (string, error) {
			if failing {
				return "", errors.New("not yet")
			}
			return "done", nil
		})
	})
	paid := pawlflow.Define[any, string](document(t, "paid",
		"steps: [{name: paid, wait: paid}]\noutput: ${{ steps.paid.output }}\n"))
	shop := pawl.Define("shop", func(ctx pawl.Context, _ any) (string, error) {
		return pawl.Child(ctx, "o", paid, nil)
	})
	e := library(t, path, book, flaky, shop, paid)
	for _, id := range []string{"told", "cancelled", "ended", "extended"} {
		if _, err := book.Start(ctx, e, id, nil); err != nil {
			t.Fatal(err)
		}
		untilPhase(t, e, id, "word", "suspended")
	}
	if _, err := shop.Start(ctx, e, "shop", nil); err != nil {
		t.Fatal(err)
	}
	run, err := flaky.Start(ctx, e, "flaky", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(ctx); err == nil {
		t.Fatal("the step did not fail")
	}
	child := ""
	for child == "" {
		runs, err := e.ListRuns(ctx, client.Query{Workflow: "paid"})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			untilPhase(t, e, r.ID, "paid", "suspended")
			child = r.ID
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	shell := func(args ...string) string {
		t.Helper()
		out, err := command(t, dir, append(args, "--database", "sqlite:"+path)...).CombinedOutput()
		if err != nil {
			t.Errorf("pawl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := shell("event", "send", "told", "word", "--data", `"hello"`); !strings.Contains(out,
		"it goes on when its program opens the database") {
		t.Errorf("event send says\n%s", out)
	}
	shell("run", "cancel", "cancelled")
	shell("run", "pause", "extended")
	shell("run", "resume", "extended")
	shell("run", "extend", "extended", "--by", "1h")
	if out := shell("run", "terminate", "ended"); strings.Contains(out, "goes on") {
		t.Errorf("terminate says\n%s", out)
	}
	if out := shell("run", "show", "ended"); !strings.Contains(out, "terminated") {
		t.Errorf("a terminated run is\n%s", out)
	}
	shell("event", "send", child, "paid", "--data", `"cash"`) // its parent is the program's
	shell("run", "retry", "flaky")
	shell("doctor")

	failing = false
	e = library(t, path, book, flaky, shop, paid)
	for id, want := range map[string]string{"told": "hello", "shop": "cash", "flaky": "done"} {
		if got, err := pawl.RunOf[string](e, id).Result(ctx); got != want || err != nil {
			t.Errorf("%s: %q, %v", id, got, err)
		}
	}
	if _, err := pawl.RunOf[string](e, "cancelled").Result(ctx); !errors.Is(err, pawl.ErrCancelled) {
		t.Errorf("the cancelled run: %v", err)
	}
	select {
	case <-undone:
	default:
		t.Error("the body of the cancelled run did not undo what it did")
	}
	d, err := e.DescribeRun(ctx, "extended")
	if err != nil || d.Deadline.Sub(d.CreatedAt) != 3*time.Hour || d.Phase != "waiting" {
		t.Errorf("the extended run: %+v, %v", d, err)
	}
}
