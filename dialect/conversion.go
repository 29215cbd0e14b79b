package dialect

import (
	"fmt"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
)

// Conversion is a document of another system as flows.
type Conversion struct {
	Flow     *flow.Document
	Children []*flow.Document // flows that the flow's steps start, by name
	// Notes are the fields that have no counterpart here, each with its place. Nothing is dropped without one.
	Notes []Note
	// Chains are Steep's process chains of several actions where each action is a step: by flow and step the first
	// step of the chain. Chains report the outcome of a run.
	Chains map[string]map[string]string
}

// Note is a remark about a field that has no counterpart.
type Note struct {
	File string
	Pos  tree.Pos
	Msg  string
	// Documents: the field is documentation only, and the runs do not depend on it.
	Documents bool
}

func (n Note) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", n.File, n.Pos.Line, n.Pos.Col, n.Msg)
}
