package webhook

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/heap"
	"github.com/pawl-dev/pawl/internal/journal"
)

// inFlight is how many requests run at once, inFlightEach how many of them to one webhook.
const (
	inFlight     = 64
	inFlightEach = 8
)

const (
	// keepEnded is how long deliveries are kept that have ended.
	keepEnded  = 7 * 24 * time.Hour
	sweepEvery = time.Hour
	// storagePause is how long a delivery waits whose end could not be stored. Then it is sent again.
	storagePause = 5 * time.Second
)

// target is a webhook in memory, with the deliveries that have not ended.
type target struct {
	hook    *hook            // never changed in place
	lines   map[string]*line // the lines by run
	due     heap.Heap[*line] // the lines of which nothing is being sent
	sending int
	pending int
	counts  api.WebhookCounts
}

// line has the deliveries of one run in the order of their events. Only the first one is sent: the next one waits until
// it has ended.
type line struct {
	run   string
	ids   []waiting
	place int
}

// waiting is a delivery that has not ended.
type waiting struct {
	id  string
	due core.Time
}

func newTarget(h *hook) *target { return &target{hook: h, lines: map[string]*line{}} }

func (l *line) Before(other *line) bool {
	if l.ids[0].due != other.ids[0].due {
		return l.ids[0].due < other.ids[0].due
	}
	return l.ids[0].id < other.ids[0].id
}

func (l *line) Moved(to int) { l.place = to }

// public returns the webhook as callers see it. It is called while mu is held.
func (t *target) public(now core.Time) api.Webhook {
	out := t.hook.public(now)
	out.Pending = t.pending
	return out
}

// add adds a delivery to the line of its run. It is called while mu is held.
func (t *target) add(id string, due core.Time) {
	run := runOf(id)
	l := t.lines[run]
	if l == nil {
		l = &line{run: run, place: heap.Gone}
		t.lines[run] = l
	}
	at, found := slices.BinarySearchFunc(l.ids, id, func(w waiting, id string) int {
		return compare(w.id, id)
	})
	if found {
		return
	}
	t.pending++
	sends := len(l.ids) > 0 && l.place == heap.Gone
	if sends && at == 0 {
		at = 1 // the first one is being sent
	}
	l.ids = slices.Insert(l.ids, at, waiting{id, due})
	switch {
	case sends:
	case l.place == heap.Gone:
		t.due.Push(l)
	default:
		t.due.Fix(l.place)
	}
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// has reports whether a delivery has not ended. It is called while mu is held.
func (t *target) has(id string) bool {
	l := t.lines[runOf(id)]
	return l != nil && slices.ContainsFunc(l.ids, func(w waiting) bool { return w.id == id })
}

// back puts a line back of which the first delivery was sent. due is when that is sent again; 0 if it has ended. It is
// called while mu is held.
func (t *target) back(l *line, due core.Time) {
	t.sending--
	if due != 0 {
		l.ids[0].due = due
	} else {
		l.ids = l.ids[1:]
		t.pending--
	}
	if len(l.ids) == 0 {
		delete(t.lines, l.run)
		return
	}
	t.due.Push(l)
}

// wakeSender wakes the loop that sends.
func (d *Dispatcher) wakeSender() {
	select {
	case d.wake <- struct{}{}:
	default: // it is awake
	}
}

// send sends what is due. Between two instants it sleeps.
func (d *Dispatcher) send() {
	sweep := d.cfg.Now()
	look := sweep.Add(refreshEvery)
	for d.ctx.Err() == nil {
		now := d.cfg.Now()
		if sweep <= now {
			d.sweep(now)
			sweep = now.Add(sweepEvery)
		}
		next := min(d.begin(now), sweep)
		if d.cfg.Shared != nil {
			if look <= now {
				d.lookAgain()
				look = now.Add(refreshEvery)
			}
			next = min(next, look)
		}
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-timer.C:
		case <-d.wake:
		case <-d.ctx.Done():
		}
		timer.Stop()
	}
}

// begin begins the requests that are due, and returns when the next one is.
func (d *Dispatcher) begin(now core.Time) core.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := now.Add(sweepEvery)
	for _, t := range d.targets {
		for t.hook.DisabledAt == 0 && t.due.Len() > 0 && t.sending < inFlightEach && d.sending < inFlight {
			l := t.due.First()
			first := l.ids[0]
			if first.due > now {
				next = min(next, first.due)
				break
			}
			t.due.Remove(0)
			if !d.owns(first.id) {
				t.drop(l)
				continue
			}
			t.sending++
			d.sending++
			d.works.Go(func() { d.deliver(t, l, first.id) })
		}
	}
	return next
}

// result is how a request went.
type result struct {
	target   *target
	line     *line
	delivery *api.Delivery
	failed   error // why the delivery could not be read
	gone     bool  // the receiver wants no more messages
}

// deliver sends one delivery and hands over how that went. A request that the end of the dispatcher has cut off before
// its answer came counts as never made.
func (d *Dispatcher) deliver(t *target, l *line, id string) {
	d.mu.Lock()
	h := t.hook
	d.mu.Unlock()
	r := &result{target: t, line: l}
	if r.delivery, r.failed = d.read(d.ctx, h.Name, id); r.failed == nil {
		r.gone = d.attempt(d.ctx, h, r.delivery)
	}
	if d.ctx.Err() != nil && !r.answered() {
		return
	}
	d.results <- r
}

// answered reports whether the receiver has answered the last attempt.
func (r *result) answered() bool {
	return r.failed == nil && len(r.delivery.Attempts) > 0 &&
		r.delivery.Attempts[len(r.delivery.Attempts)-1].Status != 0
}

// record stores the results of requests: of all that have ended meanwhile, in one commit.
func (d *Dispatcher) record() {
	for {
		select {
		case <-d.ctx.Done():
			return // Close stores the rest
		case r := <-d.results:
			d.ended(append(d.answered(), r))
		}
	}
}

// answered returns the results that have come and are not stored yet.
func (d *Dispatcher) answered() (all []*result) {
	for {
		select {
		case r := <-d.results:
			all = append(all, r)
		default:
			return all
		}
	}
}

// ended stores results and makes the lines continue.
func (d *Dispatcher) ended(all []*result) {
	d.change.Lock()
	defer d.change.Unlock()
	var documents []journal.Document
	disabled := map[*target]*hook{}
	var err error
	for _, r := range all {
		// Deliveries that another process owns now are its own to send again: it may have done so already.
		if !d.current(r.target) || r.failed != nil || !d.owns(r.delivery.ID) {
			continue
		}
		documents = append(documents, stored(r.delivery)...)
		if r.gone && disabled[r.target] == nil {
			h, latestErr := d.latest(context.WithoutCancel(d.ctx), r.target)
			if err = errors.Join(err, latestErr); h == nil {
				continue
			}
			h.Disabled = "its receiver answered 410 Gone to " + r.delivery.ID
			h.DisabledAt = r.delivery.EndedAt
			disabled[r.target] = h
			documents = append(documents, document(hookKey(h.Name), h))
		}
	}
	if err == nil {
		err = d.put(context.WithoutCancel(d.ctx), documents...)
	}
	if err != nil {
		d.cfg.Log.Error("what was delivered cannot be stored; it is sent again",
			"id", "webhook-not-stored", "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range all {
		d.sending--
		due := core.Time(0)
		if r.failed == nil && !d.owns(r.delivery.ID) {
			r.target.sending--
			r.target.drop(r.line)
			continue
		}
		switch {
		case r.failed != nil:
			d.cfg.Log.Error("a delivery cannot be read",
				"id", "webhook-delivery-unreadable", "webhook", r.target.hook.Name, "error", r.failed)
			due = d.cfg.Now().Add(storagePause)
		case err != nil:
			due = d.cfg.Now().Add(storagePause)
		case r.delivery.State == api.DeliveryPending:
			due = core.Time(r.delivery.NextAt)
			r.target.counts.Retried++
		case r.delivery.State == api.DeliveryDelivered:
			r.target.counts.Delivered++
		default:
			r.target.counts.Failed++
		}
		r.target.back(r.line, due)
	}
	if err == nil {
		for t, h := range disabled {
			t.hook = h
		}
		if len(disabled) > 0 && d.ctx.Err() == nil {
			d.works.Go(func() { d.tellOthers(d.ctx) })
		}
	}
	d.wakeSender()
}

// sweep deletes deliveries that ended long ago. Their events are older than that.
func (d *Dispatcher) sweep(now core.Time) {
	for _, h := range d.hooks() {
		prefix := deliveryKeys + h.Name + "/"
		last := prefix + sinceID(now.Add(-keepEnded))
		for from := prefix; ; {
			page, err := d.cfg.Documents.FindDocuments(d.ctx, from, last, false, pageSize)
			if err == nil {
				err = d.drop(h.Name, page, now.Add(-keepEnded))
			}
			if err != nil {
				d.cfg.Log.Error("old deliveries are not deleted at present",
					"id", "webhook-not-pruned", "error", err)
				return
			}
			if len(page) < pageSize {
				break
			}
			from = page[len(page)-1].Key + "\x00"
		}
	}
}

// drop deletes those of a page of deliveries that ended before an instant, or that cannot be read.
func (d *Dispatcher) drop(name string, page []journal.Document, before core.Time) error {
	d.change.Lock()
	defer d.change.Unlock()
	var old []journal.Document
	d.mu.Lock()
	for _, doc := range page {
		t, id := d.targets[name], doc.Key[len(deliveryKeys+name+"/"):]
		if !d.owns(id) || t != nil && t.has(id) { // another process sweeps it, or it has not ended
			continue
		}
		// The page was read before: meanwhile a delivery in it may have ended.
		if one, err := decodeDelivery(doc); err == nil &&
			(one.State == api.DeliveryPending && t != nil || core.Time(one.EndedAt) >= before) {
			continue
		}
		old = append(old, journal.Document{Key: doc.Key})
	}
	d.mu.Unlock()
	if len(old) == 0 {
		return nil
	}
	return d.put(d.ctx, old...)
}
