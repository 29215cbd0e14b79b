package facetest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

// torn is a propagator that panics where it should say what a context holds.
type torn struct{ pawl.Propagator }

func (torn) ToHeaders(context.Context) map[string]string { panic("no tenant in the context") }

// TestPropagatorThatPanics checks that a start fails with an error that names the propagator, and that no run is made.
func TestPropagatorThatPanics(t *testing.T) {
	w := pawl.Define("w", func(pawl.Context, int) (int, error) { return 1, nil })
	cfg := pawl.Config{Workflows: []pawl.Definition{w}, Propagators: []pawl.Propagator{tenants{}, torn{tenants{}}}}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		_, err := w.Start(t.Context(), e, "w-1", 1)
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "torn panicked in ToHeaders: no tenant") {
			t.Errorf("the start: %v", err)
		}
		if runs, err := e.ListRuns(t.Context(), client.Query{}); err != nil || len(runs) != 0 {
			t.Errorf("%d runs, %v", len(runs), err)
		}
	})
}

// tornCodec panics while it encodes, or decodes, payloads of one kind.
type tornCodec struct {
	pawl.JSON
	encode, decode atomic.Pointer[string]
}

func (c *tornCodec) Encode(ctx context.Context, p *pawl.Payload, v any) ([]byte, error) {
	if kind := c.encode.Load(); kind != nil && *kind == p.Kind {
		panic("no key")
	}
	return c.JSON.Encode(ctx, p, v)
}

func (c *tornCodec) Decode(ctx context.Context, p pawl.Payload, data []byte, v any) error {
	if kind := c.decode.Load(); kind != nil && *kind == p.Kind {
		panic("no key")
	}
	return c.JSON.Decode(ctx, p, data, v)
}

// TestCodecThatPanicsForACaller checks that each call of a client whose value the codec cannot take, or give, without a
// panic has an error, and that the run goes on.
func TestCodecThatPanicsForACaller(t *testing.T) {
	const (
		sum   pawl.Event[int]       = "sum"
		tally pawl.Update[int, int] = "tally"
	)
	var stage pawl.State[int]
	w := pawl.Define("w", func(ctx pawl.Context, n int) (int, error) {
		if err := stage.Set(ctx, n); err != nil {
			return 0, err
		}
		m, err := sum.Wait(ctx)
		if err != nil {
			return 0, err
		}
		err = tally.Handle(ctx, nil, func(_ pawl.Context, by int) (int, error) { return by, nil })
		return n + m, err
	})
	codec := new(tornCodec)
	cfg := pawl.Config{Workflows: []pawl.Definition{w}, Codec: codec}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		ctx := t.Context()
		var run pawl.Run[int]
		for _, call := range []struct {
			torn *atomic.Pointer[string]
			kind string
			do   func() error
		}{
			{&codec.encode, "input", func() (err error) {
				run, err = w.Start(ctx, e, "w-1", 1)
				return err
			}},
			{&codec.decode, "state", func() error {
				e.Settle()
				_, err := stage.Get(ctx, e, "w-1")
				return err
			}},
			{&codec.encode, "event", func() error { return sum.Send(ctx, e, "w-1", 2) }},
			{&codec.encode, "update", func() error {
				_, err := tally.Send(ctx, e, "w-1", 3)
				return err
			}},
			{&codec.decode, "output", func() error {
				_, err := run.Result(ctx)
				return err
			}},
		} {
			call.torn.Store(&call.kind)
			err := call.do()
			call.torn.Store(nil)
			if err == nil || !strings.Contains(err.Error(), "the codec panicked: no key") {
				t.Errorf("%s: %v", call.kind, err)
			}
			if err := call.do(); err != nil {
				t.Errorf("%s, with the key: %v", call.kind, err)
			}
		}
	})
}

// tornValue panics when it is encoded, or read.
type tornValue struct{ Read bool }

func (v tornValue) MarshalJSON() ([]byte, error) {
	if !v.Read {
		panic("half a value")
	}
	return []byte(`{"read": true}`), nil
}

func (*tornValue) UnmarshalJSON([]byte) error { panic("half a value") }

// TestValueThatPanics checks that a value of the program that panics where it is encoded or read is an error, for a
// caller as well as for a step, whose function does not run again.
func TestValueThatPanics(t *testing.T) {
	made := 0
	w := pawl.Define("w", func(ctx pawl.Context, in tornValue) (int, error) { return 0, nil })
	step := pawl.Define("step", func(ctx pawl.Context, _ int) (int, error) {
		_, err := pawl.Step(ctx, "s", func(context.Context) (tornValue, error) {
			made++
			return tornValue{}, nil
		}, pawl.Retry("fixed(5, 1s)"))
		return 0, err
	})
	result := pawl.Define("result", func(pawl.Context, int) (tornValue, error) { return tornValue{true}, nil })
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		ctx := t.Context()
		if _, err := w.Start(ctx, e, "", tornValue{}); err == nil || !strings.Contains(err.Error(), "half a value") {
			t.Errorf("the start: %v", err)
		}
		run, err := step.Start(ctx, e, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(ctx); err == nil || !strings.Contains(err.Error(), "half a value") || made != 1 {
			t.Errorf("the step ran %d times: %v", made, err)
		}
		read, err := result.Start(ctx, e, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read.Result(ctx); err == nil || !strings.Contains(err.Error(), "half a value") {
			t.Errorf("the result: %v", err)
		}
	}, w, step, result)
}

// tornError is a registered error that panics when its data is written, or read.
type tornError struct{ Write bool }

func (tornError) Error() string { return "torn" }

func (e tornError) MarshalJSON() ([]byte, error) {
	if !e.Write {
		panic("half an error")
	}
	return []byte("{}"), nil
}

func (*tornError) UnmarshalJSON([]byte) error { panic("half an error") }

func init() { pawl.RegisterError[tornError]("torn") }

// TestErrorThatPanics checks that a step whose error cannot be written, or read, without a panic fails with the error's
// text, and that its body goes on.
func TestErrorThatPanics(t *testing.T) {
	var made atomic.Int32
	w := pawl.Define("w", func(ctx pawl.Context, write bool) (string, error) {
		_, err := pawl.Step(ctx, "s", func(context.Context) (int, error) {
			made.Add(1)
			return 0, tornError{write}
		}, pawl.Retry("fixed(2, 1s)"))
		return err.Error(), nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for _, write := range []bool{false, true} {
			made.Store(0)
			run, err := w.Start(t.Context(), e, "", write)
			if err != nil {
				t.Fatal(err)
			}
			if out, err := run.Result(t.Context()); err != nil || !strings.Contains(out, "torn") || made.Load() != 2 {
				t.Errorf("%q after %d calls, %v", out, made.Load(), err)
			}
		}
	}, w)
}
