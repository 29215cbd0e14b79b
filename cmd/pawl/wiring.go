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

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/worker"
)

func clockNow() time.Time { return time.Now() }

// machine is an open engine with everything it stands on.
type machine struct {
	*engine.Engine
	svc     api.Service // what the engine does, for the commands
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
	flows := &flows{j: j, read: readBundle, known: map[core.DefinitionID]*compiled{}}
	cfg := engine.Config{
		Journal: j, Owner: fmt.Sprintf("pid %d", os.Getpid()), Log: slog.New(slog.DiscardHandler),
		Kinds:          flows.kinds(),
		BeforeRecovery: func(context.Context) error { return worker.EndLeftovers(p.owner()) },
	}
	if m.Engine, err = engine.New(cfg); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	m.svc = service.NewEmbedded(m.Engine, readWorkflow, now)
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

// flows compiles stored definitions, each once, and finds child flows.
type flows struct {
	j     journal.Journal
	read  func(journal.Definition) (*compiled, error)
	mu    sync.Mutex
	known map[core.DefinitionID]*compiled
}

// kinds are the workflows that the command can carry on, and those that it refuses because a Go program does.
func (f *flows) kinds() map[string]engine.Kind {
	theirs := engine.Kind{Compile: f.compile}
	return map[string]engine.Kind{
		kindBundle: {Compile: f.compile, Resolve: f.resolve}, journal.KindGo: theirs, journal.KindFlow: theirs,
	}
}

func (f *flows) compile(d journal.Definition) (*core.Definition, error) {
	c, err := f.get(d)
	if err != nil {
		return nil, err
	}
	return c.def, nil
}

func (f *flows) get(d journal.Definition) (*compiled, error) {
	f.mu.Lock()
	c := f.known[d.ID]
	f.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := f.read(d)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[d.ID] = c
	return c, nil
}

func (f *flows) resolve(parent core.DefinitionID, name string) (journal.Definition, error) {
	f.mu.Lock()
	c := f.known[parent]
	f.mu.Unlock()
	if c == nil {
		d, err := f.j.Definition(context.Background(), parent)
		if err == nil {
			c, err = f.get(d)
		}
		if err != nil {
			return journal.Definition{}, err
		}
	}
	return c.child(name)
}
