package steep

import "slices"

// linker records which execute actions follow which.
type linker struct {
	count     int
	byInput   map[string][]*node
	byNeed    map[string][]*node
	following map[*node][]*node
	below     map[*node]int // the ways to the actions that follow
}

func newLinker() *linker {
	return &linker{
		byInput: map[string][]*node{}, byNeed: map[string][]*node{}, following: map[*node][]*node{},
		below: map[*node]int{},
	}
}

func (l *linker) add(n *node) {
	n.order = l.count
	l.count++
	for _, id := range n.inputs {
		l.byInput[id] = append(l.byInput[id], n)
	}
	for _, id := range n.needs {
		l.byNeed[id] = append(l.byNeed[id], n)
	}
	clear(l.following) // an action that is new may follow any
	clear(l.below)
}

// after lists the actions that wait for an action directly.
func (l *linker) after(n *node) []*node {
	if known, ok := l.following[n]; ok {
		return known
	}
	var out []*node
	add := func(list []*node) {
		for _, next := range list {
			if !slices.Contains(out, next) {
				out = append(out, next)
			}
		}
	}
	for _, id := range n.outputs {
		add(l.byInput[id])
	}
	add(l.byNeed[n.id])
	l.following[n] = out
	return out
}

// root finds the action that all others follow, directly or not. It returns nil if there is none, because the chain
// forks. It counts as Steep does: where two ways lead to one action, the actions mostly form no tree and have no root.
func (l *linker) root(nodes []*node) *node {
	if len(nodes) < 2 {
		if len(nodes) == 1 {
			return nodes[0]
		}
		return nil
	}
	fewest, most := l.count+1, 0
	for _, n := range nodes {
		fewest, most = min(fewest, l.ways(n)), max(most, l.ways(n))
	}
	if fewest > l.count {
		return nil
	}
	var top *node // the last action that does not follow the one before it
	found := map[*node]bool{}
	for _, n := range nodes {
		if !found[n] {
			top = n
		}
		for left := []*node{n}; len(left) > 0; {
			next := left[len(left)-1]
			left = left[:len(left)-1]
			if !found[next] {
				found[next] = true
				left = append(left, l.after(next)...)
			}
			if len(found) > most+1 {
				return nil // more than any of them could have below them
			}
		}
	}
	if l.ways(top) == len(found)-1 {
		return top
	}
	return nil
}

// ways counts the ways that lead from an action to others. It stops at one more than there are actions, because the
// action is not the root of a tree then.
func (l *linker) ways(n *node) int {
	count, known := l.below[n]
	if known {
		return count
	}
	for _, f := range l.after(n) {
		count = min(count+1+l.ways(f), l.count+1)
	}
	l.below[n] = count
	return count
}
