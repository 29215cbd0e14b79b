package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Kind is what an engine has to know about one kind of workflow, such as flows or Go functions. Config.Kinds lists them by
// the name that stands in journal.Definition.Kind. A run of another kind is set aside: it stays as it is, and what is asked
// of it fails with the kind's name.
type Kind struct {
	// Compile makes a definition from its stored source. It must be safe for concurrent use.
	Compile func(d journal.Definition) (*core.Definition, error)
	// Resolve finds the workflow that a child step names, which may be of another kind; nil: there are no child runs.
	Resolve func(parent core.DefinitionID, name string) (journal.Definition, error)
	// Bodies decide for the runs whose definition has a body; nil: none has. Each kind has its own.
	Bodies Bodies
	// Refuse says who else carries on the runs of this kind. Where it is set they are set aside with its error, and so is
	// every run whose end one of them waits for: nobody here could tell it. Compile is not asked.
	Refuse func(d journal.Definition) error
}

// unknownKind is the error of a definition of a kind that is not registered.
func unknownKind(d *journal.Definition, kinds map[string]*Kind) error {
	known := "none"
	if len(kinds) > 0 {
		known = strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
	}
	return fmt.Errorf("workflow %q is of kind %q, which this process cannot carry on (it knows: %s); "+
		"open the journal with the program or command that started the run, or upgrade to a version that knows the kind",
		d.Name, d.Kind, known)
}
