package core

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Headers go along with a run to its steps, its children and the runs that follow it in its chain: a trace, a tenant.
// They never change. They are lines "key=value", sorted by key, as Labels are.
type Headers string

// The bounds of headers. Each child run and each attempt carries them, so they are small.
const (
	MaxHeaders   = 4 << 10 // bytes of all keys and values
	maxHeaderKey = 100     // bytes
)

// MakeHeaders checks headers and puts them in order. One with an empty value is left out.
func MakeHeaders(all map[string]string) (Headers, error) {
	var errs []error
	size, present := 0, map[string]string{}
	for key, value := range all {
		errs = append(errs, checkHeader(key, value))
		if value != "" {
			present[key] = value
			size += len(key) + len(value)
		}
	}
	if size > MaxHeaders {
		errs = append(errs, fmt.Errorf("the headers have %d bytes, more than %d: headers name things, such as a trace "+
			"or a tenant; what a run works with belongs in its input", size, MaxHeaders))
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	return Headers(join(present)), nil
}

func checkHeader(key, value string) error {
	bad := func(s string) bool { return !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) }
	switch {
	case key == "":
		return errors.New("a header has an empty key")
	case len(key) > maxHeaderKey:
		return fmt.Errorf("the header %q has a key of %d bytes, more than %d", key, len(key), maxHeaderKey)
	case strings.Contains(key, labelSeparator), bad(key):
		return fmt.Errorf("the key of the header %q contains = or a control character, or is not UTF-8", key)
	case bad(value):
		return fmt.Errorf("the value of the header %q contains a control character, or is not UTF-8", key)
	default:
		return nil
	}
}

// Map returns the headers by key. It is nil if there are none.
func (h Headers) Map() map[string]string { return Labels(h).Map() }
