package flow

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/worker"
)

// Flows keeps the flows that a process has read, so that each is compiled once: the engine carries its runs on, and
// every explanation of them needs the same one. The zero value is ready for use, also by several goroutines.
type Flows struct {
	mu    sync.Mutex
	known map[core.DefinitionID]*Flow
}

// maxKnown bounds the flows that are kept. Compiling one again costs a few milliseconds.
const maxKnown = 1000

// Get returns the flow that is stored as d.
func (s *Flows) Get(d journal.Definition) (*Flow, error) {
	if f := s.find(d.ID); f != nil {
		return f, nil
	}
	f, err := Read(d)
	if err != nil {
		return nil, err
	}
	s.Keep(d.ID, f)
	return f, nil
}

// Keep adds a flow that was compiled elsewhere, from the form that is stored under the id.
func (s *Flows) Keep(id core.DefinitionID, f *Flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxKnown {
		s.known = map[core.DefinitionID]*Flow{}
	}
	s.known[id] = f
}

// find returns the flow with the id, or nil if it was not read yet.
func (s *Flows) find(id core.DefinitionID) *Flow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[id]
}

// Plugin adds flows to a process, which finds the flows it has read in s.
func (s *Flows) Plugin() kind.Plugin { return plugin{flows: s} }

// plugin is the part of an engine for flows.
type plugin struct {
	kind.Base
	flows *Flows
}

// Kinds returns the kind under which flows are stored. A child of a flow is one of its bundle or else, in a program, a
// workflow that is registered by that name, which may be a function. A process that is not such a program passes nil.
func (p plugin) Kinds(
	j journal.Journal, registered func(name string) (journal.Definition, error),
) map[string]engine.Kind {
	k := &carrier{journal: j, registered: registered, flows: p.flows}
	return map[string]engine.Kind{journal.KindFlow: {Compile: k.compile, Child: kind.Children(k.resolve)}}
}

func (plugin) Executors(cfg worker.ExecConfig) map[string]worker.Executor { return Executors(cfg) }

func (plugin) EndLeftovers(cfg worker.ExecConfig) error { return worker.EndLeftovers(cfg) }
