package facetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/journal/memory"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestExplain checks that a program learns of a run what the command line shows of it.
func TestExplain(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (none, error) {
		if _, err := pawl.Version(ctx, "paper", 1, 2); err != nil { // recorded by a mark, which is no step to people
			return none{}, err
		}
		_, err := pawl.Step(ctx, "print", func(context.Context) (none, error) { return none{}, errors.New("no paper") },
			pawl.Retry("fixed(2, 1h)"), pawl.Timeout("3h"))
		return none{}, err
	})
	bubble(t, func(t *testing.T) {
		e := open(t, memory.New(), w)
		var c pawl.Client = e
		r := started(t, e, w, "letter", none{})
		<-time.After(time.Minute)
		run, err := c.Explain(t.Context(), "letter")
		if err != nil || run.ID != r.ID || len(run.Steps) != 1 {
			t.Fatalf("%+v, %v", run, err)
		}
		s := run.Steps[0]
		if len(s.Attempts) != 1 || s.Attempts[0].Why != "no paper" || s.NextAt.Sub(s.Attempts[0].EndedAt) != time.Hour {
			t.Errorf("%+v", s)
		}
		if s.Binding == nil || s.Binding.Limit.String() != "scheduleToClose" ||
			s.Binding.After != 3*time.Hour || run.Wake != s.NextAt {
			t.Errorf("bound by %+v, awake at %s", s.Binding, run.Wake)
		}
		if err := e.Operate(t.Context(), "letter",
			pawl.Operation{Op: client.OpNow, Step: "print", Actor: "ada"}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.AwaitRun(t.Context(), "letter"); err != nil {
			t.Fatal(err)
		}
		if run, err = c.Explain(t.Context(), "letter"); err != nil || run.Phase != "failed" ||
			run.Why != `step "print" failed: all 2 attempts are used up; the last one: no paper` ||
			run.Operations[0].Actor != "ada" ||
			run.Operations[0].Op != client.OpNow {
			t.Errorf("%+v, %v", run, err)
		}
		var shown struct {
			Run, Why string
			Phase    client.Phase
		}
		text, err := json.Marshal(run)
		if err := errors.Join(err, json.Unmarshal(text, &shown)); err != nil || shown.Run != run.ID ||
			shown.Phase != run.Phase || shown.Why != run.Why {
			t.Errorf("as JSON: %s, %v", text, err)
		}
		if _, err := c.Explain(t.Context(), "nobody"); !errors.Is(err, pawl.ErrNotFound) {
			t.Error(err)
		}
		if _, err := c.Explain(t.Context(), "01a1fb50-f6b1-7624-89a6-58b4e29b356e"); !errors.Is(err, pawl.ErrNotFound) {
			t.Error(err)
		}
	})
}

// TestExplainNamesWhatEndedTheRun checks that the explanation names the step that the run's error names, and not the
// first step that failed.
func TestExplainNamesWhatEndedTheRun(t *testing.T) {
	w := pawl.Define("ask", func(ctx pawl.Context, _ none) (none, error) {
		ask := func() error {
			_, err := pawl.Event[string]("answer").Wait(ctx, pawl.Within("1m"))
			return err
		}
		if err := ask(); !errors.Is(err, pawl.ErrDeadlineExceeded) {
			return none{}, err
		}
		return none{}, fmt.Errorf("nobody answers: %w", ask())
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := w.Start(t.Context(), e, "r", none{}); err != nil {
			t.Fatal(err)
		}
		e.Skip(3 * time.Minute)
		run, err := e.Explain(t.Context(), "r")
		if err != nil || !strings.HasPrefix(run.Why, `step "answer#2" timed out`) {
			t.Errorf("%s, %v", run.Why, err)
		}
	}, w)
}
