// Package memory keeps runs in memory, for tests and trials: they end with the program. Importing it is enough for a
// [pawl.Config] with Database: "memory:".
package memory

import (
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// New returns an empty journal for [pawl.Config]'s Journal. It keeps the data of engines as long as the program has it,
// so an engine that is opened after another one was closed finds its runs.
func New() journal.Journal { return memory.New() }
