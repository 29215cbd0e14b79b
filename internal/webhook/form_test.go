package webhook

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// TestForms checks that what is stored, and what is signed and sent, is as version 0.1.0 had it.
func TestForms(t *testing.T) {
	h := golden.Full[hook]()
	h.Policy = policy.Policy{
		Retry:  &policy.Retry{MaxAttempts: 7, InitialInterval: 1e9, BackoffCoefficient: 2, On: []policy.Kind{2, 3}},
		Limits: policy.Limits{StartToClose: &policy.Limit{After: 15e9, Retry: true}},
	}
	golden.Form(t, "hook.json", h,
		func(h hook) ([]byte, error) { return document("hook", h).Value, nil },
		func(text []byte) (hook, error) {
			out, err := decodeHook(journal.Document{Value: text})
			if err != nil {
				return hook{}, err
			}
			return *out, nil
		})
	golden.Form(t, "delivery.json", golden.Full[api.Delivery](),
		func(d api.Delivery) ([]byte, error) { return document("delivery", d).Value, nil },
		func(text []byte) (api.Delivery, error) {
			out, err := decodeDelivery(journal.Document{Value: text})
			if err != nil {
				return api.Delivery{}, err
			}
			return *out, nil
		})
	golden.Form(t, "due.json", due{At: 1782867311950417},
		func(d due) ([]byte, error) { return document("due", d).Value, nil },
		func(text []byte) (out due, err error) {
			return out, journal.DecodeDocument(text, documentVersion, &out)
		})
	golden.Form(t, "attention.json", golden.Full[sentAttention](),
		func(w sentAttention) ([]byte, error) { return document(attentionKey, w).Value, nil },
		func(text []byte) (out sentAttention, err error) {
			return out, journal.DecodeDocument(text, documentVersion, &out)
		})
	secrets := []secret{{Text: secretPrefix + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}
	id := eventID(core.RunID{1, 2}, 1782867311950417, 3)
	golden.Same(t, "signature.txt", []byte(id+" "+signature(secrets, 1782867311950417, id, []byte(`{"a":1}`))+"\n"))
}
