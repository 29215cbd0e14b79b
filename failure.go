package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/naming"
	"github.com/pawl-dev/pawl/policy"
)

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

// readsBack reads the data of an error into e, and reports whether it could.
func readsBack(data []byte, e any) bool {
	_, err := recoverCodec(func() (struct{}, error) { return struct{}{}, json.Unmarshal(data, e) })
	return err == nil
}

// RegisterError makes errors of type E keep their type and data, as JSON, in a run's history: errors.As finds them
// again after a restart, and retry policies can name them. It panics if the name is empty or taken, and for an
// interface, which no data can be read into: call it when the program starts.
func RegisterError[E error](name string) {
	if reflect.TypeFor[E]().Kind() == reflect.Interface {
		panic(fmt.Sprintf("pawl: the error type %v that is registered as %q is an interface: register the types of "+
			"its values", reflect.TypeFor[E](), name))
	}
	register(name, func(data []byte) (error, bool) {
		var e E
		if t := reflect.TypeFor[E](); t.Kind() == reflect.Pointer {
			e, _ = reflect.New(t.Elem()).Interface().(E)
			return e, len(data) == 0 || readsBack(data, e)
		}
		return e, len(data) == 0 || readsBack(data, &e)
	})
	errorTypes.Lock()
	defer errorTypes.Unlock()
	errorTypes.types[reflect.TypeFor[E]()] = name
}

// RegisterErrorValue does for a single value what RegisterError does for a type: errors.Is finds err again. It panics
// for nil, too.
func RegisterErrorValue(name string, err error) {
	if err == nil {
		panic(fmt.Sprintf("pawl: the error that is registered as %q is nil", name))
	}
	register(name, func([]byte) (error, bool) { return err, true })
	errorTypes.Lock()
	defer errorTypes.Unlock()
	errorTypes.values = append(errorTypes.values, namedError{name, err})
}

func register(name string, decode func([]byte) (error, bool)) {
	if name == "" {
		panic("pawl: an error is registered without a name")
	}
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

// messageOf returns what an error says, also if saying it panics.
func messageOf(err error) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("the method Error of %T panicked: %v", err, v)
		}
	}()
	return naming.Shorten(err.Error())
}

// failureOf turns an error into what is recorded.
func failureOf(err error) *policy.Failure {
	f := &policy.Failure{Kind: policy.KindError, Message: messageOf(err)}
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
		f.Message = messageOf(err)
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
	for c := f; c != nil; c = c.Cause { // the failed step is a cause of a run's failure, the child run one of a step's
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

// decodeOwn returns the error as it was, if its type is registered.
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
			holder = holder.Cause // the failure is that of a child run
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
			details, _ := recoverCodec(func() ([]byte, error) { return json.Marshal(e) })
			add(name, details)
		}
		found = found || messageOf(e) == noRows{}.Error()
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

// failureText is what the program itself says in a failure: what a codec encodes of it. Kind, type, code, limit and
// reason stay readable, since the engine and its policies work with them.
type failureText struct {
	Message string            `json:"message,omitempty"`
	Details json.RawMessage   `json:"details,omitempty"`
	Also    []json.RawMessage `json:"also,omitempty"` // the data of each
}

// sealFailure encodes what a failure and its causes say. A failure whose text the codec cannot encode is returned
// without it; the error tells whether that may pass. The codec JSON leaves failures as they are, so that people can
// read them in the history.
func sealFailure(ctx context.Context, c Codec, at place, f *policy.Failure) (*policy.Failure, error) {
	if _, plain := c.(JSON); plain || f == nil {
		return f, nil
	}
	out := *f
	var err error
	out.Cause, err = sealFailure(ctx, c, at, f.Cause)
	if f.Encoded != nil || f.Message == "" && f.Details == nil && f.Also == nil {
		return &out, err
	}
	text := failureText{Message: f.Message, Details: f.Details}
	out.Message, out.Details, out.Also = "", nil, nil
	for _, k := range f.Also {
		text.Also = append(text.Also, k.Details)
		out.Also = append(out.Also, policy.KnownError{Type: k.Type})
	}
	var own error
	if out.Encoded, own = encode(ctx, c, "what the failure says", at, text); own != nil {
		out.Message = "the codec could not encode what the failure says"
	}
	return &out, errors.Join(err, own)
}

// encodedFailure encodes the failure of an attempt, which waits for its codec as it does with a result.
func (a *attempt) encodedFailure(f *policy.Failure) (out *policy.Failure) {
	_ = a.retryCodec(func(ctx context.Context) (err error) {
		out, err = sealFailure(ctx, a.codec, a.at(kindFailure), f)
		return err
	})
	return out
}

// encodedFailure encodes the failure of a body. If its codec cannot encode for now, the call of the body ends.
func (b *branch) encodedFailure(f *policy.Failure) *policy.Failure {
	out, err := sealFailure(b, b.host.codec, b.at(kindFailure, ""), f)
	if isTransient(err) {
		b.Unencodable("what a failure says", err)
	}
	return out
}

// openFailure reads what sealFailure made. The error tells that the codec cannot read it; the failure is then complete
// but for what it says.
func openFailure(ctx context.Context, c Codec, at place, f *policy.Failure) (*policy.Failure, error) {
	if !isEncoded(f) {
		return f, nil
	}
	out := *f
	var err error
	if out.Cause, err = openFailure(ctx, c, at, f.Cause); err != nil {
		return &out, err
	}
	if f.Encoded == nil { // the engine's own, which may have put the cause into its message
		out.Message = strings.Replace(f.Message, core.Sentence(f.Cause), core.Sentence(out.Cause), 1)
		return &out, nil
	}
	text, err := read[failureText](ctx, c, at, f.Encoded)
	if err != nil {
		return &out, err
	}
	out.Message, out.Details, out.Encoded = text.Message, text.Details, nil
	out.Also = nil
	for i, k := range f.Also {
		if i < len(text.Also) {
			k.Details = text.Also[i]
		}
		out.Also = append(out.Also, k)
	}
	return &out, nil
}

// isEncoded reports whether a codec has encoded the failure or one of its causes.
func isEncoded(f *policy.Failure) bool {
	for ; f != nil; f = f.Cause {
		if f.Encoded != nil {
			return true
		}
	}
	return false
}

// decodedFailure decodes a failure to show it: a part that the codec cannot read stays encoded.
func decodedFailure(ctx context.Context, c Codec, at place, f *policy.Failure) *policy.Failure {
	at.kind = kindFailure
	out, err := openFailure(ctx, c, at, f)
	if err != nil {
		return f
	}
	return out
}
