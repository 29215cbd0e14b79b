package engine

import (
	"bytes"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
)

// Each calls fn with the state of each run in memory, by id. It may be ahead of what is durable; fn must not change it.
func (p *Partition) Each(fn func(*core.Run)) {
	ids := slices.SortedFunc(maps.Keys(p.residents.runs), func(a, b core.RunID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range ids {
		fn(p.residents.runs[id].state)
	}
}
