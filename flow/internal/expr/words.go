package expr

import (
	"path"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/tree"
)

// shells read quoted words as q writes them. With -c they run a text.
var shells = []string{"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "busybox", "su", "runuser"}

// IsShell reports whether the program is a shell for whose texts q quotes.
func IsShell(program string) bool { return slices.Contains(shells, path.Base(program)) }

// codeOptions are the options of other programs that run the text behind them, in a language of their own.
var codeOptions = map[string][]string{
	"python": {"-c"}, "node": {"-e", "-p", "--eval", "--print"}, "perl": {"-e", "-E"}, "ruby": {"-e"}, "php": {"-r"},
	"cmd": {"/c", "/C", "/k"}, "powershell": {"-c", "-Command", "-command"}, "pwsh": {"-c", "-Command", "-command"},
}

// Command compiles the program and its arguments: a list of texts, or an expression that evaluates to one. The value of
// an expression is data. So an expression in a text which the program runs, as in [sh, -c, TEXT], is compiled like the
// text of a shell, and refused if the program is not a shell.
func (c *Compiler) Command(n *tree.Node, vars Vars) *Template {
	if n == nil || n.Kind != tree.List {
		return c.TextList(n, vars)
	}
	script, program := scriptIn(n.Items)
	if script < 0 || !HasExpression(n.Items[script].Text) {
		return c.TextList(n, vars)
	}
	if !IsShell(program) {
		c.Report(n.Items[script].Pos, "give values as further arguments, or by env:",
			"%s would run what this expression says", path.Base(program))
		return c.TextList(n, vars)
	}
	t := &Template{at: n.Pos, items: make([]*Template, len(n.Items))}
	for i, item := range n.Items {
		if i == script {
			t.items[i] = c.Shell(item, vars)
		} else {
			t.items[i] = c.Template(item, vars, true)
		}
	}
	return t
}

// scriptIn returns which word of a command is a text that a program runs, and the program; -1: none is.
func scriptIn(words []*tree.Node) (script int, program string) {
	for i, word := range words {
		name := strings.TrimSuffix(path.Base(word.Text), ".exe")
		options, known := codeOptions[strings.TrimRight(name, "0123456789.")]
		if !known && !IsShell(name) {
			continue
		}
		for j := i + 1; j < len(words)-1; j++ {
			option := words[j].Text
			if slices.Contains(options, option) ||
				!known && strings.HasPrefix(option, "-") && strings.HasSuffix(option, "c") {
				return j + 1, name
			}
		}
	}
	return -1, ""
}
