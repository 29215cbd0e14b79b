package metrics

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/worker"
)

// A run of this flow waits for its queue, and ends after three attempts of its step pay, a wait of 2s in its step nap,
// and a limit.
const shop = `pawl: 1
name: shop
queue: shop
queues: {shop: {concurrency: 1}}
services:
  bank: {retry: "fixed(3, 10s)", limits: {concurrency: 1}}
steps:
  - {name: pay, service: bank, fail: {kind: error, message: no}, continueOn: error}
  - {name: nap, sleep: 2s}
  - {name: news, wait: {event: news}, timeout: 1m, continueOn: [timeout]}
`

// counted returns metrics after one run of shop.
func counted(t *testing.T) *Metrics {
	t.Helper()
	doc, err := flow.Parse("shop.yaml", []byte(shop))
	if err != nil {
		t.Fatal(err)
	}
	def, err := flow.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	m := New("v9")
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.New(engine.Config{
			Journal: memory.New(), Observer: m.Observer(),
			Kinds: map[string]engine.Kind{journal.KindFlow: {
				Compile: func(journal.Definition) (*core.Definition, error) { return def, nil },
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		pool := worker.NewPool(worker.PoolConfig{Reporter: e})
		e.Serve("", pool)
		if err := e.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		started, err := e.Start(t.Context(), engine.StartRequest{
			Definition: journal.Definition{
				ID: flow.ID([]byte(shop)), Kind: journal.KindFlow, Name: "shop", Source: []byte(shop),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Result(t.Context(), started.Run); err != nil {
			t.Fatal(err)
		}
		stats := e.Stats() // read early: a closed engine takes no writes any more
		m.Read(func() engine.Stats { return stats }, func() int { return 3 })
		m.ReadQueues(func(context.Context) ([]engine.QueueStats, error) {
			return []engine.QueueStats{
				{Queue: "mail", Type: "Send", Waiting: 7, Running: 2, Free: 1}, {Type: "noop", Free: -1},
			}, nil
		})
		m.ReadWebhooks(func() []api.WebhookCounts {
			return []api.WebhookCounts{{Webhook: "ops", Pending: 5, Delivered: 4, Failed: 3, Missed: 2, Retried: 1}}
		})
		m.Request("GET", "/api/v1/runs/{run}", 200, 3*time.Millisecond)
		m.Request("BREW", "", 404, time.Millisecond)
		if err := pool.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func page(m *Metrics) string {
	out := httptest.NewRecorder()
	m.ServeHTTP(out, httptest.NewRequest("GET", "/metrics", nil))
	return out.Body.String()
}

func TestMetrics(t *testing.T) {
	text := page(counted(t))
	for _, want := range []string{
		`pawl_build_info{version="v9"} 1`,
		`pawl_runs_started_total{namespace="default",workflow="shop"} 1`,
		`pawl_runs_ended_total{namespace="default",phase="succeeded",workflow="shop"} 1`,
		`pawl_run_duration_seconds_sum{namespace="default",workflow="shop"} 60`,
		`pawl_attempts_total{namespace="default",outcome="error",service="bank",workflow="shop"} 3`,
		`pawl_retries_total{kind="error",namespace="default",service="bank",workflow="shop"} 2`,
		`pawl_steps_stopped_total{namespace="default",reason="attempts_exhausted",service="bank",workflow="shop"} 1`,
		`pawl_attempt_duration_seconds_count{namespace="default",service="bank",workflow="shop"} 3`,
		`pawl_schedule_to_start_seconds_count{namespace="default",queue=""} 3`,
		`pawl_timer_lag_seconds_sum{namespace="default"} 0`,
		`pawl_timer_lag_seconds_count{namespace="default"} 4`, // two retries, the sleep, the wait's limit
		`pawl_http_streams{namespace="default"} 3`,
		`pawl_journal_stalled{namespace="default"} 0`,
		`pawl_queue_depth{namespace="default",queue="mail",type="Send"} 7`,
		`pawl_queue_running{namespace="default",queue="mail",type="Send"} 2`,
		`pawl_queue_free_slots{namespace="default",queue="mail",type="Send"} 1`,
		`pawl_queue_depth{namespace="default",queue="",type="noop"} 0`,
		`pawl_webhook_pending{namespace="default",webhook="ops"} 5`,
		`pawl_webhook_deliveries_total{namespace="default",outcome="delivered",webhook="ops"} 4`,
		`pawl_webhook_deliveries_total{namespace="default",outcome="failed",webhook="ops"} 3`,
		`pawl_webhook_deliveries_total{namespace="default",outcome="missed",webhook="ops"} 2`,
		`pawl_webhook_retries_total{namespace="default",webhook="ops"} 1`,
		`pawl_http_request_duration_seconds_count{method="GET",namespace="default",route="/api/v1/runs/{run}",` +
			`status="200"} 1`,
		`pawl_http_request_duration_seconds_count{method="",namespace="default",route="none",status="404"} 1`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("there is no line %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestNamespaces checks that each namespace has its own numbers. The numbers of one hold nothing of another, and
// nothing of the process.
func TestNamespaces(t *testing.T) {
	m := counted(t)
	blue := m.In("blue")
	blue.Request("GET", "/api/v1/runs", 200, time.Millisecond)
	blue.Read(func() engine.Stats { return engine.Stats{Loaded: 7} }, func() int { return 1 })
	only := httptest.NewRecorder()
	m.Only("blue").ServeHTTP(only, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`pawl_runs_loaded{namespace="blue"} 7`, `pawl_http_streams{namespace="blue"} 1`,
		`pawl_http_request_duration_seconds_count{method="GET",namespace="blue",route="/api/v1/runs",status="200"} 1`,
	} {
		if !strings.Contains(only.Body.String(), want+"\n") || !strings.Contains(page(m), want+"\n") {
			t.Errorf("there is no line %s in\n%s", want, only.Body)
		}
	}
	for _, foreign := range []string{"default", "shop", "go_", "process_"} {
		if strings.Contains(only.Body.String(), foreign) {
			t.Errorf("the metrics of one namespace have %s:\n%s", foreign, only.Body)
		}
	}
}

// TestDashboardAndAlerts holds the names in the documents of operations against the metrics that there are, and the
// metrics against the dashboard: each is shown.
func TestDashboardAndAlerts(t *testing.T) {
	m := counted(t)
	m.held.WithLabelValues("bank", "concurrency").Inc()
	m.ReadCluster(6, func() int { return 3 }, func() int64 { return 4 })
	m.ReadCertificate(func() time.Duration { return time.Hour })
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	there, shown := map[string]bool{}, map[string]bool{}
	labels := map[string][]string{}
	for _, f := range families {
		there[f.GetName()] = true
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels[f.GetName()] = append(labels[f.GetName()], l.GetName())
		}
	}
	dashboard, alerts := operations(t, "grafana.json"), operations(t, "alerts.yaml")
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(dashboard, &board); err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(alerts, &rules); err != nil {
		t.Fatal(err)
	}
	check := func(where, expr string) {
		names := regexp.MustCompile(`pawl_\w+`).FindAllString(expr, -1)
		if len(names) == 0 {
			t.Errorf("%s: %q reads no metric", where, expr)
		}
		for _, name := range names {
			base := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
			if !there[base] {
				t.Errorf("%s: there is no metric %s", where, name)
			}
			shown[base] = shown[base] || where == "dashboard"
			for _, label := range labelsIn(expr) {
				if !slices.Contains(labels[base], label) && (label != "le" || base == name) {
					t.Errorf("%s: %s has no label %s, only %s", where, name, label, labels[base])
				}
			}
		}
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			check("dashboard", target.Expr)
		}
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if g.Name == "pawl-machine" {
				if !regexp.MustCompile(`^up|process_|go_|node_|pawl_backup_`).MatchString(r.Expr) {
					t.Errorf("%s: %q reads no metric of the machine", r.Alert, r.Expr)
				}
				continue
			}
			if g.Name == "pawl-postgresql" { // metrics of another program, which has them all
				if !regexp.MustCompile(`\bpg_stat_\w+`).MatchString(r.Expr) {
					t.Errorf("%s: %q reads no metric of PostgreSQL", r.Alert, r.Expr)
				}
				continue
			}
			check(r.Alert, r.Expr)
		}
	}
	for name := range there {
		if strings.HasPrefix(name, "pawl_") && !shown[name] && name != "pawl_build_info" {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

// labelsIn returns the labels that an expression asks for, but those that Prometheus adds.
func labelsIn(expr string) (all []string) {
	for _, m := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
		all = append(all, strings.Split(m[1], ", ")...)
	}
	for _, m := range regexp.MustCompile(`(\w+)(?:=~|!=|!~|=)"`).FindAllStringSubmatch(expr, -1) {
		all = append(all, m[1])
	}
	return slices.DeleteFunc(all, func(l string) bool { return l == "instance" || l == "job" })
}

func operations(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
