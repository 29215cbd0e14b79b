package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/service"
)

// feedName is the feed that brings entries to webhooks.
const feedName = "webhooks"

// feedPause is how long the reader of the feed waits after a failure of the storage.
const feedPause = time.Second

// mostData bounds the data of an event in a message, in bytes.
const mostData = 64 << 10

// beginFeed makes the feed, so that the journal keeps what happens from now on.
func (d *Dispatcher) beginFeed(ctx context.Context) error {
	err := d.cfg.Feed.BeginFeed(ctx, feedName)
	if errors.Is(err, api.Sentinel(api.CodeLapsed)) {
		if err = d.cfg.Feed.DropFeed(ctx, feedName); err == nil {
			err = d.cfg.Feed.BeginFeed(ctx, feedName)
		}
	}
	return err
}

// readFeed begins to read the feed. It is called while adding is held, or by New.
func (d *Dispatcher) readFeed() {
	ctx, cancel := context.WithCancel(d.ctx)
	fed := make(chan struct{})
	d.feeding, d.fed = cancel, fed
	go func() {
		defer close(fed)
		for d.feedOnce(ctx) {
			pause := time.NewTimer(feedPause)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
			pause.Stop()
		}
	}()
}

// stopFeed ends the reading, and returns when it has ended.
func (d *Dispatcher) stopFeed() {
	if d.feeding == nil {
		return
	}
	d.feeding()
	<-d.fed
	d.feeding = nil
}

// feedOnce reads the feed until that fails. It returns false if there is nothing more to read.
func (d *Dispatcher) feedOnce(ctx context.Context) bool {
	teller := d.cfg.Describer()
	err := d.cfg.Feed.Feed(ctx, feedName, func(partition int, seq uint64, entries []core.Entry) error {
		return d.take(ctx, teller, batch{partition, seq, entries})
	})
	switch code := api.CodeOf(err); {
	case ctx.Err() != nil || code == api.CodeClosed || code == api.CodeFenced:
		return false
	case code == api.CodeLapsed:
		if err = d.missed(ctx); err == nil {
			return true
		}
	}
	d.cfg.Log.Error("webhooks read no events at present", "id", "webhook-feed-unreadable", "error", err)
	return true
}

// missed notes that events were lost, and begins the feed again.
func (d *Dispatcher) missed(ctx context.Context) error {
	d.cfg.Log.Error("webhooks have missed events: they were not read for so long that they were dropped",
		"id", "webhook-feed-dropped")
	d.mu.Lock()
	all := make([]*target, 0, len(d.targets))
	for _, t := range d.targets {
		all = append(all, t)
	}
	d.mu.Unlock()
	for _, t := range all {
		err := d.save(ctx, t, func(h *hook) error {
			h.MissedAt = api.Time(d.cfg.Now())
			return nil
		})
		if err != nil && api.CodeOf(err) != api.CodeNotFound {
			return err
		}
	}
	return d.beginFeed(ctx)
}

// toldOf is the content of a run's entry.
type toldOf struct {
	service.Told
	run core.RunID
}

// batch is the amount that the feed brings at once. Those of a partition come in order, some a second time.
type batch struct {
	partition int
	seq       uint64
	entries   []core.Entry
}

// take makes deliveries of the events of a batch. When it has returned nil, they are durable.
func (d *Dispatcher) take(ctx context.Context, teller *service.Describer, b batch) error {
	if len(b.entries) == 0 {
		return d.adopt(ctx)
	}
	var all []toldOf
	for _, e := range b.entries {
		told, err := teller.Describe(ctx, e)
		switch {
		case err == nil:
			all = append(all, toldOf{told, e.Run})
		case ctx.Err() != nil || service.Passes(err):
			return err
		default: // its code or its definition is broken, or it was deleted: that concerns this run only
			d.cfg.Log.Error("webhooks get nothing of an entry of a run",
				"id", "webhook-entry-unreadable", "run", e.Run.String(), "error", err)
		}
	}
	d.change.Lock()
	defer d.change.Unlock()
	made, err := d.unknown(ctx, d.deliveriesOf(all)) // the feed may have brought events before
	if err != nil || len(made) == 0 {
		return err
	}
	made, full, err := d.bounded(ctx, b, made)
	if err != nil {
		return err
	}
	var documents []journal.Document
	for _, one := range made {
		documents = append(documents, stored(one)...)
	}
	for _, h := range full {
		documents = append(documents, document(hookKey(h.Name), h))
	}
	if err := d.put(ctx, documents...); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range made {
		d.targets[one.Webhook].add(one.ID, core.Time(one.NextAt))
	}
	for name, h := range full {
		t := d.targets[name]
		t.counts.Missed += h.Missed - t.hook.Missed
		t.hook = h
	}
	d.wakeSender()
	return nil
}

// bounded returns the deliveries that there is room for, and as they are from now on the webhooks that miss others. It
// is called while change is held.
//
// Waiting deliveries are kept and new ones are dropped: the receiver needs the earliest first, and the other webhooks,
// whose events come through the same feed, do not wait for one whose receiver is away.
func (d *Dispatcher) bounded(ctx context.Context, b batch, made []*api.Delivery) (
	kept []*api.Delivery, full map[string]*hook, err error,
) {
	more, missed := map[string]int{}, map[*target]int{}
	d.mu.Lock()
	for _, one := range made {
		t := d.targets[one.Webhook]
		if t.hook.missed(b) {
			continue
		}
		if t.pending+more[one.Webhook] < d.cfg.MostPending {
			more[one.Webhook]++
			kept = append(kept, one)
			continue
		}
		missed[t]++
	}
	d.mu.Unlock()
	for t, n := range missed {
		h, err := d.latest(ctx, t)
		if err != nil {
			return nil, nil, err
		}
		if h == nil || h.missed(b) { // another process has removed it, or has counted them
			continue
		}
		h.Missed += n
		h.MissedAt = api.Time(d.cfg.Now())
		h.MissedUpTo = maps.Clone(h.MissedUpTo)
		if h.MissedUpTo == nil {
			h.MissedUpTo = map[int]uint64{}
		}
		h.MissedUpTo[b.partition] = b.seq
		if full == nil {
			full = map[string]*hook{}
		}
		full[h.Name] = h
		d.cfg.Log.Error("a webhook misses events: too many deliveries are pending",
			"id", "webhook-overflow", "webhook", h.Name, "pending",
			d.cfg.MostPending)
	}
	return kept, full, nil
}

// deliveriesOf returns the deliveries for the events of a batch: of each event one for each webhook that asks for it.
func (d *Dispatcher) deliveriesOf(all []toldOf) (out []*api.Delivery) {
	now, hooks := api.Time(d.cfg.Now()), d.hooks()
	for i := range all {
		told := &all[i]
		for j := range told.Events {
			ev := &told.Events[j]
			var payload json.RawMessage
			for _, h := range hooks {
				// An event from before the webhook was disabled is kept, also if it comes only now.
				if h.DisabledAt != 0 && ev.Time > h.DisabledAt || ev.Time < h.CreatedAt || !h.wants(&told.Told, ev) {
					continue
				}
				if payload == nil {
					payload = payloadOf(&told.Told, ev)
				}
				out = append(out, &api.Delivery{
					ID: eventID(told.run, core.Time(ev.Time), ev.Seq), Webhook: h.Name, Type: typeOf(ev), Run: ev.Run,
					Workflow: told.Workflow, State: api.DeliveryPending, At: ev.Time, NextAt: now, Since: now,
					Why: "it has not been tried yet", Payload: payload,
				})
			}
		}
	}
	return out
}

// hooks returns all webhooks as they are now.
func (d *Dispatcher) hooks() []*hook {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*hook, 0, len(d.targets))
	for _, t := range d.targets {
		all = append(all, t.hook)
	}
	return all
}

// wants reports whether a webhook asks for an event of a run.
func (h *hook) wants(told *service.Told, ev *api.Event) bool {
	if !asksFor(h.Events, ev) || len(h.Workflows) > 0 && !slices.Contains(h.Workflows, told.Workflow) {
		return false
	}
	for key, value := range h.Labels {
		if got, found := told.Labels[key]; !found || got != value {
			return false
		}
	}
	return true
}

// message is the body of a request, as Standard Webhooks has it.
type message struct {
	Type      string   `json:"type"`
	Timestamp api.Time `json:"timestamp"` // the instant of the event
	Data      any      `json:"data"`
}

// eventData is the part of a message about its event.
type eventData struct {
	api.Event
	Workflow   string            `json:"workflow"`
	WorkflowID string            `json:"workflowId"`
	Labels     map[string]string `json:"labels,omitempty"`
	Words      *api.Words        `json:"words,omitempty"` // the words of the run's own system
	// DataOmitted is the size of the event's data in bytes, if it is too large for a message. The API has it.
	DataOmitted int `json:"dataOmitted,omitempty"`
}

// payloadOf returns the body of an event's message.
func payloadOf(told *service.Told, ev *api.Event) json.RawMessage {
	data := eventData{
		Event: *ev, Workflow: told.Workflow, WorkflowID: told.WorkflowID, Labels: told.Labels, Words: told.Words,
	}
	if data.WorkflowID == "" {
		data.WorkflowID = ev.Run
	}
	if len(ev.Data) > mostData {
		data.DataOmitted, data.Event.Data = len(ev.Data), nil
	}
	return document("", message{Type: typeOf(ev), Timestamp: ev.Time, Data: data}).Value
}
