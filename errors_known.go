package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"

	"github.com/pawl-dev/pawl/policy"
)

// maxKnown bounds how many errors of one failure are recorded with their types.
const maxKnown = 16

// standard are the errors of the standard library that are known without being registered. A step's own error type,
// which may wrap one of them, is recorded first.
var standard = []namedError{
	{"context.Canceled", context.Canceled},
	{"context.DeadlineExceeded", context.DeadlineExceeded},
	{"io.EOF", io.EOF},
	{"io.ErrUnexpectedEOF", io.ErrUnexpectedEOF},
	{"io.ErrClosedPipe", io.ErrClosedPipe},
	{"fs.ErrNotExist", fs.ErrNotExist},
	{"fs.ErrExist", fs.ErrExist},
	{"fs.ErrPermission", fs.ErrPermission},
	{"fs.ErrClosed", fs.ErrClosed},
	{"os.ErrDeadlineExceeded", os.ErrDeadlineExceeded},
	{nameNoRows, noRows{}},
}

func init() {
	for _, s := range standard {
		register(s.name, func([]byte) (error, bool) { return s.err, true })
	}
}

// nameNoRows is how a noRows is recorded.
const nameNoRows = "sql.ErrNoRows"

// noRows stands for sql.ErrNoRows in programs that do not link database/sql. They are the same to errors.Is.
type noRows struct{}

func (noRows) Error() string        { return "sql: no rows in result set" }
func (noRows) Is(target error) bool { return target != nil && target.Error() == noRows{}.Error() }

// knownIn returns the errors in err whose types are known, as they are recorded: first the registered values, then the
// registered types from the outside in, last those of the standard library.
func knownIn(err error) []policy.KnownError {
	errorTypes.RLock()
	defer errorTypes.RUnlock()
	var all []policy.KnownError
	add := func(name string, details []byte) {
		same := func(k policy.KnownError) bool { return k.Type == name && string(k.Details) == string(details) }
		if len(all) < maxKnown && !slices.ContainsFunc(all, same) {
			all = append(all, policy.KnownError{Type: name, Details: details})
		}
	}
	for _, v := range errorTypes.values {
		if errors.Is(err, v.err) {
			add(v.name, nil)
		}
	}
	found := false
	walk(err, func(e error) {
		if name, ok := errorTypes.types[reflect.TypeOf(e)]; ok {
			details, _ := json.Marshal(e)
			add(name, details)
		}
		found = found || e.Error() == noRows{}.Error()
	})
	for _, s := range standard {
		if errors.Is(err, s.err) || (found && s.name == nameNoRows) {
			add(s.name, nil)
		}
	}
	return all
}

// walk visits an error and all that it wraps.
func walk(err error, visit func(error)) {
	for err != nil {
		visit(err)
		switch u := err.(type) { //nolint:errorlint // this is the walk that errors.As does, for any type
		case interface{ Unwrap() error }:
			err = u.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range u.Unwrap() {
				walk(e, visit)
			}
			return
		default:
			return
		}
	}
}
