package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Code classifies an error for callers; see the table in package api.
type Code = api.Code

// The codes that an engine uses.
const (
	CodeInternal  = api.CodeInternal
	CodeInvalid   = api.CodeInvalid
	CodeTooLarge  = api.CodeTooLarge // a payload above Config.MaxPayload
	CodeNotFound  = api.CodeNotFound
	CodeConflict  = api.CodeConflict
	CodeStale     = api.CodeStale
	CodeRunClosed = api.CodeRunClosed
	CodeClosed    = api.CodeClosed
	CodeStalled   = api.CodeStalled
	CodeUncertain = api.CodeUncertain
	CodeHeld      = api.CodeHeld
	CodeFenced    = api.CodeFenced
	CodeStorage   = api.CodeStorage
	CodeCancelled = api.CodeCancelled
	CodeFull      = api.CodeFull
	CodeLapsed    = api.CodeLapsed
)

// Errors to compare with by errors.Is: any *Error with the same code matches.
var (
	ErrInvalid   = api.Sentinel(CodeInvalid)
	ErrNotFound  = api.Sentinel(CodeNotFound)
	ErrConflict  = api.Sentinel(CodeConflict)
	ErrClosed    = api.Sentinel(CodeClosed)
	ErrStalled   = api.Sentinel(CodeStalled)
	ErrUncertain = api.Sentinel(CodeUncertain)
	ErrTooLarge  = api.Sentinel(CodeTooLarge)
	ErrRunClosed = api.Sentinel(CodeRunClosed)
	ErrFull      = api.Sentinel(CodeFull)
	ErrLapsed    = api.Sentinel(CodeLapsed)
)

// Error is what an engine's methods return: a code, the operation, what it was about, the cause, and what to do.
type Error = api.Error

// codeOfRefusal is what the machine's codes mean to a caller.
var codeOfRefusal = map[core.Code]Code{
	core.CodeInvalid:  CodeInvalid,
	core.CodeNotFound: CodeNotFound,
	core.CodeStale:    CodeStale,
	core.CodeClosed:   CodeRunClosed,
	core.CodeConflict: CodeConflict,
	core.CodeFull:     CodeFull,
}

// meaning is what an error of the journal means to a caller.
type meaning struct {
	err  error
	code Code
	hint string
}

// meanings lists all errors of a journal.
var meanings = []meaning{
	{journal.ErrNotFound, CodeNotFound, ""},
	{journal.ErrFull, CodeStalled, "nothing was saved; free some space, the engine goes on by itself"},
	{journal.ErrReadOnly, CodeStalled, "nothing was saved; make the database writable, the engine goes on by itself"},
	{journal.ErrHeld, CodeHeld, "nothing was changed; try again when the other owner is gone"},
	{journal.ErrFenced, CodeFenced, "another engine has taken over; ask that one"},
	{journal.ErrLost, CodeStorage, "restart the process; what was acknowledged is safe"},
	{journal.ErrCorrupt, CodeStorage, ""},
	{journal.ErrNewer, CodeStorage, ""},
	{journal.ErrNoJournal, CodeStorage, ""},
	{journal.ErrGone, CodeStorage, ""},
	{context.Canceled, CodeCancelled, ""},
	{context.DeadlineExceeded, CodeCancelled, ""},
}

// CodeOf returns the code of any error that the engine, the machine or a journal makes. An error of none of them is
// internal; nil has no code.
func CodeOf(err error) Code {
	var own *Error
	var refusal *core.Error
	switch {
	case errors.As(err, &own):
		return own.Code
	case errors.As(err, &refusal) && codeOfRefusal[refusal.Code] != "":
		return codeOfRefusal[refusal.Code]
	}
	for _, m := range meanings {
		if errors.Is(err, m.err) {
			return m.code
		}
	}
	return api.CodeOf(err)
}

// refused turns the machine's refusal into the caller's error.
func refused(op string, id core.RunID, err error) error {
	var c *core.Error
	if !errors.As(err, &c) {
		return failure(op, id.String(), err)
	}
	return &Error{Code: CodeOf(c), Op: op, ID: id.String(), Message: c.Msg, Err: err}
}

// failure wraps an error of the journal, or of the caller's context.
func failure(op, id string, err error) error {
	var own *Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	switch {
	case isUnusable(err): // nothing was tried: the run stays as it is
		return &Error{Code: CodeConflict, Op: op, ID: id, Err: err}
	case isAside(err):
		return &Error{
			Code: CodeInternal, Op: op, ID: id, Err: err,
			Hint: "the other runs go on; the log has the details. The next start tries again, so use a version without this bug",
		}
	case permanent(err):
		return &Error{Code: CodeInternal, Op: op, ID: id, Err: err, Hint: "nothing was saved; the log has the details"}
	}
	for _, m := range meanings {
		if errors.Is(err, m.err) {
			return &Error{Code: m.code, Op: op, ID: id, Err: err, Hint: m.hint}
		}
	}
	return &Error{
		Code: CodeUncertain, Op: op, ID: id, Err: err,
		Hint: "it is not known whether this was saved; asking again with the same run id or key is safe",
	}
}

// partitionLost reports whether an error says that somebody else owns the partition. This engine ends; those of other
// partitions in the same process go on.
func partitionLost(err error) bool { return errors.Is(err, journal.ErrFenced) }

// journalLost reports whether an error ends the use of the journal: no engine of the process can go on with it.
func journalLost(err error) bool {
	for _, f := range []error{journal.ErrLost, journal.ErrGone, journal.ErrCorrupt, journal.ErrNewer, journal.ErrNoJournal} {
		if errors.Is(err, f) {
			return true
		}
	}
	return false
}

// final reports whether an error ends the engine for good: waiting will not help.
func final(err error) bool { return partitionLost(err) || journalLost(err) }

func notFound(op, id string) error {
	return &Error{Code: CodeNotFound, Op: op, ID: id, Err: errors.New("there is no such run")}
}

// unnamed refuses an empty id: it names nothing, and must not find a run by chance.
func unnamed(op string) error {
	return &Error{Code: CodeInvalid, Op: op, Err: errors.New("an empty id names no run"), Hint: "give a run id or a workflow id"}
}

func invalid(op, id, format string, args ...any) error {
	return &Error{Code: CodeInvalid, Op: op, ID: id, Err: fmt.Errorf(format, args...)}
}
