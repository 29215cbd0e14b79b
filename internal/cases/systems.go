package cases

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/systems"
	"github.com/pawl-dev/pawl/policy"
)

// native is Pawl's own form of policies.
const native = "native"

// translate translates one step's policy from a system's own form. What the form does not allow is a
// [*decode.Error]; an unknown system is another error.
func translate(system string, v any) (policy.Policy, error) {
	if system == native {
		return policy.DecodePolicy(v)
	}
	s := systems.Of(system)
	if s == nil {
		names := append(systems.Names(), native)
		slices.Sort(names)
		return policy.Policy{}, fmt.Errorf("unknown system %q; use one of %s", system, strings.Join(names, ", "))
	}
	return s.Policy(v)
}
