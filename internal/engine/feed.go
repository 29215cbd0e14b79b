package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

const (
	// positionAge is how long a feed's new position waits for a batch that is cut anyway. After that it gets a batch
	// of its own.
	positionAge = time.Second
	// reportEvery is after how many batches a consumer that has much to read reports its position.
	reportEvery = 256
)

// feeds are the named consumers of all entries of a partition: what position each has, and how much the journal
// keeps for them.
type feeds struct {
	byName       map[string]*feed
	removed      []journal.Feed // removals that are not in a batch yet
	changedSince core.Time      // when the oldest change came that is not in a batch yet; 0: there is none
	urgent       bool           // a caller waits until the changes are durable

	sizes ring[batchSize] // the durable batches that some feed has not seen
	bytes int64           // the sum of sizes
}

// feed is one consumer.
type feed struct {
	journal.Feed
	changed bool          // its position is not in a batch yet
	reader  chan struct{} // wakes the call that reads it; nil: nobody reads it
}

// batchSize is the size of a durable batch that is kept for a feed.
type batchSize struct {
	seq   uint64
	bytes int64
}

// load takes the positions from the journal. If the partition knows a later position of a feed, that one is stored
// again.
func (f *feeds) load(l journal.Lease, now core.Time) {
	before := f.byName
	f.byName = make(map[string]*feed, len(l.Feeds))
	for _, stored := range l.Feeds {
		one := &feed{Feed: stored}
		if old := before[stored.Name]; old != nil {
			one.reader = old.reader
			if old.Seq > stored.Seq && old.Seq <= l.Last && !stored.Lapsed {
				one.Seq = old.Seq
				f.markChanged(one, now)
			}
		}
		f.byName[stored.Name] = one
	}
	for name, old := range before {
		if f.byName[name] == nil {
			old.wake() // its consumer asks for more, and is told that the feed is gone
		}
	}
	f.sizes, f.bytes = ring[batchSize]{}, l.FeedBytes
	if l.FeedBytes > 0 {
		// The earlier batches count as one: they are released when every feed has seen the last of them.
		f.sizes.push(batchSize{l.Last, l.FeedBytes})
	}
}

// markChanged notes that a feed has a new position to be stored.
func (f *feeds) markChanged(one *feed, now core.Time) {
	one.changed = true
	if f.changedSince == 0 {
		f.changedSince = max(now, 1)
	}
}

// dueAt returns when a batch must be cut only to store positions; 0: there is none to store.
func (f *feeds) dueAt() core.Time {
	switch {
	case f.changedSince == 0:
		return 0
	case f.urgent:
		return f.changedSince
	default:
		return f.changedSince.Add(positionAge)
	}
}

func (f *feeds) due(now core.Time, flushing bool) bool {
	return f.changedSince != 0 && (flushing || f.dueAt() <= now)
}

// cut returns the changes that the next batch stores.
func (f *feeds) cut() []journal.Feed {
	if f.changedSince == 0 {
		return nil
	}
	out := f.removed
	for _, name := range slices.Sorted(maps.Keys(f.byName)) {
		if one := f.byName[name]; one.changed {
			one.changed = false
			out = append(out, one.Feed)
		}
	}
	f.removed, f.changedSince, f.urgent = nil, 0, false
	return out
}

// committed wakes the consumers when a batch is durable, and counts what the journal keeps for them. If that exceeds
// the limit, the feed that is furthest behind lapses. Otherwise a consumer that never comes back would fill the
// disk.
func (f *feeds) committed(b *batch, limit int64, now core.Time) {
	if len(f.byName) == 0 {
		return
	}
	if b.entries > 0 {
		for _, one := range f.byName {
			one.wake()
		}
	}
	f.sizes.push(batchSize{b.seq, int64(len(b.blob))})
	f.bytes += int64(len(b.blob))
	for {
		oldest := f.oldest()
		if oldest == nil { // nothing has to be kept
			f.sizes, f.bytes = ring[batchSize]{}, 0
			return
		}
		if f.release(oldest.Seq); f.bytes <= limit {
			return
		}
		oldest.Lapsed = true
		f.markChanged(oldest, now)
		oldest.wake()
	}
}

// release stops counting the batches up to seen, which every feed has seen.
func (f *feeds) release(seen uint64) {
	for f.sizes.len() > 0 && f.sizes.first().seq <= seen {
		f.bytes -= f.sizes.pop().bytes
	}
}

// oldest returns the feed that is furthest behind; nil: there is none.
func (f *feeds) oldest() *feed {
	var oldest *feed
	for _, one := range f.byName {
		if !one.Lapsed && (oldest == nil || one.Seq < oldest.Seq || one.Seq == oldest.Seq && one.Name < oldest.Name) {
			oldest = one
		}
	}
	return oldest
}

// wake wakes the consumer that reads the feed.
func (f *feed) wake() {
	select {
	case f.reader <- struct{}{}:
	default: // it is awake already, or nobody reads the feed
	}
}

// feed handles the calls of consumers.
func (p *Partition) feed(c *Call) {
	f := &p.feeds
	one := f.byName[c.Name]
	switch c.Op {
	case CallFeed, CallBeginFeed:
		if one == nil { // a new feed begins with what happens from now on
			one = &feed{Feed: journal.Feed{Name: c.Name, Seq: p.pipeline.open.seq - 1}}
			f.byName[c.Name] = one
			f.markChanged(one, p.now)
			f.urgent = true
		}
		if c.Op == CallFeed {
			c.Err = one.attach(c)
		} else if one.Lapsed {
			c.Err = lapsed(c.Name)
		}
		if c.Err != nil {
			break
		}
		if one.changed && f.urgent {
			p.pipeline.open.calls = append(p.pipeline.open.calls, c) // answered with the batch that stores it
		} else {
			p.reply(c)
		}
		return
	case CallSeen:
		switch {
		case one == nil:
			c.Err = &Error{Code: CodeNotFound, Op: "feed", ID: c.Name, Err: errors.New("the feed was dropped")}
		case one.Lapsed:
			c.Err = lapsed(c.Name)
		case c.Seq > one.Seq:
			one.Seq = c.Seq
			f.markChanged(one, p.now)
		}
	case CallUnfeed:
		if one != nil && one.reader == c.Wake {
			one.reader = nil
		}
	case CallDropFeed:
		if one != nil {
			one.wake()
			delete(f.byName, c.Name)
			f.removed = append(f.removed, journal.Feed{Name: c.Name, Removed: true})
			f.changedSince, f.urgent = max(p.now, 1), true
			p.pipeline.open.calls = append(p.pipeline.open.calls, c)
			return
		}
	default:
	}
	c.answer()
}

// attach makes the caller the reader of the feed and returns the position to it.
func (f *feed) attach(c *Call) error {
	switch {
	case f.Lapsed:
		return lapsed(c.Name)
	case f.reader != nil && f.reader != c.Wake:
		return &Error{Code: CodeConflict, Op: "feed", ID: c.Name, Err: errors.New("another call reads this feed")}
	}
	f.reader, c.Seq = c.Wake, f.Seq
	return nil
}

func lapsed(name string) error {
	return &Error{
		Code: CodeLapsed, Op: "feed", ID: name,
		Err:  errors.New("entries that its consumer has not seen are no longer kept"),
		Hint: "drop the feed, begin it again, and read again the state of the runs that you follow",
	}
}

// Feed calls fn with every batch of committed entries after the position of the named feed. Within a partition the
// batches come in order and without gaps. Feed returns when ctx is done or fn fails. A new feed begins with what
// happens from now on.
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
// Errors: CodeLapsed, CodeConflict (another call reads the feed), CodeInvalid, CodeClosed, CodeCancelled, and what
// fn returned.
func (e *Engine) Feed(
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
	if e.cfg.Shared {
		return e.feedOwned(ctx, name, oneByOne)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(e.drivers))
	for i := range e.drivers {
		part := e.at(i)
		go func() { errs <- part.feed(ctx, name, oneByOne) }()
	}
	var first error
	for range e.drivers { // the first error ends all of them
		if err := <-errs; first == nil {
			first = err
			cancel()
		}
	}
	return first
}

// feed reads the feed of a partition.
func (e *driver) feed(
	ctx context.Context, name string, fn func(partition int, seq uint64, entries []core.Entry) error,
) error {
	r := &feedReader{e: e, name: name, fn: fn, wake: make(chan struct{}, 1)}
	c := e.call(CallFeed)
	c.Name, c.Wake = name, r.wake
	if err := e.do(ctx, c); err != nil {
		e.requests.put(request{call: &Call{Op: CallUnfeed, Name: name, Wake: r.wake}})
		return err
	}
	seq, err := c.Seq, c.Err
	e.free(c)
	if err != nil {
		return err
	}
	r.seen, r.reported = seq, seq
	defer func() { e.requests.put(request{call: &Call{Op: CallUnfeed, Name: name, Wake: r.wake}}) }()
	return r.run(ctx)
}

// BeginFeed makes a feed that nobody reads yet, unless there is one. From its return on the journal keeps for it what
// happens, until Feed reads it. Errors: CodeLapsed, CodeInvalid, CodeClosed, CodeCancelled.
func (e *Engine) BeginFeed(ctx context.Context, name string) error {
	if name == "" {
		return invalid("feed", "", "a feed needs a name")
	}
	var errs []error
	all := e.all()
	for _, part := range all {
		errs = append(errs, part.askFeed(ctx, CallBeginFeed, name))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun[name] = all
	return errors.Join(errs...)
}

// DropFeed removes a feed. The journal keeps nothing for it any more. If there is no such feed, DropFeed does
// nothing.
func (e *Engine) DropFeed(ctx context.Context, name string) error {
	var errs []error
	for _, part := range e.all() {
		errs = append(errs, part.askFeed(ctx, CallDropFeed, name))
	}
	return errors.Join(errs...)
}

// askFeed makes a call about a feed whose answer is whether it succeeded.
func (e *driver) askFeed(ctx context.Context, op CallOp, name string) error {
	c := e.call(op)
	c.Name = name
	if err := e.do(ctx, c); err != nil {
		return err
	}
	err := c.Err
	e.free(c)
	return err
}

// feedReader is one call of Feed.
type feedReader struct {
	e    *driver
	name string
	fn   func(partition int, seq uint64, entries []core.Entry) error
	wake chan struct{}

	seen      uint64 // the last batch that was read
	reported  uint64 // the position that the partition knows
	delivered uint64 // the last batch that fn has taken
	failed    error  // the error that fn returned
}

func (r *feedReader) run(ctx context.Context) error {
	for {
		err := r.read(ctx)
		if tellErr := r.report(ctx); err == nil {
			err = tellErr
		}
		if err != nil {
			return err
		}
		select {
		case <-r.wake:
		case <-r.e.done:
			return r.e.err()
		case <-ctx.Done():
			return &Error{Code: CodeCancelled, Op: "feed", ID: r.name, Err: ctx.Err()}
		}
	}
}

// read gives fn what the journal holds after the position.
func (r *feedReader) read(ctx context.Context) error {
	err := r.e.cfg.Journal.Tail(ctx, r.e.cfg.Partition, r.seen, func(seq uint64, entries []core.Entry) error {
		if seq != r.seen+1 {
			return fmt.Errorf("%w: batch %d is followed by batch %d", lapsed(r.name), r.seen, seq)
		}
		if len(entries) > 0 {
			if r.failed = r.fn(r.e.cfg.Partition, seq, entries); r.failed != nil {
				return r.failed
			}
			r.delivered = seq
		}
		r.seen = seq
		if r.delivered >= r.reported+reportEvery {
			return r.report(ctx)
		}
		return nil
	})
	var own *Error
	if err == nil || r.failed != nil || errors.As(err, &own) {
		return err
	}
	return readError(&r.e.state, "feed", r.name, err)
}

// report tells the partition the consumer's position, and returns an error if the feed is not kept any more.
//
// A batch without entries does not count as a new position. Storing a position makes such a batch. If it counted, it
// would be a new position to store, and so on for ever.
func (r *feedReader) report(ctx context.Context) error {
	c := r.e.call(CallSeen)
	c.Name, c.Seq = r.name, r.delivered
	if err := r.e.do(context.WithoutCancel(ctx), c); err != nil {
		return err
	}
	err := c.Err
	r.e.free(c)
	if err == nil {
		r.reported = max(r.reported, r.delivered)
	}
	return err
}
