package history

import (
	"crypto/sha256"

	"github.com/pawl-dev/pawl/internal/core"
)

// Kind is the name of the kind of workflows.
const Kind = "temporal"

// DefinitionID returns the id of the definition of a workflow type. A type has one: what holds for a run is in its
// input.
func DefinitionID(workflow string) (id core.DefinitionID) {
	sum := sha256.Sum256([]byte(Kind + "\x00" + workflow))
	copy(id[:], sum[:])
	return id
}

// OfWorkflow reports whether the first entry of a run says that it is of a workflow type, not of a flow or Go function.
func OfWorkflow(first core.Entry) bool {
	for _, rec := range first.Records {
		if c, is := rec.(core.RunCreated); is {
			return c.Definition == DefinitionID(c.Workflow)
		}
	}
	return false
}
