package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// plantedPanic makes the code of the plan "bad" panic at one place, from the n-th time on.
type plantedPanic struct {
	place string
	from  int
}

func (p *plantedPanic) trap(plan, place string) {
	if plan != "bad" || place != p.place {
		return
	}
	if p.from--; p.from <= 0 {
		var steps []int
		_ = steps[p.from+1_000_000] // an index out of range, as in a real bug
	}
}

// wantAside checks that exactly these runs are set aside, that lists and counters show it, and that calls for them
// fail.
func (r *rig) wantAside(ids ...core.RunID) {
	r.t.Helper()
	if n := r.p.Stats().SetAside; n != len(ids) {
		r.t.Fatalf("%d runs are set aside, want %d", n, len(ids))
	}
	rows := map[core.RunID]journal.RunRow{}
	for _, row := range r.rows() {
		rows[row.ID] = row
	}
	for _, id := range ids {
		row, ok := rows[id]
		if !ok || !strings.Contains(row.Message, "set aside") || !strings.Contains(row.Message, "panicked") {
			r.t.Errorf("the list has of run %s: %v, %q", id, ok, row.Message)
		}
		c := ask(r, &InputCall{Run: id, Input: core.SignalReceived{Name: "x", ID: "x", Payload: []byte("null")}})
		r.settle()
		var own *Error
		if !errors.As(c.Err, &own) || own.Code != CodeInternal || own.Hint == "" ||
			!strings.Contains(own.Error(), "set aside") {
			r.t.Errorf("an input for run %s: %v", id, c.Err)
		}
	}
	for id, row := range rows {
		if !row.Phase.Closed() && row.Message != "" && r.p.residents.aside[id] == nil {
			r.t.Errorf("the list has of run %s, which is not set aside: %q", id, row.Message)
		}
	}
}

// rows lists all runs as Engine.List does.
func (r *rig) rows() []journal.RunRow {
	r.t.Helper()
	c := ask(r, &ListCall{Query: journal.Query{Limit: 1000}})
	r.settle()
	page, err := r.journal.List(context.Background(), journal.Query{Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	return c.Answer.overlay(c.Answer.Rows, page.Runs)
}

// TestPanicSetsOneRunAside checks that the run whose code panics is set aside, and all others go on. A version without
// the bug then carries it on.
func TestPanicSetsOneRunAside(t *testing.T) {
	for _, at := range []plantedPanic{
		{"decide", 2}, {"decide", 3}, {"task", 1}, {"task", 2}, {"task", 3},
	} {
		t.Run(at.place, func(t *testing.T) {
			var log bytes.Buffer
			r := newRig(t, -1)
			r.log = slog.New(slog.NewTextHandler(&log, nil))
			r.trap = at.trap
			r.restart()
			r.workers.act = succeed
			bad := r.start(flow("bad", task(), nap(time.Minute), task(), task()))
			r.pass(30 * time.Second)
			good := r.start(flow("good", task(), nap(time.Minute), task()))
			r.pass(10 * time.Minute)
			r.wantPhase(good, core.RunSucceeded)
			r.wantAside(bad)
			if !strings.Contains(log.String(), "panic_test.go") {
				t.Errorf("the log has no stack: %s", log.String())
			}

			// The bug is still there, so every start sets the run aside again.
			for range 3 {
				r.restart()
				r.pass(10 * time.Minute)
				r.wantAside(bad)
			}
			r.trap = nil
			r.restart()
			r.pass(10 * time.Minute)
			r.wantAside()
			r.wantPhase(bad, core.RunSucceeded)
			r.wantRowsOfHistory()
		})
	}
}

// wantRowsOfHistory checks that the row of each run follows from its history.
func (r *rig) wantRowsOfHistory() {
	r.t.Helper()
	page, err := r.journal.List(context.Background(), journal.Query{Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, row := range page.Runs {
		h, err := r.journal.History(context.Background(), row.ID)
		if err != nil {
			r.t.Fatal(err)
		}
		view, err := Rows(row.ID, 0, r.definition(h.Entries), h)
		row.Told, view.Runs[0].Told = "", "" // a run that is set aside has none
		if err != nil || view.Runs[0] != row {
			r.t.Errorf("the view has of run %s %+v, its history %+v, %v", row.ID, row, view.Runs, err)
		}
		if got := r.journal.Steps(row.ID); !slices.Equal(got, view.Steps) {
			r.t.Errorf("the view has of run %s the steps %+v, its history %+v", row.ID, got, view.Steps)
		}
		slices.SortFunc(view.Attempts, func(a, b journal.AttemptRow) int {
			return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Attempt, b.Attempt))
		})
		if got := r.journal.Attempts(row.ID); !slices.Equal(got, view.Attempts) {
			r.t.Errorf("the view has of run %s the attempts %+v, its history %+v", row.ID, got, view.Attempts)
		}
	}
}

// TestPanicAtTheStart checks that a run whose start panics is not made, and its caller is told.
func TestPanicAtTheStart(t *testing.T) {
	r := newRig(t, -1)
	r.trap = (&plantedPanic{"decide", 1}).trap
	r.restart()
	p := flow("bad", task())
	req := StartRequest{Definition: p.definition(), Start: core.Start{Input: []byte("null"), Key: "k"}}
	c := ask(r, &StartCall{Start: req})
	r.settle()
	if c.Err == nil || len(r.p.residents.runs) != 0 || len(r.rows()) != 0 {
		t.Fatalf("started: %+v, %v", c.Answer, c.Err)
	}
	r.wantAside()
	r.trap = nil
	r.restart()
	if c = ask(r, &StartCall{Start: req}); c.Err != nil {
		t.Fatal(c.Err)
	}
}

// TestPanicWhileFolding checks that a run whose entries cannot be folded is set aside when the partition opens, whether
// its entries are in the view or in the tail. The journal keeps them.
func TestPanicWhileFolding(t *testing.T) {
	for _, viewed := range []bool{false, true} {
		r := newRig(t, -1)
		r.workers.act = succeed
		bad := r.start(flow("bad", nap(time.Second), task()))
		good := r.start(flow("good", nap(time.Second), task()))
		r.commit()
		if viewed {
			r.p.Flush()
			r.commit()
		}
		r.noSteps = "bad"
		for range 3 {
			r.restart()
			r.pass(time.Minute)
			r.wantPhase(good, core.RunSucceeded)
			r.wantAside(bad)
			if c := ask(r, &ResultCall{Run: bad, Waiter: NewWaiter()}); c.Err == nil {
				t.Fatal("a caller waits for a run that is set aside, and is not told")
			}
		}
		r.noSteps = ""
		r.restart()
		r.pass(time.Minute)
		r.wantAside()
		r.wantPhase(bad, core.RunSucceeded)
		r.wantRowsOfHistory()
	}
}

// TestPanicWhileEncoding checks that the changes of a run are saved completely or not at all.
func TestPanicWhileEncoding(t *testing.T) {
	for n := 1; n < 8; n++ {
		r := newRig(t, -1)
		r.workers.act = succeed
		bad := r.start(flow("bad", task(), nap(time.Second), task()))
		count := 0
		r.p.pipeline.encoded = func(id core.RunID) {
			if id == bad {
				if count++; count >= n {
					var none []byte
					_ = none[count]
				}
			}
		}
		good := r.start(flow("good", task(), nap(time.Second), task()))
		r.pass(time.Minute)
		r.wantPhase(good, core.RunSucceeded)
		if r.p.Stats().SetAside == 0 {
			r.wantPhase(bad, core.RunSucceeded)
			continue
		}
		r.wantAside(bad)
		r.restart()
		r.pass(time.Minute)
		r.wantPhase(bad, core.RunSucceeded)
		r.wantRowsOfHistory()
	}
}

// TestRowsOfWhatWasNotEncoded checks that the view has no attempt of an entry whose encoding panicked. Nothing would
// take such a row away again.
func TestRowsOfWhatWasNotEncoded(t *testing.T) {
	r := newRig(t, -1)
	r.workers.act = failTask
	id := r.start(flow("bad", task()))
	r.pass(time.Minute)
	r.wantPhase(id, core.RunFailed)
	r.p.pipeline.encoded = func(core.RunID) { panic("cannot be encoded") }
	c := ask(r, &InputCall{Run: id, Input: operation(core.OpRetryRun)})
	if c.Err == nil || r.p.SetAside(id) == nil {
		t.Fatalf("a retry that panics set no run aside: %v", c.Err)
	}
	r.pass(time.Minute)
	r.restart()
	r.pass(time.Minute)
	r.wantRowsOfHistory()
}

// TestPanicWhileRowsAreMade checks that if the row of one step cannot be made, the view still gets the other rows. No
// later owner takes up a closed run again, and those of an open one make the rows of its steps again, but not those of
// attempts.
func TestPanicWhileRowsAreMade(t *testing.T) {
	for _, c := range []struct {
		last      planStep
		ownPanics bool // making the row of the run itself panics too
		attempts  int
	}{{task(), false, 3}, {nap(time.Hour), false, 2}, {nap(time.Hour), true, 2}} {
		r := newRig(t, -1)
		r.workers.act = succeed
		id := r.start(flow("bad", task(), task(), c.last))
		r.settle()
		if n := len(r.journal.Attempts(id)); n != 0 {
			t.Fatalf("the view has %d attempts of the run already", n)
		}
		state := r.p.residents.runs[id].state
		spec := state.Steps[1].Spec
		state.Steps[1].Spec, state.CancelAsked = nil, c.ownPanics
		r.pass(time.Minute)
		if r.p.SetAside(id) == nil {
			t.Fatal("the run is not set aside")
		}
		steps, attempts := r.journal.Steps(id), r.journal.Attempts(id)
		if len(steps) != 2 || len(attempts) != c.attempts {
			t.Errorf("of %+v the view has the steps %+v and the attempts %+v", c, steps, attempts)
		}
		state.Steps[1].Spec = spec
		r.restart()
		r.pass(time.Minute)
		if c.last.Kind == core.KindSleep {
			r.wantRowsOfHistory()
		}
	}
}

// TestPanicOfAChain checks that the end of a run and the start of the next one in its chain are saved together or not
// at all.
func TestPanicOfAChain(t *testing.T) {
	r := newRig(t, -1)
	r.trap = (&plantedPanic{"decide", 4}).trap // the second run panics at its start
	r.restart()
	r.workers.act = failTask
	p := flow("bad", task(), task())
	p.Again = 2
	first := r.start(p)
	r.pass(time.Minute)
	if n := r.p.Stats().SetAside; n != 1 {
		t.Fatalf("%d runs are set aside", n)
	}
	r.trap = nil
	r.workers.act = succeed
	r.restart()
	r.pass(time.Minute)
	r.wantAside()
	r.wantPhase(first, core.RunSucceeded)
}

// TestPanicOfAChild checks that a child that panics at its start makes its parent's step fail. A parent that was set
// aside is told about its child's end after it was resumed.
func TestPanicOfAChild(t *testing.T) {
	r := newRig(t, -1)
	r.workers.act = succeed
	inner := flow("bad", task())
	r.plans["bad"] = inner.definition()
	r.trap = (&plantedPanic{"decide", 1}).trap
	r.restart()
	outer := r.start(flow("outer", child(`{"name":"bad"}`)))
	r.pass(time.Minute)
	r.wantPhase(outer, core.RunFailed)
	r.wantAside()

	r.trap = (&plantedPanic{"decide", 2}).trap // the parent panics when it hears of the child's end
	r.plans["inner"] = flow("inner", task()).definition()
	r.restart()
	parent := r.start(flow("bad", child(`{"name":"inner"}`), task()))
	r.pass(time.Minute)
	r.wantAside(parent)
	r.trap = nil
	r.restart()
	r.pass(time.Minute)
	r.wantAside()
	r.wantPhase(parent, core.RunSucceeded)
}

// TestPanicWhileServing checks that an engine serves the other runs when one panics, and tells those who wait for that
// one.
func TestPanicWhileServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		at := &plantedPanic{"decide", 3}
		var e *Engine
		start := func(trap func(plan, place string)) {
			e, _ = open(t, j, -1, succeed, func(c *Config) {
				c.Kinds = map[string]Kind{"plan": {Compile: func(d journal.Definition) (*core.Definition, error) {
					return compileTrapped(d, trap)
				}}}
			})
		}
		start(at.trap)
		begin := func(name string) core.RunID {
			p := flow(name, task(), nap(time.Minute), task())
			started, err := e.Start(t.Context(), StartRequest{Definition: p.definition()})
			if err != nil {
				t.Fatal(err)
			}
			return started.Run
		}
		bad, good := begin("bad"), begin("good")
		var own *Error
		if _, err := e.Result(t.Context(), bad); !errors.As(err, &own) || own.Code != CodeInternal {
			t.Errorf("the result of the run that panicked: %v", err)
		}
		if out, err := e.Result(t.Context(), good); err != nil || out.Phase != core.RunSucceeded {
			t.Errorf("the other run: %+v, %v", out, err)
		}
		<-time.After(time.Minute) // a minute of the bubble
		check := func(n int) {
			t.Helper()
			page, err := e.List(t.Context(), journal.Query{})
			if err != nil || len(page.Runs) != 2 {
				t.Fatal(page, err)
			}
			for _, row := range page.Runs {
				if strings.Contains(row.Message, "set aside") != (n > 0 && row.ID == bad) {
					t.Errorf("the list has %+v", row)
				}
			}
			if got := e.Stats().SetAside; got != n {
				t.Errorf("%d runs are set aside, want %d", got, n)
			}
		}
		check(1)
		for range 2 { // killed, and started again
			j = j.Reopen()
			closeEngine(t, e)
			start(at.trap)
			<-time.After(time.Minute) // a minute of the bubble
			check(1)
		}
		j = j.Reopen()
		closeEngine(t, e)
		start(nil)
		defer closeEngine(t, e)
		if out, err := e.Result(t.Context(), bad); err != nil || out.Phase != core.RunSucceeded {
			t.Errorf("the run that panicked, without the bug: %+v, %v", out, err)
		}
		check(0)
	})
}

// TestPanicOfARunThatHasEnded checks that the row of a closed run that panics when somebody retries it stays as it was.
func TestPanicOfARunThatHasEnded(t *testing.T) {
	r := newRig(t, -1)
	at := &plantedPanic{"decide", 1_000}
	r.trap = at.trap
	r.restart()
	r.workers.act = failTask
	id := r.start(flow("bad", task()))
	r.pass(time.Minute)
	before := r.rows()[0]
	at.from = 1
	retry := core.Operation{Op: core.OpRetryRun, Step: core.NoStep, Actor: "test"}
	c := ask(r, &InputCall{Run: id, Input: retry})
	if c.Err == nil {
		t.Fatal("a retry that panics was accepted")
	}
	r.pass(time.Minute)
	after := r.rows()[0]
	before.Applied, before.Told, after.Told = after.Applied, "", ""
	if after != before || after.Phase != core.RunFailed || after.EndedAt == 0 {
		t.Errorf("the row was %+v and is %+v", before, after)
	}
	r.trap, r.workers.act = nil, succeed
	r.restart()
	c = ask(r, &InputCall{Run: id, Input: retry})
	r.pass(time.Minute)
	if c.Err != nil {
		t.Fatal(c.Err)
	}
	r.wantPhase(id, core.RunSucceeded)
	r.wantRowsOfHistory()
}

// TestPanicRightAfterTheEnd checks that the steps of a closed run are written although it panics when somebody retries
// it before the view has them: no later owner takes a closed run up again.
func TestPanicRightAfterTheEnd(t *testing.T) {
	r := newRig(t, -1)
	at := &plantedPanic{"decide", 1_000}
	r.trap = at.trap
	r.restart()
	r.workers.act = failTask
	id := r.start(flow("bad", task().tries(2, 0)))
	r.settle()
	r.wantPhase(id, core.RunFailed)
	if n := len(r.journal.Steps(id)); n != 0 {
		t.Fatalf("the view has %d steps of the run already", n)
	}
	at.from = 1
	c := ask(r, &InputCall{Run: id, Input: operation(core.OpRetryRun)})
	if c.Err == nil || r.p.SetAside(id) == nil {
		t.Fatalf("a retry that panics set no run aside: %v", c.Err)
	}
	r.pass(time.Minute)
	r.trap = nil
	r.restart()
	r.pass(time.Minute)
	r.wantRowsOfHistory()
}

// TestEndOfAStoppingAttempt checks that the worker of an attempt that was stopped also reports its end, once more or
// because both reports crossed. If the run did not take the one that it has stopped, because its code panicked, and the
// batch of the other one fails, then the other one must do: no worker has the attempt, so no report follows.
func TestEndOfAStoppingAttempt(t *testing.T) {
	r := newRig(t, -1)
	at := &plantedPanic{"decide", 1_000}
	r.trap = at.trap
	r.restart()
	bad := r.start(flow("bad", task()))
	r.settle()
	end := succeed(r.workers.dispatched()[0])
	ask(r, &InputCall{Run: bad, Input: core.Operation{Op: core.OpCancel, Step: core.NoStep}})
	at.from = 1 // when it takes the report that its attempt has stopped
	r.settle()
	if r.p.SetAside(bad) == nil {
		t.Fatal("the run did not panic")
	}

	r.start(flow("good", task()))
	r.p.Report(bad, end, r.now)
	r.p.Cut(r.now)
	at.from = 1_000
	r.p.Failed(errors.New("the disk is full"))
	if err := r.p.Open(t.Context(), r.now); err != nil {
		t.Fatal(err)
	}
	r.pass(time.Minute)
	r.wantPhase(bad, core.RunCancelled)
}
