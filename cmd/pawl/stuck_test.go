package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

// bodyStops tells when a body cannot go on.
type bodyStops chan error

func (s bodyStops) observer() pawl.Observer {
	return pawl.Observer{BodyStopped: func(o client.RunObservation) { s <- o.Err }}
}

// TestDoctorTellsStuckRuns checks that a run whose body cannot go on is no fault of the database. The doctor names it,
// and says that nothing is wrong.
func TestDoctorTellsStuckRuns(t *testing.T) {
	t.Parallel()
	pause := func(ctx pawl.Context) (int, error) { return pawl.Event[int]("go").Wait(ctx) }
	first := func(ctx pawl.Context, _ string) (int, error) {
		_, err := pawl.Step(ctx, "first", func(context.Context) (int, error) { return 1, nil })
		if err != nil {
			return 0, err
		}
		return pause(ctx)
	}
	for name, then := range map[string]func(ctx pawl.Context, _ string) (int, error){
		"changed": func(ctx pawl.Context, _ string) (int, error) {
			_, err := pawl.Step(ctx, "renamed", func(context.Context) (int, error) { return 1, nil })
			return 0, err
		},
		"blocks": func(ctx pawl.Context, _ string) (int, error) {
			<-ctx.Done() //pawlvet:ignore the test wants a body that blocks
			return 0, ctx.Err()
		},
		"gone": nil,
	} {
		t.Run(name, func(t *testing.T) {
			dir, stopped := t.TempDir(), make(bodyStops, 100)
			database := "sqlite:" + filepath.Join(dir, "pawl.db")
			open := func(body func(ctx pawl.Context, _ string) (int, error)) *pawl.Engine {
				cfg := pawl.Config{Database: database, Observer: stopped.observer()}
				if body != nil {
					cfg.Workflows = []pawl.Definition{pawl.Define("book", body, pawl.TaskTimeout("1s"))}
				}
				e, err := pawl.Open(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				return e
			}
			e := open(first)
			run, err := e.StartRun(t.Context(), client.StartRequest{Workflow: "book", ID: "b1"})
			if err != nil {
				t.Fatal(err)
			}
			for slept := false; !slept; {
				d, err := e.DescribeRun(t.Context(), run.ID)
				if err != nil {
					t.Fatal(err)
				}
				slept = len(d.Steps) == 2
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			e = open(then)
			if err := pawl.Event[int]("go").Send(t.Context(), e, "b1", 1); err != nil {
				t.Fatal(err)
			}
			<-stopped
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			cmd := command(t, dir, "doctor", "--database", "sqlite:pawl.db")
			out, err := cmd.CombinedOutput()
			for _, want := range []string{"1 run waits for the code", run.ID + " of book", "Nothing is wrong"} {
				if err != nil || !strings.Contains(string(out), want) {
					t.Errorf("%v, %q is missing in\n%s", err, want, out)
				}
			}
		})
	}
}
