package webhook

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// The length of a page of deliveries, and how many documents one page looks at.
const (
	defaultLimit = 50
	mostLimit    = 1000
	mostLookedAt = 20_000
)

func (d *Dispatcher) Deliveries(
	ctx context.Context, name string, q api.DeliveryQuery,
) (out api.DeliveryPage, err error) {
	if _, err := d.find(name); err != nil {
		return out, err
	}
	switch q.State {
	case "", api.DeliveryPending, api.DeliveryDelivered, api.DeliveryFailed:
	default:
		return out, invalid("state", "%q: write pending, delivered or failed", q.State)
	}
	if q.Limit < 0 || q.Limit > mostLimit {
		return out, invalid("limit", "%d: write 1 to %d", q.Limit, mostLimit)
	}
	if q.Limit == 0 {
		q.Limit = defaultLimit
	}
	prefix := deliveryKeys + name + "/"
	from, before := prefix+sinceID(core.Time(q.Since)), after(prefix)
	if q.Cursor != "" {
		if !strings.HasPrefix(q.Cursor, "evt_") || strings.Contains(q.Cursor, "/") {
			return out, invalid("cursor", "%q is not the cursor of a page", q.Cursor)
		}
		before = prefix + q.Cursor
	}
	out.Deliveries = []api.Delivery{}
	for looked := 0; ; {
		page, err := d.cfg.Documents.FindDocuments(ctx, from, before, true, pageSize)
		if err != nil {
			return out, storageError(err)
		}
		for _, doc := range page {
			one, err := decodeDelivery(doc)
			if err != nil {
				return out, err
			}
			if before = doc.Key; (q.State == "" || one.State == q.State) && (q.Run == "" || one.Run == q.Run) {
				one.Attempts, one.Payload = nil, nil
				out.Deliveries = append(out.Deliveries, *one)
			}
			looked++
			if len(out.Deliveries) == q.Limit || looked == mostLookedAt {
				out.Next = strings.TrimPrefix(before, prefix)
				return out, nil
			}
		}
		if len(page) < pageSize {
			return out, nil
		}
	}
}

func (d *Dispatcher) Delivery(ctx context.Context, name, id string) (api.Delivery, error) {
	if _, err := d.find(name); err != nil {
		return api.Delivery{}, err
	}
	one, err := d.read(ctx, name, id)
	if err != nil {
		return api.Delivery{}, err
	}
	return *one, nil
}

func (d *Dispatcher) Replay(ctx context.Context, name string, r api.ReplayRequest) (api.Replayed, error) {
	t, err := d.find(name)
	if err != nil {
		return api.Replayed{}, err
	}
	switch {
	case (r.Delivery != "") == r.Failed:
		return api.Replayed{}, invalid("replay", "name one delivery, or ask for all that failed")
	case r.Delivery != "" && r.Since != 0:
		return api.Replayed{}, invalid("since", "it goes with all that failed, not with one delivery")
	case r.Delivery != "":
		one, err := d.read(ctx, name, r.Delivery)
		if err != nil {
			return api.Replayed{}, err
		}
		if one.State == api.DeliveryPending {
			return api.Replayed{}, &api.Error{
				Code: api.CodeConflict, Message: fmt.Sprintf("delivery %s has not ended: %s", one.ID, one.Why),
			}
		}
		err = d.again(ctx, t, []string{one.ID})
		d.tellOthers(ctx)
		return api.Replayed{Count: 1}, err
	}
	var failed []string
	err = d.each(ctx, deliveryKeys+name+"/", sinceID(core.Time(r.Since)), func(doc journal.Document) (bool, error) {
		one, err := decodeDelivery(doc)
		if err == nil && one.State == api.DeliveryFailed && one.Type != testType {
			failed = append(failed, one.ID)
		}
		return true, err
	})
	for n := 0; err == nil && n < len(failed); n += pageSize {
		err = d.again(ctx, t, failed[n:min(n+pageSize, len(failed))])
	}
	if len(failed) > 0 {
		d.tellOthers(ctx)
	}
	return api.Replayed{Count: len(failed)}, err
}

// again makes deliveries that have ended pending.
func (d *Dispatcher) again(ctx context.Context, t *target, ids []string) error {
	d.change.Lock()
	defer d.change.Unlock()
	name, now := t.hook.Name, api.Time(d.cfg.Now())
	if !d.current(t) {
		_, err := d.find(name)
		return err
	}
	var documents []journal.Document
	var made []string
	for _, id := range ids {
		one, err := d.read(ctx, name, id)
		if err != nil {
			return err
		}
		if one.State == api.DeliveryPending {
			continue // another replay came first
		}
		one.State, one.NextAt, one.EndedAt, one.Since, one.Tried = api.DeliveryPending, now, 0, now, 0
		one.Why = "it was replayed and has not been tried since"
		documents = append(documents, stored(one)...)
		made = append(made, id)
	}
	if err := d.put(ctx, documents...); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range made {
		if d.owns(id) {
			t.add(id, core.Time(now))
		}
	}
	d.wakeSender()
	return nil
}

func (d *Dispatcher) TestWebhook(ctx context.Context, name string) (api.Delivery, error) {
	t, err := d.find(name)
	if err != nil {
		return api.Delivery{}, err
	}
	if !d.cfg.Send {
		return api.Delivery{}, &api.Error{
			Code: api.CodeReadOnly, Message: "this process sends no messages: webhooks are sent by pawl dev",
			Hint: "start pawl dev on this database",
		}
	}
	d.mu.Lock()
	h := *t.hook
	d.mu.Unlock()
	once := *h.Policy.Retry
	once.MaxAttempts = 1
	h.Policy.Retry = &once
	now := d.cfg.Now()
	dl := &api.Delivery{
		ID: testID(now), Webhook: name, Type: testType, State: api.DeliveryPending, At: api.Time(now),
		Since: api.Time(now),
	}
	dl.Payload = document("", message{testType, api.Time(now), map[string]string{"webhook": name}}).Value
	d.attempt(ctx, &h, dl)
	if err := ctx.Err(); err != nil {
		return api.Delivery{}, &api.Error{Code: api.CodeCancelled, Err: err}
	}
	d.change.Lock()
	defer d.change.Unlock()
	if d.current(t) {
		err = d.put(ctx, stored(dl)...)
	}
	return *dl, err
}

// testType is the type of a message that is sent as a test.
const testType = "webhook.test"
