package conformance

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/journal/postgres"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

func init() {
	addDialect("A10", func(t *testing.T) {
		t.Run("memory", raceInMemory)
		t.Run("sqlite", raceInSQLite)
		t.Run("file", raceForFile)
		t.Run("postgres", raceInPostgres)
	})
}

const (
	racers = 3 // engines that want the partition
	laps   = 4 // how often one of them gets it
)

// race is a race of engines for one partition. Whoever has it carries on the run, until it is taken from him.
type race struct {
	t *testing.T
	// open opens the journal as one of the programs does. end takes the partition from its owner, who does not notice.
	open  func(ctx context.Context) (journal.Journal, error)
	end   func(ctx context.Context, owner *runner)
	begun chan begunWork
	stage *stage // has the flow

	mu     sync.Mutex
	newest *runner // the runner that got the partition last
}

// begunWork is an attempt that waits until the test lets it succeed.
type begunWork struct {
	by      *runner
	step    string
	succeed chan struct{}
}

// runner is one of the engines, and the journal as this engine sees it.
type runner struct {
	journal.Journal
	race   *race
	name   string
	engine *engine.Engine
	pool   *worker.Pool

	gate  sync.Mutex // locked by each append, and while appends wait
	holds bool       // appends wait
	epoch uint64
	tried chan error // the result of an append after another one had got the partition
}

func (r *runner) Acquire(ctx context.Context, n int, owner string) (journal.Lease, error) {
	l, err := r.Journal.Acquire(ctx, n, owner)
	if err == nil {
		r.race.mu.Lock()
		defer r.race.mu.Unlock()
		r.epoch, r.race.newest = l.Epoch, r
	}
	return l, err
}

func (r *runner) Append(ctx context.Context, b *journal.Batch) error {
	r.gate.Lock()
	defer r.gate.Unlock()
	r.race.mu.Lock()
	replaced := r.race.newest != r
	r.race.mu.Unlock()
	err := r.Journal.Append(ctx, b)
	if replaced {
		select {
		case r.tried <- err:
		default: // the first one is told
		}
	}
	return err
}

// hold makes appends wait from now on. None is on its way when it returns.
func (r *runner) hold() {
	r.gate.Lock()
	r.holds = true
}

func (r *runner) release() {
	if r.holds {
		r.holds = false
		r.gate.Unlock()
	}
}

// raceExecutor executes the attempts of one engine.
type raceExecutor struct{ by *runner }

func (e raceExecutor) Execute(ctx context.Context, t *core.Task, _ worker.Alive) worker.Result {
	w := begunWork{e.by, t.StepName, make(chan struct{})}
	select {
	case e.by.race.begun <- w:
	case <-ctx.Done():
	}
	select {
	case <-w.succeed:
		return worker.Result{}
	case <-ctx.Done():
		return worker.Result{Failure: &policy.Failure{Kind: policy.KindCancelled}}
	}
}

// enter opens the journal and tries to get the partition.
func (c *race) enter(ctx context.Context, n int) (*runner, error) {
	j, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	r := &runner{Journal: j, race: c, name: fmt.Sprint("engine ", n), tried: make(chan error, 1)}
	r.hold()
	r.engine, err = engine.New(engine.Config{Journal: r, Owner: r.name, Kinds: c.stage.kinds()})
	if err != nil {
		return nil, err
	}
	builtin := flowkind.Executors(worker.ExecConfig{})
	builtin["exec"] = raceExecutor{r}
	r.pool = worker.NewPool(worker.PoolConfig{Executors: builtin, Reporter: r.engine})
	r.engine.Serve("", r.pool)
	if err := r.engine.Open(ctx); err != nil {
		r.leave()
		return nil, err
	}
	return r, nil
}

// leave ends an engine. It may say that it has lost the partition.
func (r *runner) leave() {
	r.release()
	_ = r.pool.Close(context.Background())
	_ = r.engine.Close()
}

// start lets all engines try at once to get the partition. One gets it, and the others are told that it is held.
func (c *race) start(ctx context.Context) *runner {
	c.t.Helper()
	var winners []*runner
	var refused []error
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range racers {
		all.Go(func() {
			r, err := c.enter(ctx, n)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused = append(refused, err)
			} else {
				winners = append(winners, r)
			}
		})
	}
	all.Wait()
	for _, r := range winners {
		c.t.Cleanup(r.leave)
	}
	for _, err := range refused {
		if !errors.Is(err, journal.ErrHeld) {
			c.t.Errorf("an engine that came too late is told: %v", err)
		}
	}
	if len(winners) != 1 {
		c.t.Fatalf("%d of %d engines got the partition", len(winners), racers)
	}
	return winners[0]
}

// next returns the next attempt that begins, which must be one of this engine.
func (c *race) next(ctx context.Context, by *runner) begunWork {
	c.t.Helper()
	select {
	case w := <-c.begun:
		if w.by != by {
			c.t.Fatalf("%s begins step %s, and the partition is that of %s", w.by.name, w.step, by.name)
		}
		return w
	case <-ctx.Done():
		c.t.Fatal("the run does not go on")
		return begunWork{}
	}
}

// run carries one run through all laps. An owner is replaced in the middle of a step, and reports its end before the
// next owner has written anything, so that only the fence of the journal can tell that it comes too late.
func (c *race) run() {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	var tasks []string
	for n := range laps {
		after := ""
		if n > 0 {
			after = fmt.Sprintf(`, "dependencies": ["work%d"]`, n-1)
		}
		tasks = append(tasks, fmt.Sprintf(`{"name": "work%d", "template": "work"%s}`, n, after))
	}
	conversion := aetherFlow(c.t, "", strings.Join(tasks, ","), "")
	c.stage, c.begun = newStage(c.t, conversion), make(chan begunWork)
	owner := c.start(ctx)
	owner.release()
	started, err := owner.engine.Start(ctx, engine.StartRequest{Definition: c.stage.defs[conversion.Flow.Name]})
	if err != nil {
		c.t.Fatal(err)
	}
	work := c.next(ctx, owner)
	for range laps - 1 {
		old := owner
		old.hold()
		c.end(ctx, old)
		owner = c.start(ctx)
		close(work.succeed)
		old.release()
		select {
		case err := <-old.tried:
			if err == nil {
				c.t.Fatal("an engine that was replaced still writes")
			}
		case <-ctx.Done():
			c.t.Fatal("the engine that was replaced does not report the end of its step")
		}
		owner.release()
		again := c.next(ctx, owner)
		if again.step != work.step {
			c.t.Errorf("step %s follows step %s, whose end was not written", again.step, work.step)
		}
		close(again.succeed)
		work = c.next(ctx, owner)
		old.leave()
	}
	close(work.succeed)
	if out, err := owner.engine.Result(ctx, started.Run); err != nil || out.Phase != core.RunSucceeded {
		c.t.Errorf("the run: %v %v", out.Phase, err)
	}
	c.check(ctx, owner.engine, started.Run)
}

// check expects one end of each step and of the run.
func (c *race) check(ctx context.Context, e *engine.Engine, run core.RunID) {
	c.t.Helper()
	entries, err := e.Entries(ctx, run, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	ends, steps := 0, map[core.StepID]int{}
	for _, e := range entries {
		for _, rec := range e.Records {
			switch rec := rec.(type) {
			case core.RunEnded:
				ends++
			case core.StepEnded:
				steps[rec.Step]++
			}
		}
	}
	if ends != 1 || len(steps) != laps {
		c.t.Errorf("the run has %d ends, and ends of %d steps", ends, len(steps))
	}
	for step, n := range steps {
		if n != 1 {
			c.t.Errorf("the end of step %d is written %d times", step, n)
		}
	}
}

// raceInMemory checks the race of owners that share a journal in memory. Here and in raceInSQLite, an owner is replaced
// after it has missed its signs of life or has given the partition back.
func raceInMemory(t *testing.T) {
	j := memory.New()
	j.Term, j.Now = time.Hour, func() core.Time { return policy.At(time.Now()) }
	c := &race{t: t}
	c.open = func(context.Context) (journal.Journal, error) { return j, nil }
	c.end = func(context.Context, *runner) { j.Expire(0) }
	c.run()
}

func raceInSQLite(t *testing.T) {
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "race.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	c := &race{t: t}
	c.open = func(context.Context) (journal.Journal, error) { return j, nil }
	c.end = func(ctx context.Context, owner *runner) {
		if err := j.Release(ctx, 0, owner.epoch); err != nil {
			t.Error(err)
		}
	}
	c.run()
}

// raceForFile opens the file in each engine, as programs of their own do. It is taken from its owner by closing it.
func raceForFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "race.db")
	c := &race{t: t}
	c.open = func(context.Context) (journal.Journal, error) {
		j, err := sqlite.Open(path, sqlite.Options{})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = j.Close() })
		return j, nil
	}
	c.end = func(_ context.Context, owner *runner) {
		if err := owner.Close(); err != nil {
			t.Error(err)
		}
	}
	c.run()
}

func raceInPostgres(t *testing.T) {
	server := pgtest.StartServer(t).DSN()
	c := &race{t: t}
	c.open = func(ctx context.Context) (journal.Journal, error) {
		j, err := postgres.Open(ctx, within(server, "schema=race&lease=1h"))
		if err == nil {
			t.Cleanup(func() { _ = j.Close() })
		}
		return j, err
	}
	c.end = func(ctx context.Context, _ *runner) {
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, "UPDATE race.partitions SET until = clock_timestamp()"); err != nil {
			t.Fatal(err)
		}
	}
	c.run()
}
