package engine

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
)

// families counts the open child runs of each family, by its top run, in all partitions of a process. It counts those
// that began since the process opened their partitions: it is there to stop runs that start others without end, and
// to count all that were open before would mean to read them.
type families struct {
	mu   sync.Mutex
	open map[core.RunID]int
}

// partitionFamilies is what one partition has counted.
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
