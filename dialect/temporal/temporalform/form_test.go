package temporalform_test

import (
	"testing"

	"github.com/pawl-dev/pawl/dialect/internal/formtest"
	"github.com/pawl-dev/pawl/dialect/temporal/temporalform"
)

// TestForm reads flows in which policies stand in Temporal's words, and some in the words of others.
func TestForm(t *testing.T) { formtest.Run(t, "testdata/flow") }

func TestSchema(t *testing.T) {
	formtest.Fields(t, temporalform.Form())
	formtest.Accepts(t, "testdata/flow")
}

func FuzzForm(f *testing.F) { formtest.Fuzz(f, "testdata/flow") }
