package heap_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/heap"
)

type timer struct{ at, id, place int }

func (t *timer) Before(o *timer) bool { return t.at < o.at || (t.at == o.at && t.id < o.id) }
func (t *timer) Moved(to int)         { t.place = to }

// TestAgainstASortedList does the same to a heap and to a list that is sorted each time.
func TestAgainstASortedList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var h heap.Heap[*timer]
	var list []*timer
	sort := func() {
		slices.SortFunc(list, func(a, b *timer) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) })
	}
	for id := range 20_000 {
		switch n := rnd.IntN(10); {
		case n < 4 || len(list) == 0:
			tm := &timer{at: rnd.IntN(100), id: id, place: heap.Gone}
			h.Push(tm)
			list = append(list, tm)
		case n < 7:
			tm := list[rnd.IntN(len(list))]
			tm.at = rnd.IntN(100)
			h.Fix(tm.place)
		case n < 8:
			i := rnd.IntN(len(list))
			next := &timer{at: rnd.IntN(100), id: list[i].id}
			h.Set(list[i].place, next)
			list[i] = next
		default:
			i := rnd.IntN(len(list))
			if got := h.Remove(list[i].place); got != list[i] || got.place != heap.Gone {
				t.Fatalf("removed %+v, want %+v", got, list[i])
			}
			list = slices.Delete(list, i, i+1)
		}
		sort()
		if h.Len() != len(list) || (len(list) > 0 && h.First() != list[0]) {
			t.Fatalf("step %d: the first of %d is not the first of %d", id, h.Len(), len(list))
		}
		for _, tm := range list {
			if h.At(tm.place) != tm {
				t.Fatalf("step %d: timer %d does not stand where it was told", id, tm.id)
			}
		}
	}
	for _, want := range list {
		if got := h.Remove(0); got != want {
			t.Fatalf("%+v left the heap, want %+v", got, want)
		}
	}
}

func BenchmarkFix(b *testing.B) {
	var h heap.Heap[*timer]
	timers := make([]*timer, 1024)
	for i := range timers {
		timers[i] = &timer{at: i * 7919 % 1024, id: i}
		h.Push(timers[i])
	}
	for i := 0; b.Loop(); i++ {
		t := timers[i%len(timers)]
		t.at += 511
		h.Fix(t.place)
	}
}
