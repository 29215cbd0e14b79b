package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// workflow is a compiled definition with its kind.
type workflow struct {
	def  *core.Definition
	kind *Kind
}

// definitions compiles each workflow definition once. Callers compile in their own goroutine, before they give a call
// to the loop, so that a large flow does not delay others.
type definitions struct {
	journal journal.Journal
	kinds   map[string]*Kind
	refuses bool // some kind has Refuse

	mu   sync.RWMutex
	byID map[core.DefinitionID]*workflow
}

func newDefinitions(j journal.Journal, kinds map[string]Kind) *definitions {
	d := &definitions{
		journal: j, kinds: make(map[string]*Kind, len(kinds)), byID: make(map[core.DefinitionID]*workflow),
	}
	for name, kind := range kinds {
		d.kinds[name] = &kind
		d.refuses = d.refuses || kind.Refuse != nil
	}
	return d
}

// bodies returns the Bodies of all kinds, ordered by the name of the kind.
func (d *definitions) bodies() []Bodies {
	var out []Bodies
	for _, name := range slices.Sorted(maps.Keys(d.kinds)) {
		if b := d.kinds[name].Bodies; b != nil {
			out = append(out, b)
		}
	}
	return out
}

// use returns the compiled form of a definition that a caller gives. If it has no source, the stored source is used.
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

// stored returns the compiled form of a stored definition.
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
		return nil, err // reading may succeed later
	}
	return d.add(&src)
}

// add compiles a definition, unless another goroutine did so meanwhile.
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
		return first, nil // keep the first one: steps are compared by the address of their spec
	}
	w := &workflow{def, kind}
	d.byID[src.ID] = w
	return w, nil
}

// Kind defines how an engine runs one kind of workflow, such as flows or Go functions. Config.Kinds lists the kinds by
// the name in journal.Definition.Kind. A run of an unknown kind is set aside: it stays as it is, and calls for it fail
// with an error that names the kind.
type Kind struct {
	// Compile makes a definition from its stored source. It must be safe for concurrent use.
	Compile func(d journal.Definition) (*core.Definition, error)
	// Child reads the payload of a child step, whose form is the kind's own, and finds the workflow that it starts,
	// which may be of another kind. nil: this kind has no child runs.
	Child func(parent core.DefinitionID, payload []byte) (Child, error)
	// Bodies make the decisions of runs whose definition has a body. nil: no definition of this kind has one. Each kind
	// has its own Bodies.
	Bodies Bodies
	// Needs returns the definition of the runs that a run with that input starts; false: it starts none, or that is
	// not known. Where this process must not run that one, the run is set aside. nil: no run needs one.
	Needs func(input []byte) (core.DefinitionID, bool)
	// Refuse is set if this process must not run this kind. Its error names the program that can. The runs of the kind
	// are set aside with that error. A run whose end one of them waits for is set aside too, because nobody could tell
	// the waiting run that it has ended. Compile is not called.
	Refuse func(d journal.Definition) error
}

// Child is a step's request for the child run that it starts.
type Child struct {
	Definition journal.Definition
	Input      []byte
	WorkflowID string          // the workflow id of the run, as core.Definition.ChildID says; empty: it has none
	Close      core.CloseChild // the fate of the child when the step stops
	Reuse      core.Reuse      // the meaning of another run of its workflow id
}

// unknownKind returns the error for a definition whose kind is not in Config.Kinds.
func unknownKind(d *journal.Definition, kinds map[string]*Kind) error {
	known := "none"
	if len(kinds) > 0 {
		known = strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
	}
	return fmt.Errorf("workflow %q is of kind %q, which this process cannot run (it knows: %s); "+
		"open the journal with the program or command that started the run, "+
		"or upgrade to a version that knows the kind",
		d.Name, d.Kind, known)
}
