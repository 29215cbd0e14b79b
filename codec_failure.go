package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// failureText is what the program itself says in a failure: what a codec encodes of it. Kind, type, code, limit and
// reason stay readable, since the engine and its policies work with them.
type failureText struct {
	Message string            `json:"message,omitempty"`
	Details json.RawMessage   `json:"details,omitempty"`
	Also    []json.RawMessage `json:"also,omitempty"` // the data of each
}

// sealFailure encodes what a failure and its causes say. A failure whose text the codec cannot encode is returned
// without it; the error tells whether that may pass. The codec JSON leaves failures as they are, so that people can
// read them in the history.
func sealFailure(ctx context.Context, c Codec, at place, f *policy.Failure) (*policy.Failure, error) {
	if _, plain := c.(JSON); plain || f == nil {
		return f, nil
	}
	out := *f
	var err error
	out.Cause, err = sealFailure(ctx, c, at, f.Cause)
	if f.Encoded != nil || f.Message == "" && f.Details == nil && f.Also == nil {
		return &out, err
	}
	text := failureText{Message: f.Message, Details: f.Details}
	out.Message, out.Details, out.Also = "", nil, nil
	for _, k := range f.Also {
		text.Also = append(text.Also, k.Details)
		out.Also = append(out.Also, policy.KnownError{Type: k.Type})
	}
	var own error
	if out.Encoded, own = encode(ctx, c, "what the failure says", at, text); own != nil {
		out.Message = "the codec could not encode what the failure says"
	}
	return &out, errors.Join(err, own)
}

// sealed is sealFailure for an attempt, which waits for its codec as it does with a result.
func (a *attempt) sealed(f *policy.Failure) (out *policy.Failure) {
	_ = a.patiently(func(ctx context.Context) (err error) {
		out, err = sealFailure(ctx, a.codec, a.at(kindFailure), f)
		return err
	})
	return out
}

// sealed is sealFailure for a body. Where its codec cannot encode for now, the call of the body ends.
func (b *branch) sealed(f *policy.Failure) *policy.Failure {
	out, err := sealFailure(b, b.host.codec, b.at(kindFailure, ""), f)
	if passing(err) {
		b.Unencodable("what a failure says", err)
	}
	return out
}

// openFailure reads what sealFailure made. The error tells that the codec cannot read it; the failure is then complete
// but for what it says.
func openFailure(ctx context.Context, c Codec, at place, f *policy.Failure) (*policy.Failure, error) {
	if !encoded(f) {
		return f, nil
	}
	out := *f
	var err error
	if out.Cause, err = openFailure(ctx, c, at, f.Cause); err != nil {
		return &out, err
	}
	if f.Encoded == nil { // the engine's own, which may have put the cause into its message
		out.Message = strings.Replace(f.Message, core.Sentence(f.Cause), core.Sentence(out.Cause), 1)
		return &out, nil
	}
	text, err := read[failureText](ctx, c, at, f.Encoded)
	if err != nil {
		return &out, err
	}
	out.Message, out.Details, out.Encoded = text.Message, text.Details, nil
	out.Also = nil
	for i, k := range f.Also {
		if i < len(text.Also) {
			k.Details = text.Also[i]
		}
		out.Also = append(out.Also, k)
	}
	return &out, nil
}

// encoded reports whether a codec has encoded the failure or one of its causes.
func encoded(f *policy.Failure) bool {
	for ; f != nil; f = f.Cause {
		if f.Encoded != nil {
			return true
		}
	}
	return false
}

// opened is openFailure for showing a failure: what the codec cannot read stays encoded.
func opened(ctx context.Context, c Codec, at place, f *policy.Failure) *policy.Failure {
	at.kind = kindFailure
	out, err := openFailure(ctx, c, at, f)
	if err != nil {
		return f
	}
	return out
}
