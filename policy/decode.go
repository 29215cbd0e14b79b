package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/decode"
)

// none is the text that removes an inherited retry policy or limit.
const none = "none"

var (
	policyKeys = []string{"retry", "timeout"}
	retryKeys  = []string{
		"maxAttempts", "initialInterval", "backoffCoefficient", "maxInterval", "jitter", "on", "when", "nonRetryable",
		"maxLost", "origin",
	}
	limitKeys = []string{"after", "retry", "onExpire", "warn", "origin"}
)

// DefaultRetry returns the values of the fields that a retry policy does not give: one attempt, a delay of 1s that
// doubles with each further attempt, and retries of errors and timeouts.
func DefaultRetry() *Retry {
	return &Retry{
		MaxAttempts: 1, InitialInterval: time.Second, BackoffCoefficient: 2, On: slices.Clone(defaultOn),
	}
}

// DecodePolicy reads {retry, timeout} from a value that a YAML or JSON decoder returned. Errors of the Decode functions
// name the field that is wrong.
func DecodePolicy(v any) (Policy, error) {
	var p Policy
	f := decode.Read(v, policyKeys...)
	retry, err := DecodeRetry(f.Value("retry"))
	f.Keep("retry", err)
	limits, err := decodeLimits(f.Value("timeout"))
	f.Keep("timeout", err)
	if f.Err() != nil {
		return p, f.Err()
	}
	return Policy{Retry: retry, Limits: limits}, nil
}

// DecodeRetry reads a retry policy: a preset as text, see [ParsePreset], or a mapping. Missing fields of the mapping
// are those of [DefaultRetry]. For nil it returns nil: no policy.
func DecodeRetry(v any) (*Retry, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil // no policy is not an error: an inherited one may apply
	case string:
		return parsePreset(v)
	case map[string]any:
		return decodeRetry(v)
	default:
		msg := fmt.Sprintf("%s where a retry policy is expected: write {maxAttempts: 3} or exponential(3, 1s)",
			decode.Describe(v))
		return nil, &decode.Error{Msg: msg}
	}
}

func decodeRetry(v map[string]any) (*Retry, error) {
	r := DefaultRetry()
	f := decode.Read(v, retryKeys...)
	r.MaxAttempts = readAttempts(f, "maxAttempts", r.MaxAttempts)
	r.InitialInterval = f.Duration("initialInterval", r.InitialInterval)
	r.BackoffCoefficient = f.Number("backoffCoefficient", r.BackoffCoefficient, 1, math.MaxFloat64)
	if f.Value("maxInterval") != none {
		r.MaxInterval = f.Duration("maxInterval", 0)
		if f.Has("maxInterval") && r.MaxInterval == 0 {
			f.Fail("maxInterval", "zero: leave it out for no cap, or set initialInterval to 0 for no delay")
		}
	}
	if f.Value("jitter") == JitterDecorrelated.String() {
		r.JitterKind = JitterDecorrelated
	} else if text, ok := f.Value("jitter").(string); ok {
		f.Fail("jitter", "%q where a number from 0 to 1 or decorrelated is expected", text)
	} else {
		r.Jitter = f.Number("jitter", 0, 0, 1)
	}
	r.When = f.Text("when")
	if f.Has("when") && strings.TrimSpace(r.When) == "" {
		f.Fail("when", "empty expression")
	}
	if f.Has("on") || r.When != "" {
		r.On = readKinds(f, "on")
	}
	r.NonRetryable = f.Texts("nonRetryable")
	for i, name := range r.NonRetryable {
		if name == "" {
			f.Keep("nonRetryable", &decode.Error{Path: []string{fmt.Sprint(i)}, Msg: "empty failure type"})
		}
	}
	if r.MaxLost = readAttempts(f, "maxLost", 0); f.Has("maxLost") && r.MaxLost == 0 {
		f.Fail("maxLost", "zero: 1 or more, or unlimited")
	}
	r.Origin = f.Text("origin")
	if f.Err() != nil {
		return nil, f.Err()
	}
	return r, nil
}

// readAttempts reads a number of attempts: 0 or more, or -1 or unlimited for no bound.
func readAttempts(f *decode.Fields, key string, otherwise int) int {
	text, ok := f.Value(key).(string)
	if !ok {
		return f.Int(key, otherwise, Unlimited, math.MaxInt32)
	}
	if text != "unlimited" {
		f.Fail(key, "%q where a whole number or unlimited is expected", text)
	}
	return Unlimited
}

func readKinds(f *decode.Fields, key string) []Kind {
	texts := f.Texts(key)
	if texts == nil {
		return nil
	}
	kinds := make([]Kind, len(texts))
	for i, text := range texts {
		n := slices.Index(kindNames, text)
		if n < 1 {
			msg := decode.Unknown("failure kind", text, kindNames)
			f.Keep(key, &decode.Error{Path: []string{fmt.Sprint(i)}, Msg: msg})
			continue
		}
		kinds[i] = Kind(n)
	}
	return kinds
}

// decodeLimits reads a step's limits: a mapping of limits by name, or a duration alone. A duration alone is a
// scheduleToClose, which covers all attempts: `timeout: 5m` means that the step ends after five minutes, however often
// it was tried. For nil it returns no limits.
func decodeLimits(v any) (Limits, error) {
	var limits Limits
	if v == nil {
		return limits, nil
	}
	values, ok := v.(map[string]any)
	if !ok {
		limit, err := LimitScheduleToClose.DecodeLimit(v)
		limits.ScheduleToClose = limit
		return limits, err
	}
	names := make([]string, len(StepLimits))
	for i, kind := range StepLimits {
		names[i] = kind.String()
	}
	if _, ok := values["after"]; ok {
		msg := "after belongs to one limit: write {scheduleToClose: {after: …}}"
		return limits, &decode.Error{Path: []string{"after"}, Msg: msg}
	}
	f := decode.Read(values, names...)
	for _, kind := range StepLimits {
		limit, err := kind.DecodeLimit(f.Value(kind.String()))
		f.Keep(kind.String(), err)
		limits.Set(kind, limit)
	}
	if f.Err() != nil {
		return Limits{}, f.Err()
	}
	return limits, nil
}

// DecodeLimit reads one limit of the kind: a duration, none, or {after, retry, onExpire, warn}. A deadline may also be
// an RFC 3339 instant, alone or as {at: …}. Zero is an error, because the work would end before it starts. So is
// `retry: true` on a limit that spans all attempts. For nil it returns nil: no limit.
func (k LimitKind) DecodeLimit(v any) (*Limit, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil // no limit is not an error: an inherited one may apply
	case map[string]any:
		return decodeLimit(k, v)
	case string:
		if v == none {
			return &Limit{Removed: true}, nil
		}
	}
	limit := &Limit{Retry: k.RetriesByDefault()}
	if err := limit.set(k, v); err != nil {
		return nil, err
	}
	return limit, nil
}

func decodeLimit(kind LimitKind, v map[string]any) (*Limit, error) {
	known := limitKeys
	if mayBeInstant(kind) {
		known = append([]string{"at"}, known...)
	}
	f := decode.Read(v, known...)
	limit := &Limit{Retry: f.Bool("retry", kind.RetriesByDefault())}
	if limit.Retry && kind != LimitNone && !kind.PerAttempt() {
		f.Fail("retry", "no attempt can follow once %s has passed, for it spans all attempts", kind)
	}
	switch {
	case f.Has("at") && f.Has("after"):
		f.Fail("at", "either at or after, not both")
	case f.Has("at"):
		f.Keep("at", limit.setInstant(kind, f.Value("at")))
	case f.Value("after") == none:
		f.Fail("after", "write none in place of the whole limit to take it away")
	case f.Has("after"):
		f.Keep("after", limit.set(kind, f.Value("after")))
	default:
		f.Fail("after", "missing")
	}
	if f.Has("onExpire") {
		n := slices.Index(expireNames, f.Text("onExpire"))
		if n < 0 {
			f.Fail("onExpire", "%s where fail or cancel is expected", decode.Describe(f.Value("onExpire")))
		}
		limit.OnExpire = Expire(max(n, 0))
	}
	limit.Warn = readPercent(f, "warn")
	if limit.Warn != 0 && limit.At != 0 {
		f.Fail("warn", "a percentage needs after: an instant has no length")
	}
	limit.Origin = f.Text("origin")
	if f.Err() != nil {
		return nil, f.Err()
	}
	return limit, nil
}

// mayBeInstant reports whether the limit may be an instant in place of an amount. LimitNone means a limit of unknown
// kind that UnmarshalJSON reads back, so anything that MarshalJSON wrote is allowed.
func mayBeInstant(kind LimitKind) bool { return kind == LimitDeadline || kind == LimitNone }

// set reads an amount, or for a deadline an instant.
func (l *Limit) set(kind LimitKind, v any) error {
	text, _ := v.(string)
	if _, ok := v.(time.Time); ok || looksLikeInstant(text) {
		return l.setInstant(kind, v)
	}
	after, err := decode.Duration(v)
	if err != nil {
		return err
	}
	if after == 0 {
		return &decode.Error{Msg: "zero leaves no time at all; write none for no limit"}
	}
	l.After = after
	return nil
}

// setInstant reads an instant: text, or the time.Time that some YAML decoders make of it.
func (l *Limit) setInstant(kind LimitKind, v any) error {
	if !mayBeInstant(kind) {
		msg := fmt.Sprintf("%s is an amount of time; only a deadline can be an instant", kind)
		return &decode.Error{Msg: msg}
	}
	at, ok := v.(time.Time)
	if !ok {
		text, _ := v.(string)
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			msg := decode.Describe(v) + " is not an RFC 3339 instant such as 2030-01-31T18:00:00Z"
			return &decode.Error{Msg: msg}
		}
		at = parsed
	}
	// Year 9999 is the last one that RFC 3339 can write.
	if at.Unix() <= 0 || at.UTC().Year() > 9999 {
		return &decode.Error{Msg: at.Format(time.RFC3339) + " is not an instant between 1970 and 9999"}
	}
	l.At = At(at)
	return nil
}

// looksLikeInstant reports whether the text starts like a date. A misspelt instant then gets an error about instants,
// not one about durations.
func looksLikeInstant(text string) bool {
	return len(text) >= 10 && text[4] == '-' && text[7] == '-'
}

// readPercent reads 80% or 80.
func readPercent(f *decode.Fields, key string) int {
	text, ok := f.Value(key).(string)
	if !ok {
		return f.Int(key, 0, 1, 99)
	}
	n := 0
	if _, err := fmt.Sscanf(text, "%d%%", &n); err != nil || fmt.Sprintf("%d%%", n) != text || n < 1 || n > 99 {
		f.Fail(key, "%q where a percentage from 1%% to 99%% is expected", text)
	}
	return n
}
