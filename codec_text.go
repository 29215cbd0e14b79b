package pawl

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// plainText reads a JSON string without escapes, ten times as fast as encoding/json does. It reports whether b is one:
// anything else is for encoding/json, which also knows what is wrong with it.
func plainText(b []byte) (string, bool) {
	if len(b) < len(`""`) || b[0] != '"' || b[len(b)-1] != '"' {
		return "", false
	}
	b = b[1 : len(b)-1]
	if bytes.IndexByte(b, '"') >= 0 || bytes.IndexByte(b, '\\') >= 0 {
		return "", false
	}
	control, other := special(b)
	if control || other && !utf8.Valid(b) { // JSON has no control characters in strings
		return "", false
	}
	return string(b), true
}

// writeText writes a text as JSON, as encoding/json does it, if nothing in it has to be escaped. It reports whether it
// did. IndexByte looks at many bytes at a time, so looking for one byte after the other is faster than one loop.
func writeText(text string) ([]byte, bool) {
	for _, c := range []byte(`"\<>&`) {
		if strings.IndexByte(text, c) >= 0 {
			return nil, false
		}
	}
	b := make([]byte, 0, len(text)+len(`""`))
	b = append(b, '"')
	b = append(b, text...)
	control, other := special(b)
	if control || other && (!utf8.Valid(b) || strings.Contains(text, "\u2028") || strings.Contains(text, "\u2029")) {
		return nil, false
	}
	return append(b, '"'), true
}

// special reports whether there are control characters in a text, and whether there is anything but ASCII. It looks at
// eight bytes at a time as one number: a byte is less than a blank if subtracting a blank sets its highest bit.
func special(b []byte) (control, other bool) {
	const (
		ones     = 0x0101010101010101
		spaces   = ' ' * ones
		highBits = 0x80 * ones
	)
	var less, high uint64
	for ; len(b) >= 32; b = b[32:] { // four numbers that do not wait for each other
		x, y := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		z, w := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
		less |= (x-spaces)&^x | (y-spaces)&^y | (z-spaces)&^z | (w-spaces)&^w
		high |= x | y | z | w
	}
	for ; len(b) >= 8; b = b[8:] {
		x := binary.LittleEndian.Uint64(b)
		less |= (x - spaces) &^ x
		high |= x
	}
	for _, c := range b {
		control = control || c < ' '
		other = other || c >= utf8.RuneSelf
	}
	return control || less&highBits != 0, other || high&highBits != 0
}
