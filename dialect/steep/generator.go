package steep

import (
	"slices"
	"strconv"
)

// generator follows Steep's generator round by round, as if all process chains of a round ended before the next round
// begins: it unrolls the for actions whose inputs are known, and makes chains of the actions that can begin. What
// programs find when they run is not known yet: a list of files is taken to have two items, and what an iteration
// yields to its own input is left out.
type generator struct {
	*linker
	stops   func(*action) bool
	dynamic func(*param, *action) any // the value of an output
	targets *targets
	values  map[string]any // of variables, as they are called after unrolling
	ended   map[string]bool
	nodes   []*node // to be executed, in the order of the workflow
	loops   []*unrolled
	counts  map[*action][]int // how many iterations a for action had each time
	chains  [][]*node
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
	names           map[string]string // what the variables and actions in it are called
	input, output   string
	needs           []string
	inside          []string // the actions in it, once it is unrolled
	yields          []string // variables
	begun, complete bool
}

// maxRound bounds what is looked at: iterations beyond the second are like the second.
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
		round := g.round()
		if len(round) == 0 && !changed {
			return
		}
		g.chains = append(g.chains, round...)
		for _, chain := range round {
			for _, n := range chain {
				g.execute(n)
			}
		}
		g.nodes = slices.DeleteFunc(g.nodes, func(n *node) bool { return n.done })
	}
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

// collect gives for actions their outputs once all iterations have yielded, and notes which of them have ended.
func (g *generator) collect() (more bool) {
	for changed := true; changed; more = more || changed {
		changed = false
		for _, u := range g.loops {
			if !u.begun || u.complete && (u.output == "" || len(u.yields) == 0 || g.values[u.output] != nil) {
				continue
			}
			if u.output != "" && len(u.yields) > 0 && g.values[u.output] == nil {
				if list, all := g.yielded(u); all {
					g.values[u.output], changed = list, true
				}
			}
			if !u.complete && !slices.ContainsFunc(u.inside, func(id string) bool { return !g.ended[id] }) {
				g.ended[u.id], u.complete, changed = true, true, true
			}
		}
	}
	return more
}

func (g *generator) yielded(u *unrolled) (list []any, all bool) {
	list = []any{}
	for _, id := range u.yields {
		switch v := g.values[id].(type) {
		case nil:
			return nil, false
		case []any:
			list = append(list, v...)
		default:
			list = append(list, v)
		}
	}
	return list, true
}

// unroll puts the actions of a for action in its place, once for each item of its input.
func (g *generator) unroll() (more bool) {
	for i := 0; i < len(g.loops); i++ { // more come while it goes on
		u := g.loops[i]
		v := g.values[u.input]
		if u.begun || v == nil || slices.ContainsFunc(u.needs, func(id string) bool { return !g.ended[id] }) {
			continue
		}
		u.begun, more = true, true
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		g.counts[u.a] = append(g.counts[u.a], len(list))
		for k, item := range list[:min(len(list), maxRound)] {
			suffix := "$" + u.id + "$" + strconv.Itoa(k)
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
	}
	return more
}

// round makes the chains of what can begin now.
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
