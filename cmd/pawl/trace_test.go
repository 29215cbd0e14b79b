package main

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	pb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestTraces checks that a server sends the spans of runs and attempts to the collector that the environment names.
// Spans of the programs that an attempt starts and calls have the attempt's span as their parent.
func TestTraces(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	spans := map[string]*pb.Span{}
	var called, service, key string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path != "/v1/traces" {
			called = r.Header.Get("Traceparent")
			return
		}
		var in collector.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, &in)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		key = r.Header.Get("Key")
		for _, of := range in.ResourceSpans {
			for _, a := range of.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					name := s.Name
					if slices.ContainsFunc(scope.Spans, func(x *pb.Span) bool { return x != s && x.Name == name }) ||
						spans[name] != nil {
						for _, a := range s.Attributes {
							if a.Key == "pawl.attempt" {
								name += "#" + a.Value.String()
							}
						}
					}
					spans[name] = s
				}
			}
		}
	}))
	defer other.Close()

	dir := t.TempDir()
	write(t, dir, "order.yaml", `pawl: 1
name: order
steps:
  - name: tell
    exec: 'echo "parent=$TRACEPARENT" >> "$PAWL_OUTPUT"'
  - {name: call, needs: tell, http: {url: "`+other.URL+`/called"}}
  - name: again
    needs: call
    exec: 'test $PAWL_ATTEMPT = 2'
    retry: {maxAttempts: 2, initialInterval: 10ms}
  - {name: far, needs: again, task: {queue: far, type: Tell}, timeout: {startToClose: 1m}}
`)
	const trace, caller = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	var shown string
	t.Run("order", func(t *testing.T) { // the server ends with it, and sends what is left
		cmd := command(t, dir, "dev", "--listen", "127.0.0.1:0", ".")
		cmd.Env = append(cmd.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+other.URL, "OTEL_EXPORTER_OTLP_HEADERS=key=a%20b",
			"OTEL_SERVICE_NAME=shop")
		run := servedBy(t, cmd) + "/api/v1/runs"
		answer := func(res *http.Response, err error) string {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode/100 != 2 {
				t.Fatalf("%s %s %v", res.Status, body, err)
			}
			return string(body)
		}
		answer(http.Post(run, "application/json", strings.NewReader(
			`{"workflow":"order","workflowId":"o-1","headers":{"traceparent":"00-`+trace+`-`+caller+`-01"}}`)))
		far := command(t, dir, "worker", "--server", strings.TrimSuffix(run, "/api/v1/runs"), "--queue", "far",
			"--exec", `echo "{\"parent\":\"$TRACEPARENT\"}"`)
		if err := far.Start(); err != nil {
			t.Fatal(err)
		}
		answer(http.Get(run + "/o-1/outcome?wait=20s"))
		_ = far.Process.Kill() // it has nothing left to do
		_ = far.Wait()
		shown = answer(http.Get(run + "/o-1"))
	})

	mu.Lock()
	defer mu.Unlock()
	if service != "shop" || key != "a b" {
		t.Errorf("the service is %q, the header %q", service, key)
	}
	run := spans["order"]
	if run == nil || hex.EncodeToString(run.TraceId) != trace || hex.EncodeToString(run.ParentSpanId) != caller {
		t.Fatalf("the run's span is %v of %d\n%s", run, len(spans), shown)
	}
	parents := map[string]string{"tell": shown, "call": called, "far": shown}
	attempts := 0
	for name, s := range spans {
		if name == "order" {
			continue
		}
		if string(s.ParentSpanId) != string(run.SpanId) || string(s.TraceId) != string(run.TraceId) {
			t.Errorf("%s is no child of the run's span", name)
		}
		own := "00-" + trace + "-" + hex.EncodeToString(s.SpanId)
		if said, known := parents[name]; known && !strings.Contains(said, own) {
			t.Errorf("%s has got another parent than %s: %s", name, own, said)
		}
		if strings.HasPrefix(name, "again") {
			attempts++
			failed := s.Status.GetCode() == pb.Status_STATUS_CODE_ERROR
			if linked := len(s.Links) == 1; failed == linked {
				t.Errorf("%s: failed %v, linked %v", name, failed, linked)
			}
		}
	}
	if len(spans) != 6 || attempts != 2 {
		t.Errorf("%d spans, %d of them of the step that is tried again", len(spans), attempts)
	}
}

// TestTracesRefused checks that wrong settings are refused, and name the variable.
func TestTracesRefused(t *testing.T) {
	t.Parallel()
	for variable, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
		"OTEL_EXPORTER_OTLP_TIMEOUT": "soon", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "key",
	} {
		cmd := command(t, t.TempDir(), "dev", "--listen", "127.0.0.1:0")
		cmd.Env = append(cmd.Env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", variable+"="+value)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), variable) {
			t.Errorf("%s=%s: %v %s", variable, value, err, out)
		}
	}
}
