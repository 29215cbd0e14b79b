package virtual

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/worker"
)

const napFlow = `pawl: 1
name: nap
steps:
  - {name: nap, sleep: 3d}
  - {name: broken, needs: [nap], fail: {kind: error, message: no}, retry: "exponential(3, 1h)"}
`

const begin core.Time = 1_780_000_000_000_000

func compile(d journal.Definition) (*core.Definition, error) {
	doc, err := flow.Parse("nap.yaml", d.Source)
	if err != nil {
		return nil, err
	}
	return flow.Compile(doc)
}

// open opens an engine with a clock that stands.
func open(t *testing.T, j journal.Journal) (*engine.Engine, *Mover, func()) {
	t.Helper()
	clock, err := Of(t.Context(), j, begin)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{
		Journal: j, Now: clock.Now, Kinds: map[string]engine.Kind{journal.KindFlow: {Compile: compile}},
	})
	if err != nil {
		t.Fatal(err)
	}
	pool := worker.NewPool(worker.PoolConfig{Reporter: e, Now: clock.Now})
	e.Serve("", pool)
	if err := e.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e, NewMover(clock, e), func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(pool.Close(ctx), e.Close()); err != nil {
			t.Error(err)
		}
	}
}

func start(t *testing.T, e *engine.Engine) core.RunID {
	t.Helper()
	st, err := e.Start(t.Context(), engine.StartRequest{Definition: journal.Definition{
		ID: flow.ID([]byte(napFlow)), Kind: journal.KindFlow, Name: "nap", Source: []byte(napFlow),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return st.Run
}

// instants returns those of a run's entries, from the beginning of its clock on.
func instants(t *testing.T, e *engine.Engine, id core.RunID) (out []time.Duration) {
	t.Helper()
	entries, err := e.Entries(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if at := entry.At.Sub(begin); len(out) == 0 || out[len(out)-1] != at {
			out = append(out, at)
		}
	}
	return out
}

func move(t *testing.T, m *Mover, how api.ClockMove) api.ClockState {
	t.Helper()
	st, err := m.MoveClock(t.Context(), how)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestClockThatStands checks that due work happens at its very instant, however far the clock is moved at once, and
// that nothing happens between moves. The clock goes on in the next process.
func TestClockThatStands(t *testing.T) {
	j := memory.New()
	e, m, closeIt := open(t, j)
	one := start(t, e)
	st := move(t, m, api.ClockMove{By: api.Duration(24 * time.Hour)})
	if at := core.Time(st.Next).Sub(begin); at != 72*time.Hour {
		t.Errorf("after a day the next instant is %s", at)
	}
	two := start(t, e)
	if st = move(t, m, api.ClockMove{Next: true}); core.Time(st.Now).Sub(begin) != 72*time.Hour || st.Steps != 1 {
		t.Errorf("the next instant was %s, %+v", core.Time(st.Now).Sub(begin), st)
	}
	if st = move(t, m, api.ClockMove{To: st.Now}); st.Moved {
		t.Errorf("it is that time already, and the clock was moved: %+v", st)
	}
	closeIt()
	if err := Refuse(t.Context(), j); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("a process whose clock goes by itself: %v", err)
	}

	e, m, closeIt = open(t, j.Reopen())
	defer closeIt()
	if now := m.state().Now; now != st.Now {
		t.Errorf("in the next process the clock shows %s, before %s", now, st.Now)
	}
	if st = move(t, m, api.ClockMove{End: true, AtMost: api.Duration(2 * time.Hour)}); !st.More {
		t.Errorf("more is to come after two hours: %+v", st)
	}
	if st = move(t, m, api.ClockMove{End: true}); st.More || st.Next != 0 {
		t.Errorf("nothing is to come: %+v", st)
	}
	for id, from := range map[core.RunID]time.Duration{one: 0, two: 24 * time.Hour} {
		out, err := e.Result(t.Context(), id)
		if err != nil || out.Phase != core.RunFailed {
			t.Fatalf("%+v, %v", out, err)
		}
		want := []time.Duration{from, from + 72*time.Hour, from + 73*time.Hour, from + 75*time.Hour}
		got := instants(t, e, id)
		if len(got) != len(want) {
			t.Fatalf("something happened at %v, want %v", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("something happened at %v, want %v", got, want)
			}
		}
	}
}

// TestMovesThatMakeNoSense checks that senseless moves are refused, and so is a clock for a database that has runs
// with another one.
func TestMovesThatMakeNoSense(t *testing.T) {
	j := memory.New()
	_, m, closeIt := open(t, j)
	for what, how := range map[string]api.ClockMove{
		"nothing":     {},
		"two things":  {By: 1, Next: true},
		"backwards":   {To: api.Time(begin) - 1},
		"a bound":     {By: 1, AtMost: 1},
		"by a minus":  {By: -1},
		"a bad bound": {End: true, AtMost: -1},
	} {
		if _, err := m.MoveClock(t.Context(), how); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	m.clock.moving.Lock()
	if _, err := m.MoveClock(t.Context(), api.ClockMove{Next: true}); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("two at once: %v", err)
	}
	closeIt()

	real := memory.New()
	e, err := engine.New(engine.Config{Journal: real, Kinds: map[string]engine.Kind{journal.KindFlow: {
		Compile: func(journal.Definition) (*core.Definition, error) { return nil, errors.New("not here") },
	}}})
	if err == nil {
		err = e.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	lease, err := real.Partitions(t.Context())
	if err != nil || len(lease) == 0 {
		t.Fatal(err)
	}
	if err := Refuse(t.Context(), real); err != nil {
		t.Error(err)
	}
	_ = e.BeginFeed(t.Context(), "x") // which is a batch
	if _, err := Of(t.Context(), real, begin); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("a database with another clock: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
