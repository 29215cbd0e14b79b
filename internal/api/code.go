package api

import (
	"errors"
	"strings"
)

// Code classifies an error for programs. Codes are part of the API: new ones may be added, but none is renamed.
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
	CodeUncertain Code = "uncertain"  // the storage failed, and it is unknown whether the request was saved
	CodeHeld      Code = "held"       // another process holds the database
	CodeFenced    Code = "fenced"     // a newer owner has taken the partition
	CodeStorage   Code = "storage"    // the storage is corrupt, from a newer version, or must no longer be written
	CodeCancelled Code = "cancelled"  // the caller's context ended first
	CodeFull      Code = "full"       // the run keeps as many events as it may; nothing was saved
	CodeReadOnly  Code = "read_only"  // the database is open for reading only
	CodeLapsed    Code = "lapsed"     // a feed fell so far behind that entries it has not seen are gone
	CodeNoToken   Code = "no_token"   // the server asks for a token, and none that counts was shown
	CodeForbidden Code = "forbidden"  // the token does not allow it
	CodeLimited   Code = "limited"    // the token asks for too much at present
)

// The codes for the end of a run or a step, when the caller gets that end as an error.
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

// row is the meaning of one code in other systems.
type row struct {
	code Code
	exit int // status of the command line
	http int
	grpc int    // google.rpc.Code
	text string // the message of an error that has only the code
}

// table is the only place where codes become statuses.
var table = []row{
	{CodeInternal, 1, 500, 13, ""},
	{CodeInvalid, 2, 400, 3, ""},
	{CodeTooLarge, 1, 413, 8, ""},
	{CodeNotFound, 3, 404, 5, ""},
	{CodeConflict, 1, 409, 10, ""},
	{CodeStale, 1, 409, 9, ""},
	{CodeRunClosed, 1, 409, 9, ""},
	{CodeClosed, 1, 503, 14, ""},
	{CodeStalled, 1, 503, 14, ""},
	{CodeUncertain, 1, 503, 2, ""},
	{CodeHeld, 1, 503, 14, ""},
	{CodeFenced, 1, 503, 14, ""},
	{CodeStorage, 1, 500, 15, ""},
	{CodeCancelled, 130, 499, 1, ""},
	{CodeFull, 1, 429, 8, ""},
	{CodeReadOnly, 1, 405, 12, ""},
	{CodeLapsed, 1, 410, 11, ""},
	{CodeNoToken, 1, 401, 16, ""},
	{CodeForbidden, 1, 403, 7, ""},
	{CodeLimited, 1, 429, 8, ""},

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

// row returns what a code means. A code that this version does not know is treated as internal.
func (c Code) row() *row {
	if r := byCode[c]; r != nil {
		return r
	}
	return byCode[CodeInternal]
}

// String returns the code's name. An empty code is internal.
func (c Code) String() string {
	if c == "" {
		return string(CodeInternal)
	}
	return string(c)
}

// ExitStatus returns the exit status of the command line: 2 for a wrong request, 3 for a missing run or the like, 124
// for timed out, 130 for cancelled, else 1.
func (c Code) ExitStatus() int { return c.row().exit }

// HTTPStatus returns the status of an HTTP response.
func (c Code) HTTPStatus() int { return c.row().http }

// GRPC returns the number of the google.rpc.Code.
func (c Code) GRPC() int { return c.row().grpc }

// Codes returns all codes, in the order of the table.
func Codes() []Code {
	codes := make([]Code, len(table))
	for i := range table {
		codes[i] = table[i].code
	}
	return codes
}

// CodeOf returns the code of an error: internal if it has none, and "" for nil.
func CodeOf(err error) Code {
	var own *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &own):
		return own.Code
	}
	for _, s := range sentinels { // errors about the end of a step or run match by errors.Is only
		if errors.Is(err, s) {
			return s.Code
		}
	}
	return CodeInternal
}

// sentinels has one error for each code. It matches all errors of that code.
var sentinels = func() map[Code]*Error {
	all := make(map[Code]*Error, len(table))
	for _, r := range table {
		all[r.code] = &Error{Code: r.code}
	}
	return all
}()

// Sentinel returns the error that matches all errors of a code: compare with it by errors.Is. It always returns the
// same value.
func Sentinel(c Code) *Error {
	if s := sentinels[c]; s != nil {
		return s
	}
	return sentinels[CodeInternal]
}

// Error is the error of a Service: a code, the operation, the run, what happened, and what the user can do.
type Error struct {
	Code    Code   `json:"code"`
	Op      string `json:"operation,omitempty"`
	ID      string `json:"id,omitempty"`      // run id, workflow id or name it was about
	Message string `json:"message,omitempty"` // the event in words; empty: Err says it
	Hint    string `json:"hint,omitempty"`    // the next step of the user
	Err     error  `json:"-"`                 // the cause; may be nil
}

// Error returns what happened in one sentence, with what the user can do in parentheses.
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

// Reason returns what happened, without the operation and without what the user can do.
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

// Is reports whether this error has the target's code and message. A target without a message matches every error of
// its code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Op == "" && t.Err == nil && (t.Message == "" || t.Message == e.Message)
}

// NoName returns the error of a call that names no run.
func NoName() error {
	return &Error{
		Code:    CodeInvalid,
		Message: "the name of the run is empty: write its id, the beginning of one, its workflow id, or @last",
	}
}
