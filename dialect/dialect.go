package dialect

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/dialect/internal/options"
	"github.com/pawl-dev/pawl/policy"
)

// translators by the name of their system.
var translators = map[string]func(v any) (policy.Policy, error){
	"native":   native,
	"steep":    steep,
	"stevora":  stevora,
	"zart":     options.ZartStep,
	"aether":   aether,
	"temporal": options.Temporal,
}

// Systems returns the names that Policy knows, sorted.
func Systems() []string { return slices.Sorted(maps.Keys(translators)) }

// Policy translates one step's policy from a system's own form, as a YAML or JSON decoder yields it:
//
//	native    {retry, timeout}
//	steep     {service: {retries, maxInactivity, maxRuntime, deadline}, action: {the same}}
//	stevora   {retry: {maxAttempts, backoffMs, backoffMultiplier, maxBackoffMs}}
//	zart      {retry: "fixed(3, 1s)", timeout: 5m, timeout_scope: global | per_attempt}
//	aether    {retry: {limit, expression}, timeout: 5m}
//	temporal  {retryPolicy: {initialInterval, backoffCoefficient, maximumInterval, maximumAttempts,
//	          nonRetryableErrorTypes}, scheduleToStartTimeout, startToCloseTimeout, scheduleToCloseTimeout,
//	          heartbeatTimeout}
//
// A nil value is an empty form: the system's defaults. What the form itself does not allow is a [*policy.FieldError];
// an unknown system is another error.
func Policy(system string, v any) (policy.Policy, error) {
	translate, ok := translators[system]
	if !ok {
		return policy.Policy{}, fmt.Errorf("dialect: unknown system %q; use one of %s", system,
			strings.Join(Systems(), ", "))
	}
	p, err := translate(v)
	if err != nil {
		return policy.Policy{}, err
	}
	return p, nil
}

// amount reads a limit's duration, which must not be zero.
func amount(v any) (time.Duration, error) {
	d, err := policy.DecodeDuration(v)
	if err == nil && d == 0 {
		return 0, &policy.FieldError{Msg: "zero leaves no time at all; leave the field out for no limit"}
	}
	return d, err
}

var shortUnits = regexp.MustCompile(`^(\d+(ms|s|m|h|d))+$`)

// shortAmount reads a limit's duration where a system knows only the short units: 500ms, 30s, 5m, 2h, 1d, and sums of
// them such as 1h30m. A number without a unit is refused, for the system would have refused or ignored it.
func shortAmount(f *policy.Fields, key string) time.Duration {
	text := f.Text(key)
	d, err := amount(text)
	f.Keep(key, err)
	if !shortUnits.MatchString(text) {
		f.Fail(key, "%q: write numbers with the units ms, s, m, h or d, as in 30s", text)
	}
	return d
}
