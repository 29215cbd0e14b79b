// Package pawlotel gives an engine traces and metrics with OpenTelemetry. It uses OpenTelemetry's API only, so the
// program chooses the SDK and its exporters; programs that do not import this package link nothing of it.
//
//	ids := &pawlotel.IDs{}
//	provider := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(ids), sdktrace.WithBatcher(exporter))
//	telemetry, err := pawlotel.New(pawlotel.Config{TracerProvider: provider, MeterProvider: meters, IDs: ids})
//	…
//	eng, err := pawl.Open(ctx, pawl.Config{
//		Database: "sqlite:shop.db",
//		Observer: telemetry.Observer(), Intercept: telemetry.Intercept, Propagators: []pawl.Propagator{telemetry},
//	})
//
// # Traces
//
// The trace of a run's caller is passed along in the run's headers. A run is a span, and each attempt of its steps is
// one. With [IDs] an attempt's span is a child of its run's span, and a child run's span one of its parent's; without
// them all are children of the caller's span. A run's span is made when the run ends, by the process in which it ends:
// a run that sleeps for a month costs no memory for it, and no restart loses it. A run that was started outside of any
// trace has a trace of its own.
//
// # Metrics
//
// All have the prefix "pawl.": runs.started and runs.ended, run.duration, attempts, attempt.duration, attempt.wait (for
// a worker), attempts.held, bodies.stopped, timer.lateness, commit.duration and commit.entries.
package pawlotel
