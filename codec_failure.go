package pawl

import (
	"encoding/json"
	"fmt"
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

// sealFailure encodes what a failure and its causes say. A failure whose text the codec cannot encode is recorded
// without it. The codec JSON leaves failures as they are, so that people can read them in the history.
func sealFailure(c Codec, f *policy.Failure) *policy.Failure {
	if _, plain := c.(JSON); plain || f == nil {
		return f
	}
	out := *f
	out.Cause = sealFailure(c, f.Cause)
	if f.Encoded != nil || f.Message == "" && f.Details == nil && f.Also == nil {
		return &out
	}
	text := failureText{Message: f.Message, Details: f.Details}
	out.Message, out.Details, out.Also = "", nil, nil
	for _, k := range f.Also {
		text.Also = append(text.Also, k.Details)
		out.Also = append(out.Also, policy.KnownError{Type: k.Type})
	}
	var err error
	if out.Encoded, err = encodeText(c, text); err != nil {
		out.Message = "the codec could not encode what the failure says"
	}
	return &out
}

func encodeText(c Codec, text failureText) (b []byte, err error) {
	defer func() {
		if v := recover(); v != nil { // a failure must be recorded even if the codec's own code is broken
			b, err = nil, fmt.Errorf("the codec panicked: %v", v)
		}
	}()
	return encode(c, "what the failure says", text)
}

// openFailure reads what sealFailure made. The error tells that the codec cannot read it; the failure is then complete
// but for what it says.
func openFailure(c Codec, f *policy.Failure) (*policy.Failure, error) {
	if !encoded(f) {
		return f, nil
	}
	out := *f
	var err error
	if out.Cause, err = openFailure(c, f.Cause); err != nil {
		return &out, err
	}
	if f.Encoded == nil { // the engine's own, which may have put the cause into its message
		out.Message = strings.Replace(f.Message, core.Sentence(f.Cause), core.Sentence(out.Cause), 1)
		return &out, nil
	}
	text, err := read[failureText](c, f.Encoded)
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
func opened(c Codec, f *policy.Failure) *policy.Failure {
	out, err := openFailure(c, f)
	if err != nil {
		return f
	}
	return out
}
