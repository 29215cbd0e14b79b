package remote

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// tokenText writes the token of an attempt as its worker gets it: which attempt it is, and the attempt's secret.
func tokenText(tok core.Token, secret uint64) string {
	b := make([]byte, 0, 32)
	b = append(b, tok.Run[:]...)
	b = binary.LittleEndian.AppendUint64(b, secret)
	b = binary.AppendUvarint(b, uint64(tok.Step))
	b = binary.AppendUvarint(b, uint64(tok.Attempt)) //nolint:gosec // attempts count from 1
	return base64.RawURLEncoding.EncodeToString(b)
}

// readToken reads the token of an attempt.
func readToken(text string) (tok core.Token, secret uint64, err error) {
	wrong := &api.Error{
		Code: api.CodeInvalid, Op: "report", Message: "this is not the token of a task",
		Hint: "use the task's field task as it is",
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < len(tok.Run)+10 {
		return tok, 0, wrong
	}
	copy(tok.Run[:], b)
	b = b[len(tok.Run):]
	secret, b = binary.LittleEndian.Uint64(b), b[8:]
	step, n := binary.Uvarint(b)
	if n <= 0 || step >= uint64(core.NoStep) {
		return tok, 0, wrong
	}
	attempt, m := binary.Uvarint(b[n:])
	if m <= 0 || n+m != len(b) || attempt == 0 || attempt > 1<<31 {
		return tok, 0, wrong
	}
	tok.Step, tok.Attempt = core.StepID(step), int(attempt)
	return tok, secret, nil
}

// TokenOf returns the attempt of a task's token; ok is false if it is not a token.
func TokenOf(text string) (tok core.Token, ok bool) {
	tok, _, err := readToken(text)
	return tok, err == nil
}
