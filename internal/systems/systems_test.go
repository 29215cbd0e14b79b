package systems

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/flow"
)

// TestFlowsNameTheSystems checks that a flow may name each system as that in whose words its runs are shown, and that
// the schema allows it.
func TestFlowsNameTheSystems(t *testing.T) {
	schema := string(flow.Schema())
	for _, s := range All {
		text := fmt.Sprintf("pawl: 1\nname: a\nwords: %s\nsteps: [{name: b, noop: {}}]\n", s.Name)
		if doc, err := flow.Parse("flow.yaml", []byte(text)); err != nil || doc.Words != s.Name {
			t.Errorf("a flow with the words of %s: %v", s.Name, err)
		}
		if !strings.Contains(schema, `"`+s.Name+`"`) {
			t.Errorf("schema.json does not name %s", s.Name)
		}
	}
}
