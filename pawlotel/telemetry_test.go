package pawlotel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/pawlflow"
	"github.com/pawl-dev/pawl/pawlotel"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/policy"
)

// lab is a program with traces and metrics in memory.
type lab struct {
	spans  *tracetest.InMemoryExporter
	tracer trace.Tracer
	reader *sdkmetric.ManualReader
	config pawl.Config
}

func newLab(t *testing.T, ids *pawlotel.IDs, workflows ...pawl.Definition) *lab {
	t.Helper()
	l := &lab{spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	opts := []sdktrace.TracerProviderOption{sdktrace.WithSyncer(l.spans)}
	if ids != nil {
		opts = append(opts, sdktrace.WithIDGenerator(ids))
	}
	provider := sdktrace.NewTracerProvider(opts...)
	l.tracer = provider.Tracer("test")
	telemetry, err := pawlotel.New(pawlotel.Config{
		TracerProvider: provider, IDs: ids, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(l.reader)),
	})
	if err != nil {
		t.Fatal(err)
	}
	l.config = pawl.Config{
		Workflows: workflows, Observer: telemetry.Observer(), Intercept: telemetry.Intercept,
		Propagators: []pawl.Propagator{telemetry},
	}
	return l
}

// tree returns the spans of a trace with the names of their parents. A parent without a span is shown as "-".
func (l *lab) tree(id trace.TraceID) []string {
	names := map[trace.SpanID]string{}
	for _, s := range l.spans.GetSpans() {
		names[s.SpanContext.SpanID()] = s.Name
	}
	var out []string
	for _, s := range l.spans.GetSpans() {
		if s.SpanContext.TraceID() == id {
			parent := names[s.Parent.SpanID()]
			if parent == "" {
				parent = "-"
			}
			out = append(out, fmt.Sprintf("%s < %s, %s %s", s.Name, parent, s.EndTime.Sub(s.StartTime), s.Status.Code))
		}
	}
	slices.Sort(out)
	return out
}

// order returns a workflow with a step that needs two attempts, a rest, and a child.
func order() (*pawl.Workflow[int, int], *pawl.Workflow[int, int]) {
	ship := pawl.Define("ship", func(ctx pawl.Context, _ int) (int, error) {
		return pawl.Step(ctx, "pack", func(context.Context) (int, error) { return 1, nil })
	})
	return pawl.Define("order", func(ctx pawl.Context, _ int) (int, error) {
		_, err := pawl.Step(ctx, "charge", func(ctx context.Context) (int, error) {
			if pawl.Attempt(ctx).Number == 1 {
				return 0, errors.New("busy")
			}
			return 1, nil
		}, pawl.Retry("fixed(2, 1s)"))
		if err != nil {
			return 0, err
		}
		if err := pawl.Sleep(ctx, "rest", "1h"); err != nil {
			return 0, err
		}
		return pawl.Child(ctx, "ship", ship, 1)
	}), ship
}

// TestTraceOfARun checks that an attempt is a child of its run's span, and that one of the caller's, also where the
// program was started again in between.
func TestTraceOfARun(t *testing.T) {
	for name, test := range map[string]struct {
		ids  *pawlotel.IDs
		want []string
	}{
		"with ids": {&pawlotel.IDs{}, []string{
			"charge < order, 0s Error", "charge < order, 0s Unset", "order < POST /orders, 1h0m1s Unset",
			"pack < ship, 0s Unset", "ship < order, 0s Unset",
		}},
		"without ids": {nil, []string{
			"charge < POST /orders, 0s Error", "charge < POST /orders, 0s Unset", "order < POST /orders, 1h0m1s Unset",
			"pack < POST /orders, 0s Unset", "ship < POST /orders, 0s Unset",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, child := order()
			l := newLab(t, test.ids, w, child)
			pawltest.RunWith(t, l.config, func(t *testing.T, e *pawltest.Env) {
				ctx, request := l.tracer.Start(t.Context(), "POST /orders")
				if _, err := w.Start(ctx, e, "o-1", 1); err != nil {
					t.Fatal(err)
				}
				request.End()
				e.Skip(time.Minute)
				e.Crash()
				if _, err := pawl.RunOf[int](e, "o-1").Result(t.Context()); err != nil {
					t.Fatal(err)
				}
				want := append([]string{"POST /orders < -, 0s Unset"}, test.want...)
				slices.Sort(want)
				if got := l.tree(request.SpanContext().TraceID()); !slices.Equal(got, want) {
					t.Errorf("the trace is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		})
	}
}

// TestRunWithoutACallersTrace checks that a run without a caller's trace has a trace of its own, with its attempts.
func TestRunWithoutACallersTrace(t *testing.T) {
	w, child := order()
	l := newLab(t, &pawlotel.IDs{}, w, child)
	pawltest.RunWith(t, l.config, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		traces := map[trace.TraceID]bool{}
		for _, s := range l.spans.GetSpans() {
			traces[s.SpanContext.TraceID()] = true
			if s.Name == "order" {
				want := []string{"charge < order, 0s Error", "charge < order, 0s Unset", "order < -, 1h0m1s Unset"}
				if got := l.tree(s.SpanContext.TraceID()); !slices.Equal(got, want) {
					t.Errorf("the trace is %q, want %q", got, want)
				}
			}
		}
		if len(traces) != 2 {
			t.Errorf("%d traces, want one of the run and one of its child", len(traces))
		}
	})
}

// TestTraceReachesProcesses checks that a flow's process gets the trace with the span of its own attempt as the parent.
func TestTraceReachesProcesses(t *testing.T) {
	doc, err := flow.Parse("print.yaml", []byte("pawl: 1\nname: print\n"+
		"steps: [{name: print, exec: 'echo -n $TRACEPARENT'}]\n"+
		"output: ${{ steps.print.output.stdout }}\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := pawlflow.Define[any, string](doc)
	l := newLab(t, &pawlotel.IDs{}, w)
	l.config.Database = "memory:"
	e, err := pawl.Open(t.Context(), l.config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	ctx, request := l.tracer.Start(t.Context(), "request")
	r, err := w.Start(ctx, e, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, s := range l.spans.GetSpans() {
		if s.Name == "print" && s.Attributes[2].Key == "pawl.step" {
			want = fmt.Sprintf("00-%s-%s-01", request.SpanContext().TraceID(), s.SpanContext.SpanID())
		}
	}
	if got != want {
		t.Errorf("the process got %q, want %q", got, want)
	}
}

// counts returns the values of all sums, and how many values all histograms have, by name and attributes.
func (l *lab) counts(t *testing.T) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := l.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	key := func(name string, set attribute.Set) string {
		return name + "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				out[key(m.Name, p.Attributes)] = p.Value
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				out[key(m.Name, p.Attributes)] = int64(p.Count)
			}
		default:
			t.Errorf("%s is a %T", m.Name, data)
		}
	}
	return out
}

func TestMetrics(t *testing.T) {
	bank := pawl.Define("bank", func(ctx pawl.Context, _ int) (int, error) {
		_, err := pawl.Map(ctx, "m", 0, []int{1, 2}, func(ctx pawl.Context, n int) (int, error) {
			return pawl.Step(ctx, "pay", func(ctx context.Context) (int, error) {
				<-time.After(time.Second)
				return n, ctx.Err()
			}, pawl.Service("bank"))
		})
		return 0, errors.Join(err, errors.New("no more money"))
	})
	w, child := order()
	l := newLab(t, nil, w, child, bank)
	l.config.Services = map[string]policy.QueueLimits{"bank": {Concurrency: 1}}
	pawltest.RunWith(t, l.config, func(t *testing.T, e *pawltest.Env) {
		for _, one := range []*pawl.Workflow[int, int]{w, bank} {
			r, err := one.Start(t.Context(), e, "", 1)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = r.Result(t.Context())
		}
		got := l.counts(t)
		for name := range got {
			if strings.HasPrefix(name, "pawl.commit") || strings.HasPrefix(name, "pawl.timer") {
				if got[name] == 0 {
					t.Errorf("%s is 0", name)
				}
				delete(got, name)
			}
		}
		want := map[string]int64{
			"pawl.runs.started{workflow=order}": 1, "pawl.runs.started{workflow=ship}": 1,
			"pawl.runs.started{workflow=bank}":                       1,
			"pawl.runs.ended{phase=succeeded,workflow=order}":        1,
			"pawl.runs.ended{phase=succeeded,workflow=ship}":         1,
			"pawl.runs.ended{phase=failed,workflow=bank}":            1,
			"pawl.run.duration{phase=succeeded,workflow=order}":      1,
			"pawl.run.duration{phase=succeeded,workflow=ship}":       1,
			"pawl.run.duration{phase=failed,workflow=bank}":          1,
			"pawl.attempt.wait{step=charge,workflow=order}":          2,
			"pawl.attempt.wait{step=pack,workflow=ship}":             1,
			"pawl.attempt.wait{step=m/pay,workflow=bank}":            2,
			"pawl.attempts.held{by=service bank,reason=concurrency}": 1,
		}
		for _, name := range []string{"pawl.attempts", "pawl.attempt.duration"} {
			want[name+"{outcome=error,retry=true,step=charge,workflow=order}"] = 1
			want[name+"{outcome=succeeded,retry=false,step=charge,workflow=order}"] = 1
			want[name+"{outcome=succeeded,retry=false,step=pack,workflow=ship}"] = 1
			want[name+"{outcome=succeeded,retry=false,step=m/pay,workflow=bank}"] = 2
		}
		if !maps.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", lines(got), lines(want))
		}
	})
}

func lines(m map[string]int64) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprint(key, " ", m[key]))
	}
	return strings.Join(out, "\n")
}
