package flow

import (
	"cmp"
	"container/heap"
)

// candidate is a part of a loop that may begin now: an item of a step with each, a list of a loop in a loop, or the
// items that an item of a loop makes.
type candidate struct {
	def  int32
	more bool
	item int32
}

// candidates are the parts of loops that still have to be tried in a turn. They are tried in the order of the document
// and of the items, in whatever order they were found: so a loaded run makes the same decisions as one that stayed in
// memory.
type candidates struct {
	heap  candidateHeap
	known map[candidate]bool
}

func (c *candidates) push(one candidate) {
	if c.known[one] {
		return
	}
	if c.known == nil {
		c.known = map[candidate]bool{}
	}
	c.known[one] = true
	heap.Push(&c.heap, one)
}

func (c *candidates) pop() (candidate, bool) {
	if len(c.heap) == 0 {
		return candidate{}, false
	}
	one, _ := heap.Pop(&c.heap).(candidate)
	delete(c.known, one)
	return one, true
}

type candidateHeap []candidate

func (h candidateHeap) Len() int { return len(h) }

func (h candidateHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.def != b.def {
		return a.def < b.def
	}
	if a.more != b.more {
		return b.more
	}
	return cmp.Less(a.item, b.item)
}

func (h candidateHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *candidateHeap) Push(v any) {
	one, _ := v.(candidate)
	*h = append(*h, one)
}

func (h *candidateHeap) Pop() any {
	last := len(*h) - 1
	one := (*h)[last]
	*h = (*h)[:last]
	return one
}
