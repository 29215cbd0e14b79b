package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// steepModel is what Steep does with a workflow, told apart from the converter: it keeps the actions that are to be
// done, unrolls for actions whose input is there, makes process chains of the others, and goes on whenever chains have
// ended. Every action takes a second.
type steepModel struct {
	attempts int // the attempts of a process chain
	work     []*modelAction
	chains   []*modelChain // chains that run
	values   map[string]any
	ended    map[string]bool
	loops    []*modelLoop // loops that were unrolled
	now      time.Duration

	times          map[string]int  // how often an action was executed, by its first name
	made           map[string]bool // the process chains, as the first names of their actions
	good, bad      int
	unrolledNumber int
}

// modelAction is an action of a workflow. Its names change when it is unrolled.
type modelAction struct {
	base    string // its first name
	id      string
	loop    bool
	inputs  []string
	output  string // variable, "" for none
	folder  bool   // the output holds two files
	fails   bool
	needs   []string
	input   string // the input of a for action
	enum    string
	yields  string
	actions []*modelAction
}

type modelChain struct {
	actions []*modelAction
	ends    time.Duration
	failed  bool
}

// modelLoop is a for action that was unrolled.
type modelLoop struct {
	a      *modelAction
	inside []string
	yields []string
	taken  int // how many items of its input were unrolled
	whole  bool
}

// newSteepModel makes the model of a workflow. With failures false, no action of it fails.
func newSteepModel(actions []*modelAction, attempts int, failures bool) *steepModel {
	m := &steepModel{
		attempts: attempts, values: map[string]any{"text": "t", "words": []any{"x", "y"}},
		ended: map[string]bool{}, times: map[string]int{}, made: map[string]bool{},
	}
	for _, a := range actions {
		m.work = append(m.work, a.copied(failures))
	}
	return m
}

func (a *modelAction) copied(failures bool) *modelAction {
	out := *a
	out.fails, out.actions = a.fails && failures, nil
	for _, inner := range a.actions {
		out.actions = append(out.actions, inner.copied(failures))
	}
	return &out
}

// run does the workflow and returns what becomes of the submission.
func (m *steepModel) run() string {
	for {
		m.collect()
		m.unroll()
		m.makeChains()
		if len(m.chains) == 0 {
			break
		}
		m.now = slices.MinFunc(m.chains, func(a, b *modelChain) int { return int(a.ends - b.ends) }).ends
		m.chains = slices.DeleteFunc(m.chains, func(c *modelChain) bool {
			if c.ends == m.now {
				m.end(c)
			}
			return c.ends == m.now
		})
	}
	switch {
	case len(m.work) > 0:
		return "ERROR"
	case m.bad == 0:
		return "SUCCESS"
	case m.good == 0:
		return "ERROR"
	default:
		return "PARTIAL_SUCCESS"
	}
}

func (m *steepModel) end(c *modelChain) {
	if c.failed {
		m.bad++
		return
	}
	m.good++
	for _, a := range c.actions {
		m.ended[a.id] = true
		if a.output == "" {
			continue
		}
		m.values[a.output] = a.output
		if a.folder {
			m.values[a.output] = []any{a.output + "/1", a.output + "/2"}
		}
	}
}

// collect gathers what iterations have yielded. A for action's output is partly there before it is there for all.
func (m *steepModel) collect() {
	for again := true; again; {
		again = false
		for _, l := range m.loops {
			for i := 0; i < len(l.yields); i++ {
				v := m.values[l.yields[i]]
				if v == nil {
					continue
				}
				list, _ := m.values[l.a.output+"~"].([]any)
				if items, several := v.([]any); several {
					list = append(list, items...)
				} else {
					list = append(list, v)
				}
				m.values[l.a.output+"~"] = list
				l.yields = slices.Delete(l.yields, i, i+1)
				i--
				again = true
			}
			part := m.values[l.a.output+"~"]
			if l.whole && len(l.yields) == 0 && part != nil {
				m.values[l.a.output] = part
				delete(m.values, l.a.output+"~")
			}
			if l.whole && !m.ended[l.a.id] &&
				!slices.ContainsFunc(l.inside, func(id string) bool { return !m.ended[id] }) {
				m.ended[l.a.id], again = true, true
			}
		}
	}
}

func (m *steepModel) loop(a *modelAction) *modelLoop {
	for _, l := range m.loops {
		if l.a == a {
			return l
		}
	}
	l := &modelLoop{a: a}
	m.loops = append(m.loops, l)
	return l
}

func (m *steepModel) unroll() {
	for i := 0; i < len(m.work); i++ {
		a := m.work[i]
		if !a.loop || slices.ContainsFunc(a.needs, func(id string) bool { return !m.ended[id] }) {
			continue
		}
		v, part := m.values[a.input+"~"], true
		if v == nil {
			v, part = m.values[a.input], false
		}
		if v == nil {
			continue
		}
		list, several := v.([]any)
		if !several {
			list = []any{v}
		}
		l := m.loop(a)
		for _, item := range list[l.taken:] {
			m.iterate(l, item)
		}
		if l.taken = len(list); !part {
			l.whole = true
			m.work = slices.Delete(m.work, i, i+1)
			i--
		}
	}
}

func (m *steepModel) iterate(l *modelLoop, item any) {
	m.unrolledNumber++
	suffix := fmt.Sprintf("$%d", m.unrolledNumber)
	renamed := map[string]string{l.a.enum: l.a.enum + suffix}
	m.values[l.a.enum+suffix] = item
	for _, a := range l.a.actions {
		renamed[a.id] = a.id + suffix
		if a.output != "" {
			renamed[a.output] = a.output + suffix
		}
	}
	for _, a := range l.a.actions {
		copied := a.rename(renamed)
		m.work = append(m.work, copied)
		l.inside = append(l.inside, copied.id)
	}
	if l.a.yields != "" {
		l.yields = append(l.yields, renamed[l.a.yields])
	}
}

func (a *modelAction) rename(names map[string]string) *modelAction {
	name := func(id string) string {
		if to, ok := names[id]; ok {
			return to
		}
		return id
	}
	all := func(ids []string) []string {
		out := make([]string, len(ids))
		for i, id := range ids {
			out[i] = name(id)
		}
		return out
	}
	out := *a
	out.id, out.output, out.input, out.yields = name(a.id), name(a.output), name(a.input), name(a.yields)
	out.inputs, out.needs, out.actions = all(a.inputs), all(a.needs), nil
	for _, inner := range a.actions {
		out.actions = append(out.actions, inner.rename(names))
	}
	return &out
}

// makeChains makes process chains of what can begin, each as long as there is one action to go on with.
func (m *steepModel) makeChains() {
	seen := map[*modelAction]bool{}
	for _, first := range slices.Clone(m.work) {
		if first.loop {
			continue
		}
		var chain []*modelAction
		for next := first; next != nil && !seen[next]; next = m.onlyNext(next) {
			if !m.ready(next, chain) {
				if next != first {
					seen[next] = true
				}
				break
			}
			seen[next] = true
			chain = append(chain, next)
		}
		if len(chain) > 0 {
			m.begin(chain)
		}
	}
	for _, c := range m.chains {
		m.work = slices.DeleteFunc(m.work, func(a *modelAction) bool { return slices.Contains(c.actions, a) })
	}
}

func (m *steepModel) ready(a *modelAction, chain []*modelAction) bool {
	for _, id := range a.inputs {
		if m.values[id] == nil && !slices.ContainsFunc(chain,
			func(b *modelAction) bool { return b.output == id || slices.Contains(b.inputs, id) }) {
			return false
		}
	}
	for _, id := range a.needs {
		if !m.ended[id] && !slices.ContainsFunc(chain, func(b *modelAction) bool { return b.id == id }) {
			return false
		}
	}
	return true
}

func (m *steepModel) following(a *modelAction) []*modelAction {
	var out []*modelAction
	for _, byData := range []bool{true, false} {
		for _, b := range m.work {
			reads := a.output != "" && slices.Contains(b.inputs, a.output)
			if !byData {
				reads = slices.Contains(b.needs, a.id)
			}
			if !b.loop && reads && !slices.Contains(out, b) {
				out = append(out, b)
			}
		}
	}
	return out
}

// onlyNext returns the one follower of an action that all its other followers follow in turn; nil: there is none.
func (m *steepModel) onlyNext(a *modelAction) *modelAction {
	list := m.following(a)
	if len(list) < 2 {
		return append(list, nil)[0]
	}
	below := map[*modelAction]int{}
	var top *modelAction
	var visit func(b *modelAction) int
	visit = func(b *modelAction) int {
		if n, known := below[b]; known {
			return n
		}
		n := 0
		for _, c := range m.following(b) {
			n += 1 + visit(c)
		}
		below[b], top = n, b
		return n
	}
	for _, b := range list {
		visit(b)
	}
	if below[top] == len(below)-1 {
		return top
	}
	return nil
}

func (m *steepModel) begin(chain []*modelAction) {
	c := &modelChain{actions: chain, ends: m.now}
	for range m.attempts {
		c.failed = false
		for _, a := range chain {
			m.times[a.base]++
			c.ends += time.Second
			if a.fails {
				c.failed = true
				break
			}
		}
		if !c.failed {
			break
		}
	}
	var names []string
	for _, a := range chain {
		names = append(names, a.base)
	}
	m.made[strings.Join(names, " ")] = true
	m.chains = append(m.chains, c)
}

// counts tells how often each action was executed.
func counts(times map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(times)) {
		out = append(out, fmt.Sprintf("%s %d", name, times[name]))
	}
	return strings.Join(out, ", ")
}
