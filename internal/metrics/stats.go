package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/engine"
)

// gauges are what an engine tells of itself when it is asked.
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

// Describe implements prometheus.Collector.
func (g *gauges) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(g, to) }

// Collect implements prometheus.Collector.
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
