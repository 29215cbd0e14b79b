package webhook

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestGoneDuringAnEdit checks that a change of a webhook does not undo what is recorded of it meanwhile.
func TestGoneDuringAnEdit(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		b.add("ops")
		d := b.Dispatcher
		dl := b.tested("ops")
		dl.EndedAt = api.Time(d.cfg.Now())
		recorded := make(chan struct{})
		err := d.edit(t.Context(), "ops", func(h *hook) error {
			meanwhile := d.change.TryLock() // something else could be recorded now
			if meanwhile {
				d.change.Unlock()
			}
			target := must(d.find("ops"))
			go func() {
				defer close(recorded)
				d.goneBy(target, &dl)
			}()
			if meanwhile {
				<-recorded
			}
			h.Events = []string{"run.succeeded"}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		<-recorded
		if h := must(d.Webhook(t.Context(), "ops")); h.DisabledAt == 0 || h.Events[0] != "run.succeeded" {
			t.Errorf("the webhook after a change and a 410: %+v", h)
		}
	})
}

// tested sends a test message and returns its delivery.
func (b *bed) tested(name string) api.Delivery {
	b.Helper()
	dl, err := b.TestWebhook(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	return dl
}

// goneBy records that a delivery was answered 410.
func (d *Dispatcher) goneBy(t *target, dl *api.Delivery) {
	d.mu.Lock()
	l := &line{run: runOf(dl.ID), ids: []waiting{{id: dl.ID}}}
	t.sending++
	t.pending++
	d.sending++
	d.mu.Unlock()
	d.ended([]*result{{target: t, line: l, delivery: dl, gone: true}})
}

// TestAnswerWhileClosing checks that an answer that came before the process ended is recorded, so that the message is
// not sent again.
func TestAnswerWhileClosing(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		b.add("ops")
		d := b.Dispatcher
		b.answers(func(*request) (*http.Response, error) {
			d.end() // Close calls end first
			return status204(), nil
		})
		b.start(failing)
		first := b.all()
		b.answers(nil)
		b.Dispatcher.Close()
		b = b.kill()
		defer b.close()
		if again := b.all(); len(first) != 1 || len(again) != 0 {
			t.Errorf("%d requests, and %d in the next process", len(first), len(again))
		}
		if n := len(b.deliveries("ops", api.DeliveryDelivered)); n != 1 {
			t.Errorf("%d deliveries are recorded as delivered", n)
		}
	})
}

// TestLookupsOfABatch checks that whether deliveries are there already is asked once for all events of a batch and all
// webhooks.
func TestLookupsOfABatch(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		const hooks = 10
		for n := range hooks {
			b.add(fmt.Sprint("ops", n), events("*"))
		}
		before := b.lookups.Load()
		b.start(failing)
		sent := len(b.all())
		if sent < 3*hooks {
			t.Fatalf("%d requests", sent)
		}
		if n := b.lookups.Load() - before; n > int64(sent+hooks) { // each delivery is read when it is sent
			t.Errorf("%d lookups for %d deliveries", n, sent)
		}
	})
}
