package main

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
	"github.com/pawl-dev/pawl/internal/node"
	"github.com/pawl-dev/pawl/internal/worker"
)

// databaseFile is the database within a stack's folder.
const databaseFile = "pawl.db"

// stack is the engine as a program embeds it: a journal, a pool of workers, and the engine between them.
type stack struct {
	dir     string
	journal journal.Journal // nil if it was closed
	node    *node.Node
	engine  *engine.Engine
}

func openJournal(_ context.Context, dir string) (journal.Journal, error) {
	return sqlite.Open(filepath.Join(dir, databaseFile), sqlite.Options{})
}

func isNotFound(err error) bool { return errors.Is(err, journal.ErrNotFound) }

// openStack opens the engine on the database in the folder, with the row's own task types beside the built-in ones.
func openStack(ctx context.Context, dir string, types map[string]worker.Executor) (*stack, error) {
	j, err := openJournal(ctx, dir)
	if err != nil {
		return nil, err
	}
	st, err := openOn(ctx, j, types)
	if err != nil {
		return nil, err
	}
	st.dir = dir
	return st, nil
}

// openOn opens the engine on a journal, which it closes.
func openOn(ctx context.Context, j journal.Journal, types map[string]worker.Executor) (*stack, error) {
	executors := map[string]worker.Executor{"noop": worker.Noop{}}
	maps.Copy(executors, types)
	n, err := node.New(node.Config{
		Engine:       engine.Config{Journal: j, Kinds: map[string]engine.Kind{"flow": {Compile: compile}}},
		CloseJournal: true, CloseWithin: 5 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	pool := worker.PoolConfig{Executors: executors, Slots: map[string]int{heldType: -1, "exec": processesAtOnce}}
	if err = n.Serve(pool); err == nil {
		err = n.Open(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return &stack{journal: j, node: n, engine: n.Engine}, nil
}

// close ends the stack. A second close does nothing.
func (st *stack) close() error {
	if st.journal == nil {
		return nil
	}
	st.journal = nil
	return st.node.Close()
}

// fail closes the stack after an error, which it returns.
func (st *stack) fail(err error) error { return errors.Join(err, st.close()) }

// start starts a run.
func (st *stack) start(ctx context.Context, def journal.Definition, input []byte) (core.RunID, error) {
	started, err := st.engine.Start(ctx, engine.StartRequest{Definition: def, Start: core.Start{Input: input}})
	return started.Run, err
}

// await waits until a run has ended well.
func (st *stack) await(ctx context.Context, id core.RunID) error {
	out, err := st.engine.Result(ctx, id)
	if err != nil || out.Phase == core.RunSucceeded {
		return err
	}
	return &unsuccessfulError{out}
}

// once starts a run and awaits it.
func (st *stack) once(ctx context.Context, def journal.Definition, input []byte) error {
	id, err := st.start(ctx, def, input)
	if err != nil {
		return err
	}
	return st.await(ctx, id)
}

// unsuccessfulError is a run that should have succeeded and did not.
type unsuccessfulError struct{ outcome engine.Outcome }

func (e *unsuccessfulError) Error() string {
	s := "run " + e.outcome.Run.String() + " is " + e.outcome.Phase.String()
	if f := e.outcome.Failure; f != nil {
		s += ": " + f.Error()
	}
	return s
}

// flaky returns a step that fails a number of times before it succeeds.
func flaky(fails int) worker.Executor {
	return worker.FuncExecutor(func(_ context.Context, t core.Task, _ worker.Alive) ([]byte, error) {
		if t.Count > fails {
			return nil, nil
		}
		return nil, errNotYet
	})
}

var errNotYet = errors.New("not yet")
