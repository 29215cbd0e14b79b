package otlp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	pb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// exporter sends spans to a collector. OpenTelemetry's own one brings gRPC with it, which is a tenth of the program.
type exporter struct {
	to      string
	headers map[string]string
	within  time.Duration
	client  http.Client
}

var _ sdktrace.SpanExporter = (*exporter)(nil)

// ExportSpans implements sdktrace.SpanExporter. Those of one call have one resource.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	body, err := proto.Marshal(request(spans))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, e.within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range e.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	res, err := e.client.Do(req)
	if err != nil {
		return fmt.Errorf("%d spans: %w", len(spans), err)
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 512))
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%d spans: the collector at %s answers %s %s", len(spans), e.to, res.Status,
			valid(string(said)))
	}
	return nil
}

func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// request makes a request from spans, grouped by their source.
func request(spans []sdktrace.ReadOnlySpan) *collector.ExportTraceServiceRequest {
	of := &pb.ResourceSpans{
		Resource: &resource.Resource{Attributes: attributes(spans[0].Resource().Attributes())},
	}
	scopes := map[instrumentation.Scope]*pb.ScopeSpans{}
	for _, s := range spans {
		scope := s.InstrumentationScope()
		to := scopes[scope]
		if to == nil {
			to = &pb.ScopeSpans{Scope: &common.InstrumentationScope{Name: scope.Name, Version: scope.Version}}
			scopes[scope] = to
			of.ScopeSpans = append(of.ScopeSpans, to)
		}
		to.Spans = append(to.Spans, span(s))
	}
	return &collector.ExportTraceServiceRequest{ResourceSpans: []*pb.ResourceSpans{of}}
}

func span(s sdktrace.ReadOnlySpan) *pb.Span {
	own, parent := s.SpanContext(), s.Parent()
	traceID, spanID := own.TraceID(), own.SpanID()
	out := &pb.Span{
		TraceId: traceID[:], SpanId: spanID[:], TraceState: own.TraceState().String(), Name: valid(s.Name()),
		Kind: pb.Span_SPAN_KIND_INTERNAL, Flags: uint32(own.TraceFlags()),
		StartTimeUnixNano: uint64(s.StartTime().UnixNano()), EndTimeUnixNano: uint64(s.EndTime().UnixNano()),
		Attributes: attributes(s.Attributes()), DroppedAttributesCount: uint32(s.DroppedAttributes()),
	}
	if parent.IsValid() {
		id := parent.SpanID()
		out.ParentSpanId = id[:]
	}
	for _, ev := range s.Events() {
		out.Events = append(out.Events, &pb.Span_Event{
			TimeUnixNano: uint64(ev.Time.UnixNano()), Name: ev.Name, Attributes: attributes(ev.Attributes),
		})
	}
	for _, l := range s.Links() {
		out.Links = append(out.Links, link(l.SpanContext))
	}
	if status := s.Status(); status.Code != codes.Unset {
		out.Status = &pb.Status{Code: pb.Status_STATUS_CODE_OK}
		if status.Code == codes.Error {
			out.Status = &pb.Status{Code: pb.Status_STATUS_CODE_ERROR, Message: valid(status.Description)}
		}
	}
	return out
}

func link(to trace.SpanContext) *pb.Span_Link {
	traceID, spanID := to.TraceID(), to.SpanID()
	return &pb.Span_Link{TraceId: traceID[:], SpanId: spanID[:], TraceState: to.TraceState().String()}
}

// valid returns a text as the format can have it.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// attributes writes attributes. Those of the engine and of resources are texts, numbers and truths; lists are written
// as text.
func attributes(all []attribute.KeyValue) []*common.KeyValue {
	out := make([]*common.KeyValue, len(all))
	for i, a := range all {
		value := &common.AnyValue{}
		switch a.Value.Type() {
		case attribute.BOOL:
			value.Value = &common.AnyValue_BoolValue{BoolValue: a.Value.AsBool()}
		case attribute.INT64:
			value.Value = &common.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
		case attribute.FLOAT64:
			value.Value = &common.AnyValue_DoubleValue{DoubleValue: a.Value.AsFloat64()}
		default:
			value.Value = &common.AnyValue_StringValue{StringValue: valid(a.Value.String())}
		}
		out[i] = &common.KeyValue{Key: string(a.Key), Value: value}
	}
	return out
}
