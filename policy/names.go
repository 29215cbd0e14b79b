package policy

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/decode"
)

// The names of these values in flow files, in JSON and in the history. Do not change them: journals contain them.
var (
	kindNames  = []string{"", "error", "failed", "timeout", "cancelled", "lost"}
	limitNames = []string{
		"", "execution", "run", "scheduleToClose", "deadline", "scheduleToStart", "startToClose", "heartbeat",
		"inactivity", "wait", "task",
	}
	reasonNames = []string{
		"", "cancelled", "timeout_not_retryable", "non_retryable", "not_matched", "expression_error",
		"attempts_exhausted", "retries_off", "no_time_left", "worker_lost", "skipped", "operator",
	}
	expireNames = []string{"fail", "cancel"}
	jitterNames = []string{"uniform", "decorrelated"}
)

// String returns the kind's name; the zero Kind has none.
func (k Kind) String() string { return nameOf(kindNames, k) }

// MarshalText writes the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return marshalName("failure kind", kindNames, k) }

// UnmarshalText reads a kind's name.
func (k *Kind) UnmarshalText(text []byte) error {
	return unmarshalName("failure kind", kindNames, k, text)
}

// String returns the limit's name; LimitNone has none.
func (k LimitKind) String() string { return nameOf(limitNames, k) }

// MarshalText writes the limit's name.
func (k LimitKind) MarshalText() ([]byte, error) { return marshalName("limit", limitNames, k) }

// UnmarshalText reads a limit's name.
func (k *LimitKind) UnmarshalText(text []byte) error {
	return unmarshalName("limit", limitNames, k, text)
}

// String returns the reason's name; ReasonNone has none.
func (r Reason) String() string { return nameOf(reasonNames, r) }

// MarshalText writes the reason's name.
func (r Reason) MarshalText() ([]byte, error) { return marshalName("stop reason", reasonNames, r) }

// UnmarshalText reads a reason's name.
func (r *Reason) UnmarshalText(text []byte) error {
	return unmarshalName("stop reason", reasonNames, r, text)
}

// String returns fail or cancel.
func (e Expire) String() string { return nameOf(expireNames, e) }

// MarshalText writes fail or cancel.
func (e Expire) MarshalText() ([]byte, error) { return marshalName("expiry", expireNames, e) }

// UnmarshalText reads fail or cancel.
func (e *Expire) UnmarshalText(text []byte) error {
	return unmarshalName("expiry", expireNames, e, text)
}

// String returns uniform or decorrelated.
func (j JitterKind) String() string { return nameOf(jitterNames, j) }

func nameOf[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("unknown(%d)", v)
}

func marshalName[T ~uint8](what string, names []string, v T) ([]byte, error) {
	if int(v) >= len(names) {
		return nil, fmt.Errorf("policy: no %s has the number %d", what, v)
	}
	return []byte(names[v]), nil
}

func unmarshalName[T ~uint8](what string, names []string, v *T, text []byte) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("policy: %s", decode.Unknown(what, string(text), names))
	}
	*v = T(i)
	return nil
}
