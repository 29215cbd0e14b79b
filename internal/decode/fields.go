// Package decode reads mappings that a YAML or JSON decoder returned, field by field, with errors that name the field.
package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/nearest"
)

// Error describes what is wrong with one field of a decoded document. A caller that knows the positions in the document
// can use Path to point at the place.
type Error struct {
	Path []string // the path from the decoded value down to the field; list items by their index from 0
	Key  bool     // the field's name is wrong (it is not known there), not its value
	Msg  string
}

func (e *Error) Error() string {
	if len(e.Path) == 0 {
		return e.Msg
	}
	return strings.Join(e.Path, ".") + ": " + e.Msg
}

// Under puts prefix before the path of an Error, as one level up in the document sees it. Any other error becomes an
// Error at prefix.
func Under(err error, prefix ...string) error {
	if err == nil || len(prefix) == 0 {
		return err
	}
	var field *Error
	if errors.As(err, &field) {
		return &Error{Path: slices.Concat(prefix, field.Path), Key: field.Key, Msg: field.Msg}
	}
	return &Error{Path: slices.Clone(prefix), Msg: err.Error()}
}

// Fields reads a mapping from a YAML or JSON decoder, field by field. It keeps the first error, so that the caller can
// read all fields and check Err once. A field that is absent or null has its default.
type Fields struct {
	values map[string]any
	err    error
}

// Read starts to read a mapping that may have only the known keys. A nil value counts as an empty mapping.
func Read(value any, known ...string) *Fields {
	f := &Fields{}
	if value == nil {
		return f
	}
	values, ok := value.(map[string]any)
	if !ok {
		f.err = &Error{Msg: fmt.Sprintf("%s where a mapping with %s is expected", Describe(value), orList(known))}
		return f
	}
	f.values = values
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, key) {
			f.Keep(key, &Error{Key: true, Msg: Unknown("key", key, known)})
			break
		}
	}
	return f
}

// Err returns the first error.
func (f *Fields) Err() error { return f.err }

// Fail records an error at a field, unless there already is one.
func (f *Fields) Fail(key, format string, args ...any) {
	f.Keep(key, fmt.Errorf(format, args...))
}

// Keep records an error from reading a field's value, unless there already is one.
func (f *Fields) Keep(key string, err error) {
	if f.err == nil && err != nil {
		f.err = Under(err, key)
	}
}

// Value returns the decoded value of a field, nil if it is absent or null.
func (f *Fields) Value(key string) any { return f.values[key] }

// Has reports whether a field is there and not null.
func (f *Fields) Has(key string) bool { return f.values[key] != nil }

// Text reads a string.
func (f *Fields) Text(key string) string {
	value := f.values[key]
	text, ok := value.(string)
	if !ok && value != nil {
		f.Fail(key, "%s where a text is expected", Describe(value))
	}
	return text
}

// Texts reads a list of strings; nil if it is absent.
func (f *Fields) Texts(key string) []string {
	switch list := f.values[key].(type) {
	case nil:
		return nil
	case []string:
		return slices.Clone(list)
	case []any:
		texts := make([]string, 0, len(list))
		for i, item := range list {
			text, ok := item.(string)
			if !ok {
				f.Keep(key, &Error{Path: []string{fmt.Sprint(i)}, Msg: Describe(item) +
					" where a text is expected"})
			}
			texts = append(texts, text)
		}
		return texts
	default:
		f.Fail(key, "%s where a list is expected", Describe(list))
		return nil
	}
}

// Bool reads true or false.
func (f *Fields) Bool(key string, otherwise bool) bool {
	switch value := f.values[key].(type) {
	case nil:
		return otherwise
	case bool:
		return value
	default:
		f.Fail(key, "%s where true or false is expected", Describe(value))
		return otherwise
	}
}

// Int reads a whole number between low and high.
func (f *Fields) Int(key string, otherwise, low, high int) int {
	value := f.values[key]
	if value == nil {
		return otherwise
	}
	n, err := whole(value)
	switch {
	case err != nil:
		f.Keep(key, err)
	case n < int64(low):
		f.Fail(key, "%d is below %d", n, low)
	case n > int64(high):
		f.Fail(key, "%d is above %d", n, high)
	}
	return int(n)
}

// Number reads a finite number between low and high.
func (f *Fields) Number(key string, otherwise, low, high float64) float64 {
	value := f.values[key]
	if value == nil {
		return otherwise
	}
	n, ok := number(value)
	switch {
	case !ok || math.IsNaN(n) || math.IsInf(n, 0):
		f.Fail(key, "%s where a number is expected", Describe(value))
	case n < low:
		f.Fail(key, "%v is below %v", n, low)
	case n > high:
		f.Fail(key, "%v is above %v", n, high)
	}
	return n
}

// Duration reads a duration: a text in the grammar of package duration or a whole number of milliseconds. Negative
// ones are refused.
func (f *Fields) Duration(key string, otherwise time.Duration) time.Duration {
	value := f.values[key]
	if value == nil {
		return otherwise
	}
	d, err := Duration(value)
	f.Keep(key, err)
	return d
}

// Duration reads a duration from a decoder or from Go code: a text in the grammar of package duration, a whole
// number of milliseconds, or a time.Duration. Negative ones are refused.
func Duration(value any) (time.Duration, error) {
	switch value := value.(type) {
	case string:
		d, err := duration.Parse(value)
		if err != nil {
			return 0, &Error{Msg: err.Error()}
		}
		return d, nil
	case time.Duration:
		return notNegative(value)
	case duration.Duration:
		return notNegative(value.Std())
	}
	if _, ok := number(value); !ok {
		return 0, &Error{Msg: Describe(value) + " where a duration is expected"}
	}
	ms, err := whole(value)
	if err != nil {
		return 0, err
	}
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return 0, &Error{Msg: fmt.Sprintf("%d milliseconds are too many", ms)}
	}
	if ms < 0 {
		return 0, &Error{Msg: fmt.Sprintf("%d is negative", ms)}
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func notNegative(d time.Duration) (time.Duration, error) {
	if d < 0 {
		return 0, &Error{Msg: duration.Format(d) + " is negative"}
	}
	return d, nil
}

// number reads every type that decoders use for numbers.
func number(value any) (float64, bool) {
	if text, ok := value.(json.Number); ok {
		n, err := text.Float64()
		return n, err == nil
	}
	v := reflect.ValueOf(value)
	switch {
	case !v.IsValid():
		return 0, false
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanUint():
		return float64(v.Uint()), true
	case v.CanFloat():
		return v.Float(), true
	}
	return 0, false
}

// whole reads a whole number exactly, even if a float64 cannot hold it.
func whole(value any) (int64, error) {
	if text, ok := value.(json.Number); ok {
		if n, err := text.Int64(); err == nil {
			return n, nil
		}
	}
	if v := reflect.ValueOf(value); v.IsValid() && v.CanInt() {
		return v.Int(), nil
	}
	n, ok := number(value)
	if !ok || n != math.Trunc(n) {
		return 0, &Error{Msg: Describe(value) + " where a whole number is expected"}
	}
	// The largest float64 below 2^63 is still an int64; 2^63 itself is not.
	if math.Abs(n) >= 1<<63 {
		return 0, &Error{Msg: Describe(value) + " is too large"}
	}
	return int64(n), nil
}

// Describe names a decoded value for a message.
func Describe(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%q", value)
	case bool:
		return fmt.Sprint(value)
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	}
	if n, ok := number(value); ok {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("a %T", value)
}

// Unknown describes a word that is not known. It suggests a similar known word, or else lists them all.
func Unknown(what, word string, known []string) string {
	known = slices.DeleteFunc(slices.Clone(known), func(name string) bool { return name == "" })
	if hint := nearest.Hint(word, known); hint != "" {
		return fmt.Sprintf("unknown %s %q; %s", what, word, hint)
	}
	return fmt.Sprintf("unknown %s %q; use %s", what, word, orList(known))
}

// orList joins words as in a sentence: a, b or c.
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
