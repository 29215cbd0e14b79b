package expr

import (
	"regexp"

	"github.com/expr-lang/expr/ast"

	"github.com/pawl-dev/pawl/internal/tree"
)

// Kinds of placeholders.
const (
	RefersSecret = 's'
	RefersEnv    = 'e'
)

// placeholder represents a value that only the worker knows that executes a task.
type placeholder struct {
	kind byte
	name string
}

// placeholders matches an expression that is one placeholder.
var placeholders = regexp.MustCompile(`^(secrets|env)(?:\.([A-Za-z_][A-Za-z0-9_]*)|\[(?:'([^'\\]+)'|"([^"\\]+)")\])$`)

// placeholder returns the placeholder that a part of a text is, or nil if it is not one, or is wrong, which is
// reported.
func (c *Compiler) placeholder(n *tree.Node, part segment, vars Vars) *placeholder {
	if !part.expression || vars&VarPlaceholders == 0 {
		return nil
	}
	m := placeholders.FindStringSubmatch(part.text)
	if m == nil || c.Language.knows(m[1]) {
		return nil
	}
	r := &placeholder{kind: RefersSecret, name: m[2] + m[3] + m[4]}
	if m[1] == "env" {
		r.kind = RefersEnv
	}
	if problem, hint := c.Refers(r.kind, r.name); problem != "" {
		c.Report(c.Source.Inside(n, part.offset), hint, "%s", problem)
	}
	return r
}

// knows reports whether a document has its own variable of that name.
func (l *Language) knows(name string) bool {
	for _, own := range l.own {
		if own == name {
			return true
		}
	}
	return false
}

// checkPlaceholder reports a placeholder where none is allowed.
func (n *names) checkPlaceholder(at *ast.IdentifierNode) {
	if (at.Value != "secrets" && at.Value != "env") || n.language.knows(at.Value) || n.declared[at.Value] {
		return
	}
	if n.allowed&VarPlaceholders != 0 {
		n.fail(at.Location().From, "write ${{ "+at.Value+".name }} and the rest as text around it",
			"%s are put in when the step is executed, so an expression cannot work with them", at.Value)
		return
	}
	n.fail(at.Location().From, "pass it with env: and use \"$NAME\"",
		"%s.NAME works in exec, http and mail only, and not in the text of a shell", at.Value)
}
