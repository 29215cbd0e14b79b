package steep

import "slices"

// link brings actions together to process chains, as Steep's generator does where all chains of a round end before
// the next round begins: a round goes through what can begin in the order of the workflow, and an action is followed
// by what can come next alone. What waits for each other is in no round: such workflows are refused.
func (s *scope) link() []*unit {
	l := &linker{
		before: map[*unit][]*unit{}, after: map[*unit][]*unit{}, waits: map[*unit]int{}, done: map[*unit]bool{},
		below: map[*unit]int{},
	}
	place, dependants := map[*unit]int{}, map[*unit][]*unit{}
	var round []*unit
	for i, u := range s.units {
		l.before[u], place[u] = s.before(u.actions[0]), i
		for _, b := range l.before[u] {
			dependants[b] = append(dependants[b], u)
			if u.actions[0].kind == kindExecute {
				l.after[b] = append(l.after[b], u)
			}
		}
		if l.waits[u] = len(l.before[u]); l.waits[u] == 0 {
			round = append(round, u)
		}
	}
	var linked []*unit
	for len(round) > 0 {
		l.now, l.seen = nil, map[*unit]bool{}
		for _, u := range round {
			if chain := l.chain(u, s.stops); chain != nil {
				linked = append(linked, chain)
			}
		}
		round = nil
		for _, u := range l.now {
			l.done[u] = true
			for _, d := range dependants[u] {
				if l.waits[d]--; l.waits[d] == 0 {
					round = append(round, d)
				}
			}
		}
		round = slices.DeleteFunc(round, func(u *unit) bool { return l.done[u] })
		slices.SortFunc(round, func(a, b *unit) int { return place[a] - place[b] })
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
	before map[*unit][]*unit
	after  map[*unit][]*unit // of what waits for a unit the actions that execute something
	waits  map[*unit]int     // for how many that are not done
	done   map[*unit]bool    // in earlier rounds
	now    []*unit           // in this round
	seen   map[*unit]bool    // in this round, done or found to be too early
	below  map[*unit]int     // the ways to what follows
}

// chain begins a chain with a unit that can begin. It returns nil if the unit is in another chain already. A for action
// is never part of one.
func (l *linker) chain(u *unit, stops func(*action) bool) *unit {
	if u.actions[0].kind != kindExecute {
		l.now = append(l.now, u)
		return u
	}
	made := &unit{chain: true}
	in := map[*unit]bool{}
	for next := u; next != nil && !l.seen[next]; next = l.root(l.after[next]) {
		l.seen[next] = true
		if slices.ContainsFunc(l.before[next], func(b *unit) bool { return !l.done[b] && !in[b] }) {
			break
		}
		made.actions = append(made.actions, next.actions[0])
		in[next] = true
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

// root finds the unit that all others follow, directly or not. It returns nil if there is none: the chain forks. It
// counts as Steep does: where two ways lead to one action, the units mostly form no tree and have no root.
func (l *linker) root(units []*unit) *unit {
	if len(units) < 2 {
		if len(units) == 1 {
			return units[0]
		}
		return nil
	}
	fewest, most := len(l.before)+1, 0
	for _, u := range units {
		fewest, most = min(fewest, l.ways(u)), max(most, l.ways(u))
	}
	if fewest > len(l.before) {
		return nil
	}
	var top *unit // the last that does not follow one before it
	found := map[*unit]bool{}
	for _, u := range units {
		if !found[u] {
			top = u
		}
		for left := []*unit{u}; len(left) > 0; {
			next := left[len(left)-1]
			left = left[:len(left)-1]
			if !found[next] {
				found[next] = true
				left = append(left, l.after[next]...)
			}
			if len(found) > most+1 {
				return nil // more than any of them could have below it
			}
		}
	}
	if l.ways(top) == len(found)-1 {
		return top
	}
	return nil
}

// ways counts the ways that lead from a unit to others, up to one more than there are units: then it is no tree's root.
func (l *linker) ways(u *unit) int {
	n, known := l.below[u]
	if known {
		return n
	}
	for _, f := range l.after[u] {
		n = min(n+1+l.ways(f), len(l.before)+1)
	}
	l.below[u] = n
	return n
}
