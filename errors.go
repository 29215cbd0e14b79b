package pawl

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// What the engine decided about a step or a run, for errors.Is. errors.As finds the step's own error.
var (
	ErrTimedOut         error = api.Sentinel(api.CodeTimedOut)
	ErrRetriesExhausted error = api.Sentinel(api.CodeRetriesExhausted)
	ErrDeadlineExceeded error = api.Sentinel(api.CodeDeadlineExceeded) // an event wait's limit
	ErrCancelled        error = api.Sentinel(api.CodeRunCancelled)
	ErrTerminated       error = api.Sentinel(api.CodeRunTerminated)
	ErrWorkerLost       error = api.Sentinel(api.CodeWorkerLost) // attempt after attempt died with its worker
)

// Errors of calls that are wrong in themselves.
var (
	// ErrInvalid: what was asked for makes no sense: a name, an option, a length of time, an operation. A run whose
	// body asks for such a thing fails, even if the body ignores the error, and is not retried.
	ErrInvalid error = engine.ErrInvalid
	// ErrContextEnded: a Context was used after its body had returned, or in another run.
	ErrContextEnded error = body.ErrContextEnded
	// ErrNested: a step began inside another one in the same branch. Go does things at once.
	ErrNested error = body.ErrNested
)

// What callers of an engine get, for errors.Is.
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
	RegisterErrorValue("pawl.nested", ErrNested)
	RegisterErrorValue("pawl.context_ended", ErrContextEnded)
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

// Business reports whether the step ended by its own error, and not because the engine gave up on it.
func (e *StepError) Business() bool { return len(e.kinds) == 0 }

// stepError is the error of a closed step; nil where it succeeded or was skipped.
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

// ChangedError is the error when a workflow's code no longer decides what its run's history holds, or cannot read a
// value in it any more: the input, or a step's result. The run stays open and its body is called again. Deploy code
// that fits; use [Version] if old and new runs have to go on.
type ChangedError struct {
	Run, Workflow, Recorded, Asked string
	Err                            error // what the codec says; nil where no value is the reason
}

// Unwrap returns what the codec says.
func (e *ChangedError) Unwrap() error { return e.Err }

func (e *ChangedError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("run %s of workflow %q: the code has changed: %s cannot be read as %s: %v (deploy code "+
			"that reads what is recorded)", e.Run, e.Workflow, e.Recorded, e.Asked, e.Err)
	}
	return fmt.Sprintf("run %s of workflow %q: the code has changed: recorded is %s, asked for was %s (keep the "+
		"order of steps, or branch by pawl.Version)",
		e.Run, e.Workflow, e.Recorded, e.Asked)
}

// TaskTimeoutError is the error of a body that spent longer outside its steps than its task limit allows.
type TaskTimeoutError struct {
	Run, Workflow string
	Limit         time.Duration
	Stack         string // of the goroutines that ran
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
		Value: fmt.Sprint(v), At: panickedAt(string(stack)),
		Stack: string(stack[:min(len(stack), most)]),
	}
}

// panickedAt finds in the stack of a recovered panic the line that panicked: the first one beyond the runtime's. Of
// several panics the one that began is the last.
func panickedAt(stack string) string {
	lines := strings.Split(stack[strings.LastIndex(stack, "\npanic(")+1:], "\n")
	for i := 2; i+1 < len(lines); i += 2 {
		if strings.HasPrefix(lines[i], "runtime.") {
			continue
		}
		file, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " ")
		dir, name := path.Split(file)
		return path.Join(path.Base(dir), name)
	}
	return ""
}

// hint wraps an error with what it says about its retry.
type hint struct {
	error
	final bool
	after *time.Duration
}

func (h *hint) Unwrap() error { return h.error }

// NonRetryable marks an error after which the step is not tried again, since every attempt would end with it.
func NonRetryable(err error) error {
	if err == nil {
		return nil
	}
	return &hint{error: err, final: true}
}

// RetryAfter asks for the next attempt after d instead of the policy's delay. No attempt begins after a deadline.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &hint{error: err, after: &d}
}

// errorTypes are the errors that keep their type in the history.
var errorTypes struct {
	sync.RWMutex
	byName map[string]func(data []byte) (error, bool)
	types  map[reflect.Type]string
	values []namedError
}

type namedError struct {
	name string
	err  error
}

// RegisterError makes errors of type E keep their type and data, as JSON, in a run's history: errors.As finds them
// again after a restart, and retry policies can name them. It panics if the name is taken: call it when the program
// starts.
func RegisterError[E error](name string) {
	register(name, func(data []byte) (error, bool) {
		var e E
		if t := reflect.TypeFor[E](); t.Kind() == reflect.Pointer {
			e, _ = reflect.New(t.Elem()).Interface().(E)
			return e, len(data) == 0 || json.Unmarshal(data, e) == nil
		}
		return e, len(data) == 0 || json.Unmarshal(data, &e) == nil
	})
	errorTypes.Lock()
	defer errorTypes.Unlock()
	errorTypes.types[reflect.TypeFor[E]()] = name
}

// RegisterErrorValue does for a single value what RegisterError does for a type: errors.Is finds err again.
func RegisterErrorValue(name string, err error) {
	register(name, func([]byte) (error, bool) { return err, true })
	errorTypes.Lock()
	defer errorTypes.Unlock()
	errorTypes.values = append(errorTypes.values, namedError{name, err})
}

func register(name string, decode func([]byte) (error, bool)) {
	errorTypes.Lock()
	defer errorTypes.Unlock()
	if errorTypes.byName == nil {
		errorTypes.byName, errorTypes.types = map[string]func([]byte) (error, bool){}, map[reflect.Type]string{}
	}
	if errorTypes.byName[name] != nil {
		panic(fmt.Sprintf("pawl: error name %q is registered twice", name))
	}
	errorTypes.byName[name] = decode
}

// failureOf turns an error into what is recorded.
func failureOf(err error) *policy.Failure {
	f := &policy.Failure{Kind: policy.KindError, Message: err.Error()}
	var step *StepError
	var said *policy.Failure
	var panicked *PanicError
	switch {
	case errors.As(err, &panicked):
		f.Type = "panic"
		f.Details, _ = json.Marshal(panicked)
	case errors.As(err, &step) && step.Failure != nil:
		f.Kind, f.Type, f.Code, f.Details = policy.KindError, step.Failure.Type, step.Failure.Code, step.Failure.Details
		f.Cause, f.Reason = step.Failure, step.reason
		if step.own == nil {
			f.Details = nil
		}
	case errors.As(err, &said):
		copied := *said
		f = &copied
		f.Message = err.Error()
	}
	if all := knownIn(err); len(all) > 0 {
		f.Type, f.Details = all[0].Type, all[0].Details
		if len(all) > 1 {
			f.Also = all[1:]
		}
	}
	for e := err; e != nil; {
		var h *hint
		if !errors.As(e, &h) {
			break
		}
		f.NonRetryable = f.NonRetryable || h.final
		if h.after != nil {
			f.RetryAfter = h.after
		}
		e = h.error
	}
	return f
}

// recordedError is an error read back from the history: what it said, what it was, and what the engine had decided
// before.
type recordedError struct {
	message string
	was     error
	kinds   []error
}

func (e *recordedError) Error() string        { return e.message }
func (e *recordedError) Unwrap() error        { return e.was }
func (e *recordedError) Is(target error) bool { return slices.Contains(e.kinds, target) }

// decodeFailure makes an error of what is recorded; nil of nil.
func decodeFailure(f *policy.Failure) error {
	if f == nil {
		return nil
	}
	err := decodeOwn(f)
	kinds := kindsOf(f.Reason, f)
	for c := f; c != nil; c = c.Cause { // of a run: the step that ended it; of a step: its child run
		switch {
		case f.Reason == policy.ReasonCancelled: // a limit, perhaps, that ended it so
		case c.Kind == policy.KindTimeout && c.Limit == policy.LimitWait:
			kinds = append(kinds, ErrDeadlineExceeded)
		case c.Kind == policy.KindTimeout:
			kinds = append(kinds, ErrTimedOut)
		case c.Kind == policy.KindCancelled:
			kinds = append(kinds, cancelKind(c))
		}
	}
	if kinds == nil && err.Error() == f.Message {
		return err
	}
	return &recordedError{f.Message, err, kinds}
}

// decodeOwn is the error as it was, where its type is registered.
func decodeOwn(f *policy.Failure) error {
	if f.Type == "panic" {
		p := &PanicError{}
		if json.Unmarshal(f.Details, p) == nil {
			return p
		}
	}
	errorTypes.RLock()
	decode := errorTypes.byName[f.Type]
	errorTypes.RUnlock()
	var err error = f
	if decode != nil {
		holder := f
		for len(holder.Details) == 0 && holder.Cause != nil && holder.Cause.Type == f.Type {
			holder = holder.Cause // of a child run
		}
		if own, ok := decode(holder.Details); ok {
			err = own
		}
	}
	if len(f.Also) == 0 {
		return err
	}
	all := []error{err}
	for _, other := range f.Also {
		errorTypes.RLock()
		decode := errorTypes.byName[other.Type]
		errorTypes.RUnlock()
		if decode == nil {
			continue
		}
		if own, ok := decode(other.Details); ok {
			all = append(all, own)
		}
	}
	return errors.Join(all...)
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
