package kind

import (
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
)

// childPayload is the payload of a child step, as flows and Go functions write it.
type childPayload struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	Close string          `json:"close"` // the fate of the child when the step stops: cancel, terminate or abandon
}

var closePolicies = map[string]core.CloseChild{
	"": core.ChildCancel, "cancel": core.ChildCancel, "terminate": core.ChildTerminate, "abandon": core.ChildAbandon,
}

// Children returns the Child of a kind whose child steps have JSON as their payload. find finds the workflow that a
// step of a workflow names.
func Children(
	find func(parent core.DefinitionID, name string) (journal.Definition, error),
) func(core.DefinitionID, []byte) (engine.Child, error) {
	return func(parent core.DefinitionID, payload []byte) (c engine.Child, err error) {
		var p childPayload
		if err := json.Unmarshal(payload, &p); err != nil {
			return c, fmt.Errorf("the payload of the child step cannot be read: %w", err)
		}
		known := false
		if c.Close, known = closePolicies[p.Close]; !known {
			return c, fmt.Errorf("unknown parent-close policy %q: use cancel, terminate or abandon", p.Close)
		}
		c.Input = p.Input
		if c.Definition, err = find(parent, p.Name); err != nil {
			return c, fmt.Errorf("there is no workflow %q: %w", p.Name, err)
		}
		return c, nil
	}
}
