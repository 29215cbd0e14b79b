package limit

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRanked compares a ranked with a sorted slice.
func TestRanked(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := &ranked[int]{compare: cmp.Compare[int]}
	var want []int
	for range 5000 {
		value := random.IntN(300)
		at, _ := slices.BinarySearch(want, value)
		if got := r.rank(value); got != at {
			t.Fatalf("the rank of %d is %d, want %d", value, got, at)
		}
		if random.IntN(5) < 3 {
			r.add(value)
			want = slices.Insert(want, at, value)
		} else if len(want) > 0 {
			at = random.IntN(len(want))
			if got := r.remove(at); got != want[at] {
				t.Fatalf("removed %d from rank %d, want %d", got, at, want[at])
			}
			want = slices.Delete(want, at, at+1)
		}
		if r.len() != len(want) {
			t.Fatalf("%d values, want %d", r.len(), len(want))
		}
		if len(want) > 0 {
			if at = random.IntN(len(want)); r.at(at) != want[at] {
				t.Fatalf("%d has rank %d, want %d", r.at(at), at, want[at])
			}
		}
	}
}

// TestRankedStaysFlat checks values that come in their order: they are the worst case of a search tree without weights.
func TestRankedStaysFlat(t *testing.T) {
	const n = 1 << 14
	compared := 0
	r := &ranked[int]{compare: func(a, b int) int {
		compared++
		return cmp.Compare(a, b)
	}}
	for i := range n {
		r.add(i)
	}
	for i := range n {
		r.rank(i)
	}
	if most := 2 * n * 3 * bits.Len(n); compared > most {
		t.Errorf("%d comparisons for %d values, want at most %d", compared, n, most)
	}
}
