package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	changedSince core.Time      // when the oldest change came that is not in a batch yet; 0 if there is none
	urgent       bool           // a caller waits until the changes are durable

	sizes ring[batchSize] // the durable batches that some feed has not seen
	bytes int64           // the sum of sizes
}

// feed is one consumer.
type feed struct {
	journal.Feed
	changed bool          // its position is not in a batch yet
	reader  chan struct{} // wakes the call that reads it; nil if nobody does
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
			old.wake() // its consumer asks for more, and learns that the feed is gone
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

// dueAt returns when a batch must be cut only to store positions, or 0 if there is none to store.
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

// oldest returns the feed that is furthest behind, or nil if there is none.
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

// AttachCall makes its caller the reader of a feed. The answer is the position of the feed.
type AttachCall struct {
	repeating[uint64]
	Name string
	Wake chan struct{} // receives a value when there is more to read
}

// BeginFeedCall makes a feed without a reader.
type BeginFeedCall struct {
	repeating[struct{}]
	Name string
}

// SeenCall reports that the reader of a feed has seen all batches up to Seq.
type SeenCall struct {
	telling
	Name string
	Seq  uint64
}

// DetachCall reports that the reader of a feed stops reading.
type DetachCall struct {
	telling
	Name string
	Wake chan struct{}
}

// DropFeedCall removes a feed.
type DropFeedCall struct {
	repeating[struct{}]
	Name string
}

func (*AttachCall) op() string    { return "feed" }
func (*BeginFeedCall) op() string { return "feed" }
func (*SeenCall) op() string      { return "feed" }
func (*DetachCall) op() string    { return "feed" }
func (*DropFeedCall) op() string  { return "feed" }

func (c *AttachCall) do(p *Partition) {
	c.Answer, c.Err = p.feeds.open(c.Name, p.pipeline.open.seq, p.now).attach(c.Wake)
	p.replyWithFeeds(c)
}

func (c *BeginFeedCall) do(p *Partition) {
	if p.feeds.open(c.Name, p.pipeline.open.seq, p.now).Lapsed {
		c.Err = lapsed(c.Name)
	}
	p.replyWithFeeds(c)
}

func (c *SeenCall) do(p *Partition) {
	c.Err = p.feeds.seen(c.Name, c.Seq, p.now)
	c.answer()
}

func (c *DetachCall) do(p *Partition) {
	p.feeds.detach(c.Name, c.Wake)
	c.answer()
}

func (c *DropFeedCall) do(p *Partition) {
	p.feeds.drop(c.Name, p.now)
	p.replyWithFeeds(c)
}

// replyWithFeeds answers a call with the batch that stores its feed.
func (p *Partition) replyWithFeeds(c Call) {
	switch {
	case c.Answered().Err != nil:
		c.answer()
	case p.feeds.urgent:
		p.pipeline.open.calls = append(p.pipeline.open.calls, c)
	default:
		p.pipeline.reply(c)
	}
}

// open returns a feed. A new one begins with later changes, the first of which are in the batch with that number.
func (f *feeds) open(name string, batch uint64, now core.Time) *feed {
	one := f.byName[name]
	if one == nil {
		one = &feed{Feed: journal.Feed{Name: name, Seq: batch - 1}}
		f.byName[name] = one
		f.markChanged(one, now)
		f.urgent = true
	}
	return one
}

// seen moves a feed to a later position.
func (f *feeds) seen(name string, seq uint64, now core.Time) error {
	switch one := f.byName[name]; {
	case one == nil:
		return &Error{Code: CodeNotFound, Op: "feed", ID: name, Err: errors.New("the feed was dropped")}
	case one.Lapsed:
		return lapsed(name)
	case seq > one.Seq:
		one.Seq = seq
		f.markChanged(one, now)
	}
	return nil
}

// detach ends the reading of a feed, unless another call reads it.
func (f *feeds) detach(name string, reader chan struct{}) {
	if one := f.byName[name]; one != nil && one.reader == reader {
		one.reader = nil
	}
}

// drop removes a feed.
func (f *feeds) drop(name string, now core.Time) {
	if one := f.byName[name]; one != nil {
		one.wake()
		delete(f.byName, name)
		f.removed = append(f.removed, journal.Feed{Name: name, Removed: true})
		f.changedSince, f.urgent = max(now, 1), true
	}
}

// attach makes a caller the reader of the feed and returns the position to it.
func (f *feed) attach(reader chan struct{}) (uint64, error) {
	switch {
	case f.Lapsed:
		return 0, lapsed(f.Name)
	case f.reader != nil && f.reader != reader:
		return 0, &Error{Code: CodeConflict, Op: "feed", ID: f.Name, Err: errors.New("another call reads this feed")}
	}
	f.reader = reader
	return f.Seq, nil
}

func lapsed(name string) error {
	return &Error{
		Code: CodeLapsed, Op: "feed", ID: name,
		Err:  errors.New("entries that its consumer has not seen are no longer kept"),
		Hint: "drop the feed, begin it again, and read again the state of the runs that you follow",
	}
}

// feed reads the feed of a partition.
func (e *driver) feed(
	ctx context.Context, name string, fn func(partition int, seq uint64, entries []core.Entry) error,
) error {
	r := &feedReader{e: e, name: name, fn: fn, wake: make(chan struct{}, 1)}
	defer e.tell(&DetachCall{Name: name, Wake: r.wake})
	c := &AttachCall{Name: name, Wake: r.wake}
	if err := e.ask(ctx, c); err != nil {
		return err
	}
	r.seen, r.reported = c.Answer, c.Answer
	return r.run(ctx)
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

// report tells the partition the consumer's position, and returns an error if the feed is no longer kept.
//
// A batch without entries does not count as a new position. Storing a position makes such a batch. If it counted, it
// would be a new position to store, and so on forever.
func (r *feedReader) report(ctx context.Context) error {
	if err := r.e.ask(context.WithoutCancel(ctx), &SeenCall{Name: r.name, Seq: r.delivered}); err != nil {
		return err
	}
	r.reported = max(r.reported, r.delivered)
	return nil
}
