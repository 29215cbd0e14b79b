package pawl

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
)

// What the program plugs into the engine may be broken: its Observer, its Interceptor, its log handler. A panic there
// must neither end the process nor repeat a step whose function has returned.

// returned is what a step's function has returned.
type returned struct {
	out []byte
	err error
}

// around runs a step's function within the interceptor. If the interceptor panics after the function has returned, what
// that returned counts.
func (h *host) around(at *attempt, fn stepFunc) (out []byte, err error) {
	var last atomic.Pointer[returned] // atomic: an interceptor may call the function in a goroutine of its own
	defer func() {
		r := last.Load()
		if r == nil {
			return // the function has not run, or it panicked itself: the attempt fails
		}
		if v := recover(); v != nil {
			h.log.Error("Config.Intercept panicked after the step's function had returned: its result is kept", "run",
				at.task.Token.Run.String(), "step", at.task.StepName, "panic", v, "stack", string(debug.Stack()))
			out, err = r.out, r.err
		}
	}()
	return h.intercept(at, at.info(), func(ctx context.Context) ([]byte, error) {
		last.Store(nil)
		out, err := fn(ctx)
		last.Store(&returned{out, err})
		return out, err
	})
}

// safeLog is a log handler whose panics become errors, which slog ignores: the line is lost.
type safeLog struct{ slog.Handler }

func (l safeLog) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer func() { _ = recover() }()
	return l.Handler.Enabled(ctx, level)
}

func (l safeLog) Handle(ctx context.Context, r slog.Record) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("pawl: the log handler panicked: %v", v)
		}
	}()
	return l.Handler.Handle(ctx, r)
}

func (l safeLog) WithAttrs(attrs []slog.Attr) (h slog.Handler) {
	h = l
	defer func() { _ = recover() }()
	return safeLog{l.Handler.WithAttrs(attrs)}
}

func (l safeLog) WithGroup(name string) (h slog.Handler) {
	h = l
	defer func() { _ = recover() }()
	return safeLog{l.Handler.WithGroup(name)}
}
