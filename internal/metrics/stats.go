package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/engine"
)

// gauges are the values that are read from an engine on each request.
type gauges struct {
	stats     func() engine.Stats
	namespace string
}

// Read lets the metrics ask an engine for its numbers each time they are read. streams returns how many callers follow
// a run or wait for its end.
func (m *Metrics) Read(stats func() engine.Stats, streams func() int) {
	m.registry.MustRegister(&gauges{stats, m.namespace})
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pawl_http_streams", Help: "Callers that follow a run or wait for its end.",
		ConstLabels: prometheus.Labels{namespaceLabel: m.namespace},
	}, func() float64 { return float64(streams()) }))
}

// ReadCluster lets the metrics ask a node how many partitions it has, and how many it has taken or given back. total is
// how many there are on all nodes.
func (m *Metrics) ReadCluster(total int, owned func() int, moves func() int64) {
	of := prometheus.Labels{namespaceLabel: m.namespace}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pawl_partitions", Help: "Partitions of the database, on all nodes.", ConstLabels: of,
	}, func() float64 { return float64(total) }))
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pawl_partitions_owned", Help: "Partitions that this node has.", ConstLabels: of,
	}, func() float64 { return float64(owned()) }))
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "pawl_partition_moves_total", Help: "Partitions that this node has taken or given back.", ConstLabels: of,
	}, func() float64 { return float64(moves()) }))
}

// ReadCertificate lets the metrics ask when the certificate of the server expires.
func (m *Metrics) ReadCertificate(left func() time.Duration) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pawl_tls_certificate_expires_seconds", Help: "Until the certificate of the server expires.",
	}, func() float64 { return left().Seconds() }))
}

// queues report the waiting attempts when they are collected.
type queues struct {
	read      func(context.Context) ([]engine.QueueStats, error)
	namespace string
}

// readTime is how long the metrics wait for the engine's answer. Without an answer the numbers of queues are missing:
// the other metrics are all the more important then.
const readTime = 500 * time.Millisecond

// ReadQueues lets the metrics ask an engine for its task queues each time they are read.
func (m *Metrics) ReadQueues(read func(context.Context) ([]engine.QueueStats, error)) {
	m.registry.MustRegister(&queues{read, m.namespace})
}

// Describe implements prometheus.Collector. It describes nothing, because queues come and go.
func (q *queues) Describe(chan<- *prometheus.Desc) {}

func (q *queues) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	all, err := q.read(ctx)
	if err != nil {
		return // the engine logs what is wrong with it
	}
	labels, of := []string{"queue", "type"}, prometheus.Labels{namespaceLabel: q.namespace}
	depth := prometheus.NewDesc("pawl_queue_depth", "Attempts that wait for a worker, by task queue.", labels, of)
	running := prometheus.NewDesc("pawl_queue_running", "Attempts that workers execute, by task queue.", labels, of)
	free := prometheus.NewDesc("pawl_queue_free_slots", "Attempts that could begin now, by task queue.", labels, of)
	for _, s := range all {
		to <- prometheus.MustNewConstMetric(depth, prometheus.GaugeValue, float64(s.Waiting), s.Queue, s.Type)
		to <- prometheus.MustNewConstMetric(running, prometheus.GaugeValue, float64(s.Running), s.Queue, s.Type)
		if s.Free >= 0 {
			to <- prometheus.MustNewConstMetric(free, prometheus.GaugeValue, float64(s.Free), s.Queue, s.Type)
		}
	}
}

// webhooks report the results of deliveries when they are collected.
type webhooks struct {
	counts    func() []api.WebhookCounts
	namespace string
}

// ReadWebhooks lets the metrics ask for the numbers of webhooks each time they are read.
func (m *Metrics) ReadWebhooks(counts func() []api.WebhookCounts) {
	m.registry.MustRegister(&webhooks{counts, m.namespace})
}

// Describe implements prometheus.Collector. It describes nothing, because webhooks come and go.
func (w *webhooks) Describe(chan<- *prometheus.Desc) {}

func (w *webhooks) Collect(to chan<- prometheus.Metric) {
	of := prometheus.Labels{namespaceLabel: w.namespace}
	pending := prometheus.NewDesc("pawl_webhook_pending", "Deliveries that have not ended.", []string{"webhook"}, of)
	ended := prometheus.NewDesc("pawl_webhook_deliveries_total", "Deliveries that have ended, and events that were "+
		"missed because too many were pending.", []string{"webhook", "outcome"}, of)
	retries := prometheus.NewDesc("pawl_webhook_retries_total", "Attempts after which another one follows.",
		[]string{"webhook"}, of)
	for _, c := range w.counts() {
		to <- prometheus.MustNewConstMetric(pending, prometheus.GaugeValue, float64(c.Pending), c.Webhook)
		to <- prometheus.MustNewConstMetric(retries, prometheus.CounterValue, float64(c.Retried), c.Webhook)
		for outcome, n := range map[string]int{"delivered": c.Delivered, "failed": c.Failed, "missed": c.Missed} {
			to <- prometheus.MustNewConstMetric(ended, prometheus.CounterValue, float64(n), c.Webhook, outcome)
		}
	}
}

func (g *gauges) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(g, to) }

func (g *gauges) Collect(to chan<- prometheus.Metric) {
	s := g.stats()
	stands := 0
	if s.Stalled != "" {
		stands = 1
	}
	of := prometheus.Labels{namespaceLabel: g.namespace}
	for _, v := range []struct {
		name, help string
		value      float64
	}{
		{"pawl_runs_loaded", "Runs in memory: those that do something at present, or soon.", float64(s.Loaded)},
		{
			"pawl_runs_set_aside", "Runs that cannot go on because code panicked or data cannot be read.",
			float64(s.SetAside),
		},
		{"pawl_view_behind_runs", "Runs whose rows in the tables for reading are out of date.", float64(s.Behind)},
		{"pawl_attempts_queued", "Attempts that wait for a worker.", float64(s.Queued)},
		{"pawl_attempts_running", "Attempts that workers execute.", float64(s.Live)},
		{"pawl_journal_stalled", "1 while the storage takes no writes, else 0.", float64(stands)},
		{
			"pawl_timer_lag_max_seconds", "How late the timer was that fired latest since the start.",
			s.Late.Seconds(),
		},
	} {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(v.name, v.help, nil, of), prometheus.GaugeValue, v.value)
	}
}
