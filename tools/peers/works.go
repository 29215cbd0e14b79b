package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// A work is done by all peers.
type work struct {
	name    string
	steps   int // one after the other
	fails   int // attempts of each step that fail before one does not
	clients int
	measure func(ctx context.Context, s stage) (turn, error)
	table   *table
}

// pause is the time between two attempts of a step that fails.
const pause = 10 * time.Millisecond

var works = []work{
	{name: "onestep", steps: 1, clients: 256, measure: measureRate, table: &rates},
	{name: "tenstep", steps: 10, clients: 256, measure: measureRate, table: &rates},
	{name: "retry", steps: 1, fails: 2, clients: 256, measure: measureRate, table: &rates},
	{name: "latency", steps: 1, clients: 1, measure: measureRate, table: &rates},
	{name: "timers", clients: 64, measure: measureTimers, table: &timers},
	{name: "sleepers", clients: 64, measure: measureSleepers, table: &sleepers},
	{name: "recovery", steps: 2, clients: 64, measure: measureRecovery, table: &recoveries},
}

// A stage is the input of a turn: a peer, its place and its work.
type stage struct {
	options
	peer     peer
	work     work
	dir      string
	database *server // nil: the peer has none
}

// open opens the peer, and waits for a first run if this is the first time on its database.
func (s stage) open(ctx context.Context) (engine, error) {
	e, err := s.peer.open(ctx, s.dir, s.postgres)
	if err != nil {
		return nil, err
	}
	if err := first(ctx, e); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// first waits for a first run: a server that answers may need seconds until it has one done.
func first(ctx context.Context, e engine) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("a first run has not ended in a minute"))
	defer cancel()
	if err := e.once(ctx, work{steps: 1}); err != nil {
		return fmt.Errorf("the first run: %w", errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// use opens a peer, calls do to measure it, and closes it.
func (s stage) use(ctx context.Context, do func(e engine) (turn, error)) (t turn, err error) {
	e, err := s.open(ctx)
	if err != nil {
		return turn{}, err
	}
	t, err = do(e)
	return t, errors.Join(err, e.close())
}

// usage is processor time that was used until a moment.
type usage struct {
	at                      time.Time
	own, beside, base, busy time.Duration
}

func (s stage) used(e engine) usage {
	beside := processorOf(e.process())
	return usage{time.Now(), processor() + beside, beside, s.database.processor(), machineBusy()}
}

// since puts into a turn what was used from one moment to another.
func (t *turn) since(from, to usage, runs float64) {
	own, base, span := to.own-from.own, to.base-from.base, to.at.Sub(from.at).Seconds()
	t.Own, t.Database = own.Seconds()*1e3/runs, base.Seconds()*1e3/runs
	t.Beside = (to.beside - from.beside).Seconds() * 1e3 / runs
	t.Others = max(to.busy-from.busy-own-base, 0).Seconds() / span
}

// startMany starts runs until there are enough or a time has come, and returns how many.
func startMany(ctx context.Context, e engine, clients, most int, enough time.Time, of func(i int) job) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	var mu sync.Mutex
	next := 0
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == most || time.Now().After(enough) {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range clients {
		wait.Go(func() {
			for i, ok := take(); ok && ctx.Err() == nil; i, ok = take() {
				if err := e.start(ctx, of(i)); err != nil {
					cancel(err)
				}
			}
		})
	}
	wait.Wait()
	return next, context.Cause(ctx)
}

// residentOf returns the memory of a process in bytes, or 0 if there is none.
func residentOf(id int) float64 {
	if id == 0 {
		return 0
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", id))
	var size, pages float64
	_, _ = fmt.Sscan(string(text), &size, &pages)
	return pages * float64(os.Getpagesize())
}
