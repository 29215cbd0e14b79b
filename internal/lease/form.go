package lease

import (
	"encoding"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// The functions xOf write the messages of a process and a server as the structs of package api, and the methods of
// reading convert them back. An invalid value, such as the name of a phase that does not exist, is the error of
// reading.
type reading struct{ err error }

func (r *reading) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// read turns the structs of a list back. It stops at the first that cannot be meant.
func read[A, B any](all []A, one func(*reading, *A) B) ([]B, error) {
	var r reading
	out := make([]B, 0, len(all))
	for i := range all {
		out = append(out, one(&r, &all[i]))
		if r.err != nil {
			return nil, r.err
		}
	}
	return out, nil
}

// each turns a list into another one; an empty one is nil.
func each[A, B any](all []A, one func(*A) B) []B {
	if len(all) == 0 {
		return nil
	}
	out := make([]B, len(all))
	for i := range all {
		out[i] = one(&all[i])
	}
	return out
}

// runOf writes the id of a run; none is empty.
func runOf(id core.RunID) string {
	if id == (core.RunID{}) {
		return ""
	}
	return id.String()
}

func (r *reading) run(text string) core.RunID {
	if text == "" {
		return core.RunID{}
	}
	id, err := core.ParseRunID(text)
	if err != nil {
		r.fail("%w", err)
	}
	return id
}

func (r *reading) definition(text string) (id core.DefinitionID) {
	if text == "" {
		return id
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		r.fail("%q is not the id of a definition", text)
		return id
	}
	return core.DefinitionID(b)
}

// named reads the name of one of a few.
func named[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](r *reading, text string) (v T) {
	if err := P(&v).UnmarshalText([]byte(text)); err != nil {
		r.fail("%w", err)
	}
	return v
}

// oneOf reads the name of one of these.
func oneOf[T ~uint8](r *reading, what string, names []string, text string) T {
	for i, name := range names {
		if name == text {
			return T(i) //nolint:gosec // there are few
		}
	}
	r.fail("%q is no %s; there are %q", text, what, names)
	return 0
}

func (r *reading) headers(all map[string]string) core.Headers {
	if len(all) == 0 {
		return ""
	}
	h, err := core.MakeHeaders(all)
	if err != nil {
		r.fail("%w", err)
	}
	return h
}

func (r *reading) labels(all map[string]string) core.Labels {
	if len(all) == 0 {
		return ""
	}
	l, err := core.MakeLabels(all)
	if err != nil {
		r.fail("%w", err)
	}
	return l
}

func failureOf(f *policy.Failure) *api.BodyFailure {
	if f == nil {
		return nil
	}
	return &api.BodyFailure{
		Kind: f.Kind, Type: f.Type, Message: f.Message, Code: f.Code, Details: f.Details,
		NonRetryable: f.NonRetryable, RetryAfter: f.RetryAfter, Limit: f.Limit, Origin: f.Origin,
		Cause: failureOf(f.Cause), Encoded: f.Encoded, Reason: f.Reason,
		Also: each(f.Also, func(k *policy.KnownError) api.BodyKnownError {
			return api.BodyKnownError{Type: k.Type, Details: k.Details}
		}),
	}
}

// failure needs no reading: no failure is wrong.
func failure(f *api.BodyFailure) *policy.Failure {
	if f == nil {
		return nil
	}
	return &policy.Failure{
		Kind: f.Kind, Type: f.Type, Message: f.Message, Code: f.Code, Details: json.RawMessage(f.Details),
		NonRetryable: f.NonRetryable, RetryAfter: f.RetryAfter, Limit: f.Limit, Origin: f.Origin,
		Cause: failure(f.Cause), Encoded: json.RawMessage(f.Encoded), Reason: f.Reason,
		Also: each(f.Also, func(k *api.BodyKnownError) policy.KnownError {
			return policy.KnownError{Type: k.Type, Details: json.RawMessage(k.Details)}
		}),
	}
}

func tokenOf(t core.Token) *api.BodyToken {
	return &api.BodyToken{Run: runOf(t.Run), Step: uint32(t.Step), Attempt: t.Attempt}
}

func (r *reading) token(t *api.BodyToken) core.Token {
	if t == nil {
		return core.Token{}
	}
	return core.Token{Run: r.run(t.Run), Step: core.StepID(t.Step), Attempt: t.Attempt}
}
