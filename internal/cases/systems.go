package cases

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/dialect/aether"
	"github.com/pawl-dev/pawl/dialect/steep"
	"github.com/pawl-dev/pawl/dialect/stevora"
	"github.com/pawl-dev/pawl/dialect/temporal/temporalform"
	"github.com/pawl-dev/pawl/dialect/zart/zartform"
	"github.com/pawl-dev/pawl/policy"
)

// systems translate the policy of one step, by the name of the system in whose form it is written.
var systems = map[string]func(v any) (policy.Policy, error){
	"native":   policy.DecodePolicy,
	"steep":    steep.Policy,
	"stevora":  stevora.Policy,
	"zart":     zartform.Policy,
	"aether":   aether.Policy,
	"temporal": temporalform.Policy,
}

// translate translates one step's policy from a system's own form. What the form does not allow is a
// [*decode.Error]; an unknown system is another error.
func translate(system string, v any) (policy.Policy, error) {
	of, ok := systems[system]
	if !ok {
		return policy.Policy{}, fmt.Errorf("unknown system %q; use one of %s", system,
			strings.Join(slices.Sorted(maps.Keys(systems)), ", "))
	}
	return of(v)
}
