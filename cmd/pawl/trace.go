package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/part"
)

// sendWithin is how long a server that ends may take to send its last spans.
const sendWithin = 2 * time.Second

// trace makes a server send spans, if the environment names a collector. Its namespaces share the tracer.
func (a *app) trace() error {
	if a.tracer != nil {
		return nil
	}
	if part.OpenTracer == nil {
		return tracesWanted()
	}
	log := slog.New(slog.NewTextHandler(a.Err, nil))
	if a.guard != nil {
		log = a.guard.log
	}
	var err error
	if a.tracer, err = part.OpenTracer(context.Background(), buildVersion(), log); err != nil {
		return usage("%v", err)
	}
	return nil
}

// tracesWanted returns an error if the environment names a collector, for a binary that cannot send to one.
func tracesWanted() error {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if os.Getenv(variable) != "" {
			return usage("%s: %w", variable, part.Missing("OpenTelemetry"))
		}
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
