package facetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

// ledger is what a chain that takes one event in each of its runs has taken.
type ledger struct{ Taken []int }

// collector takes an event in each run of its chain until it has taken enough, however a run is followed by the next.
func collector(enough int, follow func(ctx pawl.Context, l ledger) error,
	opts ...pawl.Option,
) *pawl.Workflow[ledger, string] {
	return pawl.Define("collect", func(ctx pawl.Context, l ledger) (string, error) {
		n, err := pawl.Event[int]("paid").Wait(ctx)
		if err != nil {
			return "", err
		}
		l.Taken = append(l.Taken, n)
		if len(l.Taken) < enough {
			return "", follow(ctx, l)
		}
		return fmt.Sprint(l.Taken), nil
	}, opts...)
}

func continueWith(ctx pawl.Context, l ledger) error { return pawl.ContinueAsNew(ctx, l) }

func paid(t *testing.T, c pawl.Client, id, event string, n int) {
	t.Helper()
	err := c.SendEvent(t.Context(), id, client.SendRequest{Name: "paid", ID: event, Payload: fmt.Append(nil, n)})
	if err != nil {
		t.Errorf("event %s: %v", event, err)
	}
}

// TestEventsGoWithTheChain sends events by workflow id and by the first run's id, each twice and some before anything
// waits for them, to a chain whose runs take one each.
func TestEventsGoWithTheChain(t *testing.T) {
	w := collector(4, continueWith)
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "order-1", ledger{}, pawl.StartAt(time.Now().Add(time.Hour)))
		paid(t, e, "order-1", "a", 1) // the chain has not started, and two come at once
		paid(t, e, "order-1", "b", 2)
		e.Skip(2 * time.Hour)
		paid(t, e, "order-1", "a", 1) // their answers got lost; the third run is there by now
		paid(t, e, "order-1", "b", 2)
		e.Settle()
		paid(t, e, r.ID, "c", 3) // a run that others have followed
		paid(t, e, "order-1", "c", 3)
		e.Restart()
		paid(t, e, "order-1", "c", 3)
		paid(t, e, r.ID, "b", 2)
		e.Skip(time.Hour)
		e.WantPhase("order-1", "waiting")
		paid(t, e, "order-1", "d", 4)
		if got, err := r.Result(t.Context()); err != nil || got != "[1 2 3 4]" {
			t.Errorf("%s, %v", got, err)
		}
		paid(t, e, "order-1", "d", 4) // known, also after the end
	}, w)
}

// TestEventsGoWithTheRetries loses nothing between a run that fails and the run that its retry policy lets follow.
func TestEventsGoWithTheRetries(t *testing.T) {
	w := pawl.Define("flaky", func(ctx pawl.Context, _ none) (string, error) {
		n, err := pawl.Event[int]("paid").Wait(ctx)
		if err != nil {
			return "", err
		}
		if attempt := pawl.Info(ctx).Attempt; attempt < 3 {
			return "", fmt.Errorf("attempt %d with %d", attempt, n)
		}
		return fmt.Sprint("attempt 3 with ", n), nil
	}, pawl.RunRetry("fixed(3, 1h)"))
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "order-1", none{})
		paid(t, e, "order-1", "a", 1)
		paid(t, e, "order-1", "b", 2) // nobody waits for it: the first run fails with a
		e.Skip(time.Minute)
		paid(t, e, "order-1", "a", 1) // the backoff has not passed
		paid(t, e, r.ID, "c", 3)
		e.Skip(3 * time.Hour)
		if got, err := r.Result(t.Context()); err != nil || got != "attempt 3 with 3" {
			t.Errorf("%s, %v", got, err)
		}
	}, w)
}

// TestEventsGoWithARunThatTimesOut keeps what came while a run closed, its hook running.
func TestEventsGoWithARunThatTimesOut(t *testing.T) {
	w := pawl.Define("slow", func(ctx pawl.Context, _ none) (int, error) {
		if pawl.Info(ctx).Attempt == 1 {
			return 0, pawl.Sleep(ctx, "long", "1d")
		}
		return pawl.Event[int]("paid").Wait(ctx)
	}, pawl.RunTimeout("1h"), pawl.RunRetry("fixed(2, 1m)"),
		pawl.OnFailure(func(ctx context.Context, _ none, cause error) error {
			if !errors.Is(cause, pawl.ErrTimedOut) {
				t.Errorf("the cause is %v", cause)
			}
			return wait(ctx, 10*time.Second)
		}))
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "order-1", none{})
		e.Skip(time.Hour + 5*time.Second) // the hook runs
		paid(t, e, "order-1", "a", 7)
		if got, err := r.Result(t.Context()); err != nil || got != 7 {
			t.Errorf("%d, %v", got, err)
		}
	}, w)
}
