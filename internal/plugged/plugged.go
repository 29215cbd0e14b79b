// Package plugged calls the functions that a program plugs into the engine, such as its log handler and its
// propagators. A panic there ends neither the process nor a run: it is an error of the call, or a line of the log is
// lost.
package plugged

import (
	"context"
	"fmt"
	"log/slog"
	"maps"

	"github.com/pawl-dev/pawl/internal/api"
)

// Propagator is the part of a pawl.Propagator that a start needs.
type Propagator interface {
	ToHeaders(ctx context.Context) map[string]string
}

// Headers returns the headers of a start: those in the context, replaced by the given ones. Errors: CodeInvalid (a
// propagator panicked).
func Headers[P Propagator](ctx context.Context, all []P, given map[string]string) (map[string]string, error) {
	if len(all) == 0 {
		return given, nil
	}
	out := map[string]string{}
	for _, p := range all {
		said, err := toHeaders(ctx, p)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, said)
	}
	maps.Copy(out, given)
	return out, nil
}

func toHeaders(ctx context.Context, p Propagator) (said map[string]string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &api.Error{
				Code: api.CodeInvalid, Op: "start",
				Message: fmt.Sprintf("the propagator %T panicked in ToHeaders: %v", p, v),
				Hint:    "nothing was started: a context that a propagator does not know gives no headers",
			}
		}
	}()
	return p.ToHeaders(ctx), nil
}

// Log returns a log whose handler may panic: slog ignores the resulting error, and the line is lost.
func Log(l *slog.Logger) *slog.Logger { return slog.New(handler{l.Handler()}) }

type handler struct{ slog.Handler }

func (l handler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer func() { _ = recover() }()
	return l.Handler.Enabled(ctx, level)
}

func (l handler) Handle(ctx context.Context, r slog.Record) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("pawl: the log handler panicked: %v", v)
		}
	}()
	return l.Handler.Handle(ctx, r)
}

func (l handler) WithAttrs(attrs []slog.Attr) (h slog.Handler) {
	h = l
	defer func() { _ = recover() }()
	return handler{l.Handler.WithAttrs(attrs)}
}

func (l handler) WithGroup(name string) (h slog.Handler) {
	h = l
	defer func() { _ = recover() }()
	return handler{l.Handler.WithGroup(name)}
}
