package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/engine"
)

// gauges are what an engine tells of itself when it is asked.
type gauges struct{ stats func() engine.Stats }

// Read lets the metrics ask an engine for its numbers each time they are read. streams returns how many callers follow
// a run or wait for its end.
func (m *Metrics) Read(stats func() engine.Stats, streams func() int) {
	m.registry.MustRegister(&gauges{stats})
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pawl_http_streams", Help: "Callers that follow a run or wait for its end.",
	}, func() float64 { return float64(streams()) }))
}

func gauge(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }

var (
	runsLoaded   = gauge("pawl_runs_loaded", "Runs in memory: those that do something at present, or soon.")
	runsSetAside = gauge("pawl_runs_set_aside",
		"Runs that cannot go on because code panicked or data cannot be read.")
	runsBehind     = gauge("pawl_view_behind_runs", "Runs whose rows in the tables for reading are out of date.")
	attemptsQueued = gauge("pawl_attempts_queued", "Attempts that wait for a worker.")
	attemptsLive   = gauge("pawl_attempts_running", "Attempts that workers execute.")
	stalled        = gauge("pawl_journal_stalled", "1 while the storage takes no writes, else 0.")
	latest         = gauge("pawl_timer_lag_max_seconds", "How late the timer was that fired latest since the start.")
)

// Describe implements prometheus.Collector.
func (g *gauges) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(g, to) }

// Collect implements prometheus.Collector.
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	s := g.stats()
	stands := 0
	if s.Stalled != "" {
		stands = 1
	}
	for _, v := range []struct {
		of    *prometheus.Desc
		value float64
	}{
		{runsLoaded, float64(s.Loaded)},
		{runsSetAside, float64(s.SetAside)},
		{runsBehind, float64(s.Behind)},
		{attemptsQueued, float64(s.Queued)},
		{attemptsLive, float64(s.Live)},
		{stalled, float64(stands)},
		{latest, s.Late.Seconds()},
	} {
		to <- prometheus.MustNewConstMetric(v.of, prometheus.GaugeValue, v.value)
	}
}
