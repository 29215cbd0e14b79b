package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Kind says how an engine runs one kind of workflow, such as flows or Go functions. Config.Kinds lists the kinds by the
// name in journal.Definition.Kind. A run of an unknown kind is set aside: it stays as it is, and calls for it fail with
// an error that names the kind.
type Kind struct {
	// Compile makes a definition from its stored source. It must be safe for concurrent use.
	Compile func(d journal.Definition) (*core.Definition, error)
	// Resolve finds the workflow that a child step names. It may be of another kind. nil: this kind has no child runs.
	Resolve func(parent core.DefinitionID, name string) (journal.Definition, error)
	// Bodies make the decisions of runs whose definition has a body. nil: no definition of this kind has one. Each kind
	// has its own Bodies.
	Bodies Bodies
	// Needs returns the definition of the runs that a run with that input starts; false: it starts none, or that is
	// not known. Where this process must not run that one, the run is set aside. nil: no run needs one.
	Needs func(input []byte) (core.DefinitionID, bool)
	// Refuse is set if this process must not run this kind. Its error says which program can. The runs of the kind are
	// set aside with that error. A run whose end one of them waits for is set aside too, because nobody could tell the
	// waiting run that it has ended. Compile is not called.
	Refuse func(d journal.Definition) error
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
