package aether

import (
	"regexp"
	"slices"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// template is a dag, a task or a loop.
type template struct {
	kind, name string
	in         tree.Value // the content of dag, task or loop
	tasks      []*task    // the tasks of a dag
	inputs     []*param
	loop       *loop // only of a loop
	depth      int   // the deepest that the template was found at so far, the entrypoint's being 1
}

// loop specifies how often a template's body is run.
type loop struct {
	body            string
	from, condition string // itemsFrom, repeatCondition; neither: it goes through items
	most            int    // maxIterations; 0: as many as there are items
	concurrency     int    // 0: without bound
}

// task is a node of a dag, or what calls a template elsewhere.
type task struct {
	name, template string
	in             tree.Value
	arguments      []*param
	inputs         []*param // only for a task with its own executor
	needs          []string
	// alone: the step that does the work of a task with hooks, in its own flow. The dependencies, the condition and the
	// successors of the task are at the step that calls that flow.
	alone bool
}

// workflow is a workflow as it is written in the document.
type workflow struct {
	name       string
	spec       tree.Value
	arguments  []*param
	templates  map[string]*template
	order      []*template
	entrypoint string
	depth      int
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

type reader struct{ *form.File }

func (r *reader) name(v tree.Value, what string) string {
	name := r.Need(v, what, "name")
	r.checkName(name, what, v.Get("name").Pos())
	return name
}

func (r *reader) checkName(name, what string, at tree.Pos) {
	if name != "" && (len(name) > 63 || !nameForm.MatchString(name)) {
		r.Fail(at, "use up to 63 small letters, digits and dashes, a letter or digit first and last",
			"the name of %s, %q, is not allowed", what, name)
	}
}

func (r *reader) workflow(root tree.Value) *workflow {
	w := &workflow{templates: map[string]*template{}}
	if !r.Object(root, "a workflow", "apiVersion", "kind", "metadata", "spec") {
		return w
	}
	if version := r.Need(root, "the workflow", "apiVersion"); version != "" && version != "aether/v1" {
		r.Fail(root.Get("apiVersion").Pos(), "", "apiVersion %q is not known; aether/v1 is", version)
	}
	if kind := r.Need(root, "the workflow", "kind"); kind != "" && kind != "Workflow" {
		r.Fail(root.Get("kind").Pos(), "give its workflowSpec as a Workflow, and start that by a schedule",
			"a document of kind %q is not run", kind)
	}
	meta := root.Get("metadata")
	if meta.IsZero() {
		r.Fail(root.Pos(), "", "the workflow has no metadata")
	} else if r.Object(meta, "metadata", "name", "namespace", "version", "labels", "annotations", "uid") {
		w.name = r.name(meta, "the workflow")
		r.Documents(meta, "namespace", "version", "labels", "annotations", "uid")
	}
	w.spec = root.Get("spec")
	if w.spec.IsZero() {
		r.Fail(root.Pos(), "", "the workflow has no spec")
		return w
	}
	r.Object(w.spec, "spec", "entrypoint", "arguments", "timeout", "priority", "maxNestedDepth", "templates", "hooks")
	w.depth = r.Whole(w.spec, "maxNestedDepth", 3, 0, 10)
	if w.depth == 0 {
		w.depth = 10
	}
	w.arguments = r.params(w.spec.Get("arguments"), inWorkflow)
	for _, item := range r.List(w.spec.Get("templates"), "templates") {
		r.template(w, item)
	}
	w.entrypoint = r.Need(w.spec, "spec", "entrypoint")
	if w.entrypoint != "" && w.templates[w.entrypoint] == nil {
		r.Fail(w.spec.Get("entrypoint").Pos(), w.nearest(w.entrypoint), "there is no template %q", w.entrypoint)
	}
	return w
}

// nearest suggests the template of one of the kinds whose name is most like a misspelt one; without kinds, any.
func (w *workflow) nearest(name string, kinds ...string) string {
	var names []string
	for _, t := range w.order {
		if kinds == nil || slices.Contains(kinds, t.kind) {
			names = append(names, t.name)
		}
	}
	return nearest.Hint(name, names)
}

func (r *reader) template(w *workflow, v tree.Value) {
	if !r.Object(v, "a template", "dag", "task", "loop") {
		return
	}
	fields := v.Fields()
	if len(fields) != 1 || !fields[0].Value.IsMapping() {
		r.Fail(v.Pos(), "", "a template is one of dag, task and loop")
		return
	}
	t := &template{kind: fields[0].Name, in: fields[0].Value}
	t.name = r.name(t.in, "the template")
	if w.templates[t.name] != nil {
		r.Fail(t.in.Get("name").Pos(), "", "there already is a template %q", t.name)
		return
	}
	w.templates[t.name] = t
	w.order = append(w.order, t)
	t.inputs = r.params(t.in.Get("inputs"), inInputs)
	switch t.kind {
	case "dag":
		r.dag(t)
	case "task":
		r.Object(t.in, "a task template", "name", "executor", "inputs", "outputs", "timeout", "resources",
			"phaseConditions", "retry")
		r.Ignored(t.in, "a retry belongs to the task of a dag that calls the template", "retry")
		r.executor(t.in)
		r.Object(t.in.Get("phaseConditions"), "phaseConditions", "succeeded", "failed", "error")
	case "loop":
		r.Object(t.in, "a loop", "name", "items", "itemsFrom", "repeatCondition", "maxIterations", "concurrency",
			"body", "arguments",
			"aggregate", "inputs", "outputs", "timeout", "phaseConditions")
		t.loop = r.loop(t.in)
	}
	if t.kind != "task" {
		r.refuse(t.in, "phaseConditions", "decide by the phaseConditions of a task")
	}
	r.Ignored(t.in, placing, "resources")
}

// placing explains why resources are not needed.
const placing = "where a process runs is up to Pawl's workers"

// refuse reports a field that would change what the workflow does, and that flows cannot express.
func (r *reader) refuse(v tree.Value, key, hint string) {
	if !v.Get(key).IsZero() {
		r.Fail(v.Key(key), hint, "%s has no counterpart in a flow", key)
	}
}

func (r *reader) executor(v tree.Value) {
	e := v.Get("executor")
	if r.Object(e, "an executor", "type", "config") {
		r.Need(e, "the executor", "type")
	}
}

func (r *reader) dag(t *template) {
	r.Object(t.in, "a dag", "name", "tasks", "entrypoints", "continueOn", "phaseConditions", "timeout",
		"inputs", "outputs")
	items := r.List(t.in.Get("tasks"), "tasks")
	if len(items) == 0 {
		r.Fail(t.in.Pos(), "", "dag %q has no tasks", t.name)
	}
	names := []string{}
	for _, item := range items {
		if !r.Object(item, "a task", "name", "template", "executor", "dependencies", "arguments", "inputs", "outputs",
			"when", "timeout",
			"retry", "continueOn", "hooks", "resources", "phaseConditions") {
			continue
		}
		k := &task{name: r.name(item, "the task"), template: r.Text(item, "template"), in: item}
		if slices.Contains(names, k.name) {
			r.Fail(item.Get("name").Pos(), "", "there already is a task %q", k.name)
			continue
		}
		names = append(names, k.name)
		if k.template == "" && item.Get("executor").IsZero() {
			r.Fail(item.Pos(), "", "task %q has neither a template nor an executor", k.name)
		}
		r.executor(item)
		r.Object(item.Get("phaseConditions"), "phaseConditions", "succeeded", "failed", "error")
		k.arguments, k.inputs = r.params(item.Get("arguments"), inArguments), r.params(item.Get("inputs"), inInputs)
		r.Ignored(item, placing, "resources")
		t.tasks = append(t.tasks, k)
	}
	for _, k := range t.tasks {
		for _, need := range r.List(k.in.Get("dependencies"), "dependencies") {
			text, _ := need.Text()
			switch {
			case !slices.Contains(names, text):
				r.Fail(need.Pos(), nearest.Hint(text, names), "there is no task %q to depend on", text)
			case !slices.Contains(k.needs, text):
				k.needs = append(k.needs, text)
			}
		}
	}
}

func (r *reader) loop(v tree.Value) *loop {
	l := &loop{
		body: r.Need(v, "the loop", "body"), from: r.Text(v, "itemsFrom"), condition: r.Text(v, "repeatCondition"),
		most:        r.Whole(v, "maxIterations", 0, 0, mostIterations),
		concurrency: r.Whole(v, "concurrency", 0, 0, unbounded),
	}
	modes := 0
	for _, mode := range []string{"items", "itemsFrom", "repeatCondition"} {
		if !v.Get(mode).IsZero() {
			modes++
		}
	}
	if modes != 1 {
		r.Fail(v.Pos(), "", "a loop has exactly one of items, itemsFrom and repeatCondition; this one has %d", modes)
	}
	if items := v.Get("items"); !items.IsZero() && !items.IsList() {
		r.Fail(items.Pos(), "", "items is a list, not %s", items)
	}
	if !v.Get("repeatCondition").IsZero() {
		if l.most == 0 {
			r.Fail(v.Pos(), "", "a loop with repeatCondition needs maxIterations")
		}
		if l.concurrency > 0 {
			r.Fail(v.Key("concurrency"), "",
				"a loop with repeatCondition makes one iteration after the other, and takes no concurrency")
		}
	}
	if a := v.Get("aggregate"); r.Object(a, "aggregate", "strategy", "parameters") {
		if s := r.Text(a, "strategy"); s != "" && !slices.Contains([]string{"last", "first", "list"}, s) {
			r.Fail(a.Get("strategy").Pos(), "", "the strategy %q is not known; last, first and list are", s)
		}
	}
	return l
}

// check follows the references between templates, and measures how deep they go.
func (r *reader) check(w *workflow) {
	for _, t := range w.order {
		for _, k := range t.tasks {
			if k.template != "" && w.templates[k.template] == nil {
				r.Fail(k.in.Get("template").Pos(), w.nearest(k.template), "there is no template %q", k.template)
			}
		}
		if t.loop != nil && w.templates[t.loop.body] == nil {
			r.Fail(t.in.Get("body").Pos(), w.nearest(t.loop.body), "there is no template %q", t.loop.body)
		}
		if r.circle(t) {
			continue
		}
		r.entrypoints(t)
	}
	if w.templates[w.entrypoint] != nil {
		r.depth(w, w.entrypoint, 1, w.spec.Get("entrypoint").Pos())
	}
}

// depth reports a nesting that is too deep, templates that call themselves among them; once.
func (r *reader) depth(w *workflow, name string, depth int, at tree.Pos) bool {
	t := w.templates[name]
	if t == nil || depth <= t.depth {
		return true
	}
	if t.depth = depth; depth > w.depth+1 {
		r.Fail(at, "raise maxNestedDepth, up to 10, or flatten the templates",
			"the templates are nested more than %d deep here", w.depth)
		return false
	}
	for _, k := range t.tasks {
		if k.template != "" && !r.depth(w, k.template, depth+1, k.in.Get("template").Pos()) {
			return false
		}
	}
	return t.loop == nil || r.depth(w, t.loop.body, depth+1, t.in.Get("body").Pos())
}

// circle reports tasks that wait for each other.
func (r *reader) circle(t *template) bool {
	waiting, done := map[string]*task{}, map[string]bool{}
	for _, k := range t.tasks {
		waiting[k.name] = k
	}
	for again := true; again; {
		again = false
		for _, k := range t.tasks {
			if waiting[k.name] == nil || slices.ContainsFunc(k.needs, func(n string) bool { return !done[n] }) {
				continue
			}
			delete(waiting, k.name)
			done[k.name], again = true, true
		}
	}
	for _, k := range t.tasks {
		if waiting[k.name] != nil {
			r.Fail(k.in.Get("dependencies").Pos(), "", "the dependencies of dag %q go in a circle through task %q",
				t.name, k.name)
			return true
		}
	}
	return false
}

// entrypoints keeps the tasks of a dag that it names and those that depend on them. A task that depends on a removed
// one never begins.
func (r *reader) entrypoints(t *template) {
	v := t.in.Get("entrypoints")
	if v.IsZero() {
		return
	}
	var names []string
	for _, k := range t.tasks {
		names = append(names, k.name)
	}
	reached := map[string]bool{}
	items := []tree.Value{v}
	if _, one := v.Text(); !one {
		items = r.List(v, "entrypoints")
	}
	for _, item := range items {
		if text, _ := item.Text(); !slices.Contains(names, text) {
			r.Fail(item.Pos(), nearest.Hint(text, names), "there is no task %q", text)
			return
		} else {
			reached[text] = true
		}
	}
	kept := map[string]bool{}
	for again := true; again; { // one round for each task of the longest path
		again = false
		for _, k := range t.tasks {
			if !reached[k.name] && slices.ContainsFunc(k.needs, func(n string) bool { return reached[n] }) {
				reached[k.name], again = true, true
			}
			if !kept[k.name] && reached[k.name] && !slices.ContainsFunc(k.needs,
				func(n string) bool { return !kept[n] }) {
				kept[k.name], again = true, true
			}
		}
	}
	for _, k := range t.tasks {
		if reached[k.name] && !kept[k.name] {
			r.Note(k.in.Key("dependencies"),
				"task %q never begins, as in Aether: it depends on what the entrypoints leave out", k.name)
		}
	}
	t.tasks = slices.DeleteFunc(t.tasks, func(k *task) bool { return !kept[k.name] })
	if len(t.tasks) == 0 {
		r.Fail(v.Pos(), "", "no task can begin with these entrypoints")
	}
}
