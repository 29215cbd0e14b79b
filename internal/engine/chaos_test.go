package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// readCalls are calls that only read about a run. While the journal takes no writes they wait, but they do not fail.
var readCalls = map[string]func(ctx context.Context, e *Engine, id core.RunID) error{
	"result": func(ctx context.Context, e *Engine, id core.RunID) error { _, err := e.Result(ctx, id); return err },
	"entries": func(ctx context.Context, e *Engine, id core.RunID) error {
		_, err := e.Entries(ctx, id, 0)
		return err
	},
	"lookup": func(ctx context.Context, e *Engine, id core.RunID) error {
		_, err := e.Lookup(ctx, id.String())
		return err
	},
	"list": func(ctx context.Context, e *Engine, _ core.RunID) error {
		_, err := e.List(ctx, journal.Query{})
		return err
	},
	"watch": func(ctx context.Context, e *Engine, id core.RunID) error {
		return e.Watch(ctx, id, 0, func(core.Entry) error { return nil })
	},
}

// TestEveryCallIsAnswered checks that every call gets a correct answer while appends fail, acknowledgements are lost
// and callers give up. In the middle of that the engine is closed, or another process takes the partition.
func TestEveryCallIsAnswered(t *testing.T) {
	for name, end := range map[string]error{"closed": ErrClosed, "fenced": journal.ErrFenced} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(2) {
				checkEveryCallIsAnswered(t, seed, end)
			}
		})
	}
}

func checkEveryCallIsAnswered(t *testing.T, seed uint64, end error) {
	j := memory.New()
	random, taken := rand.New(rand.NewPCG(seed, 7)), atomic.Bool{}
	j.Fault = func(op memory.Op, _ *journal.Batch) error {
		switch roll := random.IntN(100); { // the journal's lock protects random
		case taken.Load() && (op == memory.OpAppend || op == memory.OpRenew):
			return journal.ErrFenced
		case op == memory.OpAppend && roll == 0:
			return journal.ErrFull
		case op == memory.OpAppend && roll == 1, op == memory.OpAck && roll == 0:
			return errBroken
		}
		return nil
	}
	e, _ := open(t, j, -1, succeed)
	var callers sync.WaitGroup
	var answers atomic.Int64
	for name, ask := range readCalls {
		callers.Go(func() {
			for n := 0; ; n++ {
				ctx, cancel := context.WithCancel(context.Background())
				givesUp := n%7 == 6
				if givesUp {
					time.AfterFunc(time.Duration(n%5)*100*time.Microsecond, cancel)
				}
				s, err := e.Start(ctx, StartRequest{Definition: flow("two", task(), task()).definition()})
				started := err == nil
				if started {
					err = ask(ctx, e, s.Run)
				}
				cancel()
				own := new(Error)
				switch {
				case err == nil:
					answers.Add(1)
				case errors.Is(err, end):
					return
				case givesUp && errors.As(err, &own) && own.Code == CodeCancelled:
				case !started && (errors.Is(err, ErrStalled) || errors.Is(err, ErrUncertain)):
				default:
					t.Errorf("%s: %v", name, err)
					return
				}
			}
		})
	}
	for answers.Load() < 300 && !t.Failed() {
		<-time.After(time.Millisecond)
	}
	if end == journal.ErrFenced {
		taken.Store(true)
	} else {
		_ = e.Close() // it fails if the journal takes no writes at this moment
	}
	callers.Wait()
	_ = e.Close()
}
