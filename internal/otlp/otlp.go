// Package otlp makes OpenTelemetry's spans from an engine's records, and sends them to a collector. A run and each of
// its attempts have a span, which is made when they have ended. See ADR 90.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/traces"
	"github.com/pawl-dev/pawl/policy"
)

// Tracer makes spans.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// wantedProtocol is the only supported one.
const wantedProtocol = "http/protobuf"

// Open returns a tracer if the environment names a collector, in OpenTelemetry's variables; else nil. version is the
// program's version. What cannot be sent is logged.
func Open(ctx context.Context, version string, log *slog.Logger) (*Tracer, error) {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	to, err := exporterOf(os.Getenv)
	if to == nil || err != nil {
		return nil, err
	}
	own := resource.WithAttributes(
		attribute.String("service.name", "pawl"), attribute.String("service.version", version))
	of, err := resource.New(ctx, own, resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are lost", "error", err) }))
	return over(sdktrace.WithBatcher(to), sdktrace.WithResource(of)), nil
}

// over returns a tracer with a provider that has these options.
func over(options ...sdktrace.TracerProviderOption) *Tracer {
	p := sdktrace.NewTracerProvider(append(options, sdktrace.WithIDGenerator(traces.IDs{}))...)
	return &Tracer{p, p.Tracer("github.com/pawl-dev/pawl")}
}

// exporterOf returns what sends to the collector that the environment names, or nil if it names none.
func exporterOf(env func(string) string) (*exporter, error) {
	one := func(name string) (value, variable string) {
		for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
			if v := env(variable); v != "" {
				return v, variable
			}
		}
		return "", ""
	}
	address, variable := one("ENDPOINT")
	if address == "" {
		return nil, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s: %q is not the address of a collector; write it as http://127.0.0.1:4318",
			variable, address)
	}
	if !strings.Contains(variable, "TRACES") {
		u = u.JoinPath("v1", "traces")
	}
	if p, variable := one("PROTOCOL"); p != "" && p != wantedProtocol {
		return nil, fmt.Errorf("%s: %q is not spoken; set it to %s, which collectors take on port 4318", variable, p,
			wantedProtocol)
	}
	e := &exporter{to: u.String(), headers: map[string]string{}, within: 10 * time.Second}
	if text, variable := one("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("%s: %q is not a number of milliseconds", variable, text)
		}
		e.within = time.Duration(ms) * time.Millisecond
	}
	text, variable := one("HEADERS")
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(pair, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		switch name = strings.TrimSpace(name); {
		case strings.TrimSpace(pair) == "":
		case !ok || name == "" || err != nil:
			return nil, fmt.Errorf("%s: write it as name=value,name=value", variable)
		default:
			e.headers[name] = decoded
		}
	}
	return e, nil
}

// Close sends the remaining spans.
func (t *Tracer) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Observer returns an observer that makes spans and passes everything to next, too.
func (t *Tracer) Observer(next engine.Observer) engine.Observer {
	out := next
	out.Recorded = func(o *engine.Observation) {
		if next.Recorded != nil {
			next.Recorded(o)
		}
		switch rec := o.Record.(type) {
		case core.RunEnded:
			t.run(o, rec)
		case core.AttemptEnded:
			t.attempt(o, rec)
		default:
		}
	}
	return out
}

// Parent returns the W3C traceparent for calls and starts of an attempt.
func (t *Tracer) Parent(task core.Task) string {
	run := trace.SpanContextFromContext(traces.Within(caller(task.Headers), task.Token.Run.String()))
	carrier := propagation.MapCarrier{}
	own := run.WithSpanID(traces.SpanOfAttempt(task.Token))
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), own), carrier)
	return carrier["traceparent"]
}

// caller returns the context of the caller who started a run, by the run's headers.
func caller(h core.Headers) context.Context {
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(h.Map()))
}

// run makes the span of a run that has ended.
func (t *Tracer) run(o *engine.Observation, rec core.RunEnded) {
	id := o.ID.String()
	ctx := caller(o.Run.Headers)
	if parent := o.Run.Parent.Run; parent != (core.RunID{}) {
		ctx = traces.Within(ctx, parent.String())
	}
	attributes := []attribute.KeyValue{
		attribute.String("pawl.workflow", o.Run.Workflow), attribute.String("pawl.run.id", id),
		attribute.String("pawl.run.phase", rec.Phase.String()),
	}
	if o.Run.WorkflowID != "" {
		attributes = append(attributes, attribute.String("pawl.workflow.id", o.Run.WorkflowID))
	}
	began := o.Run.StartedAt
	if began == 0 { // it ended before its start had come
		began = o.At
	}
	_, span := t.tracer.Start(traces.With(ctx, traces.TraceOf(id), traces.SpanOf(id)), o.Run.Workflow,
		trace.WithTimestamp(began.Std()), trace.WithAttributes(attributes...))
	end(span, o.Failure, o.At)
}

// attempt makes the span of an attempt that has ended. An earlier one is linked: there is a wait between them.
func (t *Tracer) attempt(o *engine.Observation, rec core.AttemptEnded) {
	if o.Attempt.Started == 0 {
		return // it ended while it waited for a worker
	}
	id := o.ID.String()
	token := core.Token{Run: o.ID, Step: rec.Step, Attempt: o.Attempt.Attempt}
	ctx := traces.Within(caller(o.Run.Headers), id)
	options := []trace.SpanStartOption{
		trace.WithTimestamp(o.Attempt.Started.Std()), trace.WithAttributes(
			attribute.String("pawl.workflow", o.Run.Workflow), attribute.String("pawl.run.id", id),
			attribute.String("pawl.step", o.Step), attribute.Int("pawl.attempt", token.Attempt),
			attribute.String("pawl.worker", o.Attempt.Worker), attribute.Bool("pawl.retry", rec.Retry)),
	}
	if token.Attempt > 1 {
		before := token
		before.Attempt--
		options = append(options, trace.WithLinks(trace.Link{
			SpanContext: trace.SpanContextFromContext(ctx).WithSpanID(traces.SpanOfAttempt(before)),
		}))
	}
	_, span := t.tracer.Start(traces.With(ctx, traces.TraceOf(id), traces.SpanOfAttempt(token)), o.Step, options...)
	end(span, rec.Failure, o.At)
}

func end(span trace.Span, f *policy.Failure, at core.Time) {
	if f != nil {
		span.RecordError(errors.New(f.Error()), trace.WithTimestamp(at.Std()))
		span.SetStatus(codes.Error, f.Error())
	}
	span.End(trace.WithTimestamp(at.Std()))
}
