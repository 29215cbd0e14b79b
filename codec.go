package pawl

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/envelope"
)

// Codec turns values into what the history holds and back. It must write JSON, since people and tools
// expect JSON in a history; a codec that encrypts writes a JSON string. A codec must read what it wrote years ago.
//
// The context is that of whoever has the value: a caller, a body, a step. So it holds what a [Propagator] put there,
// such as a tenant. A codec must not change values by the context that are decoded in another one: what Decode needs,
// Encode keeps in [Payload].Meta.
//
// A codec other than [JSON] also gets what errors and panics say: their messages, the data of registered errors, the
// stacks of panics. Their kinds, types and codes stay readable, since retry policies work with them.
//
// An error may be temporary, such as that of a key service which cannot be reached. Then nothing is lost: a step waits
// with its result for as long as its limits allow, a body is called again, a caller gets the error. Errors of
// encoding/json and those that are marked with [NonRetryable] are permanent: the step, or the call in the body, fails
// with them.
type Codec interface {
	// Encode encodes v. It may set p.Meta.
	Encode(ctx context.Context, p *Payload, v any) ([]byte, error)
	// Decode decodes what Encode returned. p.Meta is what Encode has set.
	Decode(ctx context.Context, p Payload, data []byte, v any) error
}

// Payload says what a [Codec] encodes or decodes.
type Payload struct {
	// Kind is input (of a run or a handler), output (of a step or a run), failure, event, update, answer (to an
	// update), state or heartbeat. Decode gets the same one as Encode.
	Kind string
	// The place of the value, as far as it is known there: a run that is about to start has no id yet, who sends an
	// event does not know the workflow, and a child's result is decoded in a step of its parent.
	RunID, Workflow string
	Name            string // the name of the step, event or update; empty: it belongs to the run as a whole
	// Meta is stored beside the encoded value as it is, for everybody to read: the id of a key, a format.
	Meta map[string]string
}

// The kinds of payloads.
const (
	kindInput     = "input"
	kindOutput    = "output"
	kindFailure   = "failure"
	kindEvent     = "event"
	kindUpdate    = "update"
	kindAnswer    = "answer"
	kindState     = "state"
	kindHeartbeat = "heartbeat"
)

// JSON is the default codec.
type JSON struct{}

// Encode makes JSON.
func (JSON) Encode(_ context.Context, _ *Payload, v any) ([]byte, error) { return json.Marshal(v) }

// Decode reads JSON.
func (JSON) Decode(_ context.Context, _ Payload, data []byte, v any) error {
	return json.Unmarshal(data, v)
}

var null = []byte("null")

// place is a Payload before a codec asks for it.
type place struct {
	kind     string
	run      core.RunID // zero: not known
	workflow string
	name     string
}

func (p place) payload() Payload {
	out := Payload{Kind: p.kind, Workflow: p.workflow, Name: p.name}
	if p.run != (core.RunID{}) {
		out.RunID = p.run.String()
	}
	return out
}

// of names the run in an error.
func (p place) of() string {
	if p.run == (core.RunID{}) {
		return ""
	}
	return "run " + p.run.String() + ": "
}

// transientError is an error of a codec that may pass.
type transientError struct{ error }

func (e *transientError) Unwrap() error { return e.error }

func isTransient(err error) bool {
	var p *transientError
	return errors.As(err, &p)
}

// codecError marks what a codec says: it may pass, or the same would come again.
func codecError(c Codec, cause, err error) error {
	if _, plain := c.(JSON); plain || isPermanent(cause) {
		return NonRetryable(err)
	}
	return &transientError{err}
}

// isPermanent reports whether an error of a codec comes from the value or the type, and not from what the codec needs.
func isPermanent(err error) bool {
	var (
		h           *hint
		value       *json.UnsupportedValueError
		encodedType *json.UnsupportedTypeError
		marshaler   *json.MarshalerError
		syntax      *json.SyntaxError
		decodedType *json.UnmarshalTypeError
	)
	return errors.As(err, &h) && h.final || errors.As(err, &value) || errors.As(err, &encodedType) ||
		errors.As(err, &marshaler) || errors.As(err, &syntax) || errors.As(err, &decodedType)
}

// encode makes a payload; its error names what the payload is.
func encode(ctx context.Context, c Codec, what string, at place, v any) ([]byte, error) {
	if _, plain := c.(JSON); plain {
		if b, ok := writePlain(v); ok {
			return b, nil
		}
		b, err := recoverCodec(func() ([]byte, error) { return json.Marshal(v) })
		if err != nil {
			return nil, NonRetryable(fmt.Errorf("pawl: %s%s cannot be encoded: %w", at.of(), what, err))
		}
		return b, nil
	}
	p := at.payload()
	b, err := recoverCodec(func() ([]byte, error) { return c.Encode(ctx, &p, v) })
	if err != nil {
		return nil, codecError(c, err, fmt.Errorf("pawl: %s%s cannot be encoded: %w", at.of(), what, err))
	}
	if !json.Valid(b) {
		return nil, NonRetryable(fmt.Errorf("pawl: %s%s: the codec made no JSON: it has to return at least a JSON "+
			"string", at.of(), what))
	}
	return envelope.Wrap(p.Meta, b)
}

// recoverCodec calls a codec. A panic of it is an error, so that it does not repeat the step whose result is at hand.
func recoverCodec[T any](call func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = NonRetryable(fmt.Errorf("the codec panicked: %v", p))
		}
	}()
	return call()
}

// decode reads a payload; an empty one and null give the zero value.
func decode[T any](ctx context.Context, c Codec, what string, at place, b []byte) (T, error) {
	v, err := read[T](ctx, c, at, b)
	if err != nil {
		err = codecError(c, err, fmt.Errorf("pawl: %s%s cannot be read as %s: %w", at.of(), what, reflect.TypeFor[T](),
			err))
	}
	return v, err
}

func read[T any](ctx context.Context, c Codec, at place, b []byte) (v T, err error) {
	err = readInto(ctx, c, at, b, &v)
	return v, err
}

// readInto works as read, for a pointer.
func readInto(ctx context.Context, c Codec, at place, b []byte, v any) error {
	if len(b) == 0 || bytes.Equal(b, null) {
		return nil
	}
	if _, plain := c.(JSON); plain {
		if readPlain(b, v) {
			return nil
		}
		_, err := recoverCodec(func() (struct{}, error) { return struct{}{}, json.Unmarshal(b, v) })
		return err
	}
	p := at.payload()
	p.Meta, b = envelope.Open(b)
	_, err := recoverCodec(func() (struct{}, error) { return struct{}{}, c.Decode(ctx, p, b, v) })
	return err
}

// at returns the place of a payload of the body's run.
func (b *branch) at(kind, name string) place {
	return place{kind, b.Run(), b.Head().Workflow, name}
}

// encode makes a payload of a body. Where its codec cannot do that for now, the call of the body ends.
func (b *branch) encode(c Codec, what string, at place, v any) ([]byte, error) {
	out, err := encode(b, c, what, at, v)
	if isTransient(err) {
		b.Unencodable(what, err)
	}
	if err == nil {
		err = b.host.tooLarge(what, out)
	}
	return out, err
}

// recorded decodes a value that earlier code has written. If the present code cannot read it, the body cannot go on,
// and the call ends.
func recorded[T any](b *branch, c Codec, what payloadName, at place, data []byte) T {
	v, err := read[T](b, c, at, data)
	if err != nil {
		b.Unreadable(what.String(), reflect.TypeFor[T]().String(), err)
	}
	return v
}

// received decodes a value that others have sent to a body, which handles their mistakes. A value that the codec cannot
// read for now ends the call of the body.
func received[T any](b *branch, c Codec, what string, at place, data []byte) (T, error) {
	v, err := decode[T](b, c, what, at, data)
	if isTransient(err) {
		b.Unreadable(what, reflect.TypeFor[T]().String(), err)
	}
	return v, err
}

// The pauses after which an attempt asks a codec again.
const (
	firstCodecPause = 100 * time.Millisecond
	lastCodecPause  = 30 * time.Second
)

// at returns the place of a payload of the attempt's step.
func (a *attempt) at(kind string) place {
	return place{kind, a.task.Token.Run, a.task.Workflow, a.task.StepName}
}

// retryCodec asks a codec until it answers, its error cannot pass, or the attempt's time is over. The function of a
// step has done its work by then, which must neither be repeated nor lost.
func (a *attempt) retryCodec(try func(ctx context.Context) error) error {
	ctx := context.WithoutCancel(a) // also the result of an attempt that is told to stop counts
	for pause := firstCodecPause; ; pause = min(2*pause, lastCodecPause) {
		err := try(ctx)
		if !isTransient(err) {
			return err
		}
		if pause == firstCodecPause {
			a.host.log.Warn("the codec fails, and is asked again until the attempt's time is over", "run",
				a.task.Token.Run.String(), "step", a.task.StepName, "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-a.Done():
			timer.Stop()
			return err
		}
	}
}

// payloadName names a payload, for errors: text is only made where there is one.
type payloadName struct {
	what, name string
	of         *body.Result // instead of a name
}

func (n payloadName) String() string {
	switch {
	case n.of != nil:
		return n.what + " " + n.of.String()
	case n.name != "":
		return n.what + " " + strconv.Quote(n.name)
	default:
		return n.what
	}
}

// encodeOutput makes the result of a step's function.
func encodeOutput(ctx context.Context, c Codec, name payloadName, v any) (out []byte, err error) {
	if _, plain := c.(JSON); plain {
		if out, ok := writePlain(v); ok {
			return out, nil
		}
		if out, err = recoverCodec(func() ([]byte, error) { return json.Marshal(v) }); err == nil {
			return out, nil
		}
	}
	what, a := name.String(), attemptOf(ctx)
	if _, plain := c.(JSON); plain || a == nil { // nil: an interceptor has passed on a context of its own
		return encode(ctx, c, what, place{kind: kindOutput}, v)
	}
	err = a.retryCodec(func(ctx context.Context) (err error) {
		out, err = encode(ctx, c, what, a.at(kindOutput), v)
		return err
	})
	return out, err
}

// decodeInput reads the input of a handler or a hook.
func decodeInput[T any](ctx context.Context, c Codec, what string, b []byte) (v T, err error) {
	a := attemptOf(ctx)
	if _, plain := c.(JSON); plain || a == nil {
		return decode[T](ctx, c, what, place{kind: kindInput}, b)
	}
	err = a.retryCodec(func(ctx context.Context) (err error) {
		v, err = decode[T](ctx, c, what, a.at(kindInput), b)
		return err
	})
	return v, err
}

// placeOf returns a place as a client knows it. The id may also be a workflow id, which names no run.
func placeOf(kind, id, workflow, name string) place {
	run, _ := core.ParseRunID(id)
	return place{kind, run, workflow, name}
}

// writePlain writes a short value as JSON without encoding/json, which does the same in several times as long. It
// reports whether it did.
func writePlain(v any) ([]byte, bool) {
	switch v := v.(type) {
	case string:
		return writeText(v)
	case int:
		return strconv.AppendInt(nil, int64(v), 10), true
	case int64:
		return strconv.AppendInt(nil, v, 10), true
	case bool:
		return strconv.AppendBool(nil, v), true
	default:
		return nil, false
	}
}

// readPlain reads such a value into what v points to. It reports whether it did: anything else is for encoding/json,
// which also knows what is wrong with it.
func readPlain(b []byte, v any) (ok bool) {
	switch to := v.(type) {
	case *string:
		var text string
		if text, ok = plainText(b); ok {
			*to = text
		}
	case *int:
		var n int64
		if n, ok = plainInt(b); ok && int64(int(n)) == n {
			*to = int(n)
			return true
		}
		return false
	case *int64:
		var n int64
		if n, ok = plainInt(b); ok {
			*to = n
		}
	case *bool:
		if ok = string(b) == "true" || string(b) == "false"; ok {
			*to = b[0] == 't'
		}
	default:
	}
	return ok
}

// plainInt reads a JSON number without fraction and exponent that certainly fits.
func plainInt(b []byte) (n int64, ok bool) {
	const most = len("999999999999999999") // digits of which every number fits
	digits := b
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > most || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if len(digits) < len(b) {
		n = -n
	}
	return n, true
}

// plainText reads a JSON string without escapes, ten times as fast as encoding/json does. It reports whether b is one:
// anything else is for encoding/json, which also knows what is wrong with it.
func plainText(b []byte) (string, bool) {
	if len(b) < len(`""`) || b[0] != '"' || b[len(b)-1] != '"' {
		return "", false
	}
	b = b[1 : len(b)-1]
	if bytes.IndexByte(b, '"') >= 0 || bytes.IndexByte(b, '\\') >= 0 {
		return "", false
	}
	control, other := special(b)
	if control || other && !utf8.Valid(b) { // JSON has no control characters in strings
		return "", false
	}
	return string(b), true
}

// writeText writes a text as JSON, as encoding/json does it, if nothing in it has to be escaped. It reports whether it
// did. IndexByte looks at many bytes at a time, so looking for one byte after the other is faster than one loop.
func writeText(text string) ([]byte, bool) {
	for _, c := range []byte(`"\<>&`) {
		if strings.IndexByte(text, c) >= 0 {
			return nil, false
		}
	}
	b := make([]byte, 0, len(text)+len(`""`))
	b = append(b, '"')
	b = append(b, text...)
	control, other := special(b)
	if control || other && (!utf8.Valid(b) || strings.Contains(text, "\u2028") || strings.Contains(text, "\u2029")) {
		return nil, false
	}
	return append(b, '"'), true
}

// special reports whether there are control characters in a text, and whether there is anything but ASCII. It looks at
// eight bytes at a time as one number: a byte is less than a blank if subtracting a blank sets its highest bit.
func special(b []byte) (control, other bool) {
	const (
		ones     = 0x0101010101010101
		spaces   = ' ' * ones
		highBits = 0x80 * ones
	)
	var less, high uint64
	for ; len(b) >= 32; b = b[32:] { // four numbers that do not wait for each other
		x, y := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		z, w := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
		less |= (x-spaces)&^x | (y-spaces)&^y | (z-spaces)&^z | (w-spaces)&^w
		high |= x | y | z | w
	}
	for ; len(b) >= 8; b = b[8:] {
		x := binary.LittleEndian.Uint64(b)
		less |= (x - spaces) &^ x
		high |= x
	}
	for _, c := range b {
		control = control || c < ' '
		other = other || c >= utf8.RuneSelf
	}
	return control || less&highBits != 0, other || high&highBits != 0
}
