package limit

// ranked keeps values in their order and knows the rank of each: how many are before it. Every call but len costs
// about the logarithm of their number. It is a treap: a search tree in which every node has a pseudo-random weight, and
// no node is heavier than the one above it. So the tree stays flat, whatever is added and removed.
type ranked[T any] struct {
	compare func(a, b T) int
	top     *rankedNode[T]
	made    uint64 // nodes so far; the weights follow from it, so that a simulation repeats them
}

type rankedNode[T any] struct {
	value       T
	weight      uint64
	size        int // the number of nodes here and below
	left, right *rankedNode[T]
}

func (n *rankedNode[T]) len() int {
	if n == nil {
		return 0
	}
	return n.size
}

// len returns how many values there are.
func (r *ranked[T]) len() int { return r.top.len() }

// add adds a value; equal ones may be there.
func (r *ranked[T]) add(value T) {
	r.made++
	before, after := r.top.split(r.rank(value))
	r.top = joined(joined(before, &rankedNode[T]{value: value, weight: scatter(r.made), size: 1}), after)
}

// rank returns how many values are before this one.
func (r *ranked[T]) rank(value T) int {
	before := 0
	for n := r.top; n != nil; {
		if r.compare(n.value, value) < 0 {
			before += n.left.len() + 1
			n = n.right
		} else {
			n = n.left
		}
	}
	return before
}

// at returns the value with a rank.
func (r *ranked[T]) at(rank int) T {
	n := r.top
	for rank != n.left.len() {
		if rank < n.left.len() {
			n = n.left
		} else {
			rank -= n.left.len() + 1
			n = n.right
		}
	}
	return n.value
}

// remove takes the value with a rank out and returns it.
func (r *ranked[T]) remove(rank int) T {
	before, rest := r.top.split(rank)
	one, after := rest.split(1)
	r.top = joined(before, after)
	return one.value
}

// split returns that many of the first values, and the others.
func (n *rankedNode[T]) split(first int) (before, after *rankedNode[T]) {
	if n == nil {
		return nil, nil
	}
	if left := n.left.len(); first <= left {
		before, n.left = n.left.split(first)
		after = n
	} else {
		n.right, after = n.right.split(first - left - 1)
		before = n
	}
	n.size = n.left.len() + 1 + n.right.len()
	return before, after
}

// joined returns a tree of all values of two, of which the first one's come first.
func joined[T any](a, b *rankedNode[T]) *rankedNode[T] {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.weight >= b.weight:
		a.right = joined(a.right, b)
		a.size = a.left.len() + 1 + a.right.len()
		return a
	default:
		b.left = joined(a, b.left)
		b.size = b.left.len() + 1 + b.right.len()
		return b
	}
}

// scatter makes numbers that look random of numbers that follow one another (the mixing of SplitMix64).
func scatter(n uint64) uint64 {
	n *= 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
