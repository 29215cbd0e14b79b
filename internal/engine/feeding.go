package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
)

// feeding reads the feeds of all partitions as one.
type feeding struct {
	from *drivers

	mu sync.Mutex
	// begun has by its name in which partitions a feed was made that has no reader yet. Protected by mu.
	begun map[string][]*driver
}

// Feed calls fn with every batch of committed entries after the position of the named feed. Within a partition the
// batches come in order and without gaps. Feed returns when ctx is done or fn fails. A new feed begins with later
// changes.
//
// When fn has returned nil, the position moves on; it is durable soon after. So after a crash fn may get some
// batches a second time, but it misses none. Only one call at a time can read a feed.
//
// The journal keeps what a feed has not seen, at most Config.FeedLimit bytes of entries. If there is more, the feed
// that is furthest behind lapses, and its consumer gets CodeLapsed. The consumer may drop the feed and begin it
// again.
//
// If the journal is shared, fn is also called without entries when the feed of a partition is there that the engine has
// taken: another process has read it up to then, or nobody has.
//
// Errors: CodeLapsed, CodeConflict (another call reads the feed), CodeInvalid, CodeClosed, CodeCancelled, and the error
// of fn.
func (f *feeding) Feed(
	ctx context.Context, name string, fn func(partition int, seq uint64, entries []core.Entry) error,
) error {
	if name == "" {
		return invalid("feed", "", "a feed needs a name")
	}
	var one sync.Mutex
	oneByOne := func(partition int, seq uint64, entries []core.Entry) error {
		one.Lock()
		defer one.Unlock()
		return fn(partition, seq, entries)
	}
	if f.from.cfg.Shared {
		return f.feedOwned(ctx, name, oneByOne)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(f.from.list))
	for i := range f.from.list {
		part := f.from.at(i)
		go func() { errs <- part.feed(ctx, name, oneByOne) }()
	}
	var first error
	for range f.from.list { // the first error ends all of them
		if err := <-errs; first == nil {
			first = err
			cancel()
		}
	}
	return first
}

// BeginFeed makes a feed without a reader, unless it exists. After it returns, the journal keeps later changes for it,
// until Feed reads it. Errors: CodeLapsed, CodeInvalid, CodeClosed, CodeCancelled.
func (f *feeding) BeginFeed(ctx context.Context, name string) error {
	if name == "" {
		return invalid("feed", "", "a feed needs a name")
	}
	var errs []error
	all := f.from.all()
	for _, part := range all {
		errs = append(errs, part.ask(ctx, &BeginFeedCall{Name: name}))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun[name] = all
	return errors.Join(errs...)
}

// DropFeed removes a feed. The journal no longer keeps anything for it. If there is no such feed, DropFeed does
// nothing.
func (f *feeding) DropFeed(ctx context.Context, name string) error {
	var errs []error
	for _, part := range f.from.all() {
		errs = append(errs, part.ask(ctx, &DropFeedCall{Name: name}))
	}
	return errors.Join(errs...)
}

// feedOwned reads the feeds of the partitions that the engine runs, also of those that it takes later. For each
// partition whose feed was not made by beginFeed just before, it calls fn without entries when the feed is there: what
// happened before, in another process, may not have been read.
func (f *feeding) feedOwned(
	ctx context.Context, name string, fn func(partition int, seq uint64, entries []core.Entry) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.mu.Lock()
	begun := f.begun[name]
	delete(f.begun, name)
	f.mu.Unlock()
	feed := func(part *driver) error {
		if !slices.Contains(begun, part) {
			if err := part.ask(ctx, &BeginFeedCall{Name: name}); err != nil {
				return err
			}
			if err := fn(part.cfg.Partition, 0, nil); err != nil {
				return err
			}
		}
		return part.feed(ctx, name, fn)
	}
	type end struct {
		of  *driver
		err error
	}
	reading, ends := map[*driver]bool{}, make(chan end)
	var first error
	for first == nil || len(reading) > 0 {
		changed := f.from.Changed()
		if first == nil {
			for _, part := range f.from.all() {
				if !reading[part] {
					reading[part] = true
					go func() { ends <- end{part, feed(part)} }()
				}
			}
		}
		select {
		case <-changed:
		case r := <-ends:
			delete(reading, r.of)
			if s := r.of.state.Load(); first == nil && (s == nil || !s.final || journalLost(s.err)) {
				first = r.err
				cancel()
			}
		case <-f.from.done:
			if first == nil {
				first = f.from.Err()
				cancel()
			}
		case <-ctx.Done():
			if first == nil {
				first = &Error{Code: CodeCancelled, Op: "feed", Err: context.Cause(ctx)}
			}
		}
	}
	return first
}
