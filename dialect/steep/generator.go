package steep

import (
	"slices"
	"strconv"
)

// generator follows Steep's generator as if every action took the same time and none failed: whenever process chains
// end, it unrolls the for actions whose inputs are known, and makes chains of the actions that can begin. The outputs
// of programs are not known yet: a list of files is assumed to have two items, and values that an iteration yields to
// its own input are ignored.
type generator struct {
	*linker
	stops   func(*action) bool
	dynamic func(*param, *action) any // the value of an output
	targets *targets
	values  map[string]any // the values of variables, by their names after unrolling
	ended   map[string]bool
	nodes   []*node // the nodes to execute, in the order of the workflow
	loops   []*unrolled
	counts  map[*action][]int // number of iterations that a for action had each time
	now     int               // the time so far, in actions
	running []*chain
	chains  [][]*node
}

// chain is a process chain that runs.
type chain struct {
	nodes []*node
	ends  int
}

// node is an execute action in one iteration of the for actions around it.
type node struct {
	a               *action
	id              string
	inputs, outputs []string // variables
	needs           []string // actions
	order           int
	done            bool
}

// unrolled is a for action in one iteration of those around it.
type unrolled struct {
	a               *action
	id              string
	names           map[string]string // the new names of the variables and actions in it
	input, output   string
	needs           []string
	taken           int      // number of items of its input that are unrolled
	inside          []string // the unrolled actions in it
	yields          []string // variables that have no value yet
	yielded         []any    // nil: nothing yet
	whole, complete bool     // all items are unrolled, and all actions in it have ended
}

// maxRound limits the rounds: iterations beyond the second are like the second.
const maxRound = 2

func newGenerator(constants map[string]*variable, t *targets, stops func(*action) bool,
	dynamic func(*param, *action) any,
) *generator {
	g := &generator{
		linker: newLinker(), stops: stops, dynamic: dynamic, targets: t, values: map[string]any{},
		ended: map[string]bool{}, counts: map[*action][]int{},
	}
	for id, v := range constants {
		g.values[id] = v.value.Any()
	}
	return g
}

// run makes all chains of a workflow.
func (g *generator) run(actions []*action) {
	g.add(actions, map[string]string{})
	for {
		changed := g.collect()
		changed = g.unroll() || changed
		g.begin()
		if len(g.running) > 0 {
			g.end()
		} else if !changed {
			return
		}
	}
}

// begin begins the chains that can begin now.
func (g *generator) begin() {
	for _, nodes := range g.round() {
		g.chains = append(g.chains, nodes)
		g.running = append(g.running, &chain{nodes: nodes, ends: g.now + len(nodes)})
	}
	g.nodes = slices.DeleteFunc(g.nodes, func(n *node) bool { return n.done })
}

// end goes on to where chains end.
func (g *generator) end() {
	g.now = slices.MinFunc(g.running, func(a, b *chain) int { return a.ends - b.ends }).ends
	g.running = slices.DeleteFunc(g.running, func(c *chain) bool {
		if c.ends > g.now {
			return false
		}
		for _, n := range c.nodes {
			g.execute(n)
		}
		return true
	})
}

// add puts actions among those to be done, with the names that they have in their iteration.
func (g *generator) add(actions []*action, names map[string]string) []string {
	name := func(id string) string {
		if renamed, ok := names[id]; ok {
			return renamed
		}
		return id
	}
	var ids []string
	for _, a := range actions {
		var needs []string
		for _, need := range a.dependsOn {
			for _, target := range g.targets.find(need.id) {
				needs = append(needs, name(target.id))
			}
		}
		ids = append(ids, name(a.id))
		if a.kind == kindFor {
			u := &unrolled{a: a, id: name(a.id), names: names, needs: needs, input: name(a.input.id)}
			if a.output != nil {
				u.output = name(a.output.id)
			}
			g.loops = append(g.loops, u)
			continue
		}
		n := &node{a: a, id: name(a.id), needs: needs}
		for _, p := range a.inputs {
			if p.v.value.IsZero() {
				n.inputs = append(n.inputs, name(p.v.id))
			}
		}
		for _, p := range a.outputs {
			n.outputs = append(n.outputs, name(p.v.id))
		}
		g.nodes = append(g.nodes, n)
		g.linker.add(n)
	}
	return ids
}

func cloneNames(names map[string]string) map[string]string {
	out := make(map[string]string, len(names)+4)
	for id, name := range names {
		out[id] = name
	}
	return out
}

func (g *generator) execute(n *node) {
	g.ended[n.id] = true
	for i, o := range n.a.outputs {
		g.values[n.outputs[i]] = g.dynamic(o, n.a)
	}
}

// collect gives the outputs of actions once all iterations have yielded, and notes which actions have ended.
func (g *generator) collect() (more bool) {
	for changed := true; changed; more = more || changed {
		changed = false
		for _, u := range g.loops {
			u.yields = slices.DeleteFunc(u.yields, func(id string) bool {
				v := g.values[id]
				if v != nil {
					u.yielded, changed = append(u.yielded, asList(v)...), true
				}
				return v != nil
			})
			if u.whole && len(u.yields) == 0 && u.yielded != nil && g.values[u.output] == nil {
				g.values[u.output], changed = u.yielded, true
			}
			if u.whole && !u.complete && !slices.ContainsFunc(u.inside, func(id string) bool { return !g.ended[id] }) {
				g.ended[u.id], u.complete, changed = true, true, true
			}
		}
	}
	return more
}

func asList(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

// unroll replaces a for action by its actions, once for each item of its input that exists.
func (g *generator) unroll() (more bool) {
	for i := 0; i < len(g.loops); i++ { // more come while it goes on
		u := g.loops[i]
		if u.whole || slices.ContainsFunc(u.needs, func(id string) bool { return !g.ended[id] }) {
			continue
		}
		list, whole := g.input(u)
		for ; u.taken < len(list); u.taken++ {
			more = true
			if u.taken < maxRound {
				g.iterate(u, list[u.taken])
			}
		}
		if whole {
			g.counts[u.a] = append(g.counts[u.a], len(list))
			u.whole, more = true, true
		}
	}
	return more
}

// input lists the items of a for action that exist so far.
func (g *generator) input(u *unrolled) (list []any, whole bool) {
	if v := g.values[u.input]; v != nil {
		return asList(v), true
	}
	for _, from := range g.loops {
		if from.output == u.input && from.output != "" {
			return from.yielded, false
		}
	}
	return nil, false
}

func (g *generator) iterate(u *unrolled, item any) {
	suffix := "$" + u.id + "$" + strconv.Itoa(u.taken)
	names := cloneNames(u.names)
	names[u.a.enumerator.id] = u.a.enumerator.id + suffix
	g.values[names[u.a.enumerator.id]] = item
	for _, a := range u.a.actions {
		names[a.id] = a.id + suffix
		for _, id := range makes(a) {
			names[id] = id + suffix
		}
	}
	u.inside = append(u.inside, g.add(u.a.actions, names)...)
	if y := u.a.yieldToOutput; y != nil {
		id := y.id
		if renamed, ok := names[id]; ok {
			id = renamed
		}
		u.yields = append(u.yields, id)
	}
}

// round makes the chains of the actions that can begin now.
func (g *generator) round() [][]*node {
	var out [][]*node
	seen := map[*node]bool{}
	for _, first := range g.nodes {
		var chain []*node
		made, in := map[string]bool{}, map[string]bool{}
		for next := first; next != nil && !seen[next]; next = g.root(g.after(next)) {
			if !g.canBegin(next, made, in) {
				if next != first {
					seen[next] = true
				}
				break
			}
			seen[next] = true
			next.done = true
			chain = append(chain, next)
			in[next.id] = true
			for _, id := range slices.Concat(next.inputs, next.outputs) {
				made[id] = true
			}
			if g.stops(next.a) {
				break
			}
		}
		if len(chain) > 0 {
			out = append(out, chain)
		}
	}
	return out
}

func (g *generator) canBegin(n *node, made, in map[string]bool) bool {
	for _, id := range n.inputs {
		if g.values[id] == nil && !made[id] {
			return false
		}
	}
	for _, id := range n.needs {
		if !g.ended[id] && !in[id] {
			return false
		}
	}
	return true
}
