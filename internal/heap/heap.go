// Package heap is a priority queue whose items can be moved and removed while they are in it.
//
// The heap tells each item its index. The item keeps that number, and its owner gives it back to [Heap.Fix] and
// [Heap.Remove]. So no map from items to indexes is needed, and the zero value of a heap is an empty heap:
//
//	type timer struct {
//		at    int64
//		place int
//	}
//
//	func (t *timer) Before(other *timer) bool { return t.at < other.at }
//	func (t *timer) Moved(to int)             { t.place = to }
//
//	var timers heap.Heap[*timer]
//	timers.Push(t)
//	t.at += 10
//	timers.Fix(t.place)
//	timers.Remove(t.place)
package heap

// Item is an item of a heap.
type Item[T any] interface {
	// Before reports whether the item leaves the heap before the other one. It must be a strict total order where the
	// order of leaving must be the same each time.
	Before(other T) bool
	// Moved notes the present index of the item. It is [Gone] when the item has left the heap.
	Moved(to int)
}

// Gone is the place of an item that is not in a heap.
const Gone = -1

// Heap holds items; the first one comes before all others.
type Heap[T Item[T]] struct{ items []T }

// Len returns how many items there are.
func (h *Heap[T]) Len() int { return len(h.items) }

// First returns the item that is before all others. It panics when the heap is empty.
func (h *Heap[T]) First() T { return h.items[0] }

// At returns the item at an index that Moved has given.
func (h *Heap[T]) At(place int) T { return h.items[place] }

// Set replaces the item at an index by one for the same thing, and moves it to its place.
func (h *Heap[T]) Set(place int, item T) {
	h.items[place] = item
	h.Fix(place)
}

// Push adds an item.
func (h *Heap[T]) Push(item T) {
	h.items = append(h.items, item)
	h.up(len(h.items)-1, item)
}

// Remove takes the item at a place out and returns it.
func (h *Heap[T]) Remove(place int) T {
	item := h.items[place]
	end := len(h.items) - 1
	last := h.items[end]
	var zero T
	h.items[end] = zero // the heap must not keep it alive
	h.items = h.items[:end]
	if place != end {
		h.put(place, last)
	}
	item.Moved(Gone)
	return item
}

// Fix moves the item at an index to its place after its order has changed.
func (h *Heap[T]) Fix(place int) { h.put(place, h.items[place]) }

// put places an item at a free index, or further down or up where it belongs.
func (h *Heap[T]) put(i int, item T) {
	if !h.down(i, item) {
		h.up(i, item)
	}
}

// up moves a free index towards the root until the item belongs there.
func (h *Heap[T]) up(i int, item T) {
	for i > 0 {
		parent := (i - 1) / 2
		above := h.items[parent]
		if !item.Before(above) {
			break
		}
		h.items[i] = above
		above.Moved(i)
		i = parent
	}
	h.items[i] = item
	item.Moved(i)
}

// down moves a free index towards the leaves until the item belongs there. It reports whether the index has moved; if
// it has not, the item is not placed.
func (h *Heap[T]) down(i int, item T) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.items[right].Before(h.items[child]) {
			child = right
		}
		below := h.items[child]
		if !below.Before(item) {
			break
		}
		h.items[i] = below
		below.Moved(i)
		i = child
	}
	if i == start {
		return false
	}
	h.items[i] = item
	item.Moved(i)
	return true
}
