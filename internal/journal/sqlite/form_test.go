package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/golden"
)

// TestForms checks that a new file has the tables of version 0.1.0. The command opens files that 0.1.0 has written with
// runs.
func TestForms(t *testing.T) {
	j := opened(t, filepath.Join(t.TempDir(), "pawl.db"))
	all := table(t, j, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND type <> 'view' ORDER BY name")
	golden.Same(t, "schema.sql", fmt.Appendf(nil, "-- format %d\n%s\n", format, strings.Join(all, "\n")))
}
