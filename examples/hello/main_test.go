package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOrder checks that a crash while the order settles repeats no step.
func TestOrder(t *testing.T) {
	w := pawl.Define("order", order, pawl.RunTimeout("30m"))
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "order-42", "a book")
		if err != nil {
			t.Fatal(err)
		}
		e.Settle()
		e.Crash()
		got, err := pawl.RunOf[string](e, r.ID).Result(t.Context())
		if want := "shipped a book, paid by txn for a book"; got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
		e.WantAttempts(r.ID, "charge", 1)
	}, w)
}
