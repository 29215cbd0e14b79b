package temporalform

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/policy"
)

// bounds are the fields of an activity's options that bound it.
var bounds = []string{
	"retryPolicy", "scheduleToStartTimeout", "startToCloseTimeout", "scheduleToCloseTimeout", "heartbeatTimeout",
}

// Policy translates what bounds one activity, as a YAML or JSON decoder yields it:
//
//	{retryPolicy: {initialInterval, backoffCoefficient, maximumInterval, maximumAttempts, nonRetryableErrorTypes},
//	 scheduleToStartTimeout, startToCloseTimeout, scheduleToCloseTimeout, heartbeatTimeout}
//
// Errors are [*decode.Error] values.
func Policy(v any) (policy.Policy, error) {
	f := decode.Read(v, bounds...)
	p := activity(f)
	if f.Err() != nil {
		return policy.Policy{}, f.Err()
	}
	if err := complete(p); err != nil {
		return policy.Policy{}, err
	}
	return p, nil
}

// activity bounds an activity by four timeouts. Its server fills in missing timeouts and shortens those that are longer
// than an outer one: schedule-to-start and start-to-close to schedule-to-close, a heartbeat timeout to start-to-close,
// all of them to the run. A timeout as long as its outer one never fires itself and is left out here.
func activity(f *decode.Fields) policy.Policy {
	retry, never, err := readRetry(f.Value("retryPolicy"))
	f.Keep("retryPolicy", err)

	var p policy.Policy
	p.Retry = retry
	p.ScheduleToClose = readLimit(f, "scheduleToCloseTimeout", false, nil)
	p.ScheduleToStart = readLimit(f, "scheduleToStartTimeout", false, p.ScheduleToClose)
	p.StartToClose = readLimit(f, "startToCloseTimeout", !slices.Contains(never, "StartToClose"), p.ScheduleToClose)
	outer := p.StartToClose
	if outer == nil {
		outer = p.ScheduleToClose
	}
	// A heartbeat timeout that is cut stays: the worker reports heartbeats as often as it needs, and the next attempt
	// reads them.
	p.Heartbeat = readLimit(f, "heartbeatTimeout", !slices.Contains(never, "Heartbeat"), nil)
	if p.Heartbeat != nil && outer != nil && p.Heartbeat.After > outer.After {
		p.Heartbeat.After, p.Heartbeat.Origin = outer.After, outer.Origin
	}
	return p
}

// readLimit reads one timeout. It returns nil if the timeout is absent, zero, or not shorter than the outer one.
func readLimit(f *decode.Fields, key string, retry bool, outer *policy.Limit) *policy.Limit {
	after := readDuration(f, key)
	if after == 0 || outer != nil && after >= outer.After {
		return nil
	}
	return &policy.Limit{After: after, Retry: retry, Origin: key}
}

// readRetry retries without end unless told otherwise; a zero means the default of a field. never are the timeouts that
// the policy lists as not retryable. If there is only one attempt, the other fields are ignored.
func readRetry(v any) (r *policy.Retry, never []string, err error) {
	v = numbers(v, "maximumAttempts", "backoffCoefficient")
	f := decode.Read(v, "initialInterval", "backoffCoefficient", "maximumInterval", "maximumAttempts",
		"nonRetryableErrorTypes")
	r = policy.DefaultRetry()
	r.MaxAttempts, r.Origin = f.Int("maximumAttempts", 0, 0, math.MaxInt32), "retryPolicy"
	r.On = []policy.Kind{policy.KindError, policy.KindFailed, policy.KindTimeout}
	once := r.MaxAttempts == 1
	if r.MaxAttempts == 0 {
		r.MaxAttempts = policy.Unlimited
	}
	if !once {
		delays(f, r)
	}
	for i, name := range f.Texts("nonRetryableErrorTypes") {
		timeout, ok := strings.CutPrefix(name, "TemporalTimeout:")
		switch {
		case !ok:
			r.NonRetryable = append(r.NonRetryable, name)
		case once || slices.Contains(timeouts, timeout):
			never = append(never, timeout)
		default:
			f.Keep("nonRetryableErrorTypes", &decode.Error{
				Path: []string{fmt.Sprint(i)},
				Msg: fmt.Sprintf("there is no timeout %q; write one of %s after TemporalTimeout:", timeout,
					strings.Join(timeouts, ", ")),
			})
		}
	}
	return r, never, f.Err()
}

// timeouts may be represented by TemporalTimeout among the types that are not retried. The first two are retried
// otherwise.
var timeouts = []string{"StartToClose", "Heartbeat", "ScheduleToStart", "ScheduleToClose"}

func delays(f *decode.Fields, r *policy.Retry) {
	r.InitialInterval = readDuration(f, "initialInterval")
	r.BackoffCoefficient = f.Number("backoffCoefficient", 0, 0, math.MaxFloat64)
	r.MaxInterval = readDuration(f, "maximumInterval")
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
	case r.MaxInterval >= r.InitialInterval:
	case r.MaxInterval > 0:
		f.Fail("maximumInterval", "%s is below the initialInterval of %s",
			duration.Format(r.MaxInterval), duration.Format(r.InitialInterval))
	case r.InitialInterval <= math.MaxInt64/100 && r.Longest() > 100*r.InitialInterval:
		r.MaxInterval = 100 * r.InitialInterval // where some delay would be longer
	}
}

// numbers returns the mapping v with the texts of the named fields replaced by numbers, if they are JSON numbers: in
// its protocol's JSON a number may be a text, as in "100". Any other text stays as it is, and is refused later.
func numbers(v any, keys ...string) any {
	fields, ok := v.(map[string]any)
	if !ok {
		return v
	}
	read := maps.Clone(fields)
	for _, key := range keys {
		text, ok := read[key].(string)
		if !ok || !jsonNumber.MatchString(text) {
			continue
		}
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			read[key] = n
		}
	}
	return read
}

// jsonNumber matches a number of JSON, and nothing else that Go would read as one, such as 1_000 and Inf.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$`)

// typescript matches a duration in the options of its TypeScript SDK, such as "1 week" and "1.5 hours".
var typescript = regexp.MustCompile(`^(\d+(?:\.\d+)?|\.\d+) *([A-Za-z]+)$`)

// parseTypescript reads such a duration. Its units are Pawl's, in letters of any case, and weeks and years.
func parseTypescript(text string) (time.Duration, bool) {
	found := typescript.FindStringSubmatch(text)
	if found == nil {
		return 0, false
	}
	var unit time.Duration
	switch name := strings.ToLower(found[2]); name {
	case "w", "week", "weeks":
		unit = 7 * 24 * time.Hour
	case "y", "yr", "yrs", "year", "years":
		unit = 8766 * time.Hour // 365.25 days
	case "msec", "msecs":
		unit = time.Millisecond
	default:
		var err error
		if unit, err = duration.Parse("1" + name); err != nil {
			return 0, false
		}
	}
	number, err := strconv.ParseFloat(found[1], 64)
	amount := number * float64(unit)
	return time.Duration(math.Round(amount)), err == nil && amount < math.MaxInt64
}

// readDuration reads Pawl's grammar, Go's ("1.5s", as in its protocol's JSON), that of its TypeScript SDK, and a number
// of milliseconds; a missing one is zero.
func readDuration(f *decode.Fields, key string) time.Duration {
	text, ok := f.Value(key).(string)
	if !ok {
		return f.Duration(key, 0)
	}
	d, err := duration.Parse(text)
	if err == nil {
		return d
	}
	d, ok = parseTypescript(text)
	if !ok {
		var goErr error
		d, goErr = time.ParseDuration(text)
		ok = goErr == nil
	}
	switch {
	case !ok:
		f.Keep(key, err)
	case d < 0:
		f.Fail(key, "%s is negative", text)
	case d%time.Millisecond != 0:
		f.Fail(key, "%s is not a whole number of milliseconds", text)
	}
	return d
}

// complete refuses an activity that nothing bounds.
func complete(p policy.Policy) error {
	if p.Get(policy.LimitScheduleToClose) == nil && p.Get(policy.LimitStartToClose) == nil {
		return &decode.Error{Msg: "startToCloseTimeout or scheduleToCloseTimeout must be given"}
	}
	return nil
}
