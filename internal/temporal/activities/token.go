package activities

import (
	"encoding/binary"

	"github.com/pawl-dev/pawl/internal/core"
)

// Token names an attempt of an activity, and proves that it was given to who shows it.
type Token struct {
	Attempt core.Token
	Secret  uint64
}

// tokenForm is the first byte of a token.
const tokenForm = 'a'

// Bytes returns the token as a worker gets it.
func (t Token) Bytes() []byte {
	b := append([]byte{tokenForm}, t.Attempt.Run[:]...)
	b = binary.BigEndian.AppendUint64(b, t.Secret)
	b = binary.AppendUvarint(b, uint64(t.Attempt.Step))
	return binary.AppendUvarint(b, uint64(t.Attempt.Attempt))
}

// ReadToken reads a token; false: it is none.
func ReadToken(b []byte) (t Token, ok bool) {
	const fixed = 1 + len(t.Attempt.Run) + 8
	if len(b) < fixed || b[0] != tokenForm {
		return t, false
	}
	copy(t.Attempt.Run[:], b[1:])
	t.Secret = binary.BigEndian.Uint64(b[1+len(t.Attempt.Run):])
	step, n := binary.Uvarint(b[fixed:])
	if n <= 0 || step >= uint64(core.NoStep) {
		return t, false
	}
	attempt, m := binary.Uvarint(b[fixed+n:])
	if m <= 0 || attempt > 1<<40 {
		return t, false
	}
	t.Attempt.Step, t.Attempt.Attempt = core.StepID(step), int(attempt)
	return t, fixed+n+m == len(b)
}
