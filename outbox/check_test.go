package outbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/outbox"
)

// TestRefusesWhatCanNeverBeDelivered checks that nothing is written if the engine would refuse it.
func TestRefusesWhatCanNeverBeDelivered(t *testing.T) {
	const limit = 1000
	w := pawl.Define("order", func(_ pawl.Context, s string) (string, error) { return s, nil })
	large, fits := strings.Repeat("x", limit-1), strings.Repeat("x", limit-2) // two quotes are added
	e := openEngine(t, pawl.Config{MaxPayload: limit}, w)
	s := openShop(t, outbox.Config{MaxPayload: limit})
	box, tx := s.box, outbox.SQLTx(s)
	start := func(id, in string, opts ...pawl.StartOption) error {
		return outbox.StartIn(t.Context(), box, tx, w, id, in, opts...)
	}
	send := func(run, event string, payload any) error {
		return outbox.SendIn(t.Context(), box, tx, run, pawl.Event[any](event), payload)
	}
	for name, c := range map[string]struct{ err, want error }{
		"a large input":              {start("a", large), pawl.ErrTooLarge},
		"a large payload":            {send("a", "paid", large), pawl.ErrTooLarge},
		"an event for nobody":        {send("", "paid", 1), pawl.ErrInvalid},
		"an event without a name":    {send("a", "", 1), pawl.ErrInvalid},
		"an id that JSON changes":    {start("a\xff", ""), pawl.ErrInvalid},
		"a run that JSON changes":    {send("a\xff", "paid", 1), pawl.ErrInvalid},
		"an event that JSON changes": {send("a", "\xff", 1), pawl.ErrInvalid},
		"a key that JSON changes":    {start("a", "", pawl.IdempotencyKey("\xff")), pawl.ErrInvalid},
		"an instant without JSON": {
			start("a", "", pawl.StartAt(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC))), pawl.ErrInvalid,
		},
	} {
		if !errors.Is(c.err, c.want) || !strings.HasPrefix(c.err.Error(), "pawl: ") {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if n := s.waiting(t); n != 0 {
		t.Fatalf("%d messages were written", n)
	}
	if err := errors.Join(start("b", fits), send("b", "paid", fits)); err != nil {
		t.Errorf("payloads of the largest size: %v", err)
	}
	if err := s.box.RelayOnce(t.Context(), e); err != nil || s.waiting(t) != 0 {
		t.Errorf("%d messages wait, %v", s.waiting(t), err)
	}
	if _, err := outbox.New(nil, outbox.Config{MaxPayload: -1}); err == nil {
		t.Error("a negative limit is taken")
	}
}
