package flow

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Exec runs a command, or a line of shell.
type Exec struct {
	Command tree.Value // a list of texts, or an expression that gives one
	Shell   tree.Value // a script
	// Interpreter is a list of texts: the program that runs the script, and its arguments. Default: /bin/sh, which
	// ends with the first command that fails.
	Interpreter tree.Value
	Results     string     // the place where results are looked for: file or lines; empty: file
	Env         tree.Value // a mapping of texts
	Dir         tree.Value
	Stdin       tree.Value
	Grace       *time.Duration // time between SIGTERM and SIGKILL; nil: 5s
	// Container is where the process runs; nil: on the machine of the worker. The image's own program runs where
	// neither Command nor Shell is given.
	Container *Container
	// Artifacts is a list of texts: paths and patterns of files that are kept with the run, below Dir.
	Artifacts tree.Value
	// Tests is a list of texts: paths and patterns of JUnit files, below Dir.
	Tests tree.Value
	// ArtifactsFrom names steps whose artifacts are put below Dir before the process starts.
	ArtifactsFrom []string

	artifactsPos []tree.Pos // the places of ArtifactsFrom
	ordinary
}

var (
	execKeys = []string{
		"command", "shell", "interpreter", "results", "env", "dir", "stdin", "grace", "container",
		"artifacts", "artifactsFrom", "tests",
	}
	execSettingsKeys = []string{"interpreter", "results", "env", "dir", "grace", "container"}
)

// The places where the results of a process are looked for.
const (
	resultsInFile  = "file"
	resultsInLines = "lines"
)

func (*Exec) kind() string { return "exec" }

func (e *Exec) read(p *parsing, n *tree.Node) {
	if n.Kind == tree.Text {
		if n.Text == "" {
			p.Fail(n.Pos, "", "the command is empty")
		}
		e.Shell = tree.ValueOf(n)
		return
	}
	if n.Kind == tree.List {
		n = &tree.Node{
			Kind: tree.Mapping, Pos: n.Pos,
			Fields: []tree.NodeField{{Name: "command", Pos: n.Pos, Value: n}},
		}
	}
	if !p.object(n, "exec", execKeys) {
		if n.Kind == tree.Null {
			p.Fail(n.Pos, "write exec: make all", "exec has no command")
		}
		return
	}
	*e = *p.execFields(n)
	command, shell := n.Get("command"), n.Get("shell")
	own := e.Container != nil && !e.Container.Off // the image has a program
	switch {
	case command == nil && shell == nil && own:
	case command == nil && shell == nil:
		p.missing(n, execKeys, "add command: [program, argument] or shell: a line", "exec has no command")
	case command != nil && shell != nil:
		p.Fail(n.Key("shell"), "", "exec takes command or shell, not both")
	}
	if command != nil {
		whole := expr.IsExpression(command)
		switch {
		case command.Kind == tree.List && len(command.Items) == 0:
			p.Fail(command.Pos, "", "the command is empty")
		case command.Kind == tree.Text && !whole:
			p.Fail(command.Pos, "write [program, argument], or shell: for a line of shell",
				"command is a list, not a text")
		case command.Kind != tree.List && !whole:
			p.Fail(command.Pos, "", "command is a list of texts, not %s", tree.Describe(command))
		}
		e.Command = p.textsValue(command, "command")
	}
	if i := n.Get("interpreter"); i != nil && shell == nil {
		p.Fail(n.Key("interpreter"), "a command names its program itself", "interpreter is for shell, not for command")
	}
	if own && !e.Container.Args.IsZero() && (command != nil || shell != nil) {
		p.Fail(n.Get("container").Key("args"), "command takes the place of the image's program",
			"args are for the image's own program, and exec has another one")
	}
	e.Shell = p.textValue(shell, "shell")
	e.Stdin = p.textValue(n.Get("stdin"), "stdin")
	e.Artifacts = filesIn(p, n.Get("artifacts"), "artifacts")
	e.Tests = filesIn(p, n.Get("tests"), "tests")
	e.ArtifactsFrom, e.artifactsPos = p.texts(n.Get("artifactsFrom"), "artifactsFrom")
}

// execFields reads what a step and its settings have in common.
func (p *parsing) execFields(n *tree.Node) *Exec {
	return &Exec{
		Interpreter: p.interpreter(n.Get("interpreter")),
		Results:     p.results(n.Get("results")),
		Env:         p.env(n.Get("env")),
		Dir:         p.textValue(n.Get("dir"), "dir"),
		Grace:       p.duration(n.Get("grace"), "grace"),
		Container:   containerIn(p, n.Get("container")),
	}
}

// filesIn reads paths and patterns of files that a step makes. They stay below the folder of the step.
func filesIn(p *parsing, n *tree.Node, what string) tree.Value {
	if n != nil && n.Kind == tree.Text {
		n = &tree.Node{Kind: tree.List, Pos: n.Pos, Items: []*tree.Node{n}}
	}
	v := listIn(p, n, what)
	if n == nil || n.Kind != tree.List {
		return v
	}
	for _, item := range n.Items {
		if item.Kind != tree.Text || expr.HasExpression(item.Text) {
			continue
		}
		if clean := path.Clean(strings.ReplaceAll(item.Text, `\`, "/")); item.Text == "" || path.IsAbs(clean) ||
			clean == ".." || strings.HasPrefix(clean, "../") {
			p.Fail(item.Pos, "write a path below the folder of the step, such as dist/*.tar.gz",
				"%q is not in the folder of the step", tree.Shorten(item.Text))
		}
	}
	return v
}

// interpreter reads the program that runs scripts, with its arguments.
func (p *parsing) interpreter(n *tree.Node) tree.Value {
	switch {
	case n == nil:
		return tree.Value{}
	case n.Kind != tree.List || len(n.Items) == 0:
		p.Fail(n.Pos, "write [bash, -euo, pipefail, -c]", "interpreter is a list of texts, not %s", tree.Describe(n))
		return tree.Value{}
	}
	for _, item := range n.Items {
		if item.Kind != tree.Text || expr.HasExpression(item.Text) {
			p.Fail(item.Pos, "", "an item of interpreter is a text without expressions, not %s", tree.Describe(item))
		}
	}
	return tree.ValueOf(n)
}

// results reads where results of a process are looked for.
func (p *parsing) results(n *tree.Node) string {
	if n == nil {
		return ""
	}
	if n.Kind != tree.Text || n.Text != resultsInFile && n.Text != resultsInLines {
		p.Fail(n.Pos, "", "results is file or lines, not %s", tree.Describe(n))
		return ""
	}
	return n.Text
}

// attemptVariables describe an attempt to its process. A step's setting of them would have no effect.
var attemptVariables = []string{
	"PAWL_RUN_ID", "PAWL_STEP", "PAWL_ATTEMPT", "PAWL_IDEMPOTENCY_KEY", "PAWL_DEADLINE_MS", "PAWL_LAST_HEARTBEAT",
	"PAWL_LAST_HEARTBEAT_FILE", "PAWL_OUTPUT", "PAWL_OWNER", "PAWL_HEADERS",
}

// env reads the variables of a process.
func (p *parsing) env(n *tree.Node) tree.Value {
	v := p.mapping(n, "env")
	if n == nil || n.Kind != tree.Mapping {
		return v
	}
	for _, f := range n.Fields {
		switch {
		case f.Name == "" || strings.ContainsAny(f.Name, "=\x00"):
			p.Fail(f.Pos, "", "%q is not the name of an environment variable", tree.Shorten(f.Name))
		case slices.Contains(attemptVariables, f.Name):
			p.Fail(f.Pos, "give yours another name",
				"%s is set by Pawl for each attempt, so this has no effect", f.Name)
		case f.Value.Kind == tree.Text && strings.Contains(f.Value.Text, "\x00"):
			p.Fail(f.Value.Pos, "give such data by stdin", "an environment variable cannot hold a zero byte")
		}
	}
	return v
}

// listIn reads a list of texts.
func listIn(p *parsing, n *tree.Node, what string) tree.Value {
	switch {
	case n == nil || n.Kind == tree.Null:
		return tree.Value{}
	case n.Kind != tree.List:
		p.Fail(n.Pos, "", "%s is a list of texts, not %s", what, tree.Describe(n))
		return tree.Value{}
	}
	return p.textsValue(n, what)
}

func (e *Exec) encode() tree.Value {
	o := object{}
	o.put("command", e.Command)
	o.put("shell", e.Shell)
	o.put("interpreter", e.Interpreter)
	o.text("results", e.Results)
	o.put("env", e.Env)
	o.put("dir", e.Dir)
	o.put("stdin", e.Stdin)
	o.duration("grace", e.Grace)
	o.put("container", encodeContainer(e.Container))
	o.put("artifacts", e.Artifacts)
	o.put("tests", e.Tests)
	o.names("artifactsFrom", e.ArtifactsFrom)
	return o.value()
}

func (*Exec) spec(spec *core.StepSpec) { spec.Type = "exec" }

func (e *Exec) compile(b *builder, p *plan, s *Step, vars expr.Vars) {
	b.placeholders = false
	p.payload = b.exec(e.with(b.settings(s)), vars)
	p.refers = b.placeholders
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

func (e *Exec) over(settings Settings) Action { return e.with(settings) }

// with returns the action with the settings of its service and of the document.
func (e *Exec) with(settings Settings) *Exec {
	if settings.Exec == nil {
		return e
	}
	return overExec(settings.Exec, e)
}

func overExec(base, over *Exec) *Exec {
	if base == nil {
		return over
	}
	out := *over
	out.Env = overMapping(base.Env, over.Env)
	if out.Dir.IsZero() {
		out.Dir = base.Dir
	}
	if out.Interpreter.IsZero() {
		out.Interpreter = base.Interpreter
	}
	if out.Results == "" {
		out.Results = base.Results
	}
	if out.Grace == nil {
		out.Grace = base.Grace
	}
	out.Container = overContainer(base.Container, over.Container)
	return &out
}

func (e *Exec) pointless(kind policy.LimitKind, inLines bool) (severity Severity, code, why string) {
	switch {
	case kind != policy.LimitHeartbeat:
		return noEvent(kind)
	case !inLines:
		return Warning, lintNoSignOfLife, "without results: lines no line of stdout is a heartbeat, so heartbeat " +
			"ends it in any case; add results: lines, or use inactivity, the silence of all output"
	case e.Results != resultsInLines && !speaksOf(e, "heartbeat"): // it is asked for in a shared setting
		return Info, lintNoSignOfLife, `only a line {"pawl": {"heartbeat": …}} on stdout is a heartbeat; ` +
			`for the silence of all output use inactivity`
	}
	return "", "", ""
}

func (e *Exec) lint(l *linter, s *Step, _ *plan) {
	l.exits(s, e)
	l.braces(s, e)
}

// exits looks for a process whose exit code is to be allowed with the word for failures that a process reports itself.
func (l *linter) exits(s *Step, e *Exec) {
	if !slices.Contains(s.ContinueOn, EndFailed) || slices.Contains(s.ContinueOn, EndError) ||
		speaksOf(e, "PAWL_OUTPUT") || l.inLines(s) {
		return
	}
	severity := Warning
	if e.Shell.IsZero() {
		severity = Info // the program may report its failures
	}
	l.add(severity, s.pos, lintWrongEnding, s.Name, "step %q: an exit code other than 0 is an error, which "+
		"continueOn: [failed] does not allow; write continueOn: [error]", s.Name)
}

// speaksOf reports whether the word occurs somewhere in the program's text.
func speaksOf(e *Exec, word string) bool {
	text, err := json.Marshal([]any{e.Command.Any(), e.Shell.Any()})
	return err == nil && strings.Contains(string(text), word)
}

func (e *Exec) withNotice() Action {
	if !e.Stdin.IsZero() {
		return e
	}
	out := *e
	out.Stdin = V(noticeText + "\n")
	return &out
}
