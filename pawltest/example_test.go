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

func ExampleRunAt() {
	newYear := time.Date(2026, 12, 31, 23, 59, 0, 0, time.UTC)
	pawltest.RunAt(t, newYear, pawl.Config{Workflows: []pawl.Definition{fulfil}}, func(t *testing.T, e *pawltest.Env) {
		e.Skip(2 * time.Minute) // everything that is due at midnight happens
	})
}

func ExampleEnv_LoseAnswer() {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		e.LoseAnswer("StartRun", errors.New("the line is dead"))
		for range 2 { // the program's own code that asks again
			_, _ = fulfil.Start(t.Context(), e, "", Order{}, pawl.IdempotencyKey("order-1"))
		}
		if runs, err := e.ListRuns(t.Context(), client.Query{}); err != nil || len(runs) != 1 {
			t.Errorf("%d runs, %v", len(runs), err)
		}
	}, fulfil)
}

func ExampleEnv_FailCall() {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		e.FailCall("SendEvent", pawl.ErrClosed) // and see what the program says to its user
	}, fulfil)
}

func ExampleEnv_AllowStuck() {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		e.AllowStuck() // the test is about code that no longer fits
		run, err := fulfil.Start(t.Context(), e, "order-1", Order{})
		if err != nil {
			t.Fatal(err)
		}
		e.Restart() // the program is deployed with the changed workflow
		e.Settle()
		var changed *pawl.ChangedError
		if err := e.Problem(run.ID); !errors.As(err, &changed) {
			t.Error(err)
		}
	}, fulfil)
}

func ExampleRunNodes() {
	cfg := pawl.Config{Workflows: []pawl.Definition{fulfil, deliver}}
	pawltest.RunNodes(t, 3, cfg, func(t *testing.T, nodes []*pawltest.Env) {
		run, err := fulfil.Start(t.Context(), nodes[0], "order-1", Order{})
		// …
		nodes[1].Kill()
		nodes[0].Skip(time.Minute) // the others have taken over what it had
		t.Log(pawl.RunOf[string](nodes[2], run.ID).Result(t.Context()))
		t.Log(err)
	})
}
