package engine

import (
	"bytes"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
)

// Each calls fn with the state of each run in memory, by id. It may be ahead of what is durable; fn must not change it.
// Runs that are set aside are left out.
func (p *Partition) Each(fn func(*core.Run)) {
	ids := slices.SortedFunc(maps.Keys(p.residents.runs), func(a, b core.RunID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range ids {
		if r := p.residents.runs[id]; r.aside == nil {
			fn(r.state)
		}
	}
}

// SetAside returns why a run stands still; nil: it does not.
func (p *Partition) SetAside(id core.RunID) error {
	if a := p.residents.aside[id]; a != nil {
		return a
	}
	return nil
}
