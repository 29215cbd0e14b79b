// Package form reads documents of other systems: it reports errors at their places, and notes what has no counterpart.
package form

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// File is one file of a document.
type File struct {
	*tree.Tree
	notes []dialect.Note
	noted map[dialect.Note]bool // the notes so far: a place that is read twice is noted once
	// Scalar returns the text for a number, true or false where a text is expected. It is nil if the system does not
	// accept one there.
	Scalar func(v any) string
	// Number and Truth return the value of a text where a whole number, or true or false, is expected. They are nil if
	// the system does not accept a text there.
	Number func(text string) (int, bool)
	Truth  func(text string) (value, ok bool)
}

// Read reads a file; what makes it unreadable is reported by its Err.
func Read(name string, src []byte) *File { return &File{Tree: tree.Read(name, src)} }

// Note notes that a field has no counterpart.
func (f *File) Note(at tree.Pos, format string, args ...any) {
	f.note(dialect.Note{File: f.Name(), Pos: at, Msg: fmt.Sprintf(format, args...)})
}

func (f *File) note(n dialect.Note) {
	if f.noted[n] {
		return
	}
	if f.noted == nil {
		f.noted = map[dialect.Note]bool{}
	}
	f.noted[n] = true
	f.notes = append(f.notes, n)
}

// Documents notes every named field that is documentation only.
func (f *File) Documents(v tree.Value, names ...string) {
	for _, name := range names {
		if !v.Get(name).IsZero() {
			f.note(dialect.Note{
				File: f.Name(), Pos: v.Key(name), Msg: name + " has no counterpart: it is for readers", Documents: true,
			})
		}
	}
}

// Renamed notes that a name is another in a flow, which has fewer signs for names.
func (f *File) Renamed(at tree.Pos, was, is string) {
	if was != is {
		f.note(dialect.Note{
			File: f.Name(), Pos: at, Msg: fmt.Sprintf("the name %q is %q in the flow", was, is),
			Documents: true,
		})
	}
}

// Origin returns the place and the name of a field, which a run shows for a limit.
func (f *File) Origin(v tree.Value, field string) string {
	return f.Place(v.Get(field).Pos()) + ", " + field
}

// Ignored notes every named field that is there.
func (f *File) Ignored(v tree.Value, why string, names ...string) {
	for _, name := range names {
		if !v.Get(name).IsZero() {
			f.Note(v.Key(name), "%s has no counterpart: %s", name, why)
		}
	}
}

// Finish gathers the notes and the errors of several files; nil files are left out.
func Finish(files ...*File) ([]dialect.Note, error) {
	var notes []dialect.Note
	var all tree.Errors
	for _, f := range files {
		if f == nil {
			continue
		}
		notes = append(notes, f.notes...)
		var errs tree.Errors
		if errors.As(f.Err(), &errs) {
			all = append(all, errs...)
		}
	}
	if len(all) > 0 {
		return nil, all
	}
	return notes, nil
}

// Object checks that a value is a mapping of known keys only.
func (f *File) Object(v tree.Value, what string, known ...string) bool {
	if v.IsZero() {
		return false
	}
	if !v.IsMapping() {
		f.Fail(v.Pos(), "", "%s is a mapping, not %s", what, v)
		return false
	}
	for _, field := range v.Fields() {
		if contains(known, field.Name) {
			continue
		}
		hint := nearest.Hint(field.Name, known)
		if hint == "" {
			hint = "known are " + strings.Join(known, ", ")
		}
		f.Fail(field.Pos, hint, "%s has no key %q", what, field.Name)
	}
	return true
}

func contains(words []string, word string) bool {
	for _, w := range words {
		if w == word {
			return true
		}
	}
	return false
}

// List returns the items of a list; anything else is reported.
func (f *File) List(v tree.Value, what string) []tree.Value {
	if !v.IsZero() && !v.IsList() {
		f.Fail(v.Pos(), "", "%s is a list, not %s", what, v)
	}
	return v.Items()
}

// Text reads a text field; "" where it is absent.
func (f *File) Text(v tree.Value, key string) string {
	field := v.Get(key)
	if field.IsZero() {
		return ""
	}
	text, ok := f.TextOf(field)
	if !ok {
		f.Fail(field.Pos(), "", "%s is a text, not %s", key, field)
	}
	return text
}

// TextOf gives a value that is a text, or that is read as one.
func (f *File) TextOf(v tree.Value) (string, bool) {
	if text, ok := v.Text(); ok || f.Scalar == nil || v.IsZero() || v.IsMapping() || v.IsList() {
		return text, ok
	}
	return f.Scalar(v.Any()), true
}

// Need reads a text field that must be there.
func (f *File) Need(v tree.Value, what, key string) string {
	if v.Get(key).IsZero() {
		f.Fail(v.Pos(), "", "%s has no %s", what, key)
		return ""
	}
	text := f.Text(v, key)
	if _, ok := f.TextOf(v.Get(key)); ok && text == "" {
		f.Fail(v.Get(key).Pos(), "", "the %s of %s is empty", key, what)
	}
	return text
}

// Whole reads a whole number from low to high; otherwise where it is absent.
func (f *File) Whole(v tree.Value, key string, otherwise, low, high int) int {
	field := v.Get(key)
	if field.IsZero() {
		return otherwise
	}
	n, ok := field.Any().(int)
	if text, isText := field.Text(); isText && f.Number != nil {
		n, ok = f.Number(text)
	}
	if number, real := field.Any().(float64); real && number == math.Trunc(number) && math.Abs(number) < 1<<53 {
		n, ok = int(number), true
	}
	switch {
	case !ok:
		f.Fail(field.Pos(), "", "%s is a whole number, not %s", key, field)
	case n < low:
		f.Fail(field.Pos(), "", "%s is %d; it must be at least %d", key, n, low)
	case n > high:
		f.Fail(field.Pos(), "", "%s is %d; it must be at most %d", key, n, high)
	default:
		return n
	}
	return otherwise
}

// Bool reads true or false; false if it is absent.
func (f *File) Bool(v tree.Value, key string) bool {
	field := v.Get(key)
	if field.IsZero() {
		return false
	}
	b, ok := field.Any().(bool)
	if text, isText := field.Text(); isText && f.Truth != nil {
		b, ok = f.Truth(text)
	}
	if !ok {
		f.Fail(field.Pos(), "", "%s is true or false, not %s", key, field)
	}
	return b
}

// Policy reports the errors of a policy, each at the field that its path names below the value.
func (f *File) Policy(v tree.Value, err error) {
	var field *decode.Error
	if errors.As(err, &field) {
		at := v.At(field.Path...).Pos()
		if n := len(field.Path); n > 0 {
			if parent := v.At(field.Path[:n-1]...); parent.Get(field.Path[n-1]).IsZero() {
				at = parent.Key(field.Path[n-1]) // an unknown key, or a missing one
			}
			f.Fail(at, "", "%s: %s", field.Path[n-1], field.Msg)
			return
		}
		f.Fail(at, "", "%s", field.Msg)
		return
	}
	if err != nil {
		f.Fail(v.Pos(), "", "%s", err)
	}
}

// Tidy simplifies a translated policy as a person would write it: no retry if there is one attempt, no bound that no
// delay reaches, no filter if a condition replaces it. It behaves the same.
func Tidy(r *policy.Retry) *policy.Retry {
	if r == nil || r.MaxAttempts == 1 {
		return nil
	}
	tidy := *r
	if tidy.When != "" {
		tidy.On = nil
	}
	if tidy.Longest() <= tidy.MaxInterval {
		tidy.MaxInterval = 0
	}
	return &tidy
}

// Pick makes a mapping of the named fields that are there, as a decoder yields them.
func Pick(v tree.Value, names ...string) map[string]any {
	out := map[string]any{}
	for _, name := range names {
		if field := v.Get(name); !field.IsZero() {
			out[name] = field.Any()
		}
	}
	return out
}

// Expr writes plain data as an expression.
func Expr(v any) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = Expr(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		fields := make(map[string]string, len(v))
		for name, value := range v {
			fields[name] = Expr(value)
		}
		return Object(fields)
	default:
		return string(tree.JSON(v))
	}
}

// Object writes a mapping whose values are expressions as an expression.
func Object(fields map[string]string) string {
	parts := make([]string, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		parts = append(parts, string(tree.JSON(name))+": "+fields[name])
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Fill gives the expression for a text that contains {{name}}: value gives the value for a name, as a text, or of any
// type if the name is the whole text.
func Fill(text string, value func(name string, alone bool) string) string {
	var pieces []string
	rest := text
	for {
		before, after, found := strings.Cut(rest, "{{")
		name, tail, closed := strings.Cut(after, "}}")
		if !found || !closed {
			break
		}
		if before != "" {
			pieces = append(pieces, Expr(before))
		}
		pieces = append(pieces, value(name, tail == "" && pieces == nil))
		rest = tail
	}
	if rest != "" || pieces == nil {
		pieces = append(pieces, Expr(rest))
	}
	return strings.Join(pieces, " + ")
}

// Literal escapes a text so that no expression is found in it.
func Literal(text string) string { return strings.ReplaceAll(text, "${{", "$${{") }

// Namer makes names that steps and flows may have, each once.
type Namer struct {
	used map[string]bool
	next map[string]int // the next number to try for each name that is in use
}

// Name returns a valid name that resembles the wanted one.
func (n *Namer) Name(wanted string) string {
	var b strings.Builder
	for _, c := range wanted {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_':
			b.WriteRune(c)
		case b.Len() > 0 && (c == '-' || c == '.'):
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "."): // one for all signs in a row
			b.WriteByte('.')
		}
	}
	base := strings.TrimRight(b.String(), ".")
	if len(base) > 80 {
		base = base[:80]
	}
	if base == "" {
		base = "step"
	}
	if n.used == nil {
		n.used, n.next = map[string]bool{}, map[string]int{}
	}
	name := base
	for n.used[name] || reserved[name] {
		i := max(n.next[base], 2)
		n.next[base] = i + 1
		name = fmt.Sprintf("%s-%d", base, i)
	}
	n.used[name] = true
	return name
}

// reserved are the names of hooks.
var reserved = map[string]bool{
	"onSuccess": true, "onFailure": true, "onTimeout": true, "onCancel": true,
	"onExit": true,
}

// Amount reads a limit's duration, which must not be zero.
func Amount(v any) (time.Duration, error) {
	d, err := decode.Duration(v)
	if err == nil && d == 0 {
		return 0, &decode.Error{Msg: "zero leaves no time at all; leave the field out for no limit"}
	}
	return d, err
}
