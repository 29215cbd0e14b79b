package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

var errFails = errors.New("this attempt fails")

// job is the input of a run; River has a job for each step.
type job struct {
	Run   int64 `json:"run"`
	Steps int   `json:"steps"` // those still to do, this one included
	Fails int   `json:"fails"`
	Due   int64 `json:"due"`  // a run that sleeps until then, in microseconds, in place of steps; 0: another one
	Mark  bool  `json:"mark"` // a run whose steps add lines to a file
}

// attempts returns how many attempts a step may have. One that is cut off by a kill must not be the last.
func (j job) attempts() int {
	if j.Mark {
		return 10
	}
	return j.Fails + 1
}

// did notes that a step ran, if this is wanted.
func (j job) did(step int) error {
	if !j.Mark {
		return nil
	}
	return mark(j.Run, step)
}

// Kind names the type of the job for River.
func (job) Kind() string { return "step" }

// riverStuck is when River assumes that the program of a job is gone.
const riverStuck = 20 * time.Second

// riverEngine chains jobs: each step's job inserts the next one in the transaction that completes it, so that a step is
// done once and the next one is not lost. This is River's own way for work of several steps.
type riverEngine struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	cancel func()

	mu    sync.Mutex
	last  int64
	ended map[int64]chan struct{} // the ends by run
}

func openRiver(ctx context.Context, _, postgres string) (engine, error) {
	config, err := pgxpool.ParseConfig(postgres)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	e := &riverEngine{pool: pool, ended: map[int64]chan struct{}{}}
	if err := e.run(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return e, nil
}

func (e *riverEngine) run(ctx context.Context) error {
	driver := riverpgxv5.New(e.pool)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil)) // it logs each attempt that fails
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: riverSchema, Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{engine: e})
	e.client, err = river.NewClient(driver, &river.Config{
		Schema: riverSchema, Logger: quiet, Workers: workers,
		// As fast as it goes: by default it looks for jobs ten times a second, and for 100 at once.
		FetchCooldown: time.Millisecond, FetchPollInterval: 10 * time.Millisecond,
		// A job whose program was killed is found after an hour by default.
		JobTimeout: riverStuck, RescueStuckJobsAfter: riverStuck,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1000}},
	})
	if err != nil {
		return err
	}
	events, cancel := e.client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: 100_000, Kinds: []river.EventKind{river.EventKindJobCompleted},
	})
	e.cancel = cancel
	go e.follow(events)
	return e.client.Start(ctx)
}

// follow tells clients that the last job of their run is recorded as completed.
func (e *riverEngine) follow(events <-chan *river.Event) {
	for event := range events {
		var w job
		if json.Unmarshal(event.Job.EncodedArgs, &w) != nil || w.Steps > 1 || w.Due != 0 || w.Mark {
			continue
		}
		e.mu.Lock()
		if ended := e.ended[w.Run]; ended != nil {
			close(ended)
			delete(e.ended, w.Run)
		}
		e.mu.Unlock()
	}
}

func (e *riverEngine) once(ctx context.Context, w work) error {
	ended := make(chan struct{})
	e.mu.Lock()
	e.last++
	run := e.last
	e.ended[run] = ended
	e.mu.Unlock()
	if _, err := e.client.Insert(ctx, job{Run: run, Steps: w.steps, Fails: w.fails}, nil); err != nil {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// start inserts a job, which is scheduled for later if the run sleeps: this is how River's users wait.
func (e *riverEngine) start(ctx context.Context, j job) error {
	var options *river.InsertOpts
	if j.Due != 0 {
		options = &river.InsertOpts{ScheduledAt: time.UnixMicro(j.Due)}
	}
	_, err := e.client.Insert(ctx, j, options)
	return err
}

func (*riverEngine) process() int { return 0 }

func (e *riverEngine) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := e.client.StopAndCancel(ctx)
	e.cancel()
	e.pool.Close()
	return err
}

type riverWorker struct {
	river.WorkerDefaults[job]
	engine *riverEngine
}

// NextRetry returns the time of the next attempt; River calls it.
func (w *riverWorker) NextRetry(*river.Job[job]) time.Time { return time.Now().Add(pause) }

func (w *riverWorker) Work(ctx context.Context, j *river.Job[job]) error {
	if j.Args.Due != 0 {
		awake(j.Args.Due)
		return nil
	}
	if j.Attempt <= j.Args.Fails {
		return errFails
	}
	if err := j.Args.did(j.Args.Steps); err != nil {
		return err
	}
	if j.Args.Steps == 1 {
		return nil
	}
	return pgx.BeginFunc(ctx, w.engine.pool, func(tx pgx.Tx) error {
		next := j.Args
		next.Steps--
		if _, err := w.engine.client.InsertTx(ctx, tx, next, nil); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, j)
		return err
	})
}
