package zartform_test

import (
	"testing"

	"github.com/pawl-dev/pawl/dialect/internal/formtest"
	"github.com/pawl-dev/pawl/dialect/zart/zartform"
)

// TestForm reads flows in which policies stand in Zart's words, and some in the words of others.
func TestForm(t *testing.T) { formtest.Run(t, "testdata/flow") }

func TestSchema(t *testing.T) {
	formtest.Fields(t, zartform.Form())
	formtest.Accepts(t, "testdata/flow")
}

func FuzzForm(f *testing.F) { formtest.Fuzz(f, "testdata/flow") }
