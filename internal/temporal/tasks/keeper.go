package tasks

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/api/serviceerror"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/temporal/history"
)

// EngineCalls are what the keeper needs of an engine.
type EngineCalls interface {
	// Do gives a run inputs, in one commit.
	Do(run core.RunID, body *engine.Body, inputs []core.Input, done func(error))
	// Entries returns the durable entries of a run, without the first ones, of which after says how many.
	Entries(ctx context.Context, id core.RunID, after int) ([]core.Entry, error)
}

// Keeper keeps the workflow tasks of an engine's runs. For the engine it is the bodies of the kind.
type Keeper struct {
	now    func() core.Time
	log    *slog.Logger
	engine EngineCalls
	queues *queues
	epoch  uint64 // the number of this process in the tokens that it gives out
	leases atomic.Uint64
	expect ExpectActivities // nil: activities come by the usual way

	mu         sync.Mutex
	runs       map[core.RunID]*OfRun
	idle       *list.List // the runs that nobody uses, the one that was used last in front
	events     int        // their events
	keeps      int        // how many these may be
	generation int
	asked      map[uint64]*query // those that workers have, where they are tasks of their own
}

var _ engine.Bodies = (*Keeper)(nil)

// keepEvents is how many events are kept of histories that nobody uses at present.
const keepEvents = 100_000

// New returns a keeper. Attach it to its engine before that is opened. now is the engine's clock.
func New(now func() core.Time, log *slog.Logger) *Keeper {
	return &Keeper{
		now: now, log: log, queues: newQueues(), epoch: rand.Uint64(), runs: map[core.RunID]*OfRun{},
		idle: list.New(), asked: map[uint64]*query{}, keeps: keepEvents,
	}
}

// Attach tells the keeper its engine.
func (k *Keeper) Attach(e EngineCalls) { k.engine = e }

// Drain lets all workers go that wait for tasks.
func (k *Keeper) Drain() { k.queues.close() }

// Consult implements engine.Bodies.
func (k *Keeper) Consult(n engine.News) (decides bool) {
	if !n.Held {
		go k.look(n.Run) // the loop must not wait
	}
	return false
}

// CanBegin implements engine.Bodies.
func (k *Keeper) CanBegin(core.RunID, string, string, string) bool { return true }

// Forget implements engine.Bodies.
func (k *Keeper) Forget(run core.RunID) { go k.look(run) }

// Reset implements engine.Bodies.
func (k *Keeper) Reset(generation int, lives func(core.RunID) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.generation = max(k.generation, generation)
	for id, r := range k.runs {
		if lives(id) {
			k.drop(r)
			go r.giveUp() // it may be in use
		}
	}
}

// look looks what there is to do for a run of which there are news.
func (k *Keeper) look(id core.RunID) {
	r := k.Use(id)
	defer r.Release()
	if err := r.Refresh(context.Background()); err != nil {
		r.lookLater(err)
		return
	}
	r.offer()
	r.direct()
}

// lookAgain is how long the keeper waits until it looks again at a run that could not be read.
const lookAgain = time.Second

// lookLater looks at a run again after a while if err is not nil: its history could not be read, so it is not known
// whether a task is due, and no news may follow that tell it.
func (r *OfRun) lookLater(err error) {
	switch code := api.CodeOf(err); {
	case err == nil, r.later, errors.As(err, new(*serviceerror.NotFound)), code == api.CodeNotFound:
		return
	case code == api.CodeClosed, code == api.CodeHeld, code == api.CodeFenced:
		return // who has the run next consults it
	}
	r.later = true
	k, id := r.keeper, r.Fold.Run
	time.AfterFunc(lookAgain, func() {
		r.mu.Lock()
		r.later = false
		r.mu.Unlock()
		k.look(id)
	})
}

// Use returns a run, locked. Call Release after the use.
func (k *Keeper) Use(id core.RunID) *OfRun {
	k.mu.Lock()
	r := k.runs[id]
	if r == nil {
		r = &OfRun{
			keeper: k, Fold: history.New(id), body: engine.NewBody(k.generation),
		}
		k.runs[id] = r
	}
	k.use(r)
	k.mu.Unlock()
	r.mu.Lock()
	return r
}

// use notes that somebody uses a run. It is called with the lock of the keeper held.
func (k *Keeper) use(r *OfRun) {
	r.users++
	if r.place != nil {
		k.idle.Remove(r.place)
		k.events -= r.weight
		r.place = nil
	}
}

// Release unlocks a run. What is known of runs that were not used for long is forgotten.
func (r *OfRun) Release() {
	k := r.keeper
	n, _ := r.Fold.Len()
	rests := r.out == nil && r.offered == nil && r.extra == 0 && len(r.queries) == 0 && len(r.updates) == 0 && !r.later
	r.busy = !rests || r.watched > 0 // who watches would not hear of it any more
	if rests {
		r.Fold.Rest()
	}
	r.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	r.users--
	if r.users > 0 || r.busy || k.runs[r.Fold.Run] != r {
		return
	}
	r.weight = n + 1
	r.place = k.idle.PushFront(r)
	for k.events += r.weight; k.events > k.keeps; {
		k.drop(k.idle.Back().Value.(*OfRun))
	}
}

// drop forgets a run. It is called with the lock of the keeper held.
func (k *Keeper) drop(r *OfRun) {
	delete(k.runs, r.Fold.Run)
	if r.place != nil {
		k.idle.Remove(r.place)
		k.events -= r.weight
		r.place = nil
	}
}

// Remove forgets a run that was removed. Who waits for it looks again, and finds nothing.
func (k *Keeper) Remove(id core.RunID) {
	k.mu.Lock()
	r := k.runs[id]
	if r != nil {
		k.drop(r)
	}
	k.mu.Unlock()
	if r != nil {
		r.giveUp()
	}
}
