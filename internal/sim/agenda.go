package sim

import (
	"container/heap"

	"github.com/pawl-dev/pawl/internal/core"
)

// agenda holds what will happen, ordered by time. Of two items with the same instant, the one that was added first
// comes first.
type agenda struct {
	items agendaHeap
	order uint64
}

type agendaItem struct {
	at    core.Time
	order uint64
	what  string
	do    func()
	void  bool // it was removed and does not happen
}

func (a *agenda) add(at core.Time, what string, do func()) *agendaItem {
	a.order++
	item := &agendaItem{at: at, order: a.order, what: what, do: do}
	heap.Push(&a.items, item)
	return item
}

func (a *agenda) first() (core.Time, bool) {
	for len(a.items) > 0 && a.items[0].void {
		heap.Pop(&a.items)
	}
	if len(a.items) == 0 {
		return 0, false
	}
	return a.items[0].at, true
}

func (a *agenda) pop() *agendaItem {
	item, _ := heap.Pop(&a.items).(*agendaItem)
	return item
}

// agendaHeap implements heap.Interface.
type agendaHeap []*agendaItem

func (h agendaHeap) Len() int { return len(h) }

func (h agendaHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || (h[i].at == h[j].at && h[i].order < h[j].order)
}

func (h agendaHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *agendaHeap) Push(x any) {
	if item, ok := x.(*agendaItem); ok {
		*h = append(*h, item)
	}
}

func (h *agendaHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
