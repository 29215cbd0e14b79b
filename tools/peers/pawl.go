package main

import (
	"context"
	"net/url"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl"
	_ "github.com/pawl-dev/pawl/journal/postgres"
	_ "github.com/pawl-dev/pawl/journal/sqlite"
)

// pawlEngine runs Go functions.
type pawlEngine struct{ engine *pawl.Engine }

var pawlWork = pawl.Define("work", func(ctx pawl.Context, w job) (int, error) {
	if w.Due != 0 {
		if err := pawl.SleepUntil(ctx, "sleep", time.UnixMicro(w.Due)); err != nil {
			return 0, err
		}
		awake(w.Due) // a replay that comes by again is not counted
		return 0, nil
	}
	for i := range w.Steps {
		_, err := pawl.Step(ctx, "step", func(ctx context.Context) (int, error) {
			if pawl.Attempt(ctx).Number <= w.Fails {
				return 0, errFails
			}
			return i, w.did(i)
		}, pawl.Retry(pawl.RetryPolicy{MaxAttempts: w.attempts(), InitialInterval: pause, BackoffCoefficient: 1}))
		if err != nil {
			return 0, err
		}
	}
	return w.Steps, nil
})

func openPawl(ctx context.Context, database string) (engine, error) {
	e, err := pawl.Open(ctx, pawl.Config{Database: database, Workflows: []pawl.Definition{pawlWork}})
	if err != nil {
		return nil, err
	}
	return pawlEngine{e}, nil
}

func openPawlFile(ctx context.Context, dir, _ string) (engine, error) {
	return openPawl(ctx, "sqlite:"+filepath.Join(dir, "pawl.db"))
}

func openPawlServer(ctx context.Context, _, postgres string) (engine, error) {
	database, err := inSchema(postgres)
	if err != nil {
		return nil, err
	}
	return openPawl(ctx, database)
}

// inSchema adds Pawl's schema to the address of a database.
func inSchema(postgres string) (string, error) {
	u, err := url.Parse(postgres)
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Set("schema", pawlSchema)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func (e pawlEngine) once(ctx context.Context, w work) error {
	run, err := pawlWork.Start(ctx, e.engine, "", job{Steps: w.steps, Fails: w.fails})
	if err == nil {
		_, err = run.Result(ctx)
	}
	return err
}

func (e pawlEngine) start(ctx context.Context, j job) error {
	_, err := pawlWork.Start(ctx, e.engine, "", j)
	return err
}

func (pawlEngine) process() int { return 0 }

func (e pawlEngine) close() error { return e.engine.Close() }
