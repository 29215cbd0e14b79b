package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
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

// Errors for errors.Is. They match every *Error with the same code.
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

// Error is the error that an engine's methods return: a code, the operation, its run or workflow, the cause, and a hint
// what to do.
type Error = api.Error

// codeOfRefusal translates the codes of the machine.
var codeOfRefusal = map[core.Code]Code{
	core.CodeInvalid:  CodeInvalid,
	core.CodeNotFound: CodeNotFound,
	core.CodeStale:    CodeStale,
	core.CodeClosed:   CodeRunClosed,
	core.CodeConflict: CodeConflict,
	core.CodeFull:     CodeFull,

	core.CodeForbidden: api.CodeForbidden,
}

// translation maps an error of the journal to the code and hint for a caller.
type translation struct {
	err  error
	code Code
	hint string
}

// translations lists all errors of a journal. Permanent errors come before temporary ones: if an error is both, the
// caller should not try again forever.
var translations = []translation{
	{journal.ErrNotFound, CodeNotFound, ""},
	{journal.ErrCorrupt, CodeStorage, ""},
	{journal.ErrNewer, CodeStorage, ""},
	{journal.ErrNoJournal, CodeStorage, ""},
	{journal.ErrGone, CodeStorage, ""},
	{
		journal.ErrBehind, CodeStalled,
		"nothing was read or saved; where the address leads to the right database again, the engine goes on by itself",
	},
	{journal.ErrFull, CodeStalled, "nothing was saved; free some disk space, and the engine goes on by itself"},
	{
		journal.ErrReadOnly, CodeStalled,
		"nothing was saved; make the database writable, and the engine goes on by itself",
	},
	{journal.ErrNoAnswer, CodeStalled, "the database does not answer at present; ask again in a moment"},
	{journal.ErrHeld, CodeHeld, "nothing was changed; try again when the other process has ended"},
	{journal.ErrFenced, CodeFenced, "another engine has taken over; send the request to that one"},
	{journal.ErrLost, CodeStorage, "restart the process; everything that was acknowledged is saved"},
	{context.Canceled, CodeCancelled, ""},
	{context.DeadlineExceeded, CodeCancelled, ""},
}

// CodeOf returns the code of an error of the engine, the machine or a journal. Other errors are CodeInternal. nil has
// no code.
func CodeOf(err error) Code {
	var own *Error
	var refusal *core.Error
	switch {
	case errors.As(err, &own):
		return own.Code
	case errors.As(err, &refusal) && codeOfRefusal[refusal.Code] != "":
		return codeOfRefusal[refusal.Code]
	}
	for _, t := range translations {
		if errors.Is(err, t.err) {
			return t.code
		}
	}
	return api.CodeOf(err)
}

// Refused returns the error for a caller whose input the machine refused.
func Refused(op string, id core.RunID, err error) error {
	var c *core.Error
	if !errors.As(err, &c) {
		return failure(op, id.String(), err)
	}
	return &Error{Code: CodeOf(c), Op: op, ID: id.String(), Message: c.Msg, Err: err}
}

// failure returns the error for a caller when the journal failed, the run is set aside, or the caller's context ended.
func failure(op, id string, err error) error {
	var own *Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	switch {
	case isUnusable(err): // the run is as before, because its code did not run
		return &Error{Code: CodeConflict, Op: op, ID: id, Err: err}
	case isAside(err):
		return &Error{
			Code: CodeInternal, Op: op, ID: id, Err: err,
			Hint: "the other runs go on; the log has the details. " +
				"After a restart the run is tried again, so start a version without this bug",
		}
	case permanent(err):
		return &Error{Code: CodeInternal, Op: op, ID: id, Err: err, Hint: "nothing was saved; the log has the details"}
	}
	for _, t := range translations {
		if errors.Is(err, t.err) {
			return &Error{Code: t.code, Op: op, ID: id, Err: err, Hint: t.hint}
		}
	}
	return &Error{
		Code: CodeUncertain, Op: op, ID: id, Err: err,
		Hint: "it is not known whether this was saved; it is safe to repeat the request with the same run id or key",
	}
}

// ofRead returns the error of a request that only reads: nothing of it is saved, whatever became of a batch.
func ofRead(err error) error {
	own, is := errors.AsType[*Error](err)
	if !is || own.Code != CodeUncertain {
		return err
	}
	read := *own
	read.Hint = "nothing was changed; ask again in a moment"
	return &read
}

// partitionLost reports whether an error means that another process owns the partition. Then this engine ends. The
// engines of other partitions in the same process go on.
func partitionLost(err error) bool {
	return errors.Is(err, journal.ErrFenced) || errors.Is(err, ErrLeaseEnded)
}

// ErrLeaseEnded ends the engine of a shared journal that could not give a sign of life in time. Whether its last batch
// was saved is not known.
var ErrLeaseEnded = errors.New("the lease of the partition has ended, because no sign of life reached the database")

var errHeld = api.Sentinel(CodeHeld)

// moved returns the error for a caller that asks an engine for a partition that it does not run.
func moved(partition int) error {
	return &Error{
		Code: CodeHeld, Op: "engine",
		Err:  fmt.Errorf("partition %d is with another node, or on its way to one", partition),
		Hint: "nothing was saved; try again in a moment",
	}
}

// journalLost reports whether an error means that no engine of this process can use the journal any more.
func journalLost(err error) bool {
	lost := []error{journal.ErrLost, journal.ErrGone, journal.ErrCorrupt, journal.ErrNewer, journal.ErrNoJournal}
	for _, e := range lost {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// final reports whether an error ends the engine, because waiting would not help.
func final(err error) bool { return partitionLost(err) || journalLost(err) }

func notFound(op, id string) error {
	return &Error{Code: CodeNotFound, Op: op, ID: id, Err: errors.New("there is no such run")}
}

// emptyID refuses an empty id, so that it cannot find a run by chance.
func emptyID(op string) error {
	return &Error{Code: CodeInvalid, Op: op, Err: errors.New("the id is empty"), Hint: "give a run id or a workflow id"}
}

func invalid(op, id, format string, args ...any) error {
	return &Error{Code: CodeInvalid, Op: op, ID: id, Err: fmt.Errorf(format, args...)}
}

// unusable is the error of a run whose definition cannot be compiled by this process.
type unusable struct{ error }

func (u *unusable) Unwrap() error { return u.error }

// panicked is the error that a panic in one run's code becomes.
type panicked struct {
	doing string // completes "its code panicked while …", such as "it took core.TaskEnded of step 3, attempt 1"
	value any
	stack []byte
}

func (p *panicked) Error() string {
	return fmt.Sprintf("its code panicked while %s: %v", p.doing, p.value)
}

// guard calls fn, which runs the code of one run. It returns a panic of that code as an error.
func guard(doing string, fn func()) (err error) {
	defer catchPanic(doing, nil, &err)
	fn()
	return nil
}

// catchPanic turns a panic into an error; use it with defer. in is the input that the run took; nil if it took none.
func catchPanic(doing string, in core.Input, err *error) {
	if v := recover(); v != nil {
		*err = &panicked{doing: doing + describeInput(in), value: v, stack: debug.Stack()}
	}
}

// describeInput names an input without its payload, because payloads do not belong in logs. It must not store the
// input anywhere: then the compiler would put every input on the heap.
func describeInput(in core.Input) string {
	if in == nil {
		return ""
	}
	text := " " + reflect.TypeOf(in).String()
	switch in := in.(type) {
	case core.TaskStarted:
		text += fmt.Sprintf(" of step %d, attempt %d", in.Step, in.Attempt)
	case core.TaskEnded:
		text += fmt.Sprintf(" of step %d, attempt %d", in.Step, in.Attempt)
	case core.TaskStopped:
		text += fmt.Sprintf(" of step %d, attempt %d", in.Step, in.Attempt)
	case core.ChildEnded:
		text += fmt.Sprintf(" of step %d, attempt %d", in.Step, in.Attempt)
	case core.Operation:
		text += fmt.Sprintf(" %s, step %d", in.Op, in.Step)
	default:
	}
	return text
}

func isPanic(err error) bool {
	if err == nil {
		return false // asked for each input, so the variable below must not be made for nothing
	}
	var bug *panicked
	return errors.As(err, &bug)
}

// aside is the error of a run that was set aside.
type aside struct {
	run core.RunID
	err error

	missingRow *journal.RunRow // shown in lists if the view has no row of the run; nil if it has one
	explained  bool            // the view's row has the reason why the run is stopped, or will soon
}

func (a *aside) Error() string { return "the run is set aside: " + a.err.Error() }

func (a *aside) Unwrap() error { return a.err }

func isAside(err error) bool {
	var a *aside
	return errors.As(err, &a)
}

func isUnusable(err error) bool {
	var u *unusable
	return errors.As(err, &u)
}

// permanent reports whether the run stays unusable until this process ends.
func permanent(err error) bool {
	return isAside(err) || isUnusable(err) || isPanic(err)
}

// permanentFailure returns a failure that no further attempt can avoid.
func permanentFailure(kind, message string) *policy.Failure {
	return &policy.Failure{Kind: policy.KindFailed, Type: kind, Message: message, NonRetryable: true}
}

// commitWait is a commit that has taken too long and has not ended.
type commitWait struct {
	partition int
	since     time.Time
	blocker   string // what holds it up; empty: unknown
}

func (w *commitWait) String() string {
	text := fmt.Sprintf("a commit to partition %d has waited for %s", w.partition,
		time.Since(w.since).Round(100*time.Millisecond))
	if w.blocker != "" {
		text += ": " + w.blocker
	}
	return text
}
