package main

import (
	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
)

// parseFlow reads a flow file, in which policies may stand in the words of other systems.
func parseFlow(name string, src []byte) (*flow.Document, error) {
	return flow.Parse(name, src, dialect.Forms()...)
}
