package flow

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/pawl-dev/pawl/internal/tree"
)

// lintPipe is the finding for a pipe that hides failures.
const lintPipe = "pipe-hides-failure"

// LintPipes returns which scripts of a document have pipes. On a machine whose /bin/sh does not know pipefail, a pipe
// has the status of its last program, whatever happens to the others. The document has been compiled without error.
func LintPipes(doc *Document) []Finding {
	l := linter{doc: doc, places: map[string]string{"": doc.Place}}
	services := map[string]*Exec{}
	for _, s := range doc.Services {
		services[s.Name] = s.Exec
	}
	for s := range doc.AllSteps() {
		e, ok := s.Action.(*Exec)
		if !ok || chosen(e) || !hasPipe(tree.NodeOf(e.Shell)) {
			continue
		}
		if chosen(services[s.Service]) || chosen(doc.Defaults.Exec) {
			continue
		}
		l.places[s.Name] = s.Place
		l.add(Warning, s.pos, lintPipe, s.Name, "step %q: /bin/sh of this machine does not know pipefail, so its pipe "+
			"fails with its last program only; use interpreter: [bash, -euo, pipefail, -c]", s.Name)
	}
	return l.findings
}

// chosen reports whether scripts run in a shell other than that of this machine.
func chosen(e *Exec) bool {
	return e != nil && (!e.Interpreter.IsZero() || e.Container != nil && !e.Container.Off)
}

// hasPipe reports whether a script pipes the output of one program into another one.
func hasPipe(n *tree.Node) bool {
	if n == nil || n.Kind != tree.Text || !strings.Contains(n.Text, "|") {
		return false
	}
	text := strings.NewReplacer("${{", "$((", "}}", "))").Replace(n.Text)
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return true // a text that cannot be read may have a pipe
	}
	found := false
	syntax.Walk(file, func(n syntax.Node) bool {
		if b, ok := n.(*syntax.BinaryCmd); ok && (b.Op == syntax.Pipe || b.Op == syntax.PipeAll) {
			found = true
		}
		return !found
	})
	return found
}
