package pawl

import (
	"context"
	"log/slog"
)

// Logger returns [Config.Log] for a body, with the run's id and workflow. When a body is called again, it logs nothing
// for the part it has already done.
func Logger(ctx Context) *slog.Logger {
	b := ctx.of()
	return slog.New(&bodyLog{b.host.log.Handler(), b}).With("run", b.Run().String(), "workflow", b.Head().Workflow)
}

// bodyLog drops what a branch logs while it repeats what is recorded.
type bodyLog struct {
	slog.Handler
	branch *branch
}

func (l *bodyLog) Enabled(ctx context.Context, level slog.Level) bool {
	return !l.branch.Replays() && l.Handler.Enabled(ctx, level)
}

func (l *bodyLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &bodyLog{l.Handler.WithAttrs(attrs), l.branch}
}

func (l *bodyLog) WithGroup(name string) slog.Handler {
	return &bodyLog{l.Handler.WithGroup(name), l.branch}
}
