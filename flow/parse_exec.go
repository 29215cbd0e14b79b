package flow

import (
	"path"
	"regexp"
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
	e.Artifacts = filesIn(p, n.Get("artifacts"), "artifacts")
	e.Tests = filesIn(p, n.Get("tests"), "tests")
	e.ArtifactsFrom, e.artifactsPos = p.texts(n.Get("artifactsFrom"), "artifactsFrom")
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

var pulls = []string{"missing", "always", "never"}

// containerIn reads the container of a process: an image alone, a mapping, or false for none.
func containerIn(p *parsing, n *tree.Node) *Container {
	switch {
	case n == nil || n.Kind == tree.Null:
		return nil
	case n.Kind == tree.Bool && n.Any() == false:
		return &Container{Off: true}
	case n.Kind == tree.Text:
		return &Container{Image: imageIn(p, n), pos: n.Pos}
	case n.Kind != tree.Mapping:
		p.Fail(n.Pos, "write container: IMAGE", "container is an image, a mapping or false, not %s", tree.Describe(n))
		return nil
	}
	p.object(n, "container", containerKeys)
	c := &Container{
		Image:   imageIn(p, n.Get("image")),
		Args:    listIn(p, n.Get("args"), "args"),
		Volumes: listIn(p, n.Get("volumes"), "volumes"),
		User:    p.textValue(n.Get("user"), "user"),
		Network: p.textValue(n.Get("network"), "network"),
		Pull:    p.text(n.Get("pull"), "pull"),
		Options: listIn(p, n.Get("options"), "options"),
		pos:     n.Pos,
	}
	if c.Pull != "" && !contains(pulls, c.Pull) {
		p.Fail(n.Get("pull").Pos, "", "pull is %s, not %q", orList(pulls), tree.Shorten(c.Pull))
	}
	if w := n.Get("workspace"); w != nil && w.Kind == tree.Bool && w.Any() == false {
		c.NoWorkspace = true
	} else {
		c.Workspace = p.textValue(w, "workspace")
	}
	if i := n.Get("init"); i != nil && i.Kind != tree.Null {
		init := p.truth(i, "init")
		c.Init = &init
	}
	checkVolumes(p, n.Get("volumes"))
	return c
}

// imageIn reads the image of a container. One that begins with a dash would be taken for an option.
func imageIn(p *parsing, n *tree.Node) tree.Value {
	if n != nil && n.Kind == tree.Text && (n.Text == "" || strings.HasPrefix(n.Text, "-") ||
		!expr.HasExpression(n.Text) && strings.ContainsAny(n.Text, " \t\n")) {
		p.Fail(n.Pos, "write container: alpine:3.22", "%q is not the name of an image", tree.Shorten(n.Text))
	}
	return p.textValue(n, "image")
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

// checkVolumes checks the mounts: source:target or source:target:options.
func checkVolumes(p *parsing, n *tree.Node) {
	if n == nil || n.Kind != tree.List {
		return
	}
	for _, item := range n.Items {
		if item.Kind != tree.Text || expr.HasExpression(item.Text) {
			continue
		}
		const hint = "write SOURCE:TARGET or SOURCE:TARGET:ro"
		parts := strings.Split(withoutDrive(item.Text), ":")
		switch {
		case len(parts) < 2 || len(parts) > 3 || parts[0] == "":
			p.Fail(item.Pos, hint, "%q is not a volume", tree.Shorten(item.Text))
		case !path.IsAbs(parts[1]):
			p.Fail(item.Pos, hint, "the target of a volume is an absolute path, not %q", tree.Shorten(parts[1]))
		case parts[1] == ownFolder || strings.HasPrefix(parts[1], ownFolder+"/"):
			p.Fail(item.Pos, "choose another target", "%s is where Pawl has its own files in a container", ownFolder)
		}
	}
}

// ownFolder has $PAWL_OUTPUT in a container.
const ownFolder = "/pawl"

// drive is the beginning of a volume on Windows. A volume of the container program may have a name of one letter.
var drive = regexp.MustCompile(`^[A-Za-z]:(\\|/.*:/)`)

// withoutDrive returns a volume without the letter of a Windows drive at its beginning.
func withoutDrive(volume string) string {
	if drive.MatchString(volume) {
		return volume[2:]
	}
	return volume
}
