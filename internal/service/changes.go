package service

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

const (
	changesFeed = "changes"
	// mostChanges and mostChangeBytes limit what is kept for streams that are opened again, and for slow readers.
	mostChanges     = 8192
	mostChangeBytes = 16 << 20
	mostEventData   = 64 << 10 // larger event data is omitted
	// changesIdle is how long changes are kept after the last stream has ended.
	changesIdle  = time.Minute
	changesPause = time.Second // the pause after a failure of the storage
)

// Feed is the part of an engine that brings committed entries. See engine.API.
type Feed interface {
	BeginFeed(ctx context.Context, name string) error
	Feed(ctx context.Context, name string, fn func(partition int, seq uint64, entries []core.Entry) error) error
	DropFeed(ctx context.Context, name string) error
}

// Changes streams what happens in an engine's runs to any number of readers. While there are streams, and a little
// longer, it reads a feed and keeps the last changes in memory. A stream that is opened again goes on where it was,
// unless it stayed away for too long.
type Changes struct {
	feed   Feed
	teller func() *Describer
	now    func() core.Time
	log    *slog.Logger

	begin sync.Mutex // held while the reading begins or ends

	mu      sync.Mutex
	era     string // changes of another era have other numbers
	kept    []*change
	first   uint64 // number of kept[0]
	bytes   int
	news    chan struct{} // closed with the next change
	streams int
	idle    *time.Timer // ends the reading when no stream has come for a while
	stop    context.CancelFunc
	ended   chan struct{} // closed when nothing reads any longer; nil if nothing does
	closed  bool
}

var _ api.Changes = (*Changes)(nil)

// change is one event with the row of its run before and after, or means that some may have been missed.
type change struct {
	missed        bool
	event         api.Event
	before, after journal.RunRow
	begins        bool // there is no earlier row
	size          int
}

// Changes returns the source of the changes of the engine's runs. Close it before the engine. log gets the errors that
// no caller sees.
func (s *Embedded) Changes(feed Feed, log *slog.Logger) *Changes {
	return &Changes{
		feed: feed, teller: s.Describer, now: s.now, log: log, era: rand.Text()[:8], first: 1,
		news: make(chan struct{}),
	}
}

func (c *Changes) Changes(ctx context.Context, q api.Query, after string, fn func(api.Change) error) error {
	sel, err := selector(q, api.Time(c.now()))
	if err != nil {
		return err
	}
	next, missed, err := c.enter(ctx, after)
	if err != nil {
		return err
	}
	defer c.leave()
	if err := fn(api.Change{ID: c.id(next - 1), Missed: missed}); err != nil {
		return err
	}
	for {
		some, news, err := c.since(next)
		if err != nil {
			return err
		}
		for i, one := range some {
			if told, ok := one.told(sel, c.now()); ok {
				told.ID = c.id(next + uint64(i))
				if err := fn(told); err != nil {
					return err
				}
			}
		}
		if next += uint64(len(some)); len(some) > 0 {
			continue
		}
		select {
		case <-news:
		case <-ctx.Done():
			return &api.Error{Code: api.CodeCancelled, Err: ctx.Err()}
		}
	}
}

// selection is a query of changes.
type selection struct {
	journal.Query
	within time.Duration
}

// selector checks a query of changes.
func selector(q api.Query, now api.Time) (selection, error) {
	q, err := q.Read(now)
	if err != nil {
		return selection{}, err
	}
	s := selection{within: q.DeadlineWithin.Std()}
	if len(q.Words) > 0 || q.Error != "" {
		return s, invalid(nil, "changes are not chosen by words")
	}
	if q.WillMiss || len(q.Input) > 0 || q.Stuck || q.Cursor != "" || q.Limit != 0 {
		return s, invalid(nil, "changes are not chosen by willMiss, input, stuck, cursor or limit")
	}
	s.Workflow, s.WorkflowID, s.Top, s.Retrying = q.Workflow, q.WorkflowID, q.Top, q.Retrying
	s.ByDeadline = q.ByDeadline()
	s.CreatedFrom, s.CreatedBefore = core.Time(q.CreatedFrom), core.Time(q.CreatedBefore)
	if s.Labels, err = core.MakeLabels(q.Labels); err != nil {
		return s, invalid(err, "changes: %v", err)
	}
	for _, p := range q.Phases {
		var phase core.RunPhase
		if err := phase.UnmarshalText([]byte(p)); err != nil {
			return s, invalid(err, "changes: %v", err)
		}
		s.Phases = append(s.Phases, phase)
	}
	if q.Parent != "" {
		if s.Parent, err = core.ParseRunID(q.Parent); err != nil {
			return s, invalid(err, "changes: parent: write the whole id of the run, not %q", q.Parent)
		}
	}
	return s, nil
}

// told returns a change for a stream. ok is false if the change does not concern it.
func (c *change) told(s selection, now core.Time) (out api.Change, ok bool) {
	if c.missed {
		return api.Change{Missed: true}, true
	}
	if s.within > 0 {
		s.DeadlineBefore = now.Add(s.within) + 1
	}
	is := s.Selects(&c.after)
	if !is && (c.begins || !s.Selects(&c.before)) {
		return out, false
	}
	run := summaryOf(&c.after)
	return api.Change{Event: &c.event, Run: &run, Left: !is}, true
}

func (c *Changes) id(n uint64) string { return fmt.Sprintf("%s-%d", c.era, n) }

// enter counts a stream, and makes sure that changes are read. It returns the number of the first change to send.
func (c *Changes) enter(ctx context.Context, after string) (next uint64, missed bool, err error) {
	era, text, _ := strings.Cut(after, "-")
	number, err := strconv.ParseUint(text, 10, 64)
	if after != "" && (err != nil || era == "") {
		return 0, false, invalid(err, "%q is not the id of a change", after)
	}
	c.begin.Lock()
	defer c.begin.Unlock()
	c.mu.Lock()
	closed, reading := c.closed, c.ended != nil
	c.mu.Unlock()
	switch {
	case closed:
		return 0, false, &api.Error{Code: api.CodeClosed, Message: "the engine closes"}
	case !reading:
		if err := c.read(ctx); err != nil {
			return 0, false, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams++
	if c.idle != nil {
		c.idle.Stop()
		c.idle = nil
	}
	end := c.first + uint64(len(c.kept))
	switch {
	case after == "":
		return end, false, nil
	case era != c.era || number+1 < c.first || number >= end:
		return end, true, nil
	default:
		return number + 1, false, nil
	}
}

// leave counts a stream that has ended.
func (c *Changes) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams--; c.streams == 0 && !c.closed {
		c.idle = time.AfterFunc(changesIdle, c.rest)
	}
}

// rest ends the reading if there is no stream.
func (c *Changes) rest() {
	c.begin.Lock()
	defer c.begin.Unlock()
	c.mu.Lock()
	needed := c.streams > 0 || c.ended == nil
	c.mu.Unlock()
	if needed {
		return
	}
	c.end()
	if err := c.feed.DropFeed(context.Background(), changesFeed); err != nil && api.CodeOf(err) != api.CodeClosed {
		c.log.Error("the feed of changes cannot be dropped", "id", "changes-not-dropped", "error", err)
	}
}

// read begins to read the feed. begin is held.
func (c *Changes) read(ctx context.Context) error {
	if err := c.beginFeed(ctx); err != nil {
		return wrap(err)
	}
	reading, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	c.mu.Lock()
	c.anew()
	c.stop, c.ended = stop, ended
	c.mu.Unlock()
	go func() {
		defer close(ended)
		for c.readOnce(reading) {
			pause := time.NewTimer(changesPause)
			select {
			case <-pause.C:
			case <-reading.Done():
			}
			pause.Stop()
		}
	}()
	return nil
}

// beginFeed makes the feed. One that an earlier process has left is of no use.
func (c *Changes) beginFeed(ctx context.Context) error {
	if err := c.feed.DropFeed(ctx, changesFeed); err != nil {
		return err
	}
	return c.feed.BeginFeed(ctx, changesFeed)
}

// end ends the reading. begin is held.
func (c *Changes) end() {
	c.mu.Lock()
	stop, ended := c.stop, c.ended
	c.mu.Unlock()
	if ended == nil {
		return
	}
	stop()
	<-ended
	c.mu.Lock()
	c.ended = nil
	c.anew()
	c.mu.Unlock()
}

// anew forgets all changes. Open streams have missed some, and since tells them so. mu is held.
func (c *Changes) anew() {
	c.era = rand.Text()[:8]
	c.first += uint64(len(c.kept)) + 1
	c.kept, c.bytes = nil, 0
	close(c.news)
	c.news = make(chan struct{})
}

// Close ends the reading. Open streams have to end on their own.
func (c *Changes) Close() {
	c.begin.Lock()
	defer c.begin.Unlock()
	c.mu.Lock()
	c.closed = true
	if c.idle != nil {
		c.idle.Stop()
	}
	reads := c.ended != nil
	c.mu.Unlock()
	if c.end(); !reads {
		return
	}
	// The journal would keep data that nobody reads. If this fails, the next process drops it.
	if err := c.feed.DropFeed(context.Background(), changesFeed); err != nil {
		c.log.Debug("the feed of changes stays", "error", err)
	}
}

// readOnce reads the feed until that fails. It returns false if there is nothing more to read.
func (c *Changes) readOnce(ctx context.Context) bool {
	teller := c.teller()
	var one sync.Mutex // partitions bring their entries at the same time
	err := c.feed.Feed(ctx, changesFeed, func(_ int, _ uint64, entries []core.Entry) error {
		one.Lock()
		defer one.Unlock()
		return c.take(ctx, teller, entries)
	})
	switch code := api.CodeOf(err); {
	case ctx.Err() != nil || code == api.CodeClosed || code == api.CodeFenced:
		return false
	case code == api.CodeLapsed || code == api.CodeNotFound:
		c.mu.Lock()
		c.anew()
		c.mu.Unlock()
		if err = c.beginFeed(ctx); err == nil {
			return true
		}
	}
	c.log.Error("changes are not read at present", "id", "changes-unreadable", "error", err)
	return true
}

// take keeps the changes in entries.
func (c *Changes) take(ctx context.Context, teller *Describer, entries []core.Entry) error {
	var all []*change
	if len(entries) == 0 { // a partition has come from another process
		all = append(all, &change{missed: true})
	}
	for _, e := range entries {
		told, err := teller.Describe(ctx, e)
		switch {
		case err == nil:
		case ctx.Err() != nil || Passes(err):
			return err
		default: // its code or its definition is broken, or it was deleted: that concerns this run only
			c.log.Error("nothing is told of an entry of a run",
				"id", "changes-entry-unreadable", "run", e.Run.String(), "error", err)
			continue
		}
		for _, ev := range told.Events {
			if len(ev.Data) > mostEventData {
				ev.Data = nil
			}
			all = append(all, &change{
				event: ev, before: told.Before, after: told.After, begins: begins(e), size: 1024 + len(ev.Data),
			})
		}
	}
	if len(all) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range all {
		c.kept = append(c.kept, one)
		c.bytes += one.size
	}
	drop := 0
	for ; len(c.kept)-drop > mostChanges || c.bytes > mostChangeBytes; drop++ {
		c.bytes -= c.kept[drop].size
		c.kept[drop] = nil
	}
	c.kept, c.first = c.kept[drop:], c.first+uint64(drop)
	close(c.news)
	c.news = make(chan struct{})
	return nil
}

// mostAtOnce is how many changes a stream takes at once.
const mostAtOnce = 256

// since returns changes from a number on, or a channel that is closed when there are some.
func (c *Changes) since(next uint64) (some []*change, news <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, &api.Error{Code: api.CodeClosed, Message: "the engine closes"}
	}
	if next < c.first {
		return nil, nil, &api.Error{
			Code: api.CodeLapsed, Message: "changes were dropped because they were not taken in time",
			Hint: "read again what you follow, then follow the changes from now on",
		}
	}
	from := int(next - c.first)
	return append([]*change(nil), c.kept[from:min(len(c.kept), from+mostAtOnce)]...), c.news, nil
}
