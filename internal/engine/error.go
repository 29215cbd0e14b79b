package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Code classifies an error for callers.
type Code uint8

// The codes.
const (
	CodeInternal  Code = iota // a broken assumption; the message is for the maintainers
	CodeInvalid               // the request makes no sense
	CodeTooLarge              // a payload above Config.MaxPayload
	CodeNotFound              // no such run, step or definition
	CodeConflict              // taken, or not in the phase the request needs
	CodeStale                 // a report for an attempt that has ended
	CodeRunClosed             // the run has ended
	CodeClosed                // the engine was closed
	CodeStalled               // the storage takes no writes at present; nothing was saved
	CodeUncertain             // the storage failed in a way that leaves open whether the request was saved
	CodeHeld                  // another process holds the database
	CodeFenced                // a newer owner has taken the partition
	CodeStorage               // the storage is corrupt, from a newer version, or must not be written any more
	CodeCancelled             // the caller's context ended first
	CodeFull                  // the run keeps as many events as it may; nothing was saved
)

var codeNames = [...]string{
	"internal", "invalid", "too_large", "not_found", "conflict", "stale", "run_closed", "closed", "stalled", "uncertain", "held",
	"fenced", "storage", "cancelled", "full",
}

func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "internal"
}

// Errors to compare with by errors.Is: any *Error with the same code matches.
var (
	ErrInvalid   = &Error{Code: CodeInvalid}
	ErrNotFound  = &Error{Code: CodeNotFound}
	ErrConflict  = &Error{Code: CodeConflict}
	ErrClosed    = &Error{Code: CodeClosed}
	ErrStalled   = &Error{Code: CodeStalled}
	ErrUncertain = &Error{Code: CodeUncertain}
	ErrTooLarge  = &Error{Code: CodeTooLarge}
	ErrRunClosed = &Error{Code: CodeRunClosed}
	ErrFull      = &Error{Code: CodeFull}
)

// Error is what an engine's methods return: a code, the operation, whom it was about, the cause, and what to do.
type Error struct {
	Code Code
	Op   string
	ID   string // run id, workflow id or name; may be empty
	Err  error  // the cause; may be nil
	Hint string // what the user can do next; may be empty
}

func (e *Error) Error() string {
	s := strings.TrimSpace(e.Op + " " + e.ID)
	if s != "" { // else it stands for all of its code
		s += ": "
	}
	if e.Err != nil {
		s += e.Err.Error()
	} else {
		s += e.Code.String()
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error with the same code and nothing more specific.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Op == "" && t.Err == nil
}

// refused turns the machine's refusal into the caller's error.
func refused(op string, id core.RunID, err error) error {
	var c *core.Error
	if !errors.As(err, &c) {
		return failure(op, id.String(), err)
	}
	code := CodeInternal
	switch c.Code {
	case core.CodeInvalid:
		code = CodeInvalid
	case core.CodeNotFound:
		code = CodeNotFound
	case core.CodeStale:
		code = CodeStale
	case core.CodeClosed:
		code = CodeRunClosed
	case core.CodeConflict:
		code = CodeConflict
	case core.CodeFull:
		code = CodeFull
	}
	return &Error{Code: code, Op: op, ID: id.String(), Err: errors.New(c.Msg)}
}

// failure wraps an error of the journal, or of the caller's context.
func failure(op, id string, err error) error {
	var own *Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	e := &Error{Code: CodeUncertain, Op: op, ID: id, Err: err}
	switch {
	case isUnusable(err): // nothing was tried: the run stays as it is
		e.Code = CodeConflict
	case isAside(err):
		e.Code, e.Hint = CodeInternal, "the other runs go on; the log has the details. The next start tries again, so use a version without this bug"
	case permanent(err):
		e.Code, e.Hint = CodeInternal, "nothing was saved; the log has the details"
	case errors.Is(err, journal.ErrNotFound):
		e.Code = CodeNotFound
	case errors.Is(err, journal.ErrFull):
		e.Code, e.Hint = CodeStalled, "nothing was saved; free some space, the engine goes on by itself"
	case errors.Is(err, journal.ErrReadOnly):
		e.Code, e.Hint = CodeStalled, "nothing was saved; make the database writable, the engine goes on by itself"
	case errors.Is(err, journal.ErrHeld):
		e.Code, e.Hint = CodeHeld, "nothing was changed; try again when the other owner is gone"
	case errors.Is(err, journal.ErrFenced):
		e.Code, e.Hint = CodeFenced, "another engine has taken over; ask that one"
	case errors.Is(err, journal.ErrLost):
		e.Code, e.Hint = CodeStorage, "restart the process; what was acknowledged is safe"
	case errors.Is(err, journal.ErrCorrupt), errors.Is(err, journal.ErrNewer), errors.Is(err, journal.ErrNoJournal), errors.Is(err, journal.ErrGone):
		e.Code = CodeStorage
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Code = CodeCancelled
	default:
		e.Hint = "it is not known whether this was saved; asking again with the same run id or key is safe"
	}
	return e
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
