// Package minutes counts what an engine does, minute by minute, and keeps that in the database beside the runs: how
// many runs began and failed, retries, how long runs took and attempts waited, and how late timers were.
package minutes

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/overview"
)

const (
	storeEvery = time.Minute
	kept       = 31 * 24 * time.Hour
	prefix     = "minutes/" // the keys of documents go on with an hour, and who has counted
	version    = 1          // the form of the documents
	atOnce     = 500        // documents that are read or removed at once
)

// hour is a document: what one process has counted in an hour.
type hour struct {
	Minutes []overview.Minute `json:"minutes"` // those in which something happened, the first one first
}

// Counter counts. Its methods are safe for concurrent use.
type Counter struct {
	docs  journal.Documents
	owner string
	now   func() core.Time
	log   *slog.Logger

	mu    sync.Mutex
	fresh map[api.Time]*overview.Minute // not stored yet, by the beginning of their minutes

	recent recent

	storing sync.Mutex // held while documents are read and written
	pruned  api.Time   // the hour up to which old documents were removed
}

// New returns a counter that has counted nothing yet. owner is the name of this process among those that count for one
// database, empty where it is the only one. log may be nil.
func New(docs journal.Documents, owner string, now func() core.Time, log *slog.Logger) *Counter {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Counter{
		docs: docs, owner: owner, now: now, log: log, fresh: map[api.Time]*overview.Minute{}, recent: newRecent(),
	}
}

// Observer returns an observer that counts, and passes everything to another one.
func (c *Counter) Observer(next engine.Observer) engine.Observer {
	out := next
	out.Recorded = func(o *engine.Observation) {
		c.recorded(o)
		if next.Recorded != nil {
			next.Recorded(o)
		}
	}
	out.Fired = func(due, now core.Time) {
		if late := now.Std().Sub(due.Std()); late > 0 {
			c.count(now, func(m *overview.Minute) { m.Late = max(m.Late, api.Duration(late)) })
		}
		if next.Fired != nil {
			next.Fired(due, now)
		}
	}
	return out
}

// count changes the minute that has an instant.
func (c *Counter) count(at core.Time, fn func(*overview.Minute)) {
	minute := api.At(at.Std().Truncate(time.Minute))
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.fresh[minute]
	if m == nil {
		m = &overview.Minute{At: minute}
		c.fresh[minute] = m
	}
	fn(m)
}

func (c *Counter) recorded(o *engine.Observation) {
	child := o.Run.Parent.Run != core.RunID{}
	if o.BeginsRun() && !child {
		c.count(o.At, func(m *overview.Minute) { m.Started++ })
	}
	switch rec := o.Record.(type) {
	case core.RunEnded:
		if child {
			return
		}
		failed := rec.Phase == core.RunFailed || rec.Phase == core.RunTimedOut
		c.count(o.At, func(m *overview.Minute) {
			if m.Took.Add(o.At.Std().Sub(o.Run.CreatedAt.Std())); failed {
				m.Failed++
			}
		})
	case core.AttemptHeld:
		if rec.Held.Reason != core.HeldNone {
			c.recent.heldBack(rec.Held)
		}
	case core.AttemptEnded:
		waited, began := time.Duration(-1), o.Attempt.Started
		if began != 0 && o.Attempt.ReadyAt != 0 && o.Spec.Kind == core.KindTask {
			waited = began.Std().Sub(o.Attempt.ReadyAt.Std())
		}
		c.recent.ended(o, rec.Retry, waited)
		c.count(o.At, func(m *overview.Minute) {
			if rec.Retry {
				m.Retries++
			}
			if waited >= 0 {
				m.Waited.Add(waited)
			}
		})
	default:
	}
}

// Keep stores the counts once a minute, until ctx ends, and then once again.
func (c *Counter) Keep(ctx context.Context) {
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = c.Store(last) // a minute is lost at most
			return
		case <-tick.C:
			err = c.Store(ctx)
		}
		if err != nil && ctx.Err() == nil {
			c.log.Error("figures by minute are not stored at present", "id", "figures-not-stored", "error", err)
		}
	}
}

// hourKey returns the beginning of the keys of an hour's documents.
func hourKey(at api.Time) string {
	return fmt.Sprintf("%s%010x/", prefix, max(at.Std().Truncate(time.Hour).Unix(), 0))
}

// Store stores what was counted, and removes what is too old. What cannot be stored is counted on.
func (c *Counter) Store(ctx context.Context) error {
	c.storing.Lock()
	defer c.storing.Unlock()
	c.mu.Lock()
	taken := c.fresh
	c.fresh = map[api.Time]*overview.Minute{}
	c.mu.Unlock()
	hours := map[string][]overview.Minute{}
	for at, m := range taken {
		key := hourKey(at) + c.owner
		hours[key] = append(hours[key], *m)
	}
	var documents []journal.Document
	for key, fresh := range hours {
		d, err := c.with(ctx, key, fresh)
		if err != nil {
			c.putBack(taken)
			return err
		}
		documents = append(documents, d)
	}
	if len(documents) > 0 {
		if err := c.docs.PutDocuments(ctx, documents...); err != nil {
			c.putBack(taken)
			return err
		}
	}
	return c.prune(ctx)
}

// with returns the document of an hour with what was counted since it was stored.
func (c *Counter) with(ctx context.Context, key string, fresh []overview.Minute) (d journal.Document, err error) {
	found, err := c.docs.ReadDocuments(ctx, key)
	if err != nil {
		return d, err
	}
	var h hour
	for _, d := range found {
		h.Minutes = decoded(d)
	}
	h.Minutes = merged(append(h.Minutes, fresh...))
	value, err := journal.EncodeDocument(version, h)
	return journal.Document{Key: key, Value: value}, err
}

// putBack counts on what could not be stored.
func (c *Counter) putBack(taken map[api.Time]*overview.Minute) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, m := range taken {
		if now := c.fresh[at]; now != nil {
			m.Join(*now)
		}
		c.fresh[at] = m
	}
}

// merged joins what is of the same minute, and sorts the minutes.
func merged(all []overview.Minute) []overview.Minute {
	by := map[api.Time]*overview.Minute{}
	for _, m := range all {
		if by[m.At] == nil {
			by[m.At] = &overview.Minute{At: m.At}
		}
		by[m.At].Join(m)
	}
	out := make([]overview.Minute, 0, len(by))
	for _, at := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[at])
	}
	return out
}

// prune removes the documents that are too old, once an hour.
func (c *Counter) prune(ctx context.Context) error {
	now := c.now().Std()
	at := api.At(now.Truncate(time.Hour))
	if at == c.pruned {
		return nil
	}
	c.pruned = at
	before := hourKey(api.At(now.Add(-kept)))
	for {
		old, err := c.docs.FindDocuments(ctx, prefix, before, false, atOnce)
		if err != nil || len(old) == 0 {
			return err
		}
		for i := range old {
			old[i].Value = nil
		}
		if err := c.docs.PutDocuments(ctx, old...); err != nil {
			return err
		}
	}
}

// Read returns what was counted in a span of time, and since when something counts.
func (c *Counter) Read(ctx context.Context, from, to api.Time) (out []overview.Minute, since api.Time, err error) {
	c.storing.Lock()
	defer c.storing.Unlock()
	since = api.At(c.now().Std()) + 1
	first, err := c.docs.FindDocuments(ctx, prefix, strings.TrimSuffix(prefix, "/")+"0", false, 1)
	if err != nil {
		return nil, 0, err
	}
	from = api.At(from.Std().Truncate(time.Minute))
	take := func(m overview.Minute) {
		if since = min(since, m.At); m.At >= from && m.At <= to {
			out = append(out, m)
		}
	}
	for _, d := range first {
		for _, m := range decoded(d) {
			since = min(since, m.At)
		}
	}
	begin, before := hourKey(from), hourKey(api.At(to.Std().Add(time.Hour)))
	for {
		page, err := c.docs.FindDocuments(ctx, begin, before, false, atOnce)
		if err != nil {
			return nil, 0, err
		}
		for _, d := range page {
			for _, m := range decoded(d) {
				take(m)
			}
		}
		if len(page) < atOnce {
			break
		}
		begin = page[len(page)-1].Key + "\x00"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.fresh {
		now := overview.Minute{At: m.At} // the minute goes on changing
		now.Join(*m)
		take(now)
	}
	return out, since, nil
}

// decoded returns what a document has; of another version of Pawl nothing.
func decoded(d journal.Document) []overview.Minute {
	var h hour
	if err := journal.DecodeDocument(d.Value, version, &h); err != nil {
		return nil
	}
	return h.Minutes
}
