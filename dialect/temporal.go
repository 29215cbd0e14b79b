package dialect

import (
	"math"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/policy"
)

// temporal bounds an activity by four timeouts. Those that are not given, or zero, are filled in, and those that could
// never fire are cut, as its server does: with schedule-to-close, schedule-to-start and start-to-close are at most
// that, and a heartbeat timeout is at most start-to-close. What is left of the run bounds them all, which the run's
// own deadline sees to.
func temporal(v any) (policy.Policy, error) {
	f := policy.ReadFields(v, "retryPolicy", "scheduleToStartTimeout", "startToCloseTimeout", "scheduleToCloseTimeout",
		"heartbeatTimeout")
	retry, err := temporalRetry(f.Value("retryPolicy"))
	f.Keep("retryPolicy", err)

	scheduleToClose := temporalLimit(f, "scheduleToCloseTimeout", false)
	scheduleToStart := temporalLimit(f, "scheduleToStartTimeout", false)
	startToClose := temporalLimit(f, "startToCloseTimeout", true)
	heartbeat := temporalLimit(f, "heartbeatTimeout", true)
	if f.Err() != nil {
		return policy.Policy{}, f.Err()
	}
	if scheduleToClose == nil && startToClose == nil {
		return policy.Policy{}, &policy.FieldError{Msg: "startToCloseTimeout or scheduleToCloseTimeout must be given"}
	}
	if scheduleToClose != nil {
		scheduleToStart = within(scheduleToClose, orFilled(scheduleToStart, &policy.Limit{}))
		startToClose = within(scheduleToClose, orFilled(startToClose, &policy.Limit{Retry: true}))
	}
	if heartbeat != nil {
		heartbeat = within(startToClose, heartbeat)
	}
	return policy.Policy{Retry: retry, Limits: policy.Limits{
		ScheduleToStart: scheduleToStart,
		StartToClose:    startToClose,
		ScheduleToClose: scheduleToClose,
		Heartbeat:       heartbeat,
	}}, nil
}

// temporalLimit reads one timeout; absent or zero is none.
func temporalLimit(f *policy.Fields, key string, retry bool) *policy.Limit {
	after := temporalDuration(f, key)
	if after == 0 {
		return nil
	}
	return &policy.Limit{After: after, Retry: retry, Origin: key}
}

func orFilled(limit, empty *policy.Limit) *policy.Limit {
	if limit == nil {
		return empty
	}
	return limit
}

// within cuts a limit that is longer than its outer one, or has no length yet, to that one's; what bounds it then was
// configured there.
func within(outer, limit *policy.Limit) *policy.Limit {
	if limit.After == 0 || limit.After > outer.After {
		limit.After, limit.Origin = outer.After, outer.Origin
	}
	return limit
}

// temporalRetry retries without end unless told otherwise; zero stands for a field's default.
func temporalRetry(v any) (*policy.Retry, error) {
	f := policy.ReadFields(v, "initialInterval", "backoffCoefficient", "maximumInterval", "maximumAttempts",
		"nonRetryableErrorTypes")
	r := &policy.Retry{
		MaxAttempts:        f.Int("maximumAttempts", 0, 0, math.MaxInt32),
		InitialInterval:    temporalDuration(f, "initialInterval"),
		BackoffCoefficient: f.Number("backoffCoefficient", 0, 0, math.MaxFloat64),
		MaxInterval:        temporalDuration(f, "maximumInterval"),
		On:                 []policy.Kind{policy.KindError, policy.KindFailed, policy.KindTimeout},
		NonRetryable:       f.Texts("nonRetryableErrorTypes"),
	}
	if r.MaxAttempts == 0 {
		r.MaxAttempts = policy.Unlimited
	}
	if r.InitialInterval == 0 {
		r.InitialInterval = time.Second
	}
	switch {
	case r.BackoffCoefficient == 0:
		r.BackoffCoefficient = 2
	case r.BackoffCoefficient < 1:
		f.Fail("backoffCoefficient", "%v is below 1", r.BackoffCoefficient)
	}
	switch {
	case r.MaxInterval == 0 && r.InitialInterval > math.MaxInt64/100:
		r.MaxInterval = math.MaxInt64
	case r.MaxInterval == 0:
		r.MaxInterval = 100 * r.InitialInterval
	case r.MaxInterval < r.InitialInterval:
		f.Fail("maximumInterval", "%s is below the initialInterval of %s",
			duration.Format(r.MaxInterval), duration.Format(r.InitialInterval))
	}
	return r, f.Err()
}

// temporalDuration reads Pawl's grammar, Go's ("1.5s", as the JSON of its protocol has it), and a number of
// milliseconds; absent is zero.
func temporalDuration(f *policy.Fields, key string) time.Duration {
	text, ok := f.Value(key).(string)
	if !ok {
		return f.Duration(key, 0)
	}
	d, err := duration.Parse(text)
	if err == nil {
		return d
	}
	d, goErr := time.ParseDuration(text)
	switch {
	case goErr != nil:
		f.Keep(key, err)
	case d < 0:
		f.Fail(key, "%s is negative", text)
	case d > 0 && d < time.Millisecond:
		f.Fail(key, "%s is shorter than a millisecond", text)
	}
	return d.Truncate(time.Millisecond)
}
