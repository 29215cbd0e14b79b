package flow

import (
	"encoding/json"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// lintPipe is a pipe whose failure nobody sees.
const lintPipe = "pipe-hides-failure"

// LintPipes says which scripts of a document have pipes. On a machine whose /bin/sh does not know pipefail a pipe ends
// as its last program does, whatever happens to the others. The document has been compiled without error.
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

// chosen reports whether another shell than that of this machine runs scripts.
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

// eaten looks for a limit of all attempts that also counts the time in which another run has what the step needs.
func (l *linter) eaten(s *Step, p *policy.Policy) {
	limit := p.ScheduleToClose
	if limit == nil || limit.At != 0 || p.ScheduleToStart != nil {
		return
	}
	what, alone := l.alone(s)
	if !alone {
		return
	}
	severity := Warning
	if p.StartToClose != nil {
		severity = Info // whoever limits both has thought of it
	}
	l.once(severity, limit.Origin, s.pos, lintWaitEatsLimit, s.Name, "%s (%s) also counts the time in which it waits "+
		"for %s, which one attempt has at a time; limit each attempt with startToClose, and that wait with "+
		"scheduleToStart", policy.LimitScheduleToClose, duration.Format(limit.After), what)
}

// alone returns the service or the queue of a step of which one attempt runs at a time.
func (l *linter) alone(s *Step) (what string, found bool) {
	one := func(q *policy.QueueLimits) bool { return q != nil && (q.Concurrency == 1 || q.PerKey == 1) }
	for _, service := range l.doc.Services {
		if service.Name == s.Service && one(service.Limits) {
			return "the service " + service.Name, true
		}
	}
	for _, q := range l.doc.Queues {
		if q.Name == s.Queue && one(q.Limits) {
			return "the queue " + q.Name, true
		}
	}
	return "", false
}

// otherBraces are expressions of Argo, Jinja and others: {{inputs.name}}.
var otherBraces = regexp.MustCompile(`(?:^|[^$])(\{\{-?\s*=?\s*(?:inputs?|item|steps|workflow|params|parameters|` +
	`tasks|matrix|github|env|secrets|outputs|dag_run|var)\b[^{}]*\}\})`)

// braces looks for expressions of other systems, which are plain text here.
func (l *linter) braces(s *Step, e *Exec) {
	text, err := json.Marshal([]any{e.Command.Any(), e.Shell.Any(), e.Env.Any()})
	if err != nil {
		return
	}
	if m := otherBraces.FindSubmatch(text); m != nil {
		l.add(Warning, s.pos, lintOtherBraces, s.Name, "step %q: %s is passed on as it is: an expression is written "+
			"${{ … }}", s.Name, m[1])
	}
}
