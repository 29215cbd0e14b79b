package engine

import (
	"context"
	"errors"
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// definitions compiles each workflow definition once. Callers compile before they enter the partition, so that a large
// flow does not hold up the others.
type definitions struct {
	journal journal.Journal
	compile func(journal.Definition) (core.Definition, error)

	mu   sync.RWMutex
	byID map[core.DefinitionID]core.Definition
}

func newDefinitions(j journal.Journal, compile func(journal.Definition) (core.Definition, error)) *definitions {
	return &definitions{journal: j, compile: compile, byID: make(map[core.DefinitionID]core.Definition)}
}

// use returns the compiled form of a definition a caller brings.
func (d *definitions) use(ctx context.Context, src *journal.Definition) (core.Definition, error) {
	d.mu.RLock()
	def, ok := d.byID[src.ID]
	d.mu.RUnlock()
	if ok {
		return def, nil
	}
	if src.Source == nil {
		return d.stored(ctx, src.ID)
	}
	return d.add(*src)
}

// stored returns the compiled form of a definition that a run was started with.
func (d *definitions) stored(ctx context.Context, id core.DefinitionID) (core.Definition, error) {
	d.mu.RLock()
	def, ok := d.byID[id]
	d.mu.RUnlock()
	if ok {
		return def, nil
	}
	src, err := d.journal.Definition(ctx, id)
	switch {
	case errors.Is(err, journal.ErrNotFound), errors.Is(err, journal.ErrCorrupt):
		return nil, &unusable{err}
	case err != nil:
		return nil, err // perhaps the next time
	}
	return d.add(src)
}

func (d *definitions) add(src journal.Definition) (core.Definition, error) {
	if d.compile == nil {
		return nil, &unusable{errors.New("engine: Config.Compile is not set")}
	}
	var def core.Definition
	var err error
	if bug := guard("its definition was compiled", func() { def, err = d.compile(src) }); bug != nil {
		err = bug
	}
	if err != nil {
		return nil, &unusable{err}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if first, ok := d.byID[src.ID]; ok {
		return first, nil // specs are compared by address: there is one compiled form of each
	}
	d.byID[src.ID] = def
	return def, nil
}
