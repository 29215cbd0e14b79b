package api

import (
	"errors"
	"strings"
)

// Code classifies an error for programs. It is part of the API: codes are added, never renamed.
type Code string

// The codes of requests that were not carried out.
const (
	CodeInternal  Code = "internal"   // a broken assumption; the message is for the maintainers
	CodeInvalid   Code = "invalid"    // the request makes no sense
	CodeTooLarge  Code = "too_large"  // a payload above the limit
	CodeNotFound  Code = "not_found"  // no such run, step or definition
	CodeConflict  Code = "conflict"   // taken, or not in the phase the request needs
	CodeStale     Code = "stale"      // a report for an attempt that has ended
	CodeRunClosed Code = "run_closed" // the run has ended
	CodeClosed    Code = "closed"     // the engine was closed
	CodeStalled   Code = "stalled"    // the storage takes no writes at present; nothing was saved
	CodeUncertain Code = "uncertain"  // the storage failed, and nobody knows whether the request was saved
	CodeHeld      Code = "held"       // another process holds the database
	CodeFenced    Code = "fenced"     // a newer owner has taken the partition
	CodeStorage   Code = "storage"    // the storage is corrupt, from a newer version, or must not be written any more
	CodeCancelled Code = "cancelled"  // the caller's context ended first
	CodeFull      Code = "full"       // the run keeps as many events as it may; nothing was saved
	CodeReadOnly  Code = "read_only"  // the database is open for reading only
	CodeLapsed    Code = "lapsed"     // a feed fell so far behind that entries it has not seen are gone
)

// The codes of how a run or a step ended, where its end is an error to the caller.
const (
	CodeFailed           Code = "failed"
	CodeTimedOut         Code = "timed_out"
	CodeRunCancelled     Code = "run_cancelled"
	CodeRunTerminated    Code = "run_terminated"
	CodeRetriesExhausted Code = "retries_exhausted"
	CodeDeadlineExceeded Code = "deadline_exceeded" // an event wait's limit
	CodeWorkerLost       Code = "worker_lost"       // too many attempts in a row died with their worker
	CodeMisuse           Code = "misuse"            // a Go body used the engine in a way that cannot work
)

// row is what one code means elsewhere.
type row struct {
	code Code
	exit int // status of the command line
	http int
	grpc int    // google.rpc.Code
	text string // what the code says alone
}

// table is the one place where codes become statuses.
var table = []row{
	{CodeInternal, 1, 500, 13, ""},
	{CodeInvalid, 2, 400, 3, ""},
	{CodeTooLarge, 1, 413, 8, ""},
	{CodeNotFound, 1, 404, 5, ""},
	{CodeConflict, 1, 409, 10, ""},
	{CodeStale, 1, 409, 9, ""},
	{CodeRunClosed, 1, 409, 9, ""},
	{CodeClosed, 1, 503, 14, ""},
	{CodeStalled, 1, 503, 14, ""},
	{CodeUncertain, 1, 500, 2, ""},
	{CodeHeld, 1, 503, 14, ""},
	{CodeFenced, 1, 503, 14, ""},
	{CodeStorage, 1, 500, 15, ""},
	{CodeCancelled, 130, 499, 1, ""},
	{CodeFull, 1, 429, 8, ""},
	{CodeReadOnly, 1, 405, 12, ""},
	{CodeLapsed, 1, 410, 11, ""},

	{CodeFailed, 1, 422, 10, ""},
	{CodeTimedOut, 124, 504, 4, "timed out"},
	{CodeRunCancelled, 130, 409, 1, "cancelled"},
	{CodeRunTerminated, 130, 409, 10, "terminated"},
	{CodeRetriesExhausted, 1, 422, 10, "retries exhausted"},
	{CodeDeadlineExceeded, 124, 504, 4, "deadline exceeded"},
	{CodeWorkerLost, 1, 503, 14, "worker lost"},
	{CodeMisuse, 1, 500, 9, ""},
}

var byCode = func() map[Code]*row {
	rows := make(map[Code]*row, len(table))
	for i := range table {
		rows[table[i].code] = &table[i]
	}
	return rows
}()

// row returns what a code means; one that this version does not know is internal.
func (c Code) row() *row {
	if r := byCode[c]; r != nil {
		return r
	}
	return byCode[CodeInternal]
}

// String is the code's name; an empty code is internal.
func (c Code) String() string {
	if c == "" {
		return string(CodeInternal)
	}
	return string(c)
}

// ExitStatus is the command line's exit status: 2 a wrong request, 124 timed out, 130 cancelled, else 1.
func (c Code) ExitStatus() int { return c.row().exit }

// HTTPStatus is the status of an HTTP response.
func (c Code) HTTPStatus() int { return c.row().http }

// GRPC is the number of the google.rpc.Code.
func (c Code) GRPC() int { return c.row().grpc }

// Codes returns all codes, in the order of the table.
func Codes() []Code {
	codes := make([]Code, len(table))
	for i := range table {
		codes[i] = table[i].code
	}
	return codes
}

// CodeOf returns an error's code; an error that carries none is internal, nil has none.
func CodeOf(err error) Code {
	var own *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &own):
		return own.Code
	}
	for _, s := range sentinels { // the ends of steps and runs are told by errors.Is alone
		if errors.Is(err, s) {
			return s.Code
		}
	}
	return CodeInternal
}

// sentinels are the errors that stand for a whole code.
var sentinels = func() map[Code]*Error {
	all := make(map[Code]*Error, len(table))
	for _, r := range table {
		all[r.code] = &Error{Code: r.code}
	}
	return all
}()

// Sentinel returns the error that stands for all errors of a code, to compare with by errors.Is. It is the same value
// each time.
func Sentinel(c Code) *Error {
	if s := sentinels[c]; s != nil {
		return s
	}
	return sentinels[CodeInternal]
}

// Error is what a Service returns: a code, the operation, what it was about, what happened, and what to do.
type Error struct {
	Code    Code   `json:"code"`
	Op      string `json:"operation,omitempty"`
	ID      string `json:"id,omitempty"`      // run id, workflow id or name it was about
	Message string `json:"message,omitempty"` // what happened; empty: Err says it
	Hint    string `json:"hint,omitempty"`    // what the user can do next
	Err     error  `json:"-"`                 // the cause; may be nil
}

// Error says what happened in one sentence, with what to do in parentheses.
func (e *Error) Error() string {
	s := strings.TrimSpace(e.Op + " " + e.ID)
	if s != "" {
		s += ": "
	}
	s += e.Reason()
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Reason is what happened, without the operation and without what to do.
func (e *Error) Reason() string {
	switch {
	case e.Message != "":
		return e.Message
	case e.Err != nil:
		return e.Err.Error()
	case e.Code.row().text != "":
		return e.Code.row().text
	default:
		return e.Code.String()
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether the target stands for this error: one of the same code that says nothing more specific, or the
// same message.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Op == "" && t.Err == nil && (t.Message == "" || t.Message == e.Message)
}
