package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// Redacted replaces a secret.
const Redacted = "***"

// Redactor removes values from data from outside: in their plain form, and in the forms that they have in JSON, a URL,
// HTML, Base64 and hexadecimal digits. A nil Redactor changes nothing.
type Redactor struct {
	patterns [][]byte // the longest first
	encoded  [][]byte // Base64 and hexadecimal digits, whose encoders break lines anywhere
}

// minPart is the least length of a line of a secret, or of a part of its Base64, to be recognised alone.
const minPart = 8

// NewRedactor returns a redactor of the values.
func NewRedactor(values []string) *Redactor {
	r := &Redactor{}
	addTo := func(list *[][]byte, pattern string, least int) {
		known := slices.ContainsFunc(*list, func(p []byte) bool { return string(p) == pattern })
		if len(pattern) >= least && !known {
			*list = append(*list, []byte(pattern))
		}
	}
	add := func(pattern string, least int) { addTo(&r.patterns, pattern, least) }
	for _, value := range values {
		add(value, 1)
		for _, form := range formsOf(value) {
			add(form, 1)
		}
		for _, line := range strings.Split(value, "\n") {
			add(strings.TrimSpace(line), minPart)
		}
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			for shift := range 3 {
				addTo(&r.encoded, inBase64(encoding, value, shift), minPart)
			}
		}
		digits := hex.EncodeToString([]byte(value))
		addTo(&r.encoded, digits, minPart)
		addTo(&r.encoded, strings.ToUpper(digits), minPart)
	}
	slices.SortStableFunc(r.patterns, func(a, b []byte) int { return cmp.Compare(len(b), len(a)) })
	return r
}

// inBase64 returns the part of a value's Base64 that does not depend on its neighbours, where the value begins shift
// bytes after a multiple of three.
func inBase64(encoding *base64.Encoding, value string, shift int) string {
	data := append(make([]byte, shift), value...)
	text := encoding.EncodeToString(data)
	first := []int{0, 2, 3}[shift]
	last := len(data) / 3 * 4 // further digits depend on the next byte
	return text[min(first, last):last]
}

// Bytes returns b without the values.
func (r *Redactor) Bytes(b []byte) []byte {
	if r == nil {
		return b
	}
	for _, p := range r.patterns {
		if bytes.Contains(b, p) {
			b = bytes.ReplaceAll(b, p, []byte(Redacted))
		}
	}
	return r.withoutEncoded(b)
}

// Cut returns b, whose end was cut off, without the values. What may be the beginning of one at its end is left out.
func (r *Redactor) Cut(b []byte) []byte {
	if r == nil {
		return b
	}
	b = r.Bytes(b)
	return b[:len(b)-r.pending(b)]
}

// Text returns a text without the values.
func (r *Redactor) Text(text string) string {
	if r == nil {
		return text
	}
	return string(r.Bytes([]byte(text)))
}

// JSON returns data without the values. It stays JSON: a number that holds one becomes a text.
func (r *Redactor) JSON(data []byte) []byte {
	if r == nil || len(data) == 0 || !r.in(data) {
		return data
	}
	out, err := rewrite(data, func(text string) (string, error) { return r.Text(text), nil })
	if err != nil {
		out, _ = json.Marshal(Redacted) //nolint:errchkjson // a text
	}
	return out
}

// in reports whether one of the values may occur in data, written in some form of JSON.
func (r *Redactor) in(data []byte) bool {
	if bytes.IndexByte(data, '\\') >= 0 {
		return true
	}
	in := func(p []byte) bool { return bytes.Contains(data, p) }
	return slices.ContainsFunc(r.patterns, in) || slices.ContainsFunc(r.encoded, in)
}

// pending returns how many bytes at the end of b may be the beginning of a value.
func (r *Redactor) pending(b []byte) int {
	joined, breaks := withoutBreaks(b)
	begun := longestStart(r.encoded, joined)
	if begun > 0 {
		begun = len(b) - placeOf(breaks, len(joined)-begun)
	}
	return max(longestStart(r.patterns, b), begun)
}

// longestStart returns how many bytes at the end of b are the beginning of a pattern.
func longestStart(patterns [][]byte, b []byte) int {
	longest := 0
	for _, p := range patterns {
		for n := min(len(p)-1, len(b)); n > longest; n-- {
			if bytes.HasPrefix(p, b[len(b)-n:]) {
				longest = n
				break
			}
		}
	}
	return longest
}

// Stream takes values out of a stream that arrives in parts. It keeps back what may be the beginning of a value.
type Stream struct {
	redactor *Redactor
	held     []byte
}

// Stream begins a stream.
func (r *Redactor) Stream() *Stream { return &Stream{redactor: r} }

// Next returns what can be shown after the next part has come. The result is valid until the next call.
func (s *Stream) Next(part []byte) []byte {
	if s.redactor == nil {
		return part
	}
	all := s.redactor.Bytes(append(s.held, part...))
	n := s.redactor.pending(all)
	out := all[:len(all)-n]
	s.held = bytes.Clone(all[len(all)-n:])
	return out
}

// End returns the data that was kept back.
func (s *Stream) End() []byte {
	held := s.held
	s.held = nil
	return held
}

// rewrite changes all texts in JSON data, keys and numbers among them. Numbers keep their digits where nothing changes.
func rewrite(data []byte, change func(string) (string, error)) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	v, err := rewriteValue(v, change)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

func rewriteValue(v any, change func(string) (string, error)) (_ any, err error) {
	switch v := v.(type) {
	case string:
		return change(v)
	case json.Number:
		text, err := change(v.String())
		if err != nil || text == v.String() {
			return v, err
		}
		return text, nil
	case []any:
		for i := range v {
			if v[i], err = rewriteValue(v[i], change); err != nil {
				return nil, err
			}
		}
		return v, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			if name, err = change(name); err != nil {
				return nil, err
			}
			if out[name], err = rewriteValue(value, change); err != nil {
				return nil, err
			}
		}
		return out, nil
	default:
		return v, nil
	}
}
