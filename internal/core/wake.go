package core

import "github.com/pawl-dev/pawl/internal/heap"

// wakes orders a run's open steps by the instant at which each needs attention, so that the run's wake time is found
// quickly if many steps are open. It is not state: it is derived again whenever a step changes.
type wakes struct {
	heap   heap.Heap[wake]
	places []int32 // the place of each step in the heap plus 1; 0 if it is not there
}

// wake is the instant at which an open step needs attention.
type wake struct {
	at   Time
	step StepID
	of   *wakes
}

// Before orders by instant, then by step, so that a replay fires in the same order.
func (w wake) Before(o wake) bool { return w.at < o.at || (w.at == o.at && w.step < o.step) }

// Moved notes the step's place in the heap.
func (w wake) Moved(to int) { w.of.places[w.step] = int32(to + 1) }

// set notes when the step needs attention; zero: never.
func (w *wakes) set(step StepID, at Time) {
	if int(step) >= len(w.places) {
		if at == 0 {
			return
		}
		w.places = append(w.places, make([]int32, int(step)+1-len(w.places))...)
	}
	place := int(w.places[step]) - 1
	switch {
	case at == 0 && place == heap.Gone:
	case at == 0:
		w.heap.Remove(place)
	case place == heap.Gone:
		w.heap.Push(wake{at, step, w})
	default:
		w.heap.Set(place, wake{at, step, w})
	}
}

// first returns the step that needs attention first.
func (w *wakes) first() (wake, bool) {
	if w.heap.Len() == 0 {
		return wake{}, false
	}
	return w.heap.First(), true
}
