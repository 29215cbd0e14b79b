package tree

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxErrors is how many errors of one document are reported. A person corrects the first ones first.
const MaxErrors = 20

// Error is one thing that is wrong with a document, and where.
type Error struct {
	File      string
	Line, Col int    // line and column from 1, in characters; 0: the document was built in code
	Step      string // the step it is about, if the place does not show it
	Msg       string
	Hint      string // the next step for the user; may be empty
	excerpt   string // the line
	order     int    // the line in the source, which counts through all its files
}

// Error returns file:line:col: message, then the line with a caret below the place.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Col)
	}
	b.WriteString(": ")
	if e.Line == 0 && e.Step != "" {
		fmt.Fprintf(&b, "step %q: ", e.Step)
	}
	b.WriteString(e.Msg)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	b.WriteString(e.Excerpt())
	return b.String()
}

// maxExcerpt bounds the part of a line that an error shows; a JSON document may be a single one.
const maxExcerpt = 120

// Excerpt returns the line and a caret below the place, each on its own line, or "" if there is no line to show.
func (e *Error) Excerpt() string {
	if e.excerpt == "" {
		return ""
	}
	line, col := e.excerpt, max(e.Col, 1)
	runes := []rune(line)
	if len(runes) > maxExcerpt {
		from := min(max(col-maxExcerpt/2, 0), len(runes)-maxExcerpt)
		runes, col = runes[from:from+maxExcerpt], col-from
	}
	number := fmt.Sprintf("%5d | ", e.Line)
	// A tab before the caret is repeated, so that the caret is below its character however wide tabs are.
	pad := make([]rune, 0, col)
	for i := 0; i < col-1; i++ {
		if i < len(runes) && runes[i] == '\t' {
			pad = append(pad, '\t')
		} else {
			pad = append(pad, ' ')
		}
	}
	return fmt.Sprintf("\n%s%s\n%s| %s^", number, string(runes), strings.Repeat(" ", utf8.RuneCountInString(number)-2),
		string(pad))
}

// Errors are all errors of one document, in the order of their places.
type Errors []*Error

func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap gives the errors one by one.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// Reports collects the errors of a document.
type Reports struct {
	Source *Source // nil: the document was built in code
	Errors Errors
	seen   map[string]bool
}

// Add reports an error, once: an error in a shared part is found by each that uses it.
func (r *Reports) Add(e *Error) {
	key := fmt.Sprintf("%d:%d:%s:%s", e.Line, e.Col, e.Step, e.Msg)
	if e.Line > 0 {
		key = fmt.Sprintf("%d:%d:%s", e.Line, e.Col, e.Msg)
	}
	if r.seen[key] || r.Full() {
		return
	}
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[key] = true
	e.order = e.Line
	r.Source.Mark(e)
	r.Errors = append(r.Errors, e)
}

// Full reports whether there are so many errors that looking for more is useless.
func (r *Reports) Full() bool { return len(r.Errors) >= 10*MaxErrors }

// Fail reports an error at a place. hint suggests what to do about it and may be empty.
func (r *Reports) Fail(at Pos, hint, format string, args ...any) {
	r.Add(&Error{Line: at.Line, Col: at.Col, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// Err returns the collected errors, sorted by place, or nil.
func (r *Reports) Err() error {
	if len(r.Errors) == 0 {
		return nil
	}
	slices.SortStableFunc(r.Errors, func(a, b *Error) int {
		if a.order != b.order {
			return a.order - b.order
		}
		return a.Col - b.Col
	})
	if len(r.Errors) > MaxErrors {
		last := r.Errors[MaxErrors-1]
		last.Msg += fmt.Sprintf(" (more errors follow, %d in all)", len(r.Errors))
		return r.Errors[:MaxErrors]
	}
	return r.Errors
}
