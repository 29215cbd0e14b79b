package service

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// watching is one call of Watch.
type watching struct {
	*reads
	f    *followed
	fn   func(api.Event) error
	seen int // number of the last event that fn has got

	failed error // the error that fn returned; Watch returns it unchanged
}

func (r *reads) Watch(ctx context.Context, name string, after int, fn func(api.Event) error) error {
	if after < 0 {
		return &api.Error{Code: api.CodeInvalid, Message: "watch: a position is the number of an event, or 0"}
	}
	id, err := r.find(ctx, name)
	if err != nil {
		return err
	}
	w := &watching{reads: r, fn: fn, seen: after}
	entries := 0
	err = r.with(ctx, name, id, func(f *followed) error {
		w.f, entries = r.follows.take(f.id), f.trail.Entries()
		f.watchers++
		return nil
	})
	if err != nil {
		return err
	}
	defer func() {
		w.f.mu.Lock()
		w.f.watchers--
		w.f.mu.Unlock()
		r.follows.release(w.f, true)
	}()
	if err = w.deliver(ctx, nil); err == nil {
		err = r.src.Watch(ctx, w.f.id, entries, func(e core.Entry) error {
			entries++
			return w.deliver(ctx, &folding{entries, e})
		})
	}
	if w.failed != nil && errors.Is(err, w.failed) {
		return w.failed
	}
	return wrap(err)
}

// folding is an entry with its number in the run.
type folding struct {
	number int
	entry  core.Entry
}

// deliver gives new events to fn. next is an entry that has just come; it is folded here if nobody else has folded it
// yet.
func (w *watching) deliver(ctx context.Context, next *folding) error {
	var events []api.Event
	err := w.f.locked(func() (err error) {
		if w.f.trail == nil { // it was dropped after a panic of the run's code
			if err := w.catchUp(ctx, w.f); err != nil {
				return err
			}
		}
		if next != nil && next.number == w.f.trail.Entries()+1 {
			w.f.fold(next.entry)
		}
		events, err = w.eventsAfter(ctx, w.f, w.seen)
		return err
	})
	if err != nil {
		return err
	}
	for _, ev := range events {
		if w.failed = w.fn(ev); w.failed != nil {
			return w.failed
		}
		w.seen = ev.Seq
	}
	return nil
}
