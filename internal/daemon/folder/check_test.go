package folder

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/daemon/workflows"
)

// TestCheckOnANode checks a flow on a server alone and on a node of a cluster, where a limit of 1 is not a mutex.
func TestCheckOnANode(t *testing.T) {
	t.Parallel()
	const text = "pawl: 1\nname: print\nservices: {printer: {limits: {concurrency: 1}}}\n" +
		"steps:\n  - {name: only, service: printer, noop: {}}\n"
	for _, node := range []bool{false, true} {
		got, err := New(t.TempDir(), new(workflows.Store), node).Check(t.Context(), text)
		if err != nil || !got.Valid {
			t.Fatal(got, err)
		}
		warned := len(got.Findings) == 1 && got.Findings[0].Code == "limit-of-each-node" &&
			got.Findings[0].Severity == "warning" && got.Findings[0].Line == 3
		if warned != node || len(got.Findings) > 0 != node {
			t.Errorf("on a node %v: %+v", node, got.Findings)
		}
	}
}
