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
	KindFailed                    // the worker says: known and deterministic
	KindTimeout                   // a limit fired
	KindCancelled                 // the work was told to stop
	KindLost                      // the worker or the engine died during the attempt
)

// Failure says why an attempt, a step or a run did not succeed.
type Failure struct {
	Kind         Kind            `json:"kind"`
	Type         string          `json:"type,omitempty"`
	Message      string          `json:"message,omitempty"`
	Code         int             `json:"code,omitempty"`
	Details      json.RawMessage `json:"details,omitempty"`
	NonRetryable bool            `json:"nonRetryable,omitempty"`
	RetryAfter   *time.Duration  `json:"-"`                // the worker's wish for the next delay; nil: none
	Limit        LimitKind       `json:"limit,omitempty"`  // with KindTimeout: the limit that fired
	Origin       string          `json:"origin,omitempty"` // with KindTimeout: where that limit was configured
	Cause        *Failure        `json:"cause,omitempty"`
	Reason       Reason          `json:"reason,omitempty"` // of a run that a step's end has ended: why the step was not tried again
}

// Error says in one sentence what failed and what caused it.
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

// MarshalJSON writes the failure with retryAfter as a duration's text. A wish that lies in the past is written as
// zero, which is how it is judged.
func (f Failure) MarshalJSON() ([]byte, error) {
	out := failureJSON{plainFailure: plainFailure(f)}
	if f.RetryAfter != nil {
		wish := duration.Duration(max(*f.RetryAfter, 0))
		out.RetryAfter = &wish
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
