package flow

import (
	"crypto/sha256"

	"github.com/pawl-dev/pawl/core"
)

// ID is a document's identity: the hash of its bytes. A run keeps the definition it started with.
func ID(src []byte) core.DefinitionID {
	sum := sha256.Sum256(src)
	var id core.DefinitionID
	copy(id[:], sum[:])
	return id
}

// Start is the beginning of a run of the flow: its name, its limits, and the input, which is checked. The caller sets
// what the flow does not know, its ID among it.
func (d *Document) Start(input []byte) (core.Start, error) {
	input, err := d.CheckInput(input)
	if err != nil {
		return core.Start{}, err
	}
	s := core.Start{Workflow: d.Name, Input: input, Execution: d.Limits.Execution, Run: d.Limits.Run}
	if s.Execution != nil && s.Execution.Removed {
		s.Execution = nil
	}
	if s.Run != nil && s.Run.Removed {
		s.Run = nil
	}
	if limit := d.Limits.Deadline; limit != nil && limit.At != 0 {
		s.ExecutionAt = core.RunLimit{At: limit.At, Origin: limit.Origin}
	}
	return s, nil
}
