package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// DecodePayload reads a payload. An unknown key is an error: it is most likely misspelt, and would be ignored
// otherwise.
func DecodePayload(payload []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the payload cannot be used: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the payload cannot be used: something follows the JSON value")
	}
	return nil
}

// EncodeJSON writes a value as JSON, and writes <, > and & as they are. Callers only pass values that JSON can hold.
func EncodeJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// AppendText appends a text as JSON, in the form that EncodeJSON gives it.
func AppendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= utf8.RuneSelf-1 || c == '"' || c == '\\' {
			return append(b, EncodeJSON(text)...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}

// ValidText turns bytes into valid UTF-8. U+FFFD replaces any other bytes.
func ValidText(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// Shorten shortens a text to at most n bytes and marks the cut with an ellipsis. It does not split a character.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
