package dialect

import "github.com/pawl-dev/pawl/policy"

// native is Pawl's own form, so that a list of cases may mix it with the others.
func native(v any) (policy.Policy, error) { return policy.DecodePolicy(v) }
