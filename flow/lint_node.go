package flow

import (
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// lintEachNode is what is found in limits that a cluster does not hold as one server does.
const lintEachNode = "limit-of-each-node"

// LintNodes says which limits of a document mean something else on the nodes of a cluster than on one server. Each node
// counts for its own runs, so a limit of 1 excludes nothing there: that is a warning. The document has been compiled
// without error.
func LintNodes(doc *Document) []Finding {
	l := linter{doc: doc}
	for _, q := range doc.Queues {
		l.eachNode("queue", q.Name, q.pos, q.Limits)
	}
	for _, s := range doc.Services {
		l.eachNode("service", s.Name, s.pos, s.Limits)
	}
	return l.findings
}

func (l *linter) eachNode(what, name string, at tree.Pos, limits *policy.QueueLimits) {
	switch {
	case limits.Zero():
	case limits.Concurrency == 1:
		l.add(Warning, at, lintEachNode, name,
			"%s %q: concurrency: 1 is one on each node of a cluster, and not one in all", what, name)
	case limits.PerKey == 1:
		l.add(Warning, at, lintEachNode, name,
			"%s %q: perKey: 1 is one on each node of a cluster, and not one in all", what, name)
	default:
		l.add(Info, at, lintEachNode, name,
			"%s %q: each node of a cluster counts these limits for its own runs", what, name)
	}
}
