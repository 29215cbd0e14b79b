package tasks

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
	"unique"

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

	mu       sync.Mutex
	runs     map[core.RunID]*OfRun
	idle     *list.List // the runs that nobody uses, the one that was used last in front
	events   int        // their events
	keeps    int        // how many these may be
	sweeping bool       // a sweep is to come
	// stuck has the open runs that were forgotten though a worker has them in its memory: a few bytes each, since these
	// may be all workflows that sleep.
	stuck      map[core.RunID]unique.Handle[sticky]
	generation int
	asked      map[uint64]*query // those that workers have, where they are tasks of their own
}

var _ engine.Bodies = (*Keeper)(nil)

const (
	// keepEvents is how many events are kept of histories that nobody uses at present.
	keepEvents = 100_000
	// keepFor is how long such a history is kept if it is short, as that of a workflow that sleeps: it is read again in
	// no time.
	keepFor = time.Minute
	// short is how many events a short history has at most.
	short = 100
)

// New returns a keeper. Attach it to its engine before that is opened. now is the engine's clock.
func New(now func() core.Time, log *slog.Logger) *Keeper {
	return &Keeper{
		now: now, log: log, queues: newQueues(), epoch: rand.Uint64(), runs: map[core.RunID]*OfRun{},
		idle: list.New(), asked: map[uint64]*query{}, keeps: keepEvents,
		stuck: map[core.RunID]unique.Handle[sticky]{},
	}
}

// Attach tells the keeper its engine.
func (k *Keeper) Attach(e EngineCalls) { k.engine = e }

// Drain lets all workers go that wait for tasks.
func (k *Keeper) Drain() { k.queues.close() }

func (k *Keeper) Consult(n engine.News) (decides bool) {
	if !n.Held {
		go k.look(n.Run) // the loop must not wait
	}
	return false
}

func (k *Keeper) CanBegin(core.RunID, string, string, string) bool { return true }

func (k *Keeper) Forget(run core.RunID) { go k.look(run) }

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
	maps.DeleteFunc(k.stuck, func(id core.RunID, _ unique.Handle[sticky]) bool { return lives(id) })
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
		if s, ok := k.stuck[id]; ok {
			r.sticky = s.Value()
			delete(k.stuck, id)
		}
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
	r.weight, r.since = n+1, time.Now()
	r.place = k.idle.PushFront(r)
	if !k.sweeping {
		k.sweeping = true
		time.AfterFunc(keepFor, k.sweep)
	}
	for k.events += r.weight; k.events > k.keeps; {
		k.forget(k.idle.Back().Value.(*OfRun))
	}
}

// sweep forgets the short histories that nobody has used for a while.
func (k *Keeper) sweep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for at := k.idle.Back(); at != nil; {
		r := at.Value.(*OfRun)
		if left := keepFor - time.Since(r.since); left > 0 {
			time.AfterFunc(max(left, keepFor/10), k.sweep)
			return
		}
		at = at.Prev()
		if r.weight <= short {
			k.forget(r)
		}
	}
	k.sweeping = false
}

// forget drops a run that nobody uses. It is called with the lock of the keeper held.
func (k *Keeper) forget(r *OfRun) {
	k.drop(r)
	if r.sticky.queue != "" && r.Fold.Closed == 0 {
		k.stuck[r.Fold.Run] = unique.Make(r.sticky)
	}
}

// drop removes a run. It is called with the lock of the keeper held.
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
	delete(k.stuck, id)
	k.mu.Unlock()
	if r != nil {
		r.giveUp()
	}
}
