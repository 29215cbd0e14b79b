package policy

import (
	"encoding/json"
	"time"
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
}
