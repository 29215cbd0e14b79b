package steep

import (
	"math"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/policy"
)

// Policy translates what bounds one action, as a YAML or JSON decoder yields it:
//
//	{service: {retries, maxInactivity, maxRuntime, deadline}, action: {the same}}
//
// Steep has its policies in two places: the metadata of a service and the action that executes it. Each field of the
// action replaces the field of the service as a whole. A nil value stands for Steep's defaults. Errors are
// [*decode.Error] values.
func Policy(v any) (policy.Policy, error) {
	f := decode.Read(v, "service", "action")
	service, err := readPlace("service", f.Value("service"))
	f.Keep("service", err)
	action, err := readPlace("action", f.Value("action"))
	f.Keep("action", err)
	p := service.Overlay(action)
	if p.Retry == nil {
		p.Retry = oneAttempt()
	}
	if err := f.Err(); err != nil {
		return policy.Policy{}, err
	}
	return p, nil
}

// clocks are Steep's names for the limits. A deadline spans the attempts; the other two restart with each.
var clocks = []struct {
	field string
	kind  policy.LimitKind
}{
	{"maxInactivity", policy.LimitInactivity},
	{"maxRuntime", policy.LimitStartToClose},
	{"deadline", policy.LimitDeadline},
}

func readPlace(place string, v any) (policy.Policy, error) {
	var p policy.Policy
	f := decode.Read(v, "retries", "maxInactivity", "maxRuntime", "deadline")
	if f.Has("retries") {
		retry, err := readRetry(f.Value("retries"))
		f.Keep("retries", err)
		p.Retry = retry
	}
	for _, clock := range clocks {
		if !f.Has(clock.field) {
			continue
		}
		limit, err := readLimit(f.Value(clock.field))
		f.Keep(clock.field, err)
		limit.Retry = clock.kind.RetriesByDefault()
		limit.Origin = place + "." + clock.field
		p.Set(clock.kind, limit)
	}
	return p, f.Err()
}

// readLimit reads a duration, or {timeout, errorOnTimeout}. By default an expiry cancels.
func readLimit(v any) (*policy.Limit, error) {
	limit := &policy.Limit{OnExpire: policy.ExpireCancel}
	var err error
	if _, ok := v.(map[string]any); !ok {
		limit.After, err = form.Amount(v)
		return limit, err
	}
	f := decode.Read(unquote(v, "errorOnTimeout"), "timeout", "errorOnTimeout")
	if f.Bool("errorOnTimeout", false) {
		limit.OnExpire = 0
	}
	if f.Has("timeout") {
		limit.After, err = form.Amount(f.Value("timeout"))
		f.Keep("timeout", err)
	} else {
		f.Fail("timeout", "missing")
	}
	return limit, f.Err()
}

// oneAttempt returns a policy of one attempt; where a caller allows more, there is no delay between them. Steep does
// not distinguish kinds of failures.
func oneAttempt() *policy.Retry {
	return &policy.Retry{
		MaxAttempts:        1,
		BackoffCoefficient: 1,
		On:                 []policy.Kind{policy.KindError, policy.KindFailed, policy.KindTimeout},
	}
}

func readRetry(v any) (*policy.Retry, error) {
	f := decode.Read(unquote(v, "maxAttempts", "exponentialBackoff"), "maxAttempts", "delay", "exponentialBackoff",
		"maxDelay")
	r := oneAttempt()
	r.MaxAttempts = f.Int("maxAttempts", r.MaxAttempts, policy.Unlimited, math.MaxInt32)
	r.InitialInterval = f.Duration("delay", 0)
	r.BackoffCoefficient = f.Number("exponentialBackoff", 1, 1, math.MaxFloat64)
	maxDelay := f.Duration("maxDelay", 0)
	// A factor of 1 leaves the delay as given, even where maxDelay is shorter.
	if f.Has("maxDelay") && r.BackoffCoefficient > 1 {
		r.MaxInterval = maxDelay
		if maxDelay == 0 {
			r.InitialInterval = 0 // no delay at all; a MaxInterval of 0 would mean no maximum
		}
	}
	return r, f.Err()
}
