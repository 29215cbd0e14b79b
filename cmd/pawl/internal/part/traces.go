//go:build !small

package part

import (
	"context"
	"log/slog"

	"github.com/pawl-dev/pawl/internal/otlp"
)

func init() {
	OpenTracer = func(ctx context.Context, version string, log *slog.Logger) (Tracer, error) {
		t, err := otlp.Open(ctx, version, log)
		if t == nil {
			return nil, err
		}
		return t, err
	}
}
