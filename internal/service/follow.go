package service

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/trail"
)

const (
	// keptEvents is how many events of a followed run are kept. A watcher that is further behind reads the history
	// again.
	keptEvents = 1024
	// keptRuns is how many runs stay followed although nobody uses them at present.
	keptRuns = 16
)

// followed is a run with its trail. All watchers of the run share the trail: the first of them that sees an entry folds
// it.
type followed struct {
	id    core.RunID
	users int    // calls that use it now
	used  uint64 // when it was last released; the one with the lowest number is dropped first

	mu       sync.Mutex // the lock of the fields below
	trail    *trail.Trail
	kind     string
	workflow *Prepared
	recent   []api.Event // the last events, without gaps
	watchers int
}

// follows has the runs whose trail is in memory.
type follows struct {
	mu    sync.Mutex
	runs  map[core.RunID]*followed
	clock uint64
}

// take returns a run's trail in memory and counts the caller as a user of it. Call release afterwards.
func (fs *follows) take(id core.RunID) *followed {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.runs[id]
	if f == nil {
		if fs.runs == nil {
			fs.runs = map[core.RunID]*followed{}
		}
		f = &followed{id: id}
		fs.runs[id] = f
	}
	f.users++
	return f
}

// release ends a use. Of the runs that nobody uses, those used last stay in memory. A run that could not be read
// does not stay.
func (fs *follows) release(f *followed, read bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.users--
	fs.clock++
	f.used = fs.clock
	if f.users == 0 && !read {
		delete(fs.runs, f.id)
		return
	}
	var idle []*followed
	for _, other := range fs.runs {
		if other.users == 0 {
			idle = append(idle, other)
		}
	}
	if len(idle) > keptRuns {
		oldest := slices.MinFunc(idle, func(a, b *followed) int { return int(a.used) - int(b.used) })
		delete(fs.runs, oldest.id)
	}
}

// with calls fn with a run whose trail is up to date. name is how the caller named the run.
func (r *reads) with(ctx context.Context, name string, id core.RunID, fn func(f *followed) error) error {
	f := r.follows.take(id)
	err := f.locked(func() error {
		if !r.lazy || f.trail == nil || f.watchers == 0 {
			if err := r.catchUp(ctx, f); err != nil {
				return err
			}
		}
		return fn(f)
	})
	r.follows.release(f, err == nil)
	if absent(err) {
		// The run may have been deleted. If it was the first of its chain, the chain still has its id as workflow id.
		if newest, lookErr := r.src.Lookup(ctx, id.String()); lookErr == nil && newest != id {
			return r.with(ctx, name, newest, fn)
		}
		return noSuchRun(name)
	}
	return wrap(err)
}

// locked calls fn with the run's lock held. A panic of the run's own code, such as its definition's, becomes an error,
// because it concerns no other run. The trail is dropped then.
func (f *followed) locked(fn func() error) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() {
		if v := recover(); v != nil {
			f.trail, f.recent = nil, nil
			err = &api.Error{
				Code: api.CodeInternal, Message: fmt.Sprintf("run %s cannot be read: its code panicked: %v", f.id, v),
				Err: fmt.Errorf("%v\n%s", v, debug.Stack()),
			}
		}
	}()
	return fn()
}

// catchUp folds the entries that a run's trail does not have yet.
func (r *reads) catchUp(ctx context.Context, f *followed) error {
	after := 0
	if f.trail != nil {
		after = f.trail.Entries()
	}
	entries, err := r.src.Entries(ctx, f.id, after)
	if err != nil {
		return err
	}
	if f.trail == nil {
		if f.trail, err = r.begin(ctx, f, entries); err != nil {
			return err
		}
		f.recent = nil
	}
	for _, e := range entries {
		f.fold(e)
	}
	return nil
}

// begin makes the empty trail of a run from its first entry.
func (r *reads) begin(ctx context.Context, f *followed, entries []core.Entry) (*trail.Trail, error) {
	if len(entries) == 0 {
		return nil, noSuchRun(f.id.String())
	}
	k, err := r.workflows.of(ctx, entries[0])
	if err != nil {
		return nil, err
	}
	f.kind, f.workflow = k.kind, k.workflow
	t := trail.New(f.id, k.workflow.Definition)
	t.Shared = r.shared
	if words := k.workflow.Words; words != nil {
		t.Words = words.Step
	}
	return t, nil
}

// fold takes a run's next entry.
func (f *followed) fold(e core.Entry) {
	for _, ev := range f.trail.Fold(e) {
		f.recent = append(f.recent, f.told(ev))
	}
	if n := len(f.recent); n > 2*keptEvents {
		f.recent = slices.Clone(f.recent[n-keptEvents:])
	}
}

// told returns an event with the name that the run's own system uses for it.
func (f *followed) told(ev core.Event) api.Event {
	out := trail.Event(ev)
	if f.workflow.Words != nil {
		out.Dialect = f.workflow.Words.Event(ev)
	}
	return out
}

// since returns the kept events after a position. complete is false if events in between are missing.
func (f *followed) since(after int) (events []api.Event, complete bool) {
	if len(f.recent) == 0 {
		return nil, f.trail.Events() <= after
	}
	first := f.recent[0].Seq
	if after+1 < first {
		return nil, false
	}
	return slices.Clone(f.recent[min(after+1-first, len(f.recent)):]), true
}

// eventsAfter returns the events after a position. The run's trail must be up to date. Events that are no longer kept
// are made again from the history.
func (r *reads) eventsAfter(ctx context.Context, f *followed, after int) ([]api.Event, error) {
	events, complete := f.since(after)
	if complete {
		return events, nil
	}
	entries, err := r.src.Entries(ctx, f.id, 0)
	if err != nil {
		return nil, err
	}
	again := trail.New(f.id, f.workflow.Definition)
	for _, e := range entries[:min(len(entries), f.trail.Entries())] {
		for _, ev := range again.Fold(e) {
			if ev.Seq > after {
				events = append(events, f.told(ev))
			}
		}
	}
	return events, nil
}

// childOf returns a function that reads the run started by the last attempt of a step. It returns nil if that run
// cannot be read.
func (r *reads) childOf(ctx context.Context) func(*trail.Trail, core.StepID) (*trail.Trail, *Prepared) {
	return func(parent *trail.Trail, step core.StepID) (*trail.Trail, *Prepared) {
		id := parent.LastChild(step)
		if id == (core.RunID{}) {
			return nil, nil
		}
		entries, err := r.src.Entries(ctx, id, 0)
		if err != nil || len(entries) == 0 {
			return nil, nil
		}
		k, err := r.workflows.of(ctx, entries[0])
		if err != nil {
			return nil, nil
		}
		return trail.Of(id, k.workflow.Definition, entries), k.workflow
	}
}
