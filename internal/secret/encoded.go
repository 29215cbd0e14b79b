package secret

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
)

// withoutEncoded returns b without the encoded forms of values. Their encoders break lines after 60, 64 or 76
// characters, wherever a value begins, so line breaks are skipped.
func (r *Redactor) withoutEncoded(b []byte) []byte {
	type span struct{ from, to int }
	var found []span
	joined, breaks := withoutBreaks(b)
	for _, p := range r.encoded {
		for from := 0; ; {
			at := bytes.Index(joined[from:], p)
			if at < 0 {
				break
			}
			from += at + len(p)
			found = append(found, span{placeOf(breaks, from-len(p)), placeOf(breaks, from-1) + 1})
		}
	}
	if len(found) == 0 {
		return b
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	out := make([]byte, 0, len(b))
	done := 0
	for _, s := range found {
		if s.from >= done {
			out = append(append(out, b[done:s.from]...), Redacted...)
		}
		done = max(done, s.to)
	}
	return append(out, b[done:]...)
}

// withoutBreaks returns b without its line breaks, and how many bytes were before each of them.
func withoutBreaks(b []byte) (joined []byte, breaks []int) {
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return b, nil
	}
	joined = make([]byte, 0, len(b))
	for _, c := range b {
		if c == '\n' || c == '\r' {
			breaks = append(breaks, len(joined))
		} else {
			joined = append(joined, c)
		}
	}
	return joined, breaks
}

// placeOf converts an offset in the text without line breaks to the offset in the text with them.
func placeOf(breaks []int, at int) int { return at + sort.SearchInts(breaks, at+1) }
