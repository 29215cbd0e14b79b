package zartform

import (
	"testing"

	"github.com/pawl-dev/pawl/dialect/internal/policytest"
)

func TestPolicy(t *testing.T) { policytest.Run(t, "testdata/policy", Policy) }
