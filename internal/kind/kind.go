// Package kind is where a package adds its kind of workflows to every engine of a program that imports it, as the
// drivers of database/sql do: package pawlflow adds flows, so that the root package, and programs without flows, need
// not link them.
package kind

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/worker"
)

// Foreign is a workflow that something other than a Go function decides, such as a flow document. The root package
// starts its runs, and calls it as a child, as it does with its own.
type Foreign struct {
	Source     journal.Definition // the definition that is stored with its runs
	Definition *core.Definition
	// Begin returns how a run begins that is started with an input: the input with its defaults, and the run's limits.
	Begin func(input []byte) (core.Start, error)
	// Rerun chooses which results a run takes over from an earlier one whose steps should be made again; with from,
	// those that depend on them as well, and without names all that failed.
	Rerun func(earlier *core.Run, steps []string, from bool) ([]core.Kept, error)
}

// Plugin is a package's part of one engine. What it does not need, it has of Base. Its life is that of the node: Kinds,
// Open, Drain, Close.
type Plugin interface {
	// Kinds carry on its runs. registered finds the workflows that the program knows by name; nil if it knows none.
	Kinds(j journal.Journal, registered func(name string) (journal.Definition, error)) map[string]engine.Kind
	// Executors execute the tasks of its steps, by type.
	Executors(cfg worker.ExecConfig) map[string]worker.Executor
	// EndLeftovers ends what outlived a killed process with the same owner mark, before anything is tried again.
	EndLeftovers(worker.ExecConfig) error
	// Open gives it the engine, which does nothing yet, and lets it read its stored data.
	Open(e *engine.Engine) error
	// Drain answers its waiting callers, since the node is about to close. It may be called several times.
	Drain()
	// Close ends what it does. The engine has ended.
	Close()
}

// Base is a plugin that brings nothing.
type Base struct{}

var _ Plugin = Base{}

func (Base) Kinds(journal.Journal, func(string) (journal.Definition, error)) map[string]engine.Kind {
	return nil
}

func (Base) Executors(worker.ExecConfig) map[string]worker.Executor { return nil }

func (Base) EndLeftovers(worker.ExecConfig) error { return nil }

func (Base) Open(*engine.Engine) error { return nil }

func (Base) Drain() {}

func (Base) Close() {}

var plugins struct {
	sync.RWMutex
	all []func() Plugin
}

// Register adds a plugin to engines that are opened from now on: each has one of its own. A package calls it when it is
// initialised.
func Register(plugin func() Plugin) {
	plugins.Lock()
	defer plugins.Unlock()
	plugins.all = append(plugins.all, plugin)
}

// Plugins returns the registered plugins, made for one engine.
func Plugins() []Plugin {
	plugins.RLock()
	defer plugins.RUnlock()
	out := make([]Plugin, len(plugins.all))
	for i, one := range plugins.all {
		out[i] = one()
	}
	return out
}
