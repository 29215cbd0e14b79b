package policy

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/duration"
)

// The JSON forms are those of flow files: the data in a journal could also be in a flow file. The Decode functions read
// them back to the same value, exact to the millisecond.

type retryJSON struct {
	MaxAttempts        int               `json:"maxAttempts"`
	InitialInterval    duration.Duration `json:"initialInterval"`
	BackoffCoefficient float64           `json:"backoffCoefficient"`
	MaxInterval        duration.Duration `json:"maxInterval,omitzero"`
	Jitter             any               `json:"jitter,omitempty"`
	On                 []Kind            `json:"on,omitzero"`
	When               string            `json:"when,omitempty"`
	NonRetryable       []string          `json:"nonRetryable,omitempty"`
	MaxLost            int               `json:"maxLost,omitempty"`
	Origin             string            `json:"origin,omitempty"`
}

// MarshalJSON writes the native form.
func (r Retry) MarshalJSON() ([]byte, error) {
	out := retryJSON{
		MaxAttempts:        max(r.MaxAttempts, Unlimited),
		InitialInterval:    duration.Duration(max(r.InitialInterval, 0)),
		BackoffCoefficient: max(r.BackoffCoefficient, 1),
		MaxInterval:        atLeastOne(r.MaxInterval),
		On:                 r.On,
		When:               r.When,
		NonRetryable:       r.NonRetryable,
		MaxLost:            max(r.MaxLost, Unlimited),
		Origin:             r.Origin,
	}
	if r.JitterKind == JitterDecorrelated {
		out.Jitter = r.JitterKind.String()
	} else if r.Jitter > 0 {
		out.Jitter = r.Jitter
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what DecodeRetry reads. Null changes nothing, as is usual with encoding/json.
func (r *Retry) UnmarshalJSON(data []byte) error {
	v, err := decodeJSON(data)
	if err != nil {
		return err
	}
	decoded, err := DecodeRetry(v)
	if err == nil && decoded != nil {
		*r = *decoded
	}
	return err
}

type limitJSON struct {
	After    duration.Duration `json:"after,omitzero"`
	At       *time.Time        `json:"at,omitempty"`
	Retry    bool              `json:"retry"`
	OnExpire Expire            `json:"onExpire,omitempty"`
	Warn     int               `json:"warn,omitempty"`
	Origin   string            `json:"origin,omitempty"`
}

// MarshalJSON writes every field. A default may differ between limits, so leaving one out could change the meaning.
func (l Limit) MarshalJSON() ([]byte, error) {
	if l.Removed {
		return json.Marshal(none)
	}
	out := limitJSON{
		After: atLeastOne(l.After), Retry: l.Retry, OnExpire: l.OnExpire, Warn: l.Warn, Origin: l.Origin,
	}
	if l.At != 0 {
		at := l.At.Std()
		out.At = &at
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what [LimitKind.DecodeLimit] reads. It does not know which limit it reads: if `retry` is not
// given, it is false.
func (l *Limit) UnmarshalJSON(data []byte) error {
	v, err := decodeJSON(data)
	if err != nil {
		return err
	}
	decoded, err := LimitNone.DecodeLimit(v)
	if err == nil && decoded != nil {
		*l = *decoded
	}
	return err
}

type limitsJSON struct {
	ScheduleToClose *Limit `json:"scheduleToClose,omitempty"`
	Deadline        *Limit `json:"deadline,omitempty"`
	ScheduleToStart *Limit `json:"scheduleToStart,omitempty"`
	StartToClose    *Limit `json:"startToClose,omitempty"`
	Heartbeat       *Limit `json:"heartbeat,omitempty"`
	Inactivity      *Limit `json:"inactivity,omitempty"`
	Wait            *Limit `json:"wait,omitempty"`
}

func (l Limits) form() limitsJSON {
	return limitsJSON{
		ScheduleToClose: l.ScheduleToClose, Deadline: l.Deadline, ScheduleToStart: l.ScheduleToStart,
		StartToClose: l.StartToClose, Heartbeat: l.Heartbeat, Inactivity: l.Inactivity, Wait: l.Wait,
	}
}

// MarshalJSON writes the limits by name.
func (l Limits) MarshalJSON() ([]byte, error) { return json.Marshal(l.form()) }

// UnmarshalJSON reads what decodeLimits reads.
func (l *Limits) UnmarshalJSON(data []byte) error {
	v, err := decodeJSON(data)
	if err != nil {
		return err
	}
	decoded, err := decodeLimits(v)
	if err == nil && v != nil {
		*l = decoded
	}
	return err
}

type policyJSON struct {
	Retry   *Retry     `json:"retry,omitempty"`
	Timeout limitsJSON `json:"timeout,omitzero"`
}

// MarshalJSON writes {retry, timeout}.
func (p Policy) MarshalJSON() ([]byte, error) {
	return json.Marshal(policyJSON{Retry: p.Retry, Timeout: p.Limits.form()})
}

// UnmarshalJSON reads what DecodePolicy reads.
func (p *Policy) UnmarshalJSON(data []byte) error {
	v, err := decodeJSON(data)
	if err != nil {
		return err
	}
	decoded, err := DecodePolicy(v)
	if err == nil && v != nil {
		*p = decoded
	}
	return err
}

// decodeJSON keeps numbers as text: a float64 would lose digits of a large number of milliseconds.
func decodeJSON(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var v any
	err := decoder.Decode(&v)
	return v, err
}

// atLeastOne rounds a limit or a cap below a millisecond up to one. It would be written as zero, which means none.
func atLeastOne(d time.Duration) duration.Duration {
	if d <= 0 {
		return 0
	}
	return duration.Duration(max(d, time.Millisecond))
}
