package dialect

import (
	"math"

	"github.com/pawl-dev/pawl/policy"
)

// steep has its policies in two places: a service's metadata and the action that executes it. Each field of the
// action replaces the service's field as a whole.
func steep(v any) (policy.Policy, error) {
	f := policy.ReadFields(v, "service", "action")
	service, err := steepPlace("service", f.Value("service"))
	f.Keep("service", err)
	action, err := steepPlace("action", f.Value("action"))
	f.Keep("action", err)
	p := policy.Overlay(service, action)
	if p.Retry == nil {
		p.Retry = steepRetry()
	}
	return p, f.Err()
}

// steepClocks are Steep's names for the limits. A deadline spans the attempts; the other two restart with each.
var steepClocks = []struct {
	field string
	kind  policy.LimitKind
}{
	{"maxInactivity", policy.LimitInactivity},
	{"maxRuntime", policy.LimitStartToClose},
	{"deadline", policy.LimitDeadline},
}

func steepPlace(place string, v any) (policy.Policy, error) {
	var p policy.Policy
	f := policy.ReadFields(v, "retries", "maxInactivity", "maxRuntime", "deadline")
	if f.Has("retries") {
		retry, err := decodeSteepRetry(f.Value("retries"))
		f.Keep("retries", err)
		p.Retry = retry
	}
	for _, clock := range steepClocks {
		if !f.Has(clock.field) {
			continue
		}
		limit, err := steepLimit(f.Value(clock.field))
		f.Keep(clock.field, err)
		limit.Retry = clock.kind.RetriesByDefault()
		limit.Origin = place + "." + clock.field
		p.Set(clock.kind, limit)
	}
	return p, f.Err()
}

// steepLimit reads a duration, or {timeout, errorOnTimeout}. By default an expiry cancels.
func steepLimit(v any) (*policy.Limit, error) {
	limit := &policy.Limit{OnExpire: policy.ExpireCancel}
	var err error
	if _, ok := v.(map[string]any); !ok {
		limit.After, err = amount(v)
		return limit, err
	}
	f := policy.ReadFields(v, "timeout", "errorOnTimeout")
	if f.Bool("errorOnTimeout", false) {
		limit.OnExpire = policy.ExpireFail
	}
	if f.Has("timeout") {
		limit.After, err = amount(f.Value("timeout"))
		f.Keep("timeout", err)
	} else {
		f.Fail("timeout", "missing")
	}
	return limit, f.Err()
}

// steepRetry is one attempt and, where there are more, no delay between them. Steep does not tell failures apart.
func steepRetry() *policy.Retry {
	return &policy.Retry{
		MaxAttempts:        1,
		BackoffCoefficient: 1,
		On:                 []policy.Kind{policy.KindError, policy.KindFailed, policy.KindTimeout},
	}
}

func decodeSteepRetry(v any) (*policy.Retry, error) {
	f := policy.ReadFields(v, "maxAttempts", "delay", "exponentialBackoff", "maxDelay")
	r := steepRetry()
	r.MaxAttempts = f.Int("maxAttempts", r.MaxAttempts, policy.Unlimited, math.MaxInt32)
	r.InitialInterval = f.Duration("delay", 0)
	r.BackoffCoefficient = f.Number("exponentialBackoff", 1, 1, math.MaxFloat64)
	maxDelay := f.Duration("maxDelay", 0)
	// Without a factor larger than 1 the delay is always the given one, also where maxDelay is shorter.
	if f.Has("maxDelay") && r.BackoffCoefficient > 1 {
		r.MaxInterval = maxDelay
		if maxDelay == 0 {
			r.InitialInterval = 0 // at most nothing; a MaxInterval of 0 would say the opposite
		}
	}
	return r, f.Err()
}
