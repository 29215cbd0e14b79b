package pawlotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/traces"
)

// Config sets where traces and metrics go. Zero values are useful.
type Config struct {
	TracerProvider trace.TracerProvider // default OpenTelemetry's global one
	MeterProvider  metric.MeterProvider // default OpenTelemetry's global one
	// Propagator writes traces into the headers of runs. Default: W3C Trace Context and Baggage.
	Propagator propagation.TextMapPropagator
	// IDs is the generator that TracerProvider was made with. Nil if it has another one.
	IDs *IDs
}

// Telemetry observes engines; see the package. It is a [pawl.Propagator]. Make one with [New]: another one tells
// nothing.
type Telemetry struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	nested     bool // spans of attempts are children of their run's span
	metrics    *metrics
}

// scope names this package among those that make traces and metrics.
const scope = "github.com/pawl-dev/pawl/pawlotel"

// New makes the tracer and the instruments. Its error is that of the meter provider.
func New(cfg Config) (*Telemetry, error) {
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	if cfg.Propagator == nil {
		cfg.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	m, err := newMetrics(cfg.MeterProvider.Meter(scope))
	if err != nil {
		return nil, err
	}
	return &Telemetry{
		tracer: cfg.TracerProvider.Tracer(scope), propagator: cfg.Propagator, nested: cfg.IDs != nil, metrics: m,
	}, nil
}

// ToHeaders returns the trace and the baggage of a context.
func (t *Telemetry) ToHeaders(ctx context.Context) map[string]string {
	if t == nil || t.propagator == nil {
		return nil
	}
	carrier := propagation.MapCarrier{}
	t.propagator.Inject(ctx, carrier)
	return carrier
}

// FromHeaders returns a context with the trace and the baggage that the headers name.
func (t *Telemetry) FromHeaders(ctx context.Context, headers map[string]string) context.Context {
	if t == nil || t.propagator == nil {
		return ctx
	}
	return t.propagator.Extract(ctx, propagation.MapCarrier(headers))
}

// Observer returns what [pawl.Config].Observer takes.
func (t *Telemetry) Observer() pawl.Observer {
	if t == nil || t.metrics == nil {
		return pawl.Observer{}
	}
	return pawl.Observer{
		RunStarted: t.metrics.runStarted, AttemptHeld: t.metrics.attemptHeld, AttemptEnded: t.metrics.attemptEnded,
		BodyStopped: t.metrics.bodyStopped, TimerFired: t.metrics.timerFired, Committed: t.metrics.committed,
		RunEnded: func(o client.RunObservation) {
			t.metrics.runEnded(o)
			t.runSpan(o)
		},
	}
}

// Intercept runs an attempt within a span. [pawl.Config].Intercept takes it; an interceptor of your own can call it.
// Errors: those of next, and pawl.ErrInvalid for a context or a function that is nil.
func (t *Telemetry) Intercept(ctx context.Context, a client.AttemptInfo, next func(ctx context.Context) ([]byte, error),
) ([]byte, error) {
	switch {
	case ctx == nil || next == nil:
		return nil, fmt.Errorf("pawlotel: intercept: the context or the function is nil: %w", pawl.ErrInvalid)
	case t == nil || t.tracer == nil:
		return next(ctx)
	}
	if t.nested {
		ctx = traces.Within(ctx, a.RunID)
	}
	ctx, span := t.tracer.Start(ctx, a.Step, trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(
		attribute.String("pawl.workflow", a.Workflow), attribute.String("pawl.run.id", a.RunID),
		attribute.String("pawl.step", a.Step), attribute.Int("pawl.attempt", a.Number),
	))
	done := false
	defer func() {
		if !done { // a panic of the step: the engine records it
			span.SetStatus(codes.Error, "panic")
		}
		span.End()
	}()
	out, err := next(ctx)
	done = true
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	return out, err
}

// runSpan makes the span of a run that has ended.
func (t *Telemetry) runSpan(o client.RunObservation) {
	ctx := t.FromHeaders(context.Background(), o.Headers)
	if t.nested {
		if o.ParentID != "" && trace.SpanContextFromContext(ctx).IsValid() {
			ctx = traces.Within(ctx, o.ParentID)
		}
		ctx = traces.With(ctx, traces.TraceOf(o.ID), traces.SpanOf(o.ID))
	}
	attributes := []attribute.KeyValue{
		attribute.String("pawl.workflow", o.Workflow), attribute.String("pawl.run.id", o.ID),
		attribute.String("pawl.run.phase", string(o.Phase)), attribute.Int("pawl.run.attempt", o.Attempt),
	}
	if o.WorkflowID != "" {
		attributes = append(attributes, attribute.String("pawl.workflow.id", o.WorkflowID))
	}
	began := o.StartedAt
	if began.IsZero() { // it ended before its start had come
		began = o.EndedAt
	}
	_, span := t.tracer.Start(ctx, o.Workflow, trace.WithTimestamp(began), trace.WithAttributes(attributes...))
	if o.Failure != nil {
		span.RecordError(errors.New(o.Failure.Error()), trace.WithTimestamp(o.EndedAt))
		span.SetStatus(codes.Error, o.Failure.Error())
	}
	span.End(trace.WithTimestamp(o.EndedAt))
}
