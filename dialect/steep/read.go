package steep

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// The kinds of actions.
const (
	kindExecute = "execute"
	kindFor     = "for"
	kindInclude = "include"
)

// workflow is a workflow as it is written in the document.
type workflow struct {
	in       tree.Value
	name     string
	priority *int32
	chains   tree.Value // retries.processChains
	vars     []*variable
	actions  []*action
}

// variable is a declaration, or a use by name.
type variable struct {
	id    string
	value tree.Value // a constant; absent: made by an action
	file  *form.File
	pos   tree.Pos
}

// action is one action of a workflow or a macro.
type action struct {
	kind            string
	id              string
	label           string // the name that its step gets
	service, macro  string
	inputs, outputs []*param
	dependsOn       []*variable
	input, output   *variable // only of a for
	enumerator      *variable
	yieldToOutput   *variable
	yieldToInput    *variable
	actions         []*action
	in              tree.Value
	file            *form.File
}

// param is an input or output of an action.
type param struct {
	id     string
	v      *variable
	prefix string
	store  bool
}

// macro is a reusable list of actions.
type macro struct {
	id      string
	in      tree.Value
	used    bool
	params  []*macroParam
	vars    []*variable
	actions []*action
	file    *form.File
	pos     tree.Pos
}

type macroParam struct {
	id     string
	output bool
	value  tree.Value // the default
	in     tree.Value
	pos    tree.Pos
}

// reader reads a workflow or macros.
type reader struct {
	*form.File
	unnamed map[string]int
	inline  []*variable // declared where they are used
}

var apiVersion = regexp.MustCompile(`^4\.([0-7])\.\d+$`)

func (r *reader) workflow(root tree.Value) *workflow {
	w := &workflow{in: root}
	if !r.Object(root, "a workflow", "api", "name", "priority", "retries", "vars", "actions") {
		return w
	}
	api := r.Need(root, "the workflow", "api")
	if api != "" && !apiVersion.MatchString(api) {
		r.Fail(root.Get("api").Pos(), "", "api version %q is not known; versions 4.0.0 to 4.7.0 are", api)
	}
	w.name = r.Text(root, "name")
	if priority := root.Get("priority"); !priority.IsZero() {
		p := int32(r.Whole(root, "priority", 0, -1000, 1000))
		w.priority = &p
	}
	if retries := root.Get("retries"); r.Object(retries, "retries of a workflow", "processChains") {
		w.chains = retries.Get("processChains")
	}
	w.vars = r.vars(root.Get("vars"))
	if root.Get("actions").IsZero() {
		r.Fail(root.Pos(), "add actions: with at least one action", "the workflow has no actions")
	} else if len(root.Get("actions").Items()) == 0 && root.Get("actions").IsList() {
		r.Fail(root.Get("actions").Pos(), "", "the workflow has no actions")
	}
	w.actions = r.actions(root.Get("actions"), 0)
	w.vars = append(w.vars, r.inline...)
	return w
}

func (r *reader) vars(list tree.Value) []*variable {
	var out []*variable
	for _, item := range r.List(list, "vars") {
		if r.Object(item, "a variable", "id", "value") {
			out = append(out, r.variable(item))
		}
	}
	return out
}

func (r *reader) variable(item tree.Value) *variable {
	v := &variable{
		id: r.Need(item, "the variable", "id"), value: item.Get("value"), file: r.File,
		pos: item.At("id").Pos(),
	}
	r.constant(v.value)
	return v
}

// constant refuses a value that no command line could hold.
func (r *reader) constant(v tree.Value) {
	if v.IsMapping() {
		r.Fail(v.Pos(), "", "a value is a text, a number, true or false, or a list of them, not %s", v)
	}
	for _, item := range v.Items() {
		r.constant(item)
	}
}

// maxNesting bounds for actions in for actions; each is a flow that starts the next.
const maxNesting = 20

func (r *reader) actions(list tree.Value, depth int) []*action {
	if depth > maxNesting {
		r.Fail(list.Pos(), "", "for actions are nested more than %d deep", maxNesting)
		return nil
	}
	items := r.List(list, "actions")
	out := make([]*action, 0, len(items))
	for _, item := range items {
		if a := r.action(item, depth); a != nil {
			out = append(out, a)
		}
	}
	return out
}

func (r *reader) action(v tree.Value, depth int) *action {
	if !v.IsMapping() {
		r.Fail(v.Pos(), "", "an action is a mapping, not %s", v)
		return nil
	}
	a := &action{kind: r.Need(v, "the action", "type"), in: v, file: r.File}
	switch a.kind {
	case kindExecute:
		r.Object(v, "an execute action", "type", "id", "service", "inputs", "outputs", "parameters",
			"dependsOn", "retries",
			"maxInactivity", "maxRuntime", "deadline")
		a.service = r.Need(v, "the execute action", "service")
		a.inputs = append(r.params(v.Get("inputs"), "an input"), r.parameters(v)...)
		a.outputs = r.outputs(v.Get("outputs"), true)
	case kindFor:
		r.Object(v, "a for action", "type", "id", "input", "enumerator", "output", "actions", "yieldToOutput",
			"yieldToInput",
			"dependsOn")
		a.input, a.enumerator = r.needUse(v, "the for action", "input"), r.needUse(v, "the for action", "enumerator")
		a.output = r.use(v, "output")
		a.yieldToOutput, a.yieldToInput = r.use(v, "yieldToOutput"), r.use(v, "yieldToInput")
		a.actions = r.actions(v.Get("actions"), depth+1)
	case kindInclude:
		r.Object(v, "an include action", "type", "id", "macro", "inputs", "outputs", "dependsOn")
		a.macro = r.Need(v, "the include action", "macro")
		a.inputs, a.outputs = r.params(v.Get("inputs"), "an input"), r.outputs(v.Get("outputs"), false)
	case "":
		return nil
	default:
		r.Fail(v.Get("type").Pos(), nearest.Hint(a.kind, []string{kindExecute, kindFor, kindInclude}),
			"an action of type %q is not known; execute, for and include are", a.kind)
		return nil
	}
	a.id = r.Text(v, "id")
	if a.label = a.id; a.id == "" {
		r.generated(a)
	}
	a.dependsOn = r.dependsOn(v.Get("dependsOn"))
	return a
}

// generated names an action that has no name by its kind. The $ distinguishes it from every name that a user may
// choose.
func (r *reader) generated(a *action) {
	base := a.service + a.macro
	if a.kind == kindFor {
		base = "for"
		if a.enumerator != nil {
			base += "." + a.enumerator.id
		}
	}
	if r.unnamed == nil {
		r.unnamed = map[string]int{}
	}
	r.unnamed[base]++
	a.id, a.label = "$"+base+"$"+strconv.Itoa(r.unnamed[base]), base
}

// use reads a variable's name, or the declaration of a variable at its use.
func (r *reader) use(v tree.Value, key string) *variable {
	field := v.Get(key)
	if field.IsZero() {
		return nil
	}
	if field.IsMapping() {
		r.Object(field, "a variable", "id", "value")
		declared := r.variable(field)
		r.inline = append(r.inline, declared)
		return &variable{id: declared.id, file: r.File, pos: declared.pos}
	}
	return &variable{id: r.Text(v, key), file: r.File, pos: v.Get(key).Pos()}
}

// needUse reads a variable that must be there.
func (r *reader) needUse(v tree.Value, what, key string) *variable {
	if !v.Get(key).IsMapping() {
		r.Need(v, what, key)
	}
	return r.use(v, key)
}

func (r *reader) dependsOn(v tree.Value) []*variable {
	if text, ok := r.TextOf(v); ok {
		return []*variable{{id: text, file: r.File, pos: v.Pos()}}
	}
	var out []*variable
	for _, item := range r.List(v, "dependsOn") {
		text, ok := r.TextOf(item)
		if !ok {
			r.Fail(item.Pos(), "", "dependsOn holds names of actions, not %s", item)
			continue
		}
		if !slices.ContainsFunc(out, func(o *variable) bool { return o.id == text }) {
			out = append(out, &variable{id: text, file: r.File, pos: item.Pos()})
		}
	}
	return out
}

// params reads inputs: each with a variable or a value.
func (r *reader) params(list tree.Value, what string) []*param {
	var out []*param
	for _, item := range r.List(list, "inputs") {
		if r.Object(item, what, "id", "var", "value") {
			out = append(out, r.input(item, what))
		}
	}
	return out
}

func (r *reader) input(item tree.Value, what string) *param {
	p := &param{id: r.Need(item, what, "id")}
	name, value := item.Get("var"), item.Get("value")
	switch {
	case !name.IsZero() && !value.IsZero():
		r.Fail(item.Key("value"), "", "%s has a variable or a value, not both", what)
	case name.IsZero() && value.IsZero():
		r.Fail(item.Pos(), "add var: the name of a variable, or value:", "%s has neither a variable nor a value", what)
	}
	if p.v = r.use(item, "var"); p.v == nil {
		p.v = &variable{value: value, file: r.File, pos: item.Pos()}
		r.constant(value)
	}
	return p
}

// parameters reads the old form of constant inputs.
func (r *reader) parameters(v tree.Value) []*param {
	list := v.Get("parameters")
	if !list.IsZero() {
		r.Note(v.Key("parameters"), "parameters is deprecated: they are inputs")
	}
	return r.params(list, "a parameter")
}

func (r *reader) outputs(list tree.Value, files bool) []*param {
	var out []*param
	known := []string{"id", "var"}
	if files {
		known = append(known, "prefix", "store")
	}
	for _, item := range r.List(list, "outputs") {
		if !r.Object(item, "an output", known...) {
			continue
		}
		p := &param{id: r.Need(item, "the output", "id"), prefix: r.Text(item, "prefix"), store: r.Bool(item, "store")}
		if p.v = r.needUse(item, "the output", "var"); p.v != nil {
			out = append(out, p)
		}
	}
	return out
}

// macros reads a file of macros and adds them to those that are known.
func (r *reader) macros(root tree.Value, out map[string]*macro) {
	for _, item := range r.List(root, "a file of macros") {
		if !r.Object(item, "a macro", "id", "name", "description", "parameters", "vars", "actions") {
			continue
		}
		m := &macro{id: r.Need(item, "the macro", "id"), in: item, file: r.File, pos: item.At("id").Pos()}
		if other := out[m.id]; other != nil && m.id != "" {
			r.Fail(m.pos, "", "there already is a macro %q, at %s", m.id, other.file.Place(other.pos))
			continue
		}
		out[m.id] = m
		for _, p := range r.List(item.Get("parameters"), "parameters") {
			if r.Object(p, "a macro's parameter", "id", "name", "description", "type", "default") {
				m.params = append(m.params, r.macroParam(p))
			}
		}
		m.vars = r.vars(item.Get("vars"))
		if item.Get("actions").IsZero() {
			r.Fail(item.Pos(), "add actions:", "macro %q has no actions", m.id)
		}
		m.actions = r.actions(item.Get("actions"), 0)
		m.vars, r.inline = append(m.vars, r.inline...), nil
	}
}

func (r *reader) macroParam(v tree.Value) *macroParam {
	p := &macroParam{id: r.Need(v, "the parameter", "id"), value: v.Get("default"), in: v, pos: v.At("id").Pos()}
	p.output = r.direction(v)
	if p.output && !p.value.IsZero() {
		r.Fail(v.Key("default"), "its value is made when the workflow runs",
			"output parameter %q has a default value", p.id)
	}
	r.constant(p.value)
	return p
}

// direction reads the type of a parameter; true: an output.
func (r *reader) direction(v tree.Value) bool {
	text := r.Need(v, "the parameter", "type")
	if text != "" && text != "input" && text != "output" {
		r.Fail(v.Get("type").Pos(), "", "a parameter is input or output, not %q", text)
	}
	return text == "output"
}

// unbounded is a cardinality's n.
const unbounded = math.MaxInt32

// cardinality reads min..max; n stands for any number.
func (r *reader) cardinality(v tree.Value) (low, high int) {
	text := r.Need(v, "the parameter", "cardinality")
	lowText, highText, ok := strings.Cut(text, "..")
	low, err := strconv.Atoi(strings.TrimSpace(lowText))
	high, err2 := strconv.Atoi(strings.TrimSpace(highText))
	if strings.TrimSpace(highText) == "n" {
		high, err2 = unbounded, nil
	}
	if text != "" && (!ok || err != nil || err2 != nil || low < 0 || low > high) {
		r.Fail(v.Get("cardinality").Pos(), "",
			"%q is not a cardinality; write two numbers, the larger last, as in 1..1, 0..1 or 1..n", text)
		return 0, unbounded
	}
	return low, high
}
