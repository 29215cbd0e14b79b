package flow

import (
	"path"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// action compiles what a step does into the payload its worker reads.
func (b *builder) action(p *plan, s *Step, vars expr.Vars) {
	b.share(p, s, vars)
	b.amounts(p, vars)
	switch a := s.Action.(type) {
	case *Exec:
		settings := b.settings(s)
		if settings.Exec != nil {
			a = overExec(settings.Exec, a)
		}
		b.placeholders = false
		p.payload = b.exec(a, vars)
		p.refers = b.placeholders
	case *HTTP:
		settings := b.settings(s)
		if settings.HTTP != nil {
			a = overHTTP(settings.HTTP, a)
		}
		b.placeholders = false
		p.payload = b.http(a, vars|expr.VarPlaceholders)
		p.refers = b.placeholders
	case *Mail:
		b.placeholders = false
		p.payload = b.mail(a, vars|expr.VarPlaceholders)
		p.refers = b.placeholders
	case *Task:
		p.payload = b.compiler.Template(b.taskInput(a), vars, false)
		if a.Type == "" && b.Source == nil {
			b.stepFail(s.pos, "", "the task has no type")
		}
		if contains(ownTypes, a.Type) && b.Source == nil {
			b.stepFail(s.pos, "", ownType, a.Type)
		}
	case *Sleep:
		p.sleep = b.sleep(a, vars&^(expr.VarAttempt|expr.VarCode|expr.VarFailure))
	case *Wait:
		b.wait(p, a, vars&^(expr.VarAttempt|expr.VarCode|expr.VarFailure))
	case *Child:
		o := b.compiler.Object(vars)
		o.Text("name", a.Name)
		o.Data("input", a.Input)
		if a.ParentClose != "" {
			o.Data("close", V(a.ParentClose))
		}
		p.payload = o.Done()
	case *Fail:
		p.payload = b.failure(a, vars)
	case *Noop:
		if a.Output.IsZero() {
			p.payload = b.compiler.Template(&tree.Node{}, vars, false)
			return
		}
		o := b.compiler.Object(vars)
		o.Data("output", a.Output)
		p.payload = o.Done()
	}
}

func (b *builder) exec(a *Exec, vars expr.Vars) *expr.Template {
	o := b.compiler.Object(vars | expr.VarPlaceholders)
	switch {
	case a.Command.IsZero() && a.Shell.IsZero():
	case a.Command.IsZero():
		o.Add("shell", b.compiler.Shell(tree.NodeOf(a.Shell), vars))
		b.interpreter(a)
		o.Data("interpreter", a.Interpreter)
	default:
		vars |= expr.VarPlaceholders
		o.Add("command", b.compiler.Command(tree.NodeOf(a.Command), vars))
	}
	o.Text("env", a.Env)
	b.variables(o)
	o.Text("dir", a.Dir)
	o.Text("stdin", a.Stdin)
	milliseconds(o, "grace", a.Grace)
	b.container(o, a.Container, vars|expr.VarPlaceholders)
	b.artifacts(o, a, vars&^expr.VarPlaceholders)
	if a.Results == resultsInLines {
		o.Data("results", V(a.Results))
	}
	return o.Done()
}

// artifacts adds the files to keep or read, and those of other steps.
func (b *builder) artifacts(o *expr.Object, a *Exec, vars expr.Vars) {
	o.Add("artifacts", b.compiler.Template(tree.NodeOf(a.Artifacts), vars, true))
	o.Add("tests", b.compiler.Template(tree.NodeOf(a.Tests), vars, true))
	if take := b.filesOf(a.ArtifactsFrom, a.artifactsPos); len(take.Items) > 0 {
		o.Add("take", b.compiler.Template(take, vars, false))
	}
}

// taskInput returns the input of a task, with the files of other steps.
func (b *builder) taskInput(a *Task) *tree.Node {
	input := tree.NodeOf(a.Input)
	if len(a.ArtifactsFrom) == 0 {
		return input
	}
	whole := &tree.Node{Kind: tree.Mapping}
	switch {
	case input == nil:
	case input.Kind != tree.Mapping:
		b.stepFail(input.Pos, "write input: {…}", "artifactsFrom adds a field to the input, so that is a mapping")
		return input
	case input.Get("artifacts") != nil:
		b.stepFail(input.Key("artifacts"), "leave one of them out",
			"the input has artifacts, and artifactsFrom adds a field with that name")
	default:
		whole.Pos = input.Pos
		for _, f := range input.Fields {
			whole.Add(f.Name, f.Pos, f.Value)
		}
	}
	whole.Add("artifacts", whole.Pos, b.filesOf(a.ArtifactsFrom, a.artifactsPos))
	return whole
}

// filesOf returns the list of the artifacts of steps.
func (b *builder) filesOf(names []string, places []tree.Pos) *tree.Node {
	list := &tree.Node{Kind: tree.List}
	for i, name := range names {
		var at tree.Pos
		if i < len(places) {
			at = places[i]
		}
		from := b.stepOf(name)
		switch {
		case from == nil:
			b.stepFail(at, nearest.Hint(name, b.def.language.Steps()), "there is no step %q", name)
			continue
		case !keepsArtifacts(from):
			b.stepFail(at, "add artifacts: [PATH] to it", "step %q keeps no artifacts", name)
			continue
		}
		text := "${{ steps['" + name + "'].output?.artifacts }}"
		if from.isLoop() {
			text = "${{ map(steps['" + name + "'].output ?? [], #?.artifacts) }}"
		}
		list.Push(&tree.Node{Kind: tree.Text, Pos: at, Text: text})
	}
	return list
}

// stepOf returns the step with a name, or nil if there is none.
func (b *builder) stepOf(name string) *Step {
	for _, s := range b.doc.Steps {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// keepsArtifacts reports whether a step may have files. Of a task its worker decides.
func keepsArtifacts(s *Step) bool {
	if _, task := s.Action.(*Task); task {
		return true
	}
	e, ok := s.Action.(*Exec)
	return ok && !e.Artifacts.IsZero()
}

func (s *Step) isLoop() bool { return !s.ForEach.IsZero() || !s.Matrix.IsZero() || s.Each != "" }

// The places where the results of a process are looked for.
const (
	resultsInFile  = "file"
	resultsInLines = "lines"
)

// interpreter refuses expressions in a script for a program other than a shell, because that program has other rules
// for quotes.
func (b *builder) interpreter(a *Exec) {
	n, script := tree.NodeOf(a.Interpreter), tree.NodeOf(a.Shell)
	if n == nil || n.Kind != tree.List || len(n.Items) == 0 || script == nil || !expr.HasExpression(script.Text) {
		return
	}
	program := path.Base(n.Items[0].Text)
	if program == "env" && len(n.Items) > 1 {
		program = path.Base(n.Items[1].Text)
	}
	if !expr.IsShell(program) {
		b.stepFail(script.Pos, "give values by env: instead of expressions",
			"%s reads quotes in another way than a shell, so q does not help", program)
	}
}

func (b *builder) http(a *HTTP, vars expr.Vars) *expr.Template {
	o := b.compiler.Object(vars)
	o.Text("method", a.Method)
	o.Add("url", b.compiler.URL(tree.NodeOf(a.URL), vars))
	o.Text("headers", a.Headers)
	o.Text("query", a.Query)
	o.Data("json", a.JSON)
	o.Text("body", a.Body)
	o.Text("file", a.File)
	o.Data("expect", a.Expect)
	return o.Done()
}

func (b *builder) failure(a *Fail, vars expr.Vars) *expr.Template {
	o := b.compiler.Object(vars)
	o.Text("type", a.Type)
	o.Text("message", a.Message)
	o.Data("code", a.Code)
	o.Text("kind", a.Kind)
	if a.NonRetryable {
		o.Data("nonRetryable", V(true))
	}
	milliseconds(o, "retryAfter", a.RetryAfter)
	return o.Done()
}

func (b *builder) sleep(a *Sleep, vars expr.Vars) *sleepPlan {
	amount, until := a.For, false
	if amount.IsZero() {
		amount, until = a.Until, true
	}
	if amount.IsZero() {
		return nil // reported when it was read
	}
	return &sleepPlan{until, b.compiler.Template(tree.NodeOf(amount), vars, false)}
}

// end computes until when a sleep lasts, where that is an instant, or for how long.
func (p *sleepPlan) end(s *scope) (until core.Time, length time.Duration, err error) {
	v, err := p.amount.Eval(s)
	if err != nil {
		return 0, 0, err
	}
	if at, ok := v.(time.Time); ok {
		return policy.At(at), 0, nil
	}
	if text, ok := v.(string); ok && (p.until || len(text) > 10 && text[4] == '-') {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return 0, 0, p.amount.Wrong("%s is not an RFC 3339 instant such as 2030-01-31T18:00:00Z", text)
		}
		return policy.At(at), 0, nil
	}
	if p.until {
		return 0, 0, p.amount.Wrong("until takes an instant, not %s", expr.TypeName(v))
	}
	if err := decode.Bare(v); err != nil {
		return 0, 0, p.amount.Wrong("%s", err)
	}
	if f, ok := v.(float64); ok && f == float64(int64(f)) {
		v = int64(f)
	}
	d, err := decode.Duration(v)
	if err != nil {
		return 0, 0, p.amount.Wrong("%s", err)
	}
	return 0, d, nil
}

// milliseconds adds a duration where there is one.
func milliseconds(o *expr.Object, name string, d *time.Duration) {
	if d != nil {
		o.Data(name, V(int(*d/time.Millisecond)))
	}
}

// policies compiles the retry conditions of shared settings, which cannot refer to other steps.
func (b *builder) policies() {
	shared := []policy.Policy{b.doc.Defaults.Policy}
	for _, s := range b.doc.Services {
		shared = append(shared, s.Policy)
	}
	for _, p := range shared {
		b.retryCondition(p.Retry, (varsTask|varsItem)&^expr.VarSteps)
	}
	b.retryCondition(b.doc.Retry, (varsRun|expr.VarAttempt|expr.VarCode|expr.VarFailure)&^expr.VarNow)
	for i, s := range b.doc.Steps {
		b.step, b.ordinal = s.Name, int32(i)
		vars := varsTask
		if hasList(s) || s.Each != "" {
			vars |= varsItem
		}
		b.retryCondition(s.Policy.Retry, vars)
	}
	h := &b.doc.Hooks
	for _, steps := range [][]*Step{h.OnSuccess, h.OnFailure, h.OnTimeout, h.OnCancel, h.OnExit} {
		for _, s := range steps {
			b.step, b.ordinal = s.Name, -1
			b.retryCondition(s.Policy.Retry, varsHook)
		}
	}
	for _, entry := range b.doc.Notify {
		if entry.Step != nil {
			b.step, b.ordinal = entry.Step.Name, -1
			b.retryCondition(entry.Step.Policy.Retry, varsHook)
		}
	}
}

func (b *builder) retryCondition(r *policy.Retry, vars expr.Vars) {
	if r == nil || r.When == "" {
		return
	}
	n := b.doc.whens[r]
	if n == nil {
		n = &tree.Node{Kind: tree.Text, Text: r.When}
	}
	if p := b.compiler.Condition(n, vars); p != nil {
		b.def.whens[r.When] = p
	}
}

// upstream checks that the steps which a step uses have ended before it begins.
func (b *builder) upstream() {
	if !b.acyclic {
		return
	}
	b.visited = make([]int32, len(b.doc.Steps))
	from := int32(-1)
	for _, ref := range b.refs {
		if contains32(b.def.plans[ref.from].needs, ref.to) {
			continue
		}
		if ref.from != from {
			from = ref.from
			b.visit(from)
		}
		if b.visited[ref.to] == from+1 {
			continue
		}
		b.step = b.doc.Steps[ref.from].Name
		at := b.Source.Inside(ref.in, ref.offset)
		if ref.to == ref.from {
			b.stepFail(at, "", "step %q uses its own result", ref.name)
			continue
		}
		b.stepFail(at, "add "+ref.name+" to its needs", "steps.%s is used but not needed by %q", ref.name, b.step)
	}
}

func contains32(list []int32, v int32) bool {
	for _, item := range list {
		if item == v {
			return true
		}
	}
	return false
}

// visit marks all steps that a step needs, directly or not.
func (b *builder) visit(def int32) {
	next := []int32{def}
	for len(next) > 0 {
		last := next[len(next)-1]
		next = next[:len(next)-1]
		p := &b.def.plans[last]
		for _, need := range slices.Concat(p.needs, p.watches, []int32{p.loop}) {
			if need < 0 {
				continue
			}
			if b.visited[need] != def+1 {
				b.visited[need] = def + 1
				next = append(next, need)
			}
		}
	}
}

// container adds a container to the payload of a process.
func (b *builder) container(o *expr.Object, c *Container, vars expr.Vars) {
	if c == nil || c.Off {
		return
	}
	if c.Image.IsZero() {
		b.stepFail(c.pos, "add image: IMAGE", "the container has no image")
	}
	in := b.compiler.Object(vars)
	in.Text("image", c.Image)
	in.Text("args", c.Args)
	in.Text("volumes", c.Volumes)
	in.Text("user", c.User)
	in.Text("network", c.Network)
	in.Text("workspace", c.Workspace)
	if c.NoWorkspace {
		in.Data("workspace", V(""))
	}
	if c.Pull != "" {
		in.Data("pull", V(c.Pull))
	}
	if c.Init != nil {
		in.Data("init", V(*c.Init))
	}
	in.Text("options", c.Options)
	var inherited []string
	for name, value := range b.doc.Env {
		if value == nil {
			inherited = append(inherited, name)
		}
	}
	if slices.Sort(inherited); len(inherited) > 0 {
		in.Data("inherit", V(inherited))
	}
	o.Add("container", in.Done())
}
