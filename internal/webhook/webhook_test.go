package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/policy"
)

// run runs a test in virtual time.
func run(t *testing.T, fn func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		fn(t, b)
	})
}

// verify checks a message with the library of Standard Webhooks.
func verify(t *testing.T, secret string, r *request) error {
	t.Helper()
	w, err := standard.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return w.Verify(r.body, r.header)
}

// TestDelivery checks that the end of a run is sent once, signed, and kept as delivered.
func TestDelivery(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		h := b.add("ops")
		id := b.start(failing, func(r *api.StartRequest) { r.Labels = map[string]string{"team": "shop"} })
		got := b.all()
		if types(got) != "run.failed" {
			t.Fatalf("got %q", types(got))
		}
		one := got[0]
		if one.Data.Run != id || one.Data.Workflow != "failing" || one.Data.Labels["team"] != "shop" {
			t.Errorf("it tells %s", one.body)
		}
		if err := verify(t, h.Secret, &one); err != nil {
			t.Error(err)
		}
		if err := verify(t, newSecret(), &one); err == nil {
			t.Error("another secret fits as well")
		}
		one.body = append(slices.Clone(one.body), ' ')
		if err := verify(t, h.Secret, &one); err == nil {
			t.Error("the signature does not cover the body")
		}
		all := b.deliveries("ops", "")
		if len(all) != 1 || all[0].State != api.DeliveryDelivered || all[0].ID != one.id() || all[0].Tried != 1 ||
			all[0].Why != "attempt 1 was answered 204 No Content" {
			t.Errorf("kept: %+v", all)
		}
	})
}

// TestFilters checks that a webhook gets the events that it asks for, of the runs that it asks for, from its
// registration on.
func TestFilters(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		b.start(failing)
		synctest.Wait()
		b.add("none", func(r *api.WebhookRequest) { r.Workflows = []string{"napping"} })
		b.add("labelled", func(r *api.WebhookRequest) { r.Labels = map[string]string{"team": "shop"} })
		b.add("steps", events("step.*"))
		b.add("all", events("*"))
		b.start(failing)
		synctest.Wait()
		for name, want := range map[string]string{
			"none": "", "labelled": "", "steps": "step.scheduled step.failed",
			"all": "run.started step.scheduled attempt.started attempt.ended step.failed run.failed",
		} {
			var got []string
			for _, d := range slices.Backward(b.deliveries(name, "")) {
				got = append(got, d.Type)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s got %q, want %q", name, got, want)
			}
		}
	})
}

// TestDayDown checks that a receiver that is down for a day gets every message then, in the order of each run, with the
// ids of the first attempts.
func TestDayDown(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		b.add("ops", events("run.*", "step.*"))
		b.answers(func(*request) (*http.Response, error) { return nil, errors.New("connection refused") })
		one := b.start(napping)
		pass(5 * time.Minute)
		first := b.all()
		if len(first) < 3 {
			t.Fatalf("%d requests in five minutes", len(first))
		}
		for _, r := range first {
			if r.id() != first[0].id() {
				t.Errorf("%s came before %s had arrived", r.id(), first[0].id())
			}
		}
		pass(24 * time.Hour)
		tries := len(b.all())
		if tries < 23 || tries > 60 {
			t.Errorf("%d requests in a day", tries)
		}
		waits := b.deliveries("ops", api.DeliveryPending)
		if last := waits[len(waits)-1]; !strings.Contains(last.Why,
			"failed: error connection: connection refused; the next one comes after ") {
			t.Errorf("why: %s", last.Why)
		}
		b = b.kill()
		defer b.close()
		b.answers(nil)
		pass(2 * time.Hour)
		got := b.all()
		seq := 0
		for _, r := range got {
			if r.Data.Run != one || r.Data.Seq <= seq {
				t.Errorf("event %d after event %d", r.Data.Seq, seq)
			}
			seq = r.Data.Seq
		}
		if got[0].id() != first[0].id() || len(got) != len(waits) || len(b.deliveries("ops", "pending")) != 0 {
			t.Errorf("%d of %d messages arrived, first %s", len(got), len(waits), got[0].id())
		}
	})
}

// TestOtherRunsGoOn checks that a message that fails holds back its own run only.
func TestOtherRunsGoOn(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		b.add("ops", events("run.started", "run.failed"))
		bad := ""
		b.answers(func(r *request) (*http.Response, error) {
			if bad == "" {
				bad = r.Data.Run
			}
			if bad == r.Data.Run {
				return respond(500, "no"), nil
			}
			return status204(), nil
		})
		b.start(failing)
		synctest.Wait()
		b.start(failing)
		got := b.all()
		if types(got) != "run.started run.started run.failed" {
			t.Errorf("got %s", types(got))
		}
	})
}

// TestCrashBeforeRecord checks that a delivery that was made before a crash, and not recorded, is delivered again with
// the same id.
func TestCrashBeforeRecord(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		receiver := b.receiver
		b.add("ops")
		b.answers(func(*request) (*http.Response, error) {
			receiver.full.Store(true) // the answer comes, and nothing is stored
			return status204(), nil
		})
		b.start(failing)
		first := b.all()
		if len(first) != 1 {
			t.Fatalf("%d requests", len(first))
		}
		b.answers(nil)
		b.full.Store(false)
		b = b.kill()
		defer b.close()
		pass(time.Second)
		again := b.all()
		if len(again) != 1 || again[0].id() != first[0].id() {
			t.Errorf("after the crash: %d requests", len(again))
		}
		pass(time.Hour)
		if n := len(b.all()); n != 0 {
			t.Errorf("%d more requests", n)
		}
	})
}

// TestFullDisk checks that events wait while deliveries cannot be stored, and are sent when they can.
func TestFullDisk(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		b.add("ops")
		b.full.Store(true)
		b.start(failing)
		pass(time.Minute)
		if n := len(b.all()); n != 0 {
			t.Errorf("%d requests for a delivery that is not stored", n)
		}
		b.full.Store(false)
		pass(time.Minute)
		if got := b.all(); types(got) != "run.failed" || len(b.deliveries("ops", api.DeliveryDelivered)) != 1 {
			t.Errorf("afterwards came %s", types(got))
		}
	})
}

// TestKills checks that each event arrives at least once, and none that did not happen, however often the process is
// killed.
func TestKills(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		b.add("ops", events("run.started", "run.succeeded", "step.*"))
		want := map[string]int{}
		for n := range 12 {
			want[b.start(napping)] = 0
			pass(time.Duration(n%5) * 300 * time.Millisecond)
			b = b.kill()
		}
		pass(time.Hour)
		seen := map[string]bool{}
		for _, r := range b.all() {
			seen[fmt.Sprintf("%s %d", r.Data.Run, r.Data.Seq)] = true
		}
		for id := range want {
			err := b.svc.Watch(t.Context(), id, 0, func(ev api.Event) error {
				key := fmt.Sprintf("%s %d", id, ev.Seq)
				if asked := asksFor([]string{"run.started", "run.succeeded", "step.*"}, &ev); asked != seen[key] {
					t.Errorf("event %s (%s): sent %v, asked for %v", key, ev.Type, seen[key], asked)
				}
				delete(seen, key)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(seen) > 0 {
			t.Errorf("sent, but never happened: %v", seen)
		}
		b.close()
	})
}

// TestGone checks that 410 disables a webhook. Deliveries that wait go on when it is enabled again.
func TestGone(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		b.add("ops", events("run.started", "run.failed"))
		b.answers(always(http.StatusGone))
		b.start(failing)
		got := b.all()
		if types(got) != "run.started" {
			t.Fatalf("got %s", types(got))
		}
		pass(time.Second)
		h, _ := b.Webhook(t.Context(), "ops")
		if h.DisabledAt == 0 || !strings.Contains(h.Disabled, "410 Gone") || h.Pending != 1 {
			t.Errorf("the webhook: %+v", h)
		}
		failed := b.deliveries("ops", api.DeliveryFailed)
		if len(failed) != 1 || !strings.Contains(failed[0].Why, "the receiver wants no more messages") {
			t.Errorf("failed: %+v", failed)
		}
		b.start(failing)
		b.answers(nil)
		pass(time.Hour)
		if n := len(b.all()); n != 0 {
			t.Errorf("%d requests while it is disabled", n)
		}
		no := false
		if _, err := b.ChangeWebhook(t.Context(), "ops", api.WebhookChange{Disabled: &no}); err != nil {
			t.Fatal(err)
		}
		if got := b.all(); types(got) != "run.failed" {
			t.Errorf("enabled again, it gets %s", types(got))
		}
	})
}

// TestRotation checks that during the overlap messages have both signatures, then only the new one.
func TestRotation(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		old := b.add("ops").Secret
		overlap := api.Duration(time.Hour)
		h, err := b.RotateSecret(t.Context(), "ops", api.Rotation{Overlap: &overlap})
		if err != nil || h.Secret == old || h.Overlap != api.At(time.Now().Add(time.Hour)) {
			t.Fatalf("rotated: %+v, %v", h, err)
		}
		both := func() (bool, bool) {
			b.start(failing)
			got := b.all()
			if len(got) != 1 {
				t.Fatalf("%d requests", len(got))
			}
			got[0].header = got[0].header.Clone()
			return verify(t, old, &got[0]) == nil, verify(t, h.Secret, &got[0]) == nil
		}
		if o, n := both(); !o || !n {
			t.Errorf("in the overlap the old secret fits: %v, the new one: %v", o, n)
		}
		pass(time.Hour)
		if o, n := both(); o || !n {
			t.Errorf("after the overlap the old secret fits: %v, the new one: %v", o, n)
		}
		for _, h := range append(must(b.Webhooks(t.Context())), must(b.Webhook(t.Context(), "ops"))) {
			if h.Secret != "" || h.Overlap != 0 {
				t.Errorf("shown: %+v", h)
			}
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestRemove checks that everything of a webhook goes with it, also deliveries on their way, and the journal keeps
// nothing for it.
func TestRemove(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		b.add("ops")
		b.answers(always(500))
		b.start(failing)
		b.all()
		if err := b.RemoveWebhook(t.Context(), "ops"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Deliveries(t.Context(), "ops", api.DeliveryQuery{}); api.CodeOf(err) != api.CodeNotFound {
			t.Errorf("deliveries: %v", err)
		}
		b.start(failing)
		pass(time.Second)
		b.add("ops")
		pass(time.Hour)
		if n := len(b.all()); n != 0 {
			t.Errorf("%d requests for a webhook that was removed", n)
		}
		if left := must(b.journal.FindDocuments(t.Context(), "", "z", false, 100)); len(left) != 1 {
			t.Errorf("%d documents are left", len(left))
		}
	})
}

// TestTestMessage checks that a test is sent once, also to a webhook that is disabled, and kept.
func TestTestMessage(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		h := b.add("ops")
		b.answers(always(500))
		d, err := b.TestWebhook(t.Context(), "ops")
		if err != nil || d.State != api.DeliveryFailed || d.Type != "webhook.test" {
			t.Errorf("%+v, %v", d, err)
		}
		got := b.all()
		if len(got) != 1 {
			t.Fatalf("%d requests", len(got))
		}
		if err := verify(t, h.Secret, &got[0]); err != nil {
			t.Error(err)
		}
		pass(time.Hour)
		if n := len(b.all()); n != 0 || len(b.deliveries("ops", "")) != 1 {
			t.Errorf("%d more requests", n)
		}
	})
}

// TestRefused checks that requests that make no sense are refused, with the place and with what to do.
func TestRefused(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		b.add("taken")
		for want, change := range map[string]func(*api.WebhookRequest){
			`webhook: name: "Ops!"`:        func(r *api.WebhookRequest) { r.Name = "Ops!" },
			`there is a webhook "taken"`:   func(r *api.WebhookRequest) { r.Name = "taken" },
			`webhook: url: "ftp://x"`:      func(r *api.WebhookRequest) { r.URL = "ftp://x" },
			`webhook: url: "nonsense"`:     func(r *api.WebhookRequest) { r.URL = "nonsense" },
			"holds a password":             func(r *api.WebhookRequest) { r.URL = "https://a:b@example.com" },
			"10.0.0.1 is a private":        func(r *api.WebhookRequest) { r.URL = "http://10.0.0.1/x" },
			"::1 is a private":             func(r *api.WebhookRequest) { r.URL = "http://[::1]:80/x" },
			"127.0.0.1 is a private":       func(r *api.WebhookRequest) { r.URL = "http://localhost:80/x" },
			`"2130706433" is not a name`:   func(r *api.WebhookRequest) { r.URL = "http://2130706433/" },
			`"127.1" is not a name`:        func(r *api.WebhookRequest) { r.URL = "http://127.1/" },
			`"0x7f.0x1" is not a name`:     func(r *api.WebhookRequest) { r.URL = "http://0x7f.0x1:22/" },
			"169.254.169.254 is a private": func(r *api.WebhookRequest) { r.URL = "http://169.254.169.254/latest" },
			`webhook: events[1]: there is no event "run.faild": did you mean "run.failed"?`: events(
				"run.*", "run.faild"),
			`webhook: events[0]: there is no event "x*"`:   events("x*"),
			"webhook: secret: a secret begins with whsec_": secretOf("hunter2"),
			"webhook: secret: what follows":                secretOf("whsec_%"),
			"webhook: secret: the key has 3 bytes":         secretOf("whsec_YWJj"),
			"webhook: policy.retry.when": func(r *api.WebhookRequest) {
				r.Policy = &policy.Policy{Retry: &policy.Retry{MaxAttempts: 2, When: "true"}}
			},
			"a delivery has no heartbeat": func(r *api.WebhookRequest) {
				r.Policy = &policy.Policy{Limits: policy.Limits{Heartbeat: &policy.Limit{After: time.Second}}}
			},
			"would never end": func(r *api.WebhookRequest) {
				r.Policy = &policy.Policy{Limits: policy.Limits{ScheduleToClose: &policy.Limit{Removed: true}}}
			},
		} {
			r := api.WebhookRequest{Name: "new", URL: everywhere}
			change(&r)
			_, err := b.AddWebhook(t.Context(), r)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want %q, got %v", want, err)
			}
		}
		for _, err := range []error{
			second(b.Webhook(t.Context(), "none")), second(b.Delivery(t.Context(), "taken", "evt_1")),
			second(b.TestWebhook(t.Context(), "none")), b.RemoveWebhook(t.Context(), "none"),
		} {
			if api.CodeOf(err) != api.CodeNotFound {
				t.Errorf("what is not there: %v", err)
			}
		}
	})
}

func secretOf(text string) func(*api.WebhookRequest) {
	return func(r *api.WebhookRequest) { r.Secret = text }
}

func second[T any](_ T, err error) error { return err }

// TestMissed checks that a webhook says so if events were dropped because nobody had read them for too long, and gets
// the events from then on.
func TestMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		small := func(c *engine.Config) { c.FeedLimit = 1000 }
		b := openBed(t, memory.New(), &receiver{}, small)
		b.add("ops")
		b.Dispatcher.Close() // this process sends nothing any more
		for range 20 {
			b.start(failing)
		}
		pass(time.Minute)
		began := api.At(time.Now())
		b = b.kill(small)
		defer b.close()
		synctest.Wait()
		if h := must(b.Webhook(t.Context(), "ops")); h.MissedAt < began {
			t.Errorf("the webhook: %+v", h)
		}
		pass(time.Minute)
		b.all()
		id := b.start(failing)
		if got := b.all(); len(got) != 1 || got[0].Data.Run != id {
			t.Errorf("afterwards %d messages came", len(got))
		}
	})
}

// TestIDs checks that ids sort like the events of a run, and name their run.
func TestIDs(t *testing.T) {
	run := core.RunID{1, 2, 3}
	a, b := eventID(run, 5, 9), eventID(run, 5, 10)
	if a >= b || runOf(a) != runOf(b) || b >= eventID(run, 6, 1) || sinceID(5) >= a || sinceID(6) <= b {
		t.Errorf("ids: %s %s", a, b)
	}
	if one, two := testID(5), testID(5); runOf(one) == runOf(two) || sinceID(5) >= one {
		t.Errorf("ids of tests: %s %s", one, two)
	}
}
