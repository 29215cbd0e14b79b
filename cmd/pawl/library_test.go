package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/pawlflow"
)

// TestGoProgramsRuns checks that the command shows the runs of a Go program, checks them, and leaves carrying them on
// to it.
func TestGoProgramsRuns(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	doc, err := flow.Parse("page.yaml", []byte("pawl: 1\nname: page\nsteps: [{name: print, exec: 'echo page'}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	page := pawlflow.Define[any, any](doc)
	book := pawl.Define("book", func(ctx pawl.Context, title string) (string, error) {
		err := pawl.Do(ctx, "write", func(ctx context.Context) error {
			if pawl.Attempt(ctx).Number == 1 {
				return errors.New("no idea yet")
			}
			return nil
		}, pawl.Retry("fixed(3, 1ms)"), pawl.Timeout("5m"))
		if err != nil {
			return "", err
		}
		if _, err := pawl.Child(ctx, "print", page, nil); err != nil {
			return "", err
		}
		return "", pawl.Sleep(ctx, "rest", time.Hour)
	}, pawl.RunTimeout("2h"))
	e, err := pawl.Open(ctx, pawl.Config{
		Database:  "sqlite:" + filepath.Join(dir, "books.db"),
		Workflows: []pawl.Definition{page, book},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := book.Start(ctx, e, "b1", "Time")
	if err != nil {
		t.Fatal(err)
	}
	for slept := false; !slept; {
		d, err := e.DescribeRun(ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		slept = len(d.Steps) == 3
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		refused bool
		want    string
		args    []string
	}{
		{false, `(?s)page .*succeeded.*child of.*book .*b1 +waiting`, []string{"run", "list", "--children"}},
		{
			false, `(?s)2h +run.*"Time".*write .*2 attempts.*no idea yet.*scheduleToClose until.*print .*rest +sleeps`,
			[]string{"run", "show", "b1"},
		},
		{false, `attempt.ended +write +attempt 1, after .*no idea yet`, []string{"run", "events", "b1"}},
		{false, `Nothing goes on here: what is open is a Go program's`, []string{"resume"}},
		{true, `workflow "book" is a Go program's: only that program carries its runs on`, []string{"resume", "b1"}},
		{true, `^pawl: workflow "book" is a Go program's`, []string{"run", "restart", "@last"}},
		{true, `^pawl: workflow "book" is a Go program's`, []string{"run", "cancel", "b1", "--follow"}},
		{true, `^pawl: now refused: step "rest" is suspended, not backing off`, []string{"step", "now", "b1", "rest"}},
		{false, `(?s)compared +2 runs.*Nothing is wrong`, []string{"doctor"}},
	} {
		out, err := command(t, dir, append(c.args, "--database",
			"sqlite:"+filepath.Join(dir, "books.db"))...).CombinedOutput()
		if (err != nil) != c.refused || !regexp.MustCompile(c.want).Match(out) {
			t.Errorf("%v: %v\n%s\nwant %s", c.args, err, out, c.want)
		}
	}
}

// library opens the engine of a Go program with these workflows.
func library(t *testing.T, path string, workflows ...pawl.Definition) *pawl.Engine {
	t.Helper()
	e, err := pawl.Open(t.Context(), pawl.Config{Database: "sqlite:" + path, Workflows: workflows})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// untilPhase waits until the step has the phase.
func untilPhase(t *testing.T, e *pawl.Engine, id, step string, phase client.Phase) {
	t.Helper()
	for {
		d, err := e.DescribeRun(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range d.Steps {
			if s.Name == step && s.Phase == phase {
				return
			}
		}
	}
}

func document(t *testing.T, name, rest string) *flow.Document {
	t.Helper()
	doc, err := flow.Parse(name+".yaml", []byte("pawl: 1\nname: "+name+"\n"+rest))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestResumeOfAProgramsFlow checks that the command carries on a flow run that a Go program started and left. Steps
// that only that program can carry on stay as they are: functions, flows that start workflows registered there, and
// their children.
func TestResumeOfAProgramsFlow(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	path := filepath.Join(dir, "shop.db")
	order := pawlflow.Define[any, string](document(t, "order",
		"steps:\n  - {name: before, exec: 'echo before >> effects'}\n  - {name: paid, needs: before, wait: paid}\n"+
			"  - {name: ship, needs: paid, exec: 'echo shipped'}\noutput: ${{ trim(steps.ship.output.stdout) }}\n"))
	shop := pawlflow.Define[any, string](document(t, "shop",
		"steps: [{name: o, flow: order}]\noutput: ${{ steps.o.output }}\n"))
	desk := pawl.Define("desk", func(ctx pawl.Context, _ any) (string, error) {
		return pawl.Child(ctx, "o", order, nil)
	})
	t.Chdir(dir)
	e := library(t, path, order, shop, desk)
	if _, err := order.Start(ctx, e, "alone", nil); err != nil {
		t.Fatal(err)
	}
	inShop, err := shop.Start(ctx, e, "in-shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	atDesk, err := desk.Start(ctx, e, "at-desk", nil)
	if err != nil {
		t.Fatal(err)
	}
	untilPhase(t, e, "alone", "paid", "suspended")
	children := map[string]string{}
	for len(children) < 3 {
		runs, err := e.ListRuns(ctx, client.Query{Workflow: "order"})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			untilPhase(t, e, r.ID, "paid", "suspended")
			children[r.ID] = r.WorkflowID
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	for id, workflowID := range children { // the others are sent by the program below
		if workflowID != "alone" {
			continue
		}
		out, err := command(t, dir, "event", "send", id, "paid", "--database", "sqlite:"+path).CombinedOutput()
		if err != nil {
			t.Errorf("an event for %q: %v\n%s", workflowID, err, out)
		}
	}
	out, err := command(t, dir, "resume", "--quiet", "--database", "sqlite:"+path).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != `"shipped"` {
		t.Errorf("resume: %v\n%s", err, out)
	}
	for name, want := range map[string]string{
		"at-desk": `workflow "desk" is a Go program's`,
		"in-shop": `workflow "shop" is a Go program's and starts "order"`,
	} {
		if out, err := command(t, dir, "resume", name, "--database", "sqlite:"+path).CombinedOutput(); err == nil ||
			!strings.Contains(string(out), want) {
			t.Errorf("resume %s: %v\n%s", name, err, out)
		}
	}
	if effects, err := os.ReadFile("effects"); err != nil || string(effects) != "before\nbefore\nbefore\n" {
		t.Errorf("what had finished ran again: %q, %v", effects, err)
	}

	e = library(t, path, order, shop, desk)
	for id := range children {
		if err := pawl.Event[any]("paid").Send(ctx, e, id, nil); err != nil && !errors.Is(err, pawl.ErrRunClosed) {
			t.Fatal(err)
		}
	}
	for _, id := range []string{inShop.ID, atDesk.ID} {
		if got, err := pawl.RunOf[string](e, id).Result(ctx); got != "shipped" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// TestProgramCarriesOn checks that a Go program goes on with a flow run of a "pawl run" that was killed with -9 in the
// middle of a process, in the directory where the command was called, and with the child flow of that day.
func TestProgramCarriesOn(t *testing.T) {
	t.Parallel()
	dir, before := killWhen(t, func(r killed) bool { return r.step("work").begun() }, map[string]string{
		"flow.yaml": "pawl: 1\nname: killed\ntimeout: 20m\nsteps:\n" +
			"  - {name: before, exec: 'echo before >> effects'}\n" +
			"  - {name: work, needs: before, exec: " + block + "}\n" +
			"  - {name: say, needs: work, flow: say}\noutput: ${{ steps.say.output }}\n",
		"say.yaml": "pawl: 1\nname: say\nsteps: [{name: s, exec: 'cat effects'}]\noutput: " +
			"${{ steps.s.output.stdout }}\n",
	})
	write(t, dir, "go", "")
	if err := os.Remove(filepath.Join(dir, "say.yaml")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "state", "pawl", "pawl.db")
	other := pawlflow.Define[any, any](document(t, "say", "steps: [{name: s, fail: another flow of that name}]\n"))
	e := library(t, path, other)
	got, err := pawl.RunOf[string](e, "k").Result(t.Context())
	if got != "before\nwork\nwork\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	after := shownRun(t, dir)
	compareKilled(t, before, after)
	if got := outcomes(after.step("work")); len(got) != 2 || got[0] != "lost" {
		t.Errorf("the attempts of the step that was killed ended %v", got)
	}
}

// TestProgramFile opens a database that a Go program with 0.1.0 wrote before it was killed with -9. The command carries
// one of its flows on, and a program of today the other one, which starts a workflow that is registered there.
func TestProgramFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unzip(t, filepath.Join("testdata", "0.1.0", "program.db.gz"), filepath.Join(dir, "old.db"))
	shell := func(args ...string) string {
		t.Helper()
		cmd := command(t, dir, append(args, "--database", "sqlite:old.db")...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("pawl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	shell("doctor")
	shell("event", "send", "old-greet", "go", "--data", `{"by": "eve"}`)
	if out := shell("resume", "old-greet", "--quiet"); strings.TrimSpace(out) != `"hello dear ada, eve"` {
		t.Errorf("resume printed %q", out)
	}
	shell("doctor")

	book := pawl.Define("book", func(ctx pawl.Context, title string) (string, error) {
		page, err := pawl.Step(ctx, "write", func(context.Context) (string, error) { return title + ", page 2", nil })
		if err != nil {
			return "", err
		}
		by, err := pawl.Event[map[string]string]("go").Wait(ctx)
		return page + ", by " + by["by"], err
	})
	e := library(t, filepath.Join(dir, "old.db"), book)
	if err := pawl.Event[any]("go").Send(t.Context(), e, "old-book", map[string]string{"by": "eve"}); err != nil {
		t.Fatal(err)
	}
	if got, err := pawl.RunOf[string](e, "old-book").Result(t.Context()); got != "Time, page 1, by eve" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	runs, err := e.ListRuns(t.Context(), client.Query{Workflow: "greet", Phases: []client.Phase{"waiting"}})
	if err != nil || len(runs) != 1 {
		t.Fatalf("%+v, %v", runs, err)
	}
	if err := pawl.Event[any]("go").Send(t.Context(), e, runs[0].ID, map[string]string{"by": "eve"}); err != nil {
		t.Fatal(err)
	}
	if got, err := pawl.RunOf[string](e, "old-asking").Result(t.Context()); got != "hello dear bob, eve" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
