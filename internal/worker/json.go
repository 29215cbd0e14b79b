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

// DecodePayload reads a payload strictly: a key that nobody reads is a mistake that somebody should hear of.
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

// EncodeJSON writes a value as JSON without disguising <, > and &. What is given to it always can be written.
func EncodeJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// ValidText makes valid UTF-8 of bytes; what is not is replaced by U+FFFD.
func ValidText(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// Shorten shortens a text to at most n bytes, at a character's border, and shows that it did.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
