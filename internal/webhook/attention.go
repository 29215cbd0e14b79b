package webhook

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal"
)

const (
	lookEvery    = 30 * time.Second
	attentionKey = "webhook/attention" // the document with what was told
)

// sentAttention is what webhooks were told that needs a person.
type sentAttention struct {
	Concerns []api.AttentionEvent `json:"concerns"`
}

// WatchAttention tells webhooks what needs a person, and when that is over, as long as ctx lives. look returns what
// does now; it is not called while no webhook asks for that.
func (d *Dispatcher) WatchAttention(ctx context.Context, look func(context.Context) (api.Attention, error)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !d.Wanted(api.EventAttentionRaised) && !d.Wanted(api.EventAttentionCleared) {
			continue
		}
		now, err := look(ctx)
		if err == nil {
			err = tellAttention(ctx, d, now)
		}
		if err != nil && ctx.Err() == nil {
			d.cfg.Log.Error("webhooks are not told what needs a person", "id", "attention-untold", "error", err)
		}
	}
}

// tellAttention tells what has changed since the last time.
func tellAttention(ctx context.Context, d *Dispatcher, now api.Attention) error {
	found, err := d.cfg.Documents.ReadDocuments(ctx, attentionKey)
	if err != nil {
		return storageError(err)
	}
	var before sentAttention
	for _, doc := range found {
		if err := journal.DecodeDocument(doc.Value, documentVersion, &before); err != nil {
			return broken(doc.Key, err)
		}
	}
	after, notices := changesOf(before, now, api.Time(d.cfg.Now()))
	if len(notices) == 0 {
		return nil
	}
	return d.Tell(ctx, notices, document(attentionKey, after))
}

// changesOf returns what was told from now on, and what is to be told: of each concern that it has come, and that it
// has gone. One that changes is not told again.
func changesOf(before sentAttention, now api.Attention, at api.Time) (after sentAttention, notices []Notice) {
	known := map[string]api.AttentionEvent{}
	for _, c := range before.Concerns {
		known[c.Key] = c
	}
	add := func(kind string, c api.AttentionEvent) {
		n := Notice{ID: c.Key + "_" + kind, Type: kind, At: at, Data: c}
		if c.Runs > 0 {
			n.Workflow = c.Name
		}
		notices = append(notices, n)
	}
	open := map[string]bool{}
	for _, c := range now.Concerns {
		if open[c.Key] {
			continue // two that read alike
		}
		open[c.Key] = true
		event, old := known[c.Key]
		if event.Concern = c; !old {
			event.Since = at
			add(api.EventAttentionRaised, event)
		}
		after.Concerns = append(after.Concerns, event)
	}
	for _, c := range before.Concerns {
		if !open[c.Key] && !now.More { // where not all was looked at, it may be there
			add(api.EventAttentionCleared, c)
		} else if !open[c.Key] {
			after.Concerns = append(after.Concerns, c)
		}
	}
	return after, notices
}
