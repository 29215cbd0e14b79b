package pawltest_test

// The code of docs/guide/testing.md. TestGuide checks that the page shows it as it is.

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawlhttp"
	"github.com/pawl-dev/pawl/pawltest"
)

type Order struct {
	ID    string
	Cents int
}

type Parcel struct{ Code string }

var errBankClosed = errors.New("the bank is closed")

var reserve = pawl.Handle("reserve", func(ctx context.Context, o Order) (string, error) {
	return "", errors.New("tests have no warehouse")
})

var deliver = pawl.Define("deliver", func(ctx pawl.Context, o Order) (Parcel, error) {
	return Parcel{}, errors.New("tests deliver nothing")
})

var fulfil = pawl.Define("fulfil", func(ctx pawl.Context, o Order) (string, error) {
	shelf, err := reserve.Call(ctx, "reserve", o, pawl.Queue("warehouse"))
	if err != nil {
		return "", err
	}
	txn, err := pawl.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		return "", errors.New("tests do not reach the bank")
	}, pawl.Retry("exponential(5, 1h)"))
	if err != nil {
		return "", err
	}
	parcel, err := pawl.Child(ctx, "deliver", deliver, o)
	return shelf + " " + txn + " " + parcel.Code, err
})

func TestFulfil(t *testing.T) {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeCall(e, reserve).Return("shelf-7")
		pawltest.FakeStep[string](e, "charge").Fail(errBankClosed).Times(2).Return("txn-1")
		delivered := pawltest.FakeChild(e, deliver).After(48 * time.Hour).Return(Parcel{"P-1"})

		run, err := fulfil.Start(t.Context(), e, "order-1", Order{"order-1", 500})
		if err != nil {
			t.Fatal(err)
		}
		e.Skip(24 * time.Hour) // the charge has succeeded, the delivery takes two days
		e.WantPhase("order-1", client.PhaseWaiting)
		e.WantStarts("order-1", "charge", 0, time.Hour, 3*time.Hour)

		got, err := run.Result(t.Context()) // the rest of the two days passes at once
		if err != nil || got != "shelf-7 txn-1 P-1" {
			t.Errorf("%q, %v", got, err)
		}
		if calls := delivered.Calls(); calls[0].In.Cents != 500 {
			t.Errorf("delivered %+v", calls)
		}
	}, fulfil)
}

func TestFulfilAcrossADeploy(t *testing.T) {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeCall(e, reserve).Return("shelf-7")
		pawltest.FakeStep[string](e, "charge").Return("txn-1")
		pawltest.FakeChild(e, deliver).After(48 * time.Hour).Return(Parcel{"P-1"})
		if _, err := fulfil.Start(t.Context(), e, "order-1", Order{"order-1", 500}); err != nil {
			t.Fatal(err)
		}
		e.Skip(time.Hour)
		e.Restart() // a deploy does the same; e.Crash does what the death of the process does
		e.Skip(48 * time.Hour)
		e.WantPhase("order-1", client.PhaseSucceeded)
		e.WantAttempts("order-1", "charge", 1) // nobody was charged again
	}, fulfil)
}

func TestAttempts(t *testing.T) {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeCall(e, reserve).Return("shelf-7")
		pawltest.FakeStep[string](e, "charge").Fail(errBankClosed).Times(2).Return("txn-1").Optional()
		pawltest.FakeChild(e, deliver).Optional()
		if _, err := fulfil.Start(t.Context(), e, "order-1", Order{"order-1", 500}); err != nil {
			t.Fatal(err)
		}
		e.Skip(90 * time.Minute)
		attempts := e.Attempts("order-1", "charge")
		if len(attempts) != 2 || attempts[1].Failure.Message != "the bank is closed" {
			t.Fatalf("%+v", attempts)
		}
		if wait := attempts[1].NextAt.Sub(attempts[1].EndedAt); wait != 2*time.Hour {
			t.Errorf("the third attempt follows after %s", wait)
		}
	}, fulfil)
}

func TestOldRuns(t *testing.T) {
	files, err := filepath.Glob("testdata/fulfil-*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			history, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			pawltest.Replay(t, fulfil, history)
		})
	}
}

func TestOpenRunsOfProduction(t *testing.T) {
	database := os.Getenv("PRODUCTION") // "postgres://reader@db.example/shop", or "sqlite:copy-of-shop.db"
	if database == "" {
		t.Skip("PRODUCTION is not set")
	}
	cfg := pawl.Config{Database: database, Workflows: []pawl.Definition{fulfil, deliver}}
	pawltest.ReplayDatabase(t, cfg, client.Query{Phases: []client.Phase{
		client.PhasePending, client.PhaseRunning, client.PhaseWaiting, client.PhasePaused,
	}})
}

// TestLostAnswer asks again for a start whose answer was lost.
func TestLostAnswer(t *testing.T) {
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

func TestFulfilOnANodeThatDies(t *testing.T) {
	cfg := pawl.Config{Workflows: []pawl.Definition{fulfil, deliver}}
	pawltest.RunNodes(t, 3, cfg, func(t *testing.T, nodes []*pawltest.Env) {
		pawltest.FakeCall(nodes[0], reserve).Return("shelf-7") // all nodes have it
		pawltest.FakeStep[string](nodes[0], "charge").Return("txn-1")
		pawltest.FakeChild(nodes[0], deliver).After(time.Hour).Return(Parcel{"P-1"})
		run, err := fulfil.Start(t.Context(), nodes[0], "order-1", Order{"order-1", 500})
		if err != nil {
			t.Fatal(err)
		}
		nodes[0].Skip(time.Minute)
		nodes[1].Kill() // the others go on with its runs when its leases have ended; Reopen brings it back
		got, err := pawl.RunOf[string](nodes[2], run.ID).Result(t.Context())
		if err != nil || got != "shelf-7 txn-1 P-1" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

var pack = pawl.Define("pack", func(ctx pawl.Context, o Order) (string, error) {
	if err := pawl.Sleep(ctx, "dry", "2h"); err != nil {
		return "", err
	}
	return pawl.Step(ctx, "box", func(context.Context) (string, error) { return "a box for " + o.ID, nil })
})

func TestPackInAnotherProcess(t *testing.T) {
	pawltest.RunServer(t, func(t *testing.T, s *pawltest.Server) {
		program := pawlhttp.ServeConfig{Workflows: []pawl.Definition{pack}}
		kill := s.Serve(t.Context(), program)
		run, err := pack.Start(t.Context(), s, "order-1", Order{ID: "order-1"})
		if err != nil {
			t.Fatal(err)
		}
		s.Skip(time.Hour)
		kill()
		s.Restart() // a deploy of the server; s.Crash is its death
		s.Serve(t.Context(), program)
		got, err := run.Result(t.Context())
		if err != nil || got != "a box for order-1" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestGuide checks that the Go code of the guide's page is code of this file.
func TestGuide(t *testing.T) {
	own, err := os.ReadFile("guide_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "docs", "guide", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) < 5 {
		t.Errorf("the page has %d pieces of code", len(blocks))
	}
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		if !strings.Contains(flat(string(own)), flat(code)) {
			t.Errorf("the page shows code that is not in guide_test.go:\n%s", code)
		}
	}
}

// flat returns code without its indentation.
func flat(code string) string {
	lines := strings.Split(code, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
