package engine

import (
	"bytes"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/heap"
)

// wakes orders the runs in memory by wake time. Runs with the same wake time go by id, so that the same calls give the
// same order.
type wakes struct{ heap heap.Heap[*run] }

// Before orders runs by wake time.
func (r *run) Before(o *run) bool {
	if r.wake != o.wake {
		return r.wake < o.wake
	}
	return bytes.Compare(r.state.ID[:], o.state.ID[:]) < 0
}

// Moved notes the run's place among the wakes.
func (r *run) Moved(to int) { r.place = to }

// set puts the run at the instant; zero takes it out.
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

// first returns the run that is due first; nil: none.
func (w *wakes) first() *run {
	if w.heap.Len() == 0 {
		return nil
	}
	return w.heap.First()
}

func (w *wakes) remove(r *run) {
	if r.wake != 0 {
		w.heap.Remove(r.place)
		r.wake = 0
	}
}
