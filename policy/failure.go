package policy

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/duration"
)

// Kind classifies a failure; a retry policy's On lists the kinds it retries.
type Kind uint8

// The failure kinds.
const (
	KindError     Kind = iota + 1 // unexpected or infrastructure: exit code, HTTP 5xx, connection error, panic
	KindFailed                    // known and deterministic, as the worker reports it
	KindTimeout                   // a limit fired
	KindCancelled                 // the work was told to stop
	KindLost                      // the worker or the engine died during the attempt
)

// Failure is the reason why an attempt, a step or a run did not succeed.
type Failure struct {
	Kind         Kind            `json:"kind"`
	Type         string          `json:"type,omitempty"`
	Message      string          `json:"message,omitempty"`
	Code         int             `json:"code,omitempty"`
	Details      json.RawMessage `json:"details,omitempty"`
	NonRetryable bool            `json:"nonRetryable,omitempty"`
	RetryAfter   *time.Duration  `json:"-"`                // the delay that the worker asked for; nil if there is none
	Limit        LimitKind       `json:"limit,omitempty"`  // the limit that fired, for KindTimeout
	Origin       string          `json:"origin,omitempty"` // the place where that limit was configured, for KindTimeout
	Cause        *Failure        `json:"cause,omitempty"`
	Also         []KnownError    `json:"also,omitempty"` // further errors of known types, where several were joined

	// Encoded is the result of the program's codec for Message, Details and the data of Also, which are then empty.
	Encoded json.RawMessage `json:"encoded,omitempty"`

	// Reason is set in the failure of a run that ended because a step ended badly: why that step was not tried again.
	Reason Reason `json:"reason,omitempty"`
}

// KnownError is an error whose type the program knows: its name, and its data.
type KnownError struct {
	Type    string          `json:"type"`
	Details json.RawMessage `json:"details,omitempty"`
}

// Error describes in one sentence what failed and what caused it.
func (f *Failure) Error() string {
	text := f.Kind.String()
	switch {
	case f.Kind == KindTimeout && f.Limit != LimitNone:
		text += ": " + f.Limit.String() + " expired"
		if f.Origin != "" {
			text += " (set at " + f.Origin + ")"
		}
	case f.Type != "":
		text += " " + f.Type
	}
	if f.Code != 0 {
		text += " (code " + strconv.Itoa(f.Code) + ")"
	}
	if f.Message != "" {
		text += ": " + f.Message
	}
	if f.Cause != nil {
		text += "; caused by " + f.Cause.Error()
	}
	return text
}

// Unwrap returns the cause, so that errors.As and errors.Is look into it.
func (f *Failure) Unwrap() error {
	if f.Cause == nil {
		return nil
	}
	return f.Cause
}

// plainFailure has Failure's fields without its methods.
type plainFailure Failure

type failureJSON struct {
	plainFailure
	RetryAfter *duration.Duration `json:"retryAfter,omitempty"`
}

// MarshalJSON writes retryAfter as a duration's text. A negative one is written as zero, which is how Judge reads it.
func (f Failure) MarshalJSON() ([]byte, error) {
	out := failureJSON{plainFailure: plainFailure(f)}
	if f.RetryAfter != nil {
		after := duration.Duration(max(*f.RetryAfter, 0))
		out.RetryAfter = &after
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes; retryAfter may also be a number of milliseconds.
func (f *Failure) UnmarshalJSON(data []byte) error {
	var in failureJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*f = Failure(in.plainFailure)
	f.RetryAfter = (*time.Duration)(in.RetryAfter)
	return nil
}
