package pawl

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/naming"
	"github.com/pawl-dev/pawl/policy"
)

// The decisions of the engine about a step or a run, for errors.Is. errors.As finds the step's own error.
var (
	ErrTimedOut         error = api.Sentinel(api.CodeTimedOut)
	ErrRetriesExhausted error = api.Sentinel(api.CodeRetriesExhausted)
	ErrDeadlineExceeded error = api.Sentinel(api.CodeDeadlineExceeded) // an event wait's limit
	ErrCancelled        error = api.Sentinel(api.CodeRunCancelled)
	ErrTerminated       error = api.Sentinel(api.CodeRunTerminated)
	ErrWorkerLost       error = api.Sentinel(api.CodeWorkerLost) // attempt after attempt died with its worker
)

// ErrInvalid is the error of a call that is wrong in itself: what was asked for makes no sense, such as a name, an
// option, a length of time or an operation; or a [Context] was used where it cannot be: inside a step, in another
// goroutine, in another run, after its body had returned. A run whose body asks for such a thing fails, even if the
// body ignores the error, and is not retried.
var ErrInvalid error = engine.ErrInvalid

// The errors that callers of an engine get, for errors.Is.
var (
	ErrNotFound  error = engine.ErrNotFound
	ErrConflict  error = engine.ErrConflict
	ErrClosed    error = engine.ErrClosed
	ErrHeld      error = api.Sentinel(api.CodeHeld) // another engine works on the database
	ErrTooLarge  error = engine.ErrTooLarge
	ErrRunClosed error = engine.ErrRunClosed
	ErrFull      error = engine.ErrFull // the run keeps 10,000 events, or 64 MiB of them, that it has not waited for
)

// typeTooLarge is how a payload above the limit is recorded.
const typeTooLarge = "output_too_large"

func init() {
	RegisterErrorValue(typeTooLarge, ErrTooLarge) // first, since it says more
	RegisterErrorValue("pawl.invalid", ErrInvalid)
	RegisterErrorValue("pawl.nested", body.ErrNested)
	RegisterErrorValue("pawl.context_ended", body.ErrContextEnded)
}

// invalidError says what makes no sense. For errors.Is it is ErrInvalid.
type invalidError struct{ error }

func (e *invalidError) Is(target error) bool { return target == ErrInvalid }
func (e *invalidError) Unwrap() error        { return e.error }

// invalid makes an error that is ErrInvalid and names the call; nil for nil.
func invalid(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return NonRetryable(&invalidError{fmt.Errorf("pawl: "+format+": %w", append(args, err)...)})
}

// StepError is the error of a step that ended without a result. errors.Is tells what the engine decided ([ErrTimedOut],
// [ErrRetriesExhausted], …), errors.As finds the step's own error, of the type it had where that was registered.
type StepError struct {
	Step     string
	Phase    client.Phase     // failed, timed_out or cancelled
	Reason   policy.Reason    // why it was not tried again
	Limit    policy.LimitKind // the limit that fired; LimitNone: none did
	Attempts int
	Failure  *policy.Failure // the last one
	own      error
	kinds    []error
	reason   policy.Reason
}

func (e *StepError) Error() string {
	text := fmt.Sprintf("step %q %s", e.Step, e.verb())
	if e.own != nil {
		return text + ": " + e.own.Error()
	}
	if e.Failure != nil && e.Failure.Message != "" {
		return text + ": " + e.Failure.Message
	}
	return text
}

func (e *StepError) verb() string {
	times := ""
	if e.Attempts > 1 {
		times = fmt.Sprintf(" after %d attempts", e.Attempts)
	}
	if e.reason == policy.ReasonWorkerLost {
		times += ", for its process died in attempt after attempt"
	}
	switch e.Phase {
	case client.PhaseTimedOut:
		return "timed out (" + e.Limit.String() + ")" + times
	case client.PhaseCancelled:
		return "was cancelled"
	default:
		return "failed" + times
	}
}

// Is reports whether the target is what the engine decided.
func (e *StepError) Is(target error) bool {
	return slices.Contains(e.kinds, target)
}

// Unwrap returns the step's own error.
func (e *StepError) Unwrap() error { return e.own }

// Own reports whether the step ended by its own error, and not because the engine gave up on it.
func (e *StepError) Own() bool { return len(e.kinds) == 0 }

// stepError returns the error of a closed step; nil if it succeeded or was skipped.
func (b *branch) stepError(s *engine.Step) error {
	if s.Phase == core.StepSucceeded || s.Phase == core.StepSkipped {
		return nil
	}
	failure, err := openFailure(b, b.host.codec, b.at(kindFailure, s.Spec.Name), s.Failure)
	if err != nil { // the body might do something else than it did when it knew the error
		b.Unreadable("the failure of step "+s.Spec.Name, "an error", err)
	}
	out := &StepError{
		Step: s.Spec.Name, Phase: client.Phase(s.Phase.String()), Reason: s.Reason, Attempts: s.Attempts,
		Failure: failure, reason: s.Reason,
	}
	if s.Phase == core.StepCancelled {
		out.reason = policy.ReasonCancelled // also by a limit
	}
	f := failure
	if f != nil && f.Kind == policy.KindTimeout {
		out.Limit = f.Limit
		f = f.Cause
	}
	out.own = decodeFailure(f)
	switch {
	case s.Phase == core.StepTimedOut && s.Failure != nil && s.Failure.Limit == policy.LimitWait:
		out.kinds = append(out.kinds, ErrDeadlineExceeded)
	case s.Phase == core.StepTimedOut:
		out.kinds = append(out.kinds, ErrTimedOut)
	}
	out.kinds = append(out.kinds, kindsOf(out.reason, s.Failure)...)
	return out
}

// kindsOf returns the errors that a stop reason matches.
func kindsOf(r policy.Reason, f *policy.Failure) []error {
	switch r {
	case policy.ReasonAttemptsExhausted:
		return []error{ErrRetriesExhausted}
	case policy.ReasonWorkerLost:
		return []error{ErrWorkerLost}
	case policy.ReasonCancelled:
		return []error{cancelKind(f)}
	default:
		return nil
	}
}

// cancelKind returns what a cancelled step matches: a child run may have been terminated.
func cancelKind(f *policy.Failure) error {
	for ; f != nil; f = f.Cause {
		if f.Kind == policy.KindCancelled && f.Type == "terminated" {
			return ErrTerminated
		}
	}
	return ErrCancelled
}

// RunError is the error of a run that ended without a result.
type RunError struct {
	Run     string
	Phase   client.Phase // failed, timed_out, cancelled or terminated
	Failure *policy.Failure
	own     error
}

func (e *RunError) Error() string {
	text := "the run " + string(e.Phase)
	if e.Run != "" {
		text = "run " + e.Run + " " + string(e.Phase)
	}
	if e.own != nil {
		return text + ": " + e.own.Error()
	}
	if f := e.Failure; f != nil && f.Message != "" {
		text += ": " + f.Message
		if f.Origin != "" {
			text += " (set at " + f.Origin + ")"
		}
	}
	return text
}

// Is reports whether the target says how the run ended.
func (e *RunError) Is(target error) bool {
	switch target {
	case ErrTimedOut:
		return e.Phase == client.PhaseTimedOut
	case ErrCancelled:
		return e.Phase == client.PhaseCancelled
	case ErrTerminated:
		return e.Phase == client.PhaseTerminated
	default:
		return false
	}
}

// Unwrap returns the body's own error.
func (e *RunError) Unwrap() error { return e.own }

// ChangedError is the error when a workflow's code no longer decides what its run's history holds. The run stays open,
// and its body is called again. Deploy code that fits; use [Version] if old and new runs have to go on.
type ChangedError struct{ Run, Workflow, Recorded, Asked string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("run %s of workflow %q: the code has changed: recorded is %s, asked for was %s (keep the "+
		"order of steps, or branch by pawl.Version)",
		e.Run, e.Workflow, e.Recorded, e.Asked)
}

// UnreadableError is the error when a workflow's code cannot read a value of its run's history: the input, or a step's
// result. The run stays open and its body is called again. Err says whether the value has another type, so that code
// that reads it has to be deployed, or whether the codec fails, which may lack a key.
type UnreadableError struct {
	Run, Workflow string
	Value, Type   string // the recorded value, and the type that the code reads
	Err           error  // the codec's error
}

// Unwrap returns what the codec says.
func (e *UnreadableError) Unwrap() error { return e.Err }

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("run %s of workflow %q: %s cannot be read as %s: %v", e.Run, e.Workflow, e.Value, e.Type, e.Err)
}

// TaskTimeoutError is the error of a body that spent longer outside its steps than its task limit allows.
type TaskTimeoutError struct {
	Run, Workflow string
	Limit         time.Duration
	Stack         string // the stack of the goroutines that ran
}

func (e *TaskTimeoutError) Error() string {
	return fmt.Sprintf("run %s of workflow %q: the body did not come to its next step within %s: what blocks or "+
		"computes for long belongs in a step\n%s",
		e.Run, e.Workflow, e.Limit, e.Stack)
}

// PanicError is a panic of a body or of a step.
type PanicError struct {
	Value string `json:"value"`
	At    string `json:"at,omitempty"` // directory/file:line
	Stack string `json:"stack"`
}

func (e *PanicError) Error() string {
	if e.At == "" {
		return "panic: " + e.Value
	}
	return "panic: " + e.Value + " (at " + e.At + ")"
}

func newPanic(v any, stack []byte) *PanicError {
	const most = 8 << 10
	return &PanicError{
		Value: naming.Shorten(fmt.Sprint(v)), At: panickedAt(string(stack)),
		Stack: string(stack[:min(len(stack), most)]),
	}
}

// libraries begin the names of functions that panic on behalf of their callers.
var libraries = []string{"runtime.", "github.com/pawl-dev/pawl.", "github.com/pawl-dev/pawl/internal/body."}

// panickedAt finds in the stack of a recovered panic the line that panicked: the first one beyond the runtime's and
// Pawl's own. Of several panics the one that began is the last.
func panickedAt(stack string) string {
	lines := strings.Split(stack[strings.LastIndex(stack, "\npanic(")+1:], "\n")
	for i := 2; i+1 < len(lines); i += 2 {
		of := func(library string) bool { return strings.HasPrefix(lines[i], library) }
		if slices.ContainsFunc(libraries, of) {
			continue
		}
		file, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " ")
		dir, name := path.Split(file)
		return path.Join(path.Base(dir), name)
	}
	return ""
}

// tooLarge returns the error for a payload above the limit, which no further attempt would change.
func (h *host) tooLarge(what string, payload []byte) error {
	if len(payload) <= h.maxPayload {
		return nil
	}
	return NonRetryable(&tooLargeError{&policy.Failure{
		Kind: policy.KindFailed, Type: typeTooLarge, Message: fmt.Sprintf(
			"%s has %d bytes, more than the %d that are allowed: store it elsewhere and pass a reference, or raise "+
				"Config.MaxPayload", what, len(payload), h.maxPayload),
	}})
}

// tooLargeError is a payload above the limit, and ErrTooLarge.
type tooLargeError struct{ *policy.Failure }

func (e *tooLargeError) Error() string        { return e.Message }
func (e *tooLargeError) Is(target error) bool { return target == ErrTooLarge }
func (e *tooLargeError) Unwrap() error        { return e.Failure }

// several is the first of several errors. For errors.Is, errors.As and people it is that one. A retry of the run has
// to know of the others as well: it begins all their steps again at once, and not one after the other.
type several struct {
	error
	others []error
}

func (e *several) Unwrap() error { return e.error }

// firstOf returns the first error that is not nil; nil: there is none.
func firstOf(errs []error) error {
	var found []error
	for _, err := range errs {
		if err != nil {
			found = append(found, err)
		}
	}
	switch len(found) {
	case 0:
		return nil
	case 1:
		return found[0]
	default:
		return &several{found[0], found[1:]}
	}
}

// stepsOf returns the keys of the steps that an error came from: those whose StepError it wraps.
func stepsOf(err error) []string {
	var keys []string
	for err != nil {
		switch e := err.(type) { //nolint:errorlint // as errors.As walks, but for all of them
		case *StepError:
			return append(keys, e.Step)
		case *several:
			for _, other := range e.others {
				keys = append(keys, stepsOf(other)...)
			}
			err = e.error
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				keys = append(keys, stepsOf(one)...)
			}
			return keys
		default:
			return keys
		}
	}
	return keys
}
