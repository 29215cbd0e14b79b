package pawl

import (
	"context"
	"log/slog"
)

// Logger returns [Config.Log] for a body, with the run's id and workflow. What a body that is called again says up to where it was
// is not said again.
func Logger(ctx Context) *slog.Logger {
	st := ctx.of()
	s := st.session
	return slog.New(&bodyLog{s.host.log.Handler(), st}).With("run", s.run.String(), "workflow", s.head.Workflow)
}

// bodyLog drops what a strand says while it goes over what is recorded.
type bodyLog struct {
	slog.Handler
	strand *strand
}

func (l *bodyLog) Enabled(ctx context.Context, level slog.Level) bool {
	s := l.strand.session
	s.mu.Lock()
	again := s.over || l.strand.replays()
	s.mu.Unlock()
	return !again && l.Handler.Enabled(ctx, level)
}

func (l *bodyLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &bodyLog{l.Handler.WithAttrs(attrs), l.strand}
}

func (l *bodyLog) WithGroup(name string) slog.Handler {
	return &bodyLog{l.Handler.WithGroup(name), l.strand}
}
