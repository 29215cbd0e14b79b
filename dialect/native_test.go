package dialect_test

import (
	"testing"

	"github.com/pawl-dev/pawl/dialect/internal/policytest"
	"github.com/pawl-dev/pawl/policy"
)

// TestNative reads Pawl's own form as the other systems' are read, so that a list of cases may mix them.
func TestNative(t *testing.T) { policytest.Run(t, "testdata/policy", policy.DecodePolicy) }
