package core

import "fmt"

// Code classifies why an input was refused. A refused input has recorded nothing.
type Code uint8

// The codes.
const (
	CodeInvalid   Code = iota + 1 // the input makes no sense for the step or run
	CodeNotFound                  // no such step
	CodeStale                     // a report for an attempt that has ended
	CodeClosed                    // the run has ended
	CodeConflict                  // the run or step is not in the phase the input needs
	CodeFull                      // the run keeps as many events as it may
	CodeForbidden                 // somebody else decides that
)

var codeNames = [...]string{"", "invalid", "not_found", "stale", "closed", "conflict", "full", "forbidden"}

func (c Code) String() string { return name(codeNames[:], c) }

// Error says why an input was refused.
type Error struct {
	Code Code
	Op   string
	Run  RunID
	Msg  string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: run %s: %s", e.Op, e.Run, e.Msg) }

func (m *machine) refuse(code Code, op, format string, args ...any) error {
	return &Error{Code: code, Op: op, Run: m.r.ID, Msg: fmt.Sprintf(format, args...)}
}
