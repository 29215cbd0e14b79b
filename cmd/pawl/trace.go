package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/internal/otlp"
)

// sendWithin is how long a server that ends may take to send its last spans.
const sendWithin = 2 * time.Second

// trace makes a server send spans, if the environment names a collector. Its namespaces share the tracer.
func (a *app) trace() error {
	if a.tracer != nil {
		return nil
	}
	log := slog.New(slog.NewTextHandler(a.Err, nil))
	if a.guard != nil {
		log = a.guard.log
	}
	var err error
	if a.tracer, err = otlp.Open(context.Background(), buildVersion(), log); err != nil {
		return usage("%v", err)
	}
	return nil
}

// closeTracer sends the remaining spans. What cannot be sent is logged.
func (a *app) closeTracer() {
	if a.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendWithin)
	defer cancel()
	_ = a.tracer.Close(ctx)
}
