package engine

import (
	"bytes"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/heap"
)

// wakes orders the runs in memory by wake time. Runs with the same wake time are ordered by id, so that the same
// calls always give the same order.
type wakes struct{ heap heap.Heap[*run] }

// Before orders runs by wake time.
func (r *run) Before(o *run) bool {
	if r.wake != o.wake {
		return r.wake < o.wake
	}
	return bytes.Compare(r.state.ID[:], o.state.ID[:]) < 0
}

// Moved notes the run's place in the heap.
func (r *run) Moved(to int) { r.place = to }

// set gives the run a wake time. Zero removes the run.
func (w *wakes) set(r *run, at core.Time) {
	switch {
	case r.wake == at:
	case at == 0:
		w.remove(r)
	case r.wake == 0:
		r.wake = at
		w.heap.Push(r)
	default:
		r.wake = at
		w.heap.Fix(r.place)
	}
}

// first returns the run with the earliest wake time; nil: there is none.
func (w *wakes) first() *run {
	if w.heap.Len() == 0 {
		return nil
	}
	return w.heap.First()
}

// next returns the earliest wake time; zero: there is none.
func (w *wakes) next() core.Time {
	if r := w.first(); r != nil {
		return r.wake
	}
	return 0
}

func (w *wakes) remove(r *run) {
	if r.wake != 0 {
		w.heap.Remove(r.place)
		r.wake = 0
	}
}
