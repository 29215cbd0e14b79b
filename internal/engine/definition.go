package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// workflow is a definition that is ready to run, and its kind.
type workflow struct {
	def  *core.Definition
	kind *Kind
}

// definitions compiles each workflow definition once. Callers compile before they enter the partition, so that a large
// flow does not hold up the others.
type definitions struct {
	journal journal.Journal
	kinds   map[string]*Kind
	refuses bool // one of the kinds is refused

	mu   sync.RWMutex
	byID map[core.DefinitionID]*workflow
}

func newDefinitions(j journal.Journal, kinds map[string]Kind) *definitions {
	d := &definitions{journal: j, kinds: make(map[string]*Kind, len(kinds)), byID: make(map[core.DefinitionID]*workflow)}
	for name, kind := range kinds {
		d.kinds[name] = &kind
		d.refuses = d.refuses || kind.Refuse != nil
	}
	return d
}

// bodies returns the bodies of all kinds, always in the same order.
func (d *definitions) bodies() []Bodies {
	var out []Bodies
	for _, name := range slices.Sorted(maps.Keys(d.kinds)) {
		if b := d.kinds[name].Bodies; b != nil {
			out = append(out, b)
		}
	}
	return out
}

// use returns the compiled form of a definition a caller brings.
func (d *definitions) use(ctx context.Context, src *journal.Definition) (*workflow, error) {
	d.mu.RLock()
	w, ok := d.byID[src.ID]
	d.mu.RUnlock()
	if ok {
		return w, nil
	}
	if src.Source == nil {
		return d.stored(ctx, src.ID)
	}
	return d.add(src)
}

// stored returns the compiled form of a definition that a run was started with.
func (d *definitions) stored(ctx context.Context, id core.DefinitionID) (*workflow, error) {
	d.mu.RLock()
	w, ok := d.byID[id]
	d.mu.RUnlock()
	if ok {
		return w, nil
	}
	src, err := d.journal.Definition(ctx, id)
	switch {
	case errors.Is(err, journal.ErrNotFound), errors.Is(err, journal.ErrCorrupt):
		return nil, &unusable{err}
	case err != nil:
		return nil, err // perhaps the next time
	}
	return d.add(&src)
}

func (d *definitions) add(src *journal.Definition) (*workflow, error) {
	kind := d.kinds[src.Kind]
	if kind == nil {
		return nil, &unusable{unknownKind(src, d.kinds)}
	}
	if kind.Refuse != nil {
		return nil, &unusable{kind.Refuse(*src)}
	}
	var def *core.Definition
	var err error
	if bug := guard("its definition was compiled", func() { def, err = kind.Compile(*src) }); bug != nil {
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
	w := &workflow{def, kind}
	d.byID[src.ID] = w
	return w, nil
}
