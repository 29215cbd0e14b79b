package tasks

import (
	"encoding/binary"
	"math"

	"github.com/pawl-dev/pawl/internal/core"
)

// token names a workflow task. Its worker gives it back with the answer.
type token struct {
	run   core.RunID
	epoch uint64    // the process that has given it out
	lease uint64    // number of the task in that process
	turn  int       // answers that the run had
	seen  int       // entries that the worker knows
	began core.Time // when it was given out, which the worker knows, too
	tries int32     // its attempt, which the worker knows, too
}

// tokenForm is the first byte of a token.
const tokenForm = 'w'

func (t token) bytes() []byte {
	b := append([]byte{tokenForm}, t.run[:]...)
	b = binary.BigEndian.AppendUint64(b, t.epoch)
	for _, n := range []uint64{t.lease, uint64(t.turn), uint64(t.seen), uint64(t.began), uint64(t.tries)} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// maxCount bounds the numbers in a token.
const maxCount = 1 << 60

// readToken reads a token; false: it is none.
func readToken(b []byte) (t token, ok bool) {
	const fixed = 1 + len(t.run) + 8
	if len(b) < fixed || b[0] != tokenForm {
		return t, false
	}
	copy(t.run[:], b[1:])
	t.epoch = binary.BigEndian.Uint64(b[1+len(t.run):])
	b = b[fixed:]
	var numbers [5]uint64
	for i := range numbers {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > maxCount {
			return t, false
		}
		numbers[i], b = n, b[size:]
	}
	t.lease, t.turn, t.seen = numbers[0], int(numbers[1]), int(numbers[2])
	t.began, t.tries = core.Time(numbers[3]), int32(min(numbers[4], math.MaxInt32))
	return t, len(b) == 0
}
