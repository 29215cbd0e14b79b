package dialect

import (
	"fmt"

	"github.com/pawl-dev/pawl/flow"
)

// Conversion is a document of another system as flows.
type Conversion struct {
	Flow     *flow.Document
	Children []*flow.Document // that the flow's steps start, by name
	// Notes are the fields that have no counterpart here, each with its place. Nothing is dropped without one.
	Notes []Note
}

// Note says what became of a field that has no counterpart.
type Note struct {
	File string
	Pos  flow.Pos
	Msg  string
}

func (n Note) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", n.File, n.Pos.Line, n.Pos.Col, n.Msg)
}
