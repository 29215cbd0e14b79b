package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Continue chooses the results that a run of doc with this input takes from an earlier run, of the document was. The
// named steps run again, with from also what needs them; without names all that failed, and what needs it.
// A step keeps its result only where nothing differs that the result may come of: the error lists the differences.
func Continue(doc, was *Document, earlier *core.Run, input []byte, names []string, from bool) ([]core.Kept, error) {
	before, err := was.definition()
	if err != nil {
		return nil, err
	}
	now, err := doc.definition()
	if err != nil {
		return nil, err
	}
	c := &comparing{was: before, is: now, inputs: changedInputs(earlier.Input, input)}
	if len(names) == 0 {
		names, from = c.names(earlier, core.FailedSteps(earlier)), true
	}
	kept, err := Rerun(was, earlier, names, from)
	if err != nil {
		return nil, err
	}
	var differ []string
	out := kept[:0]
	for _, k := range kept {
		def, diff := c.keep(k)
		if diff != "" && !slices.Contains(differ, diff) {
			differ = append(differ, diff)
		}
		k.Def = def
		out = append(out, k)
	}
	if len(differ) > 0 {
		return nil, fmt.Errorf("the run cannot go on: what its steps have done was done otherwise\n  %s\n"+
			"make them again, too: name the first of them, as in pawl run rerun --from STEP",
			strings.Join(differ, "\n  "))
	}
	return out, nil
}

// comparing compares the steps of two documents.
type comparing struct {
	was, is *definition
	inputs  []string // the values of the input that differ
}

// names lists the steps that are made again, as a rerun names them. Of a forEach whose text is the same the items that
// succeeded keep their results; a loop is made again as a whole.
func (c *comparing) names(earlier *core.Run, again []core.StepID) []string {
	var out []string
	add := func(name string) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	byItems := map[core.StepID]bool{}
	for _, id := range again {
		s := &earlier.Steps[id]
		def, known := c.was.ordinal(s)
		if !known || s.Item < 0 || def < c.was.steps {
			continue
		}
		group := c.was.plans[def].group
		if p := &c.was.plans[group]; !p.isLoop && p.loop < 0 && c.differs(group) == "" {
			byItems[s.Group] = true
			add(s.Key())
		}
	}
	for _, id := range again {
		if s := &earlier.Steps[id]; !byItems[id] && (s.Group == core.NoStep || !byItems[s.Group]) {
			add(s.Spec.Name)
		}
	}
	return out
}

// keep returns the ordinal that a step with a result has in the new document, and how it differs there.
func (c *comparing) keep(k core.Kept) (int32, string) {
	if k.Def < c.was.steps {
		def := c.is.byName[k.Name]
		return def, c.differs(k.Def)
	}
	group := c.was.plans[k.Def].group
	diff := c.differs(group)
	if diff != "" {
		return -1, diff
	}
	return c.is.plans[c.is.byName[k.Name]].item, ""
}

// differs describes how a step of the earlier document differs in the new one in ways that could change its result, or
// returns "" if it does not. How often and how long it may be tried does not matter for a step that is done.
func (c *comparing) differs(def int32) string {
	old := c.was.doc.Steps[def]
	name := old.Name
	at, there := c.is.byName[name]
	if !there || at >= c.is.steps {
		return fmt.Sprintf("step %q is gone", name)
	}
	before, after := made(c.was.doc, old), made(c.is.doc, c.is.doc.Steps[at])
	for _, key := range keys(before, after) {
		a, b := fieldText(before, key), fieldText(after, key)
		if a != b {
			return fmt.Sprintf("step %q: %s was %s, and is %s", name, key, orNothing(a), orNothing(b))
		}
	}
	text := written(after)
	for _, input := range c.inputs {
		if usesInput(text, input) {
			return fmt.Sprintf("step %q has used input.%s, which is another value now", name, input)
		}
	}
	return ""
}

// made returns everything that determines the result of a step: the step as it is written, with the settings of its
// service and the defaults of its action, and the environment if it is used.
func made(doc *Document, s *Step) *tree.Node {
	step := *s
	step.Description, step.Service, step.Policy, step.Queue = "", "", policy.Policy{}, ""
	step.Priority, step.Key, step.Concurrency, step.ContinueOn = nil, tree.Value{}, 0, nil
	settings := doc.Defaults
	for _, service := range doc.Services {
		if service.Name == s.Service {
			settings = overlay(settings, service.Settings)
		}
	}
	if s.Action != nil {
		if a := s.Action.over(settings); a != nil {
			step.Action = a
		}
	}
	n := *tree.NodeOf(encodeStep(&step))
	_, process := s.Action.(*Exec)
	if text := written(&n); (process || strings.Contains(text, "env.")) && len(doc.Env) > 0 {
		n.Add("environment", tree.Pos{}, tree.NodeOf(encodeEnv(doc.Env)))
	}
	return &n
}

// keys lists the fields of two mappings.
func keys(a, b *tree.Node) []string {
	var out []string
	for _, n := range []*tree.Node{a, b} {
		for _, f := range n.Fields {
			if !slices.Contains(out, f.Name) {
				out = append(out, f.Name)
			}
		}
	}
	return out
}

func written(n *tree.Node) string { return strings.TrimSpace(string(tree.YAML(n))) }

// fieldText returns a field of a mapping as it is written, or "" if it is absent.
func fieldText(n *tree.Node, key string) string {
	value := n.Get(key)
	if value == nil {
		return ""
	}
	alone := &tree.Node{Kind: tree.Mapping}
	alone.Add(key, tree.Pos{}, value)
	_, text, _ := strings.Cut(written(alone), ":")
	return strings.TrimSpace(text)
}

func orNothing(text string) string {
	if text == "" {
		return "not there"
	}
	return short(strings.Join(strings.Fields(text), " "))
}

// changedInputs lists the values of an input that differ, by name; "" means the whole input, if it is not an object.
func changedInputs(was, is []byte) []string {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(was, &a) != nil || json.Unmarshal(is, &b) != nil {
		if bytes.Equal(was, is) {
			return nil
		}
		return []string{""}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if v, there := b[name]; !there || !sameJSON(a[name], v) {
			out = append(out, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, there := a[name]; !there {
			out = append(out, name)
		}
	}
	return out
}

func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// inputUse finds the uses of the input in expressions: with a name, or as a whole.
var inputUse = regexp.MustCompile(`\binput\b(?:\??\.(\w+))?`)

// usesInput reports whether a text may use a value of the input.
func usesInput(text, name string) bool {
	return slices.ContainsFunc(inputUse.FindAllStringSubmatch(text, -1), func(use []string) bool {
		return use[1] == "" || use[1] == name || name == ""
	})
}
