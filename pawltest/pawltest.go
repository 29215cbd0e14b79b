package pawltest

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/fake"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// Env is an engine under test. It is a [pawl.Client].
type Env struct {
	*pawl.Engine
	t       *testing.T
	journal journal.Journal
	config  pawl.Config
	stops   *stops
	dead    atomic.Bool // the engine was crashed: drop what it logs
	fakes   *fakeTable
	faults  *faults
	stuck   bool                        // bodies that cannot go on are what the test is about
	node    *node                       // nil: the engine is alone
	current atomic.Pointer[pawl.Engine] // the Engine, for other goroutines than the test's
}

// Run runs a test in virtual time, with an engine that has these workflows.
func Run(t *testing.T, test func(t *testing.T, e *Env), workflows ...pawl.Definition) {
	checkGiven(t != nil && test != nil)
	t.Helper()
	RunWith(t, pawl.Config{Workflows: workflows}, test)
}

// RunWith works as Run, with a configuration. If it has neither a Journal nor a Database, the engine gets a new journal
// in memory. A Database is opened inside the synctest bubble.
func RunWith(t *testing.T, cfg pawl.Config, test func(t *testing.T, e *Env)) {
	checkGiven(t != nil && test != nil)
	t.Helper()
	runFrom(t, time.Time{}, cfg, test)
}

// RunAt works as RunWith, and the engine is opened at an instant of the test's choice: before a change of the clocks,
// on the last day of a year. The clock of a test begins in 2000, so no earlier one can be chosen.
func RunAt(t *testing.T, start time.Time, cfg pawl.Config, test func(t *testing.T, e *Env)) {
	checkGiven(t != nil && test != nil)
	t.Helper()
	runFrom(t, start, cfg, test)
}

func runFrom(t *testing.T, start time.Time, cfg pawl.Config, test func(t *testing.T, e *Env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if wait := time.Until(start); !start.IsZero() {
			if wait < 0 {
				t.Fatalf("pawltest: the clock of a test begins at %s, after %s", time.Now(), start)
			}
			time.Sleep(wait)
		}
		e := newEnv(t, cfg, newFakeTable(t), newStops(cfg.Observer.BodyStopped))
		if e.journal = cfg.Journal; e.journal == nil && cfg.Database == "" {
			e.journal = memory.New()
		}
		e.open()
		defer func() { _ = e.Engine.Close() }()
		test(t, e)
		e.end()
		e.fakes.check()
	})
}

// newEnv returns an engine under test that is not open yet.
func newEnv(t *testing.T, cfg pawl.Config, fakes *fakeTable, stops *stops) *Env {
	e := &Env{t: t, config: cfg, stops: stops, fakes: fakes, faults: &faults{next: map[string][]fault{}}}
	if e.config.Log = logOf(t, &e.dead); cfg.Log != nil {
		e.config.Log = slog.New(silenced{cfg.Log.Handler(), &e.dead})
	}
	e.config.Observer.BodyStopped = func(o client.RunObservation) { e.stops.stopped(e, o) }
	return e
}

func (e *Env) open() {
	e.t.Helper()
	if e.node != nil {
		e.journal, e.config.Cluster = e.node.begin()
	}
	e.config.Journal = e.journal
	opened, err := pawl.Open(fake.With(context.WithoutCancel(e.t.Context()), fakesOf{e.fakes, e}), e.config)
	if err != nil {
		e.t.Fatal(err)
	}
	opened.Client = faultyClient{opened.Client, e.faults}
	e.Engine = opened
	e.current.Store(opened)
}

// end checks what is left when the test has ended, and closes the engine: functions that still run must not call a fake
// when the calls are counted.
func (e *Env) end() {
	e.t.Helper()
	e.checkStuck()
	_ = e.Engine.Close()
	e.faults.check(e.t)
}

// Skip lets time pass. Everything that is due in that time happens.
func (e *Env) Skip(d time.Duration) {
	e.checkMade()
	time.Sleep(d)
	synctest.Wait()
}

// Settle waits until every goroutine waits for time to pass or for another goroutine.
func (e *Env) Settle() {
	e.checkMade()
	synctest.Wait()
}

// Restart closes the engine and opens it again on the same journal, as a deploy does. Workflows that are given replace
// the earlier ones.
func (e *Env) Restart(workflows ...pawl.Definition) {
	e.checkMade()
	e.t.Helper()
	if err := e.Close(); err != nil {
		e.t.Fatal(err)
	}
	if workflows != nil {
		e.config.Workflows = workflows
	}
	e.open()
}

// Crash ends the engine as the death of its process would, and opens it again with what was durable. Workflows that are
// given replace the earlier ones. It needs the journal in memory that Run makes.
func (e *Env) Crash(workflows ...pawl.Definition) {
	e.checkMade()
	e.t.Helper()
	e.Kill()
	if workflows != nil {
		e.config.Workflows = workflows
	}
	e.open()
}

// Kill ends the engine as Crash does, and opens no other one: Reopen does, later. It needs the journal in memory, too.
func (e *Env) Kill() {
	e.checkMade()
	e.t.Helper()
	e.dead.Store(true)
	switch m, ok := e.journal.(*memory.Journal); {
	case e.node != nil:
		e.node.die()
	case ok:
		e.journal = m.Reopen() // the old engine cannot save anything from here on
	default:
		e.t.Fatalf("pawltest: a journal of type %T cannot crash", e.journal)
	}
	_ = e.Close()
	e.dead.Store(false)
}

// Reopen opens the engine again after Close or Kill.
func (e *Env) Reopen() {
	e.checkMade()
	e.open()
}

// Step returns the current state of a step.
func (e *Env) Step(run, step string) client.StepDescription {
	e.checkMade()
	e.t.Helper()
	d, err := e.DescribeRun(e.t.Context(), run)
	if err != nil {
		e.t.Fatal(err)
	}
	var known []string
	for _, s := range d.Steps {
		if s.Name == step {
			return s
		}
		known = append(known, s.Name)
	}
	e.t.Fatalf("run %s has no step %q, only %q", run, step, known)
	return client.StepDescription{}
}

// WantPhase fails the test if the run is not in that phase.
func (e *Env) WantPhase(run string, phase client.Phase) {
	e.checkMade()
	e.t.Helper()
	d, err := e.DescribeRun(e.t.Context(), run)
	if err != nil {
		e.t.Fatal(err)
	}
	if d.Phase != phase {
		e.t.Errorf("run %s is %s, want %s", run, d.Phase, phase)
	}
}

// WantAttempts fails the test if the step has not had that many attempts.
func (e *Env) WantAttempts(run, step string, n int) {
	e.checkMade()
	e.t.Helper()
	if s := e.Step(run, step); s.Attempts != n {
		e.t.Errorf("step %q of run %s has had %d attempts, want %d", step, run, s.Attempts, n)
	}
}

// WantDeadline fails the test if the step's stored deadline is not that long after the step was first scheduled.
func (e *Env) WantDeadline(run, step string, after time.Duration) {
	e.checkMade()
	e.t.Helper()
	s := e.Step(run, step)
	if got := s.Deadline.Sub(s.Scheduled); s.Deadline.IsZero() || got != after {
		e.t.Errorf("step %q of run %s has its deadline %s after its scheduling (%s), want %s",
			step, run, got, s.Deadline, after)
	}
}

// logOf returns the log of a process under test, which writes into the test's log until the process is dead.
func logOf(t *testing.T, dead *atomic.Bool) *slog.Logger {
	return slog.New(silenced{slog.NewTextHandler(logWriter{t}, nil), dead})
}

// silenced is a log handler that writes nothing after a crash: a dead process does not log.
type silenced struct {
	slog.Handler
	dead *atomic.Bool
}

func (s silenced) Enabled(ctx context.Context, l slog.Level) bool {
	return !s.dead.Load() && s.Handler.Enabled(ctx, l)
}

func (s silenced) WithAttrs(attrs []slog.Attr) slog.Handler {
	return silenced{s.Handler.WithAttrs(attrs), s.dead}
}

func (s silenced) WithGroup(name string) slog.Handler {
	return silenced{s.Handler.WithGroup(name), s.dead}
}

// logWriter writes log lines into the test's log.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Log(string(bytes.TrimSpace(b)))
	return len(b), nil
}
