package traces

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-dev/pawl/internal/core"
)

// IDs is an IDGenerator of the trace SDK. A span that is begun in a context of [With] gets the ids that this names; all
// other ids are random.
type IDs struct{}

type wantedKey struct{}

// wanted are the ids that the next span in a context gets.
type wanted struct {
	trace trace.TraceID
	span  trace.SpanID
}

// With returns a context in which the next span has these ids. The trace counts only where the span begins one.
func With(ctx context.Context, t trace.TraceID, s trace.SpanID) context.Context {
	return context.WithValue(ctx, wantedKey{}, wanted{t, s})
}

// NewIDs returns the ids of a span that begins a trace.
func (IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if w, ok := ctx.Value(wantedKey{}).(wanted); ok {
		return w.trace, w.span
	}
	var t trace.TraceID
	binary.BigEndian.PutUint64(t[:8], nonZero())
	binary.BigEndian.PutUint64(t[8:], nonZero())
	return t, randomSpan()
}

// NewSpanID returns the id of a further span of a trace.
func (IDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
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

// TraceOf returns the trace of a run that was started outside of any.
func TraceOf(run string) (t trace.TraceID) {
	sum := sha256.Sum256([]byte("pawl trace " + run))
	copy(t[:], sum[:])
	return t
}

// SpanOf returns the span of a run.
func SpanOf(run string) trace.SpanID { return spanOf("pawl run " + run) }

// SpanOfAttempt returns the span of an attempt.
func SpanOfAttempt(t core.Token) trace.SpanID {
	return spanOf(fmt.Sprintf("pawl attempt %d of step %d of run %s", t.Attempt, t.Step, t.Run))
}

func spanOf(text string) (s trace.SpanID) {
	sum := sha256.Sum256([]byte(text))
	copy(s[:], sum[:])
	return s
}

// Within returns a context in which the span of a run is the parent. caller is the context of the caller who started
// the run.
func Within(caller context.Context, run string) context.Context {
	from := trace.SpanContextFromContext(caller)
	parent := trace.SpanContextConfig{
		TraceID: from.TraceID(), SpanID: SpanOf(run), TraceFlags: from.TraceFlags(), TraceState: from.TraceState(),
		Remote: true,
	}
	if !from.IsValid() {
		parent.TraceID, parent.TraceFlags = TraceOf(run), trace.FlagsSampled
	}
	return trace.ContextWithSpanContext(caller, trace.NewSpanContext(parent))
}
