package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Notice is something that webhooks tell and that no run has caused.
type Notice struct {
	ID       string // the same one is told once
	Type     string
	At       api.Time
	Workflow string // whom it concerns; empty: no workflow
	Data     any
}

// ofNoRun takes the place of the run in the ids of notices.
const ofNoRun = "notice"

// Wanted reports whether a webhook asks for a type of events that is sent from here.
func (d *Dispatcher) Wanted(eventType string) bool {
	if !d.cfg.Send || d.cfg.Shared != nil && !d.cfg.Shared.Has(core.RunID{}) {
		return false
	}
	return slices.ContainsFunc(d.hooks(), func(h *hook) bool {
		return h.DisabledAt == 0 && asksFor(h.Events, &api.Event{Type: eventType})
	})
}

// Tell sends notices to the webhooks that ask for them. Documents of the caller are stored with that, or nothing is. A
// webhook for runs with labels gets none, and one for some workflows what concerns these.
func (d *Dispatcher) Tell(ctx context.Context, notices []Notice, also ...journal.Document) error {
	d.change.Lock()
	defer d.change.Unlock()
	now := api.Time(d.cfg.Now())
	var made []*api.Delivery
	for i := range notices {
		n := &notices[i]
		var payload json.RawMessage
		for _, h := range d.hooks() {
			others := len(h.Workflows) > 0 && !slices.Contains(h.Workflows, n.Workflow)
			if h.DisabledAt != 0 || others || len(h.Labels) > 0 || !asksFor(h.Events, &api.Event{Type: n.Type}) {
				continue
			}
			if payload == nil {
				payload = document("", message{Type: n.Type, Timestamp: n.At, Data: n.Data}).Value
			}
			made = append(made, &api.Delivery{
				ID: fmt.Sprintf("evt_%014x_%s_%s", int64(n.At), ofNoRun, n.ID), Webhook: h.Name, Type: n.Type,
				Workflow: n.Workflow, State: api.DeliveryPending, At: n.At, NextAt: now, Since: now,
				Why: "it has not been tried yet", Payload: payload,
			})
		}
	}
	documents := slices.Clone(also)
	for _, one := range made {
		documents = append(documents, stored(one)...)
	}
	if err := d.put(ctx, documents...); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range made {
		if t := d.targets[one.Webhook]; t != nil {
			t.add(one.ID, core.Time(one.NextAt))
		}
	}
	d.wakeSender()
	return nil
}
