package pawltest_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

var t *testing.T // a test function gets it

func ExampleFakeStep() {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		// It fails twice, succeeds after an hour, and succeeds at once whenever it is called after that.
		pawltest.FakeStep[string](e, "charge").
			Fail(errors.New("the bank is closed")).Times(2).
			After(time.Hour).Return("txn-1").
			Return("txn-2")
		// The fake answers in all branches of a Map.
		pawltest.FakeStep[int](e, "items[*]/weigh").Return(12)
	}, fulfil)
}

func ExampleFakeCall() {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeCall(e, reserve).Do(func(ctx context.Context, o Order) (string, error) {
			if o.Cents == 0 {
				return "", errors.New("an order of nothing")
			}
			return "shelf-7", nil
		})
	}, fulfil)
}

func ExampleFakeChild() {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		delivered := pawltest.FakeChild(e, deliver).After(48 * time.Hour).Return(Parcel{"P-1"})
		// …
		for _, call := range delivered.Calls() {
			t.Log(call.In.ID, "is delivered from", call.At)
		}
	}, fulfil)
}

func ExampleReplay() {
	history, err := os.ReadFile("testdata/fulfil-1042.json") // written by: pawl run history order-1042
	if err != nil {
		t.Fatal(err)
	}
	pawltest.Replay(t, fulfil, history)
}

func ExampleReplayDatabase() {
	cfg := pawl.Config{Database: os.Getenv("PRODUCTION"), Workflows: []pawl.Definition{fulfil, deliver}}
	open := client.Query{Phases: []client.Phase{client.PhaseRunning, client.PhaseWaiting}}
	if pawltest.ReplayDatabase(t, cfg, open) == 0 {
		t.Log("no run is open")
	}
}
