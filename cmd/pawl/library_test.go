package main

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/flow"
)

// TestGoProgramsRuns: the command shows the runs of a Go program, checks them, and leaves carrying them on to it.
func TestGoProgramsRuns(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	doc, err := flow.Parse("page.yaml", []byte("pawl: 1\nname: page\nsteps: [{name: print, exec: 'echo page'}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	page := pawl.DefineFlow[any, any](doc)
	book := pawl.Define("book", func(ctx pawl.Context, title string) (string, error) {
		err := pawl.Do(ctx, "write", func(ctx context.Context) error {
			if pawl.AttemptNumber(ctx) == 1 {
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
	e, err := pawl.Open(ctx, pawl.Config{Database: "sqlite:" + filepath.Join(dir, "books.db"), Workflows: []pawl.Definition{page, book}})
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
		{false, `(?s)page .*succeeded.*child of.*book .*b1 +waiting`, []string{"run", "list"}},
		{false, `(?s)2h +run.*"Time".*write .*2 attempts.*no idea yet.*scheduleToClose until.*print .*rest +sleeps`, []string{"run", "show", "b1"}},
		{false, `attempt.ended +write +attempt 1, after .*no idea yet`, []string{"run", "events", "b1"}},
		{false, `Nothing goes on here: what is open is a Go program's`, []string{"resume"}},
		{true, `workflow "book" is a Go program's: this command shows its runs`, []string{"resume", "b1"}},
		{true, `^pawl: workflow "book" is a Go program's`, []string{"run", "restart", "@last"}},
		{true, `^pawl: workflow "book" is a Go program's`, []string{"run", "cancel", "b1"}},
		{true, `^pawl: workflow "book" is a Go program's`, []string{"step", "now", "b1", "rest"}},
		{true, `^pawl: workflow "book" is a Go program's`, []string{"event", "send", "b1", "go"}},
		{false, `(?s)compared +2 runs.*Nothing is wrong`, []string{"doctor"}},
	} {
		out, err := command(t, dir, append(c.args, "--database", "sqlite:"+filepath.Join(dir, "books.db"))...).CombinedOutput()
		if (err != nil) != c.refused || !regexp.MustCompile(c.want).Match(out) {
			t.Errorf("%v: %v\n%s\nwant %s", c.args, err, out, c.want)
		}
	}
}
