package engine

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
)

// families counts the open child runs of each family, by its top run, in all partitions of a process. It counts those
// that began since the process opened their partitions: it stops runs that start others without end, and to count all
// earlier ones would mean to read them.
type families struct {
	mu   sync.Mutex
	open map[core.RunID]int
}

// partitionFamilies are the counts of one partition.
type partitionFamilies struct {
	all    *families
	own    map[core.RunID]int
	opened core.Time // runs that were created since then are counted
}

// forget takes back what the partition has counted, because it forgets its memory.
func (f *partitionFamilies) forget(all *families) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for top, n := range f.own {
		all.add(top, -n)
	}
	f.all, f.own = all, make(map[core.RunID]int)
}

func (f *families) add(top core.RunID, by int) {
	if n := f.open[top] + by; n > 0 {
		f.open[top] = n
	} else {
		delete(f.open, top)
	}
}

func (f *partitionFamilies) count(top core.RunID) int {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	return f.all.open[top]
}

// begins counts a child run that was created, or opened again.
func (f *partitionFamilies) begins(r *core.Run) {
	if r.Parent.Top == (core.RunID{}) || r.CreatedAt < f.opened {
		return
	}
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	f.own[r.Parent.Top]++
	f.all.add(r.Parent.Top, 1)
}

// ends counts a child run out.
func (f *partitionFamilies) ends(r *core.Run) {
	top := r.Parent.Top
	if top == (core.RunID{}) || r.CreatedAt < f.opened {
		return
	}
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	switch n := f.own[top]; n {
	case 0:
		return
	case 1:
		delete(f.own, top)
	default:
		f.own[top] = n - 1
	}
	f.all.add(top, -1)
}

// Carried are the families of runs that an engine carries on, each named by its top run (see core.Run.Top). Runs that
// the engine starts for callers are added automatically. A nil Carried has all families.
//
// Other open runs rest. The engine takes what callers and other runs do to them, and does nothing else: none of their
// attempts starts, none is taken for lost, no limit fires, and no queue admits them. What they wait for happens in the
// process that carries them on. Runs of definitions that are core.Definition.Elsewhere always rest.
//
// Each family is carried on for a caller: the engine keeps that one's name beside it, and runs that a family starts
// are carried on for the same one. An empty name means the process itself.
//
// All methods are safe for concurrent use.
type Carried struct {
	mu   sync.RWMutex
	tops map[core.RunID]string // the callers by the top runs of their families
}

// NewCarried returns the families of these top runs.
func NewCarried(tops ...core.RunID) *Carried {
	c := &Carried{tops: make(map[core.RunID]string)}
	for _, top := range tops {
		c.Add(top)
	}
	return c
}

// Add adds a family for the process itself, unless it is carried on for somebody. If the engine is open, call
// Engine.Rematch afterwards.
func (c *Carried) Add(top core.RunID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.tops[top]; !known {
		c.tops[top] = ""
	}
}

// AddFor adds a family for a caller, who replaces an earlier one. Without a name it is Add.
func (c *Carried) AddFor(top core.RunID, caller string) {
	if c == nil || caller == "" {
		c.Add(top)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tops[top] = caller
}

// For returns the caller for whom a family is carried on; empty: the process itself.
func (c *Carried) For(top core.RunID) string {
	if c == nil {
		return ""
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tops[top]
}

// Has reports whether the family is among them.
func (c *Carried) Has(top core.RunID) bool {
	if c == nil {
		return true
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, ok := c.tops[top]
	return ok
}

func (c *Carried) count() int {
	if c == nil {
		return 0
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.tops)
}
