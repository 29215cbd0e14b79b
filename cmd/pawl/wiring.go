package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/worker"
)

func clockNow() time.Time { return time.Now() }

// machine is an open engine with everything it stands on.
type machine struct {
	*engine.Engine
	place   place
	journal journal.Journal
	pool    *worker.Pool   // nil: attempts wait in their queues
	signals chan os.Signal // from when on attempts are executed; nil: none are
}

// closeWithin is how long attempts that are left behind may take to stop.
const closeWithin = 30 * time.Second

// start opens the database and an engine on it. With work set, attempts are executed; without, operations are applied and
// everything else stays as it is until a pawl that works comes along.
func (a *app) start(ctx context.Context, work bool) (*machine, error) {
	p, err := a.where()
	if err != nil {
		return nil, err
	}
	j, err := p.openToWrite()
	if err != nil {
		return nil, err
	}
	m := &machine{place: p, journal: j}
	cfg := engine.Config{
		Journal: j, Owner: fmt.Sprintf("pid %d", os.Getpid()), Log: slog.New(slog.DiscardHandler),
		Kinds:          kinds(j),
		BeforeRecovery: func(context.Context) error { return worker.EndLeftovers(p.owner()) },
	}
	if m.Engine, err = engine.New(cfg); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	if work {
		m.pool = worker.NewPool(worker.PoolConfig{
			Executors: worker.Builtin(worker.ExecConfig{LogDir: p.logDir(), Owner: p.owner()}), Reporter: m.Engine,
		})
		m.Serve("", m.pool)
		m.signals = listen()
	}
	if err := m.Open(ctx); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// close stops what executes, then the engine, then the journal. What was interrupted is made again by whoever carries the runs
// on.
func (m *machine) close() error {
	var errs []error
	if m.pool != nil {
		signal.Stop(m.signals)
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		errs = append(errs, m.pool.Close(ctx))
	}
	return errors.Join(append(errs, m.Engine.Close(), m.journal.Close())...)
}

// stalled says why no work is taken at present; "": it is.
func (m *machine) stalled() string {
	text := m.Stats().Stalled
	if text == "" {
		return ""
	}
	switch err := m.Err(); {
	case err == nil:
		return ""
	case errors.Is(err, journal.ErrFull):
		return "no space left for " + m.place.path
	case errors.Is(err, journal.ErrReadOnly):
		return m.place.path + " cannot be written"
	default:
		return text
	}
}

// owner marks the processes of this database's steps.
func (p place) owner() string {
	if p.memory {
		return "" // what it starts cannot outlive it and be tried again
	}
	return worker.OwnerOf(p.path)
}

// kinds are the workflows that the command can carry on, and the Go functions that it refuses since their program does.
func kinds(j journal.Journal) map[string]engine.Kind {
	out := flowkind.Kinds(j, nil)
	out[journal.KindGo] = engine.Kind{Refuse: isTheirs}
	return out
}

// isTheirs is the error for a Go function's run.
func isTheirs(d journal.Definition) error {
	return fmt.Errorf("workflow %q is a Go program's: this command shows its runs, and that program carries them on", d.Name)
}

// shown reads stored definitions to look at their runs, each once.
type shown struct {
	mu    sync.Mutex
	known map[core.DefinitionID]*compiled
}

func newShown() *shown { return &shown{known: map[core.DefinitionID]*compiled{}} }

func (s *shown) get(d journal.Definition) (*compiled, error) {
	s.mu.Lock()
	c := s.known[d.ID]
	s.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := readShown(d)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[d.ID] = c
	return c, nil
}
