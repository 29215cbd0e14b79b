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
