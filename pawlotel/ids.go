package pawlotel

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// IDs is an IDGenerator of the trace SDK. It gives the span of a run an id that follows from the run's own id, so that
// spans of the run's attempts, which end long before it and perhaps in other processes, can name it as their parent.
// All other ids are random.
type IDs struct{}

// NewIDs returns the generator for sdktrace.WithIDGenerator and for [Config].IDs.
func NewIDs() *IDs { return &IDs{} }

type wantedKey struct{}

// wanted are the ids that the next span in a context gets.
type wanted struct {
	trace trace.TraceID
	span  trace.SpanID
}

// NewIDs returns the ids of a span that begins a trace.
func (*IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if w, ok := ctx.Value(wantedKey{}).(wanted); ok {
		return w.trace, w.span
	}
	var t trace.TraceID
	binary.BigEndian.PutUint64(t[:8], nonZero())
	binary.BigEndian.PutUint64(t[8:], nonZero())
	return t, randomSpan()
}

// NewSpanID returns the id of a further span of a trace.
func (*IDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if w, ok := ctx.Value(wantedKey{}).(wanted); ok {
		return w.span
	}
	return randomSpan()
}

func randomSpan() (s trace.SpanID) {
	binary.BigEndian.PutUint64(s[:], nonZero())
	return s
}

func nonZero() uint64 { return max(rand.Uint64(), 1) }

// traceOf is the trace of a run that was started outside of any.
func traceOf(runID string) (t trace.TraceID) {
	sum := sha256.Sum256([]byte("pawl trace " + runID))
	copy(t[:], sum[:])
	return t
}

// spanOf is the span of a run.
func spanOf(runID string) (s trace.SpanID) {
	sum := sha256.Sum256([]byte("pawl run " + runID))
	copy(s[:], sum[:])
	return s
}
