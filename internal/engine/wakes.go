package engine

import (
	"bytes"

	"github.com/pawl-dev/pawl/internal/core"
)

// wakes is an indexed min-heap of the runs in memory by wake time. Runs with the same wake time go by id, so that the
// same calls give the same order.
type wakes struct{ heap []*run }

// set puts the run at the instant; zero takes it out.
func (w *wakes) set(r *run, at core.Time) {
	switch {
	case r.wake == at:
	case at == 0:
		w.remove(r)
	case r.wake == 0:
		r.wake, r.place = at, len(w.heap)
		w.heap = append(w.heap, r)
		w.up(r.place)
	default:
		r.wake = at
		w.fix(r.place)
	}
}

// first returns the run that is due first; nil: none.
func (w *wakes) first() *run {
	if len(w.heap) == 0 {
		return nil
	}
	return w.heap[0]
}

func (w *wakes) remove(r *run) {
	if r.wake == 0 {
		return
	}
	i, last := r.place, len(w.heap)-1
	w.heap[i] = w.heap[last]
	w.heap[i].place = i
	w.heap[last] = nil
	w.heap = w.heap[:last]
	if i != last {
		w.fix(i)
	}
	r.wake = 0
}

func (w *wakes) fix(i int) {
	if !w.down(i) {
		w.up(i)
	}
}

func (w *wakes) less(i, j int) bool {
	a, b := w.heap[i], w.heap[j]
	if a.wake != b.wake {
		return a.wake < b.wake
	}
	return bytes.Compare(a.state.ID[:], b.state.ID[:]) < 0
}

func (w *wakes) swap(i, j int) {
	h := w.heap
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (w *wakes) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !w.less(i, parent) {
			return
		}
		w.swap(i, parent)
		i = parent
	}
}

func (w *wakes) down(i int) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(w.heap) {
			break
		}
		if child+1 < len(w.heap) && w.less(child+1, child) {
			child++
		}
		if !w.less(child, i) {
			break
		}
		w.swap(i, child)
		i = child
	}
	return i > start
}
