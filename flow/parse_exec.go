package flow

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/tree"
)

func (p *parsing) exec(n *tree.Node) Action {
	if n.Kind == tree.Text {
		if n.Text == "" {
			p.Fail(n.Pos, "", "the command is empty")
		}
		return &Exec{Shell: tree.ValueOf(n)}
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
		return &Exec{}
	}
	e := p.execFields(n)
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
	return e
}

// execFields reads what a step and its settings have in common.
func (p *parsing) execFields(n *tree.Node) *Exec {
	return &Exec{
		Interpreter: p.interpreter(n.Get("interpreter")),
		Results:     p.results(n.Get("results")),
		Env:         p.env(n.Get("env")),
		Dir:         p.textValue(n.Get("dir"), "dir"),
		Grace:       p.duration(n.Get("grace"), "grace"),
		Container:   p.container(n.Get("container")),
	}
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

// attemptVariables describe an attempt to its process. What a step says of them would have no effect.
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
