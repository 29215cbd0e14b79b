package webhook

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// The keys of documents. A delivery that has not ended has a second one, with the time of its next attempt. Names of
// webhooks have no "/", and "0" follows "/".
const (
	hookKeys     = "webhook/hook/"
	deliveryKeys = "webhook/delivery/"
	pendingKeys  = "webhook/pending/"
)

func hookKey(name string) string         { return hookKeys + name }
func deliveryKey(name, id string) string { return deliveryKeys + name + "/" + id }
func pendingKey(name, id string) string  { return pendingKeys + name + "/" + id }

// after returns the end of the range of keys that begin with a prefix, which ends with "/".
func after(prefix string) string { return strings.TrimSuffix(prefix, "/") + "0" }

// pageSize is how many documents are read at once.
const pageSize = 500

// eventID returns the id of the delivery of an event. Ids sort by the instants of their events, those of a run in their
// order. The same event always has the same id.
func eventID(run core.RunID, at core.Time, seq int) string {
	return fmt.Sprintf("evt_%014x_%s_%06x", int64(at), hex.EncodeToString(run[:]), seq)
}

// testID returns the id of a message that is sent as a test.
func testID(at core.Time) string {
	return fmt.Sprintf("evt_%014x_test_%016x", int64(at), rand.Uint64())
}

// sinceID returns an id before those of all events at the instant or later.
func sinceID(at core.Time) string { return fmt.Sprintf("evt_%014x", max(int64(at), 0)) }

// runOf returns the part of an id that names the run. Messages of tests have their own.
func runOf(id string) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(id, "evt_"), "_")
	run, seq, _ := strings.Cut(rest, "_")
	if run == "test" {
		return run + seq
	}
	return run
}

// hook is a webhook in its stored form.
type hook struct {
	api.Webhook
	Secrets []secret `json:"secrets"` // the newest first
	// MissedUpTo is, by partition, the last batch of the feed of which Missed counts an event. It may come again.
	MissedUpTo map[int]uint64 `json:"missedUpTo,omitempty"`
}

// missed reports whether events of a batch that comes again are counted as missed already.
func (h *hook) missed(b batch) bool { return b.seq <= h.MissedUpTo[b.partition] }

// public returns the webhook as callers see it.
func (h *hook) public(now core.Time) api.Webhook {
	out := h.Webhook
	out.Secret, out.Overlap = "", 0
	for _, s := range h.Secrets {
		if s.Until > now {
			out.Overlap = max(out.Overlap, api.Time(s.Until))
		}
	}
	return out
}

// documentVersion is the version of the stored form.
const documentVersion = 1

// due is when the next attempt of a delivery is due.
type due struct {
	At core.Time `json:"at"`
}

// document returns the document of a value that can always be encoded.
func document(key string, v any) journal.Document {
	value, err := journal.EncodeDocument(documentVersion, v)
	if err != nil {
		panic(fmt.Sprintf("webhook: %s cannot be encoded: %v", key, err))
	}
	return journal.Document{Key: key, Value: value}
}

// stored returns the documents of a delivery in its present state.
func stored(d *api.Delivery) []journal.Document {
	pending := journal.Document{Key: pendingKey(d.Webhook, d.ID)}
	if d.State == api.DeliveryPending {
		pending = document(pending.Key, due{core.Time(d.NextAt)})
	}
	return []journal.Document{document(deliveryKey(d.Webhook, d.ID), d), pending}
}

// put stores documents.
func (d *Dispatcher) put(ctx context.Context, documents ...journal.Document) error {
	return storageError(d.cfg.Documents.PutDocuments(ctx, documents...))
}

// each calls fn with the documents whose keys have the prefix, in order, beginning at from. fn returns false to stop.
func (d *Dispatcher) each(ctx context.Context, prefix, from string, fn func(journal.Document) (bool, error)) error {
	for from = prefix + from; ; {
		page, err := d.cfg.Documents.FindDocuments(ctx, from, after(prefix), false, pageSize)
		if err != nil {
			return storageError(err)
		}
		for _, doc := range page {
			if more, err := fn(doc); err != nil || !more {
				return err
			}
		}
		if len(page) < pageSize {
			return nil
		}
		from = page[len(page)-1].Key + "\x00"
	}
}

// read returns a delivery.
func (d *Dispatcher) read(ctx context.Context, name, id string) (*api.Delivery, error) {
	key := deliveryKey(name, id)
	found, err := d.cfg.Documents.ReadDocuments(ctx, key)
	if err != nil {
		return nil, storageError(err)
	}
	if len(found) == 0 {
		return nil, &api.Error{
			Code: api.CodeNotFound, Message: fmt.Sprintf("webhook %s has no delivery %q", name, id),
			Hint: "pawl webhook deliveries " + name + " lists them",
		}
	}
	return decodeDelivery(found[0])
}

// unknown returns those of the deliveries that are not stored.
func (d *Dispatcher) unknown(ctx context.Context, all []*api.Delivery) (out []*api.Delivery, err error) {
	for part := range slices.Chunk(all, pageSize) {
		keys := make([]string, 0, len(part))
		for _, one := range part {
			keys = append(keys, deliveryKey(one.Webhook, one.ID))
		}
		found, err := d.cfg.Documents.ReadDocuments(ctx, keys...)
		if err != nil {
			return nil, storageError(err)
		}
		stored := make(map[string]bool, len(found))
		for _, doc := range found {
			stored[doc.Key] = true
		}
		for i, one := range part {
			if !stored[keys[i]] {
				out = append(out, one)
			}
		}
	}
	return out, nil
}

func decodeHook(doc journal.Document) (*hook, error) {
	out := &hook{}
	if err := journal.DecodeDocument(doc.Value, documentVersion, out); err != nil {
		return nil, broken(doc.Key, err)
	}
	return out, nil
}

func decodeDelivery(doc journal.Document) (*api.Delivery, error) {
	out := &api.Delivery{}
	if err := journal.DecodeDocument(doc.Value, documentVersion, out); err != nil {
		return nil, broken(doc.Key, err)
	}
	return out, nil
}

func broken(key string, err error) error {
	return &api.Error{
		Code: api.CodeStorage, Message: fmt.Sprintf("what is stored as %s cannot be read: %v", key, err), Err: err,
	}
}
