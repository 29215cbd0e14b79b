package steep

import "slices"

// link brings actions together to process chains, as Steep's generator does where all chains of a round end before the
// next round begins: a round goes through what is left in the order of the workflow, and an action that can begin is
// followed by what can come next alone.
func (s *scope) link() []*unit {
	l := &linker{before: map[*unit][]*unit{}, after: map[*unit][]*unit{}, done: map[*unit]bool{}}
	for _, u := range s.units {
		l.before[u] = s.before(u.actions[0])
		for _, b := range l.before[u] {
			l.after[b] = append(l.after[b], u)
		}
	}
	var linked []*unit
	for left := s.units; len(left) > 0; {
		l.now, l.seen = nil, map[*unit]bool{}
		for _, u := range left {
			if chain := l.chain(u, s.stops); chain != nil {
				linked = append(linked, chain)
			}
		}
		if len(l.now) == 0 {
			break // of what waits for each other nothing is left: such workflows are refused
		}
		for _, u := range l.now {
			l.done[u] = true
		}
		left = slices.DeleteFunc(slices.Clone(left), func(u *unit) bool { return l.done[u] })
	}
	return linked
}

// remember keeps which steps are one process chain.
func (s *scope) remember(linked []*unit) {
	chains := map[string]string{}
	for _, u := range linked {
		for _, a := range u.actions {
			if len(u.actions) > 1 {
				chains[s.unitOf[a].step.Name] = s.unitOf[u.actions[0]].step.Name
			}
		}
	}
	if len(chains) > 0 {
		s.chained[s.doc.Name] = chains
	}
}

// stops tells whether a chain ends with an action: what it makes is read from the disk first.
func (s *scope) stops(a *action) bool {
	svc := s.services[a.service]
	return slices.ContainsFunc(a.outputs, func(o *param) bool {
		p := svc.param(o.id, true)
		return p != nil && p.dataType == typeFileOrEmptyList
	})
}

// linker is one making of chains.
type linker struct {
	before, after map[*unit][]*unit
	done          map[*unit]bool // in earlier rounds
	now           []*unit        // in this round
	seen          map[*unit]bool // in this round, done or found to be too early
}

// chain begins a chain with a unit; nil: the unit cannot begin yet. A for action is never part of one.
func (l *linker) chain(u *unit, stops func(*action) bool) *unit {
	made := &unit{chain: true}
	in := map[*unit]bool{}
	ready := func(u *unit) bool {
		return !slices.ContainsFunc(l.before[u], func(b *unit) bool { return !l.done[b] && !in[b] })
	}
	if u.actions[0].kind != kindExecute {
		if !ready(u) {
			return nil
		}
		l.now = append(l.now, u)
		return u
	}
	for next := u; next != nil && !l.seen[next]; next = l.root(l.followers(next)) {
		if !ready(next) {
			l.seen[next] = next != u // the first may be reached again, by way of another chain
			break
		}
		made.actions = append(made.actions, next.actions[0])
		in[next], l.seen[next] = true, true
		l.now = append(l.now, next)
		if stops(next.actions[0]) {
			break
		}
	}
	if len(made.actions) == 0 {
		return nil
	}
	return made
}

// followers are the actions that wait for a unit.
func (l *linker) followers(u *unit) []*unit {
	return slices.DeleteFunc(slices.Clone(l.after[u]), func(f *unit) bool { return f.actions[0].kind != kindExecute })
}

// root finds the one among units that all others follow, directly or not; nil: there is none, and the chain forks. It
// counts as Steep does: where two ways lead to one action, that is no tree, and nobody is its root.
func (l *linker) root(units []*unit) *unit {
	if len(units) < 2 {
		if len(units) == 1 {
			return units[0]
		}
		return nil
	}
	below := map[*unit]int{}
	var top *unit
	var visit func(u *unit) int
	visit = func(u *unit) int {
		n, known := below[u]
		if known {
			return n
		}
		for _, f := range l.followers(u) {
			n = min(n+1+visit(f), len(l.before)+1) // more than there are is enough to know
		}
		below[u], top = n, u
		return n
	}
	for _, u := range units {
		visit(u)
	}
	if below[top] == len(below)-1 {
		return top
	}
	return nil
}
