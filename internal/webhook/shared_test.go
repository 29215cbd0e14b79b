package webhook

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// nothingComes is the feed of a process that has no runs yet.
type nothingComes struct{}

func (nothingComes) BeginFeed(context.Context, string) error { return nil }
func (nothingComes) DropFeed(context.Context, string) error  { return nil }

func (nothingComes) Feed(ctx context.Context, _ string, _ func(int, uint64, []core.Entry) error) error {
	<-ctx.Done()
	return ctx.Err()
}

// shared makes the bed's dispatcher one of two on the same journal, and returns the other one. The first one has all
// runs until moved is set. Each has a receiver of its own. While deaf is set, they do not hear each other.
func (b *bed) shared(moved, deaf *atomic.Bool) (other *Dispatcher, heard *receiver) {
	b.Helper()
	b.Dispatcher.Close()
	heard = &receiver{}
	var one, two *Dispatcher
	tell := func(d **Dispatcher) func(context.Context) {
		return func(ctx context.Context) {
			if deaf.Load() {
				return
			}
			if err := (*d).Refresh(ctx); err != nil {
				b.Error(err)
			}
		}
	}
	var err error
	one, err = New(b.Context(), Config{
		Documents: b.journal, Feed: b.engine, Describer: b.svc.Describer, Send: true, Transport: b.receiver,
		Shared: &Shared{Has: func(core.RunID) bool { return !moved.Load() }, Changed: tell(&two)},
	})
	if err == nil {
		two, err = New(b.Context(), Config{
			Documents: b.journal, Feed: nothingComes{}, Describer: b.svc.Describer, Send: true, Transport: heard,
			Shared: &Shared{Has: func(core.RunID) bool { return moved.Load() }, Changed: tell(&one)},
		})
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Dispatcher = one
	return two, heard
}

// TestDeliveriesMove checks that the process that takes a run over sends what the first one has not delivered, at once
// and in order. The first one sends nothing more, and what it still learns of its last request changes nothing.
func TestDeliveriesMove(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		var moved, deaf atomic.Bool
		other, heard := b.shared(&moved, &deaf)
		defer other.Close()
		b.add("ops", events("run.started", "run.failed"))
		b.answers(func(*request) (*http.Response, error) {
			<-time.After(5 * time.Second)
			return respond(500, "late"), nil
		})
		b.start(failing)
		if got := b.all(); types(got) != "run.started" {
			t.Fatalf("the first process sent %s", types(got))
		}
		if got := heard.all(); len(got) > 0 {
			t.Fatalf("the other one sent %s already", types(got))
		}
		moved.Store(true)
		if err := other.take(t.Context(), nil, batch{}); err != nil { // as the feed of the engine tells it
			t.Fatal(err)
		}
		if got := heard.all(); types(got) != "run.started run.failed" {
			t.Errorf("the next process sent %s", types(got))
		}
		<-time.After(10 * time.Second) // its answer has come
		moved.Store(false)
		<-time.After(10 * refreshEvery)
		if got := b.all(); len(got) > 0 {
			t.Errorf("the first process went on with %s", types(got))
		}
		if h, err := b.Webhook(t.Context(), "ops"); err != nil || h.Pending != 0 {
			t.Errorf("%d pending, %v", h.Pending, err)
		}
		if got := b.deliveries("ops", "delivered"); len(got) != 2 {
			t.Errorf("%d were delivered", len(got))
		}
	})
}

// TestChangesAreShared checks that a webhook that one process adds, changes or removes is so in the others, and a
// delivery that is replayed anywhere is sent where its run is.
func TestChangesAreShared(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		var moved, deaf atomic.Bool
		other, heard := b.shared(&moved, &deaf)
		defer other.Close()
		_, err := other.AddWebhook(t.Context(), api.WebhookRequest{
			Name: "ops", URL: everywhere, Events: []string{"run.failed"},
		})
		if err != nil {
			t.Fatal(err)
		}
		b.start(failing)
		first := b.all()
		if types(first) != "run.failed" {
			t.Fatalf("got %s", types(first))
		}
		if _, err := other.Replay(t.Context(), "ops", api.ReplayRequest{Delivery: first[0].id()}); err != nil {
			t.Fatal(err)
		}
		if again := b.all(); len(again) != 1 || again[0].id() != first[0].id() {
			t.Errorf("a replay sent %s", types(again))
		}
		_, err = other.ChangeWebhook(t.Context(), "ops", api.WebhookChange{Events: []string{"run.started"}})
		if err != nil {
			t.Fatal(err)
		}
		b.start(failing)
		if got := b.all(); types(got) != "run.started" {
			t.Errorf("after the change came %s", types(got))
		}
		deaf.Store(true)
		_, err = other.ChangeWebhook(t.Context(), "ops", api.WebhookChange{URL: everywhere + "2"})
		if err != nil {
			t.Fatal(err)
		}
		deaf.Store(false)
		h, err := b.ChangeWebhook(t.Context(), "ops", api.WebhookChange{Labels: map[string]string{}})
		if err != nil || h.URL != everywhere+"2" {
			t.Errorf("a change undid one that it had not heard of: %+v, %v", h, err)
		}
		b.answers(always(410))
		b.start(failing)
		b.all()
		synctest.Wait()
		if h, err := other.Webhook(t.Context(), "ops"); err != nil || h.DisabledAt == 0 {
			t.Errorf("the receiver is gone, and the other process has %+v, %v", h, err)
		}
		if err := other.RemoveWebhook(t.Context(), "ops"); err != nil {
			t.Fatal(err)
		}
		if all, err := b.Webhooks(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("%v, %v", all, err)
		}
		b.answers(nil)
		b.start(failing)
		if got := append(b.all(), heard.all()...); len(got) > 0 {
			t.Errorf("a webhook that was removed got %s", types(got))
		}
	})
}

// TestSweepsOwnOnly checks that a process deletes no old delivery that another one still tries.
func TestSweepsOwnOnly(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		var moved, deaf atomic.Bool
		other, _ := b.shared(&moved, &deaf)
		defer other.Close()
		b.add("ops", events("run.failed"), func(r *api.WebhookRequest) {
			r.Policy = &policy.Policy{
				Retry:  &policy.Retry{MaxAttempts: policy.Unlimited, InitialInterval: time.Hour, BackoffCoefficient: 1},
				Limits: policy.Limits{ScheduleToClose: &policy.Limit{After: 30 * 24 * time.Hour}},
			}
		})
		b.answers(always(500))
		b.start(failing)
		<-time.After(keepEnded + 3*sweepEvery)
		if got := b.deliveries("ops", "pending"); len(got) != 1 {
			t.Errorf("%d deliveries are pending", len(got))
		}
	})
}
