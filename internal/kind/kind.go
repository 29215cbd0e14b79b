// Package kind is where a package adds its kind of workflows to every engine of a program that imports it, as the
// drivers of database/sql do: package pawlflow adds flows, so that the root package, and programs without flows, need
// not link them.
package kind

import (
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/worker"
)

// Workflow is a workflow that something else than a Go function decides, such as a flow document. The root package
// starts its runs, and calls it as a child, as it does with its own.
type Workflow struct {
	Source     journal.Definition // the definition that is stored with its runs
	Definition *core.Definition
	// Begin returns how a run begins that is started with an input: the input with its defaults, and the run's limits.
	Begin func(input []byte) (core.Start, error)
	// Rerun chooses which results a run takes over from an earlier one whose steps are to be made again; with from,
	// those that depend on them as well.
	Rerun func(earlier *core.Run, steps []string, from bool) ([]core.Kept, error)
}

// Plugin is what a package adds to every engine of the process.
type Plugin struct {
	// Kinds carry on its runs. registered finds the workflows that the program knows by name.
	Kinds func(j journal.Journal, registered func(name string) (journal.Definition, error)) map[string]engine.Kind
	// Executors execute the tasks of its steps, by type.
	Executors func(cfg worker.ExecConfig) map[string]worker.Executor
	// EndLeftovers ends what outlived a killed process of that owner mark, before anything is tried again.
	EndLeftovers func(owner string) error
}

var plugins struct {
	sync.RWMutex
	all []Plugin
}

// Register adds a plugin to engines that are opened from now on. A package calls it when it is initialised.
func Register(p Plugin) {
	plugins.Lock()
	defer plugins.Unlock()
	plugins.all = append(plugins.all, p)
}

// Plugins returns what was registered.
func Plugins() []Plugin {
	plugins.RLock()
	defer plugins.RUnlock()
	return slices.Clone(plugins.all)
}
