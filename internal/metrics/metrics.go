package metrics

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// Metrics holds the metrics of one namespace of a process. Its methods are safe for concurrent use.
type Metrics struct {
	registry  *prometheus.Registry // the registry of the whole process
	handler   http.Handler
	all       families
	namespace string

	runsStarted, runsEnded, attempts, retries, stops, held  *prometheus.CounterVec
	commitEntries, commitBytes                              prometheus.Counter
	runDuration, attemptDuration, scheduleToStart, requests prometheus.ObserverVec
	timerLag, commitDuration                                prometheus.Observer
}

// families are the metrics of each namespace. Their first label is its name.
type families struct {
	runsStarted, runsEnded, attempts, retries, stops, held *prometheus.CounterVec
	commitEntries, commitBytes                             *prometheus.CounterVec
	runDuration, attemptDuration, scheduleToStart          *prometheus.HistogramVec
	timerLag, commitDuration, requests                     *prometheus.HistogramVec
}

// namespaceLabel is on all metrics except those of the process as a whole.
const namespaceLabel = "namespace"

// The long scale reaches days; the quick one begins at half a millisecond.
var (
	long  = []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 60, 300, 1800, 3600, 21600, 86400, 604800}
	quick = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 60}
)

// New returns metrics of the default namespace in which nothing is counted yet. version is the program's.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
	f := &m.all
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		labels = append([]string{namespaceLabel}, labels...)
		return added(m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		labels = append([]string{namespaceLabel}, labels...)
		return added(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets},
			labels))
	}
	f.runsStarted = counter("pawl_runs_started_total", "Runs that have begun.", "workflow")
	f.runsEnded = counter("pawl_runs_ended_total", "Runs that have ended.", "workflow", "phase")
	f.runDuration = histogram("pawl_run_duration_seconds", "From the start of a run to its end.", long, "workflow")
	f.attempts = counter("pawl_attempts_total", "Attempts of steps that have ended, by how they ended.",
		"workflow", "service", "outcome")
	f.retries = counter("pawl_retries_total", "Attempts after which another one follows, by the kind of the failure.",
		"workflow", "service", "kind")
	f.stops = counter("pawl_steps_stopped_total", "Steps that ended badly, by why no more attempts follow.",
		"workflow", "service", "reason")
	f.held = counter("pawl_attempts_held_total",
		"Attempts that limits have held back, by the queue or service that has the limits.", "by", "reason")
	f.attemptDuration = histogram("pawl_attempt_duration_seconds", "From the start of an attempt to its end.", long,
		"workflow", "service")
	f.scheduleToStart = histogram("pawl_schedule_to_start_seconds",
		"How long an attempt that was ready waited for a worker.", quick, "queue")
	f.timerLag = histogram("pawl_timer_lag_seconds",
		"From the instant at which a deadline, sleep or retry was due to the one at which it was dealt with.", quick)
	f.commitDuration = histogram("pawl_commit_duration_seconds", "How long the journal took for a batch.", quick)
	f.commitEntries = counter("pawl_commit_entries_total", "Entries that the journal has taken.")
	f.commitBytes = counter("pawl_commit_bytes_total", "Bytes that the journal has taken.")
	f.requests = histogram("pawl_http_request_duration_seconds",
		"How long a request took, by its route; requests that wait or follow a run take as long as that.", long,
		"method", "route", "status")
	info := added(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "pawl_build_info", Help: "1, with the version that runs.",
	}, []string{"version"}))
	info.WithLabelValues(version).Set(1)
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m.In(api.DefaultNamespace)
}

// In returns the metrics of another namespace of this process.
func (m *Metrics) In(namespace string) *Metrics {
	of := prometheus.Labels{namespaceLabel: namespace}
	f := m.all
	return &Metrics{
		registry: m.registry, handler: m.handler, all: f, namespace: namespace,
		runsStarted: f.runsStarted.MustCurryWith(of), runsEnded: f.runsEnded.MustCurryWith(of),
		attempts: f.attempts.MustCurryWith(of), retries: f.retries.MustCurryWith(of),
		stops: f.stops.MustCurryWith(of), held: f.held.MustCurryWith(of),
		commitEntries: f.commitEntries.With(of), commitBytes: f.commitBytes.With(of),
		runDuration: f.runDuration.MustCurryWith(of), attemptDuration: f.attemptDuration.MustCurryWith(of),
		scheduleToStart: f.scheduleToStart.MustCurryWith(of), requests: f.requests.MustCurryWith(of),
		timerLag: f.timerLag.With(of), commitDuration: f.commitDuration.With(of),
	}
}

// added adds a collector to the registry.
func added[C prometheus.Collector](m *Metrics, c C) C {
	m.registry.MustRegister(c)
	return c
}

// Only serves the metrics of one namespace.
func (m *Metrics) Only(namespace string) http.Handler {
	gather := func() ([]*dto.MetricFamily, error) {
		all, err := m.registry.Gather()
		var out []*dto.MetricFamily
		for _, f := range all {
			f.Metric = slices.DeleteFunc(f.Metric, func(one *dto.Metric) bool {
				return !slices.ContainsFunc(one.Label, func(l *dto.LabelPair) bool {
					return l.GetName() == namespaceLabel && l.GetValue() == namespace
				})
			})
			if len(f.Metric) > 0 {
				out = append(out, f)
			}
		}
		return out, err
	}
	return promhttp.HandlerFor(prometheus.GathererFunc(gather), promhttp.HandlerOpts{})
}

// ServeHTTP serves the metrics of all namespaces in Prometheus's format.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Request counts a request that was answered. route is a route's pattern, never a path, empty if there was none for it.
func (m *Metrics) Request(method, route string, status int, took time.Duration) {
	if route == "" {
		method, route = "", "none" // a caller may have made it up
	}
	m.requests.WithLabelValues(method, route, strconv.Itoa(status)).Observe(took.Seconds())
}

// Observer returns the observer for the engine's configuration.
func (m *Metrics) Observer() engine.Observer {
	return engine.Observer{
		Recorded: m.recorded,
		Fired:    func(due, now core.Time) { m.timerLag.Observe(between(due, now)) },
		Committed: func(took time.Duration, entries, bytes int) {
			m.commitDuration.Observe(took.Seconds())
			m.commitEntries.Add(float64(entries))
			m.commitBytes.Add(float64(bytes))
		},
	}
}

// between returns the time from one instant to another, in seconds.
func between(from, to core.Time) float64 { return to.Std().Sub(from.Std()).Seconds() }

// recorded counts a record.
func (m *Metrics) recorded(o *engine.Observation) {
	workflow := o.Run.Workflow
	if o.BeginsRun() {
		m.runsStarted.WithLabelValues(workflow).Inc()
	}
	switch rec := o.Record.(type) {
	case core.RunEnded:
		m.runsEnded.WithLabelValues(workflow, rec.Phase.String()).Inc()
		if from := o.Run.StartedAt; from != 0 {
			m.runDuration.WithLabelValues(workflow).Observe(between(from, o.At))
		}
	case core.AttemptHeld:
		if rec.Held.Reason != 0 {
			m.held.WithLabelValues(rec.Held.Place(), rec.Held.Reason.String()).Inc()
		}
	case core.AttemptEnded:
		m.attemptEnded(o, rec)
	case core.StepEnded:
		if rec.Reason != policy.ReasonNone {
			m.stops.WithLabelValues(workflow, service(o), rec.Reason.String()).Inc()
		}
	default:
	}
}

func (m *Metrics) attemptEnded(o *engine.Observation, rec core.AttemptEnded) {
	workflow, service := o.Run.Workflow, service(o)
	m.attempts.WithLabelValues(workflow, service, o.Attempt.Outcome).Inc()
	if rec.Retry {
		m.retries.WithLabelValues(workflow, service, o.Attempt.Outcome).Inc()
	}
	if o.Attempt.Started == 0 {
		return // it ended while it waited for a worker
	}
	m.attemptDuration.WithLabelValues(workflow, service).Observe(between(o.Attempt.Started, o.At))
	if o.Attempt.ReadyAt != 0 && o.Spec.Kind == core.KindTask {
		m.scheduleToStart.WithLabelValues(o.Spec.Queue).Observe(between(o.Attempt.ReadyAt, o.Attempt.Started))
	}
}

// service returns the name of the service that a step uses, empty if there is none.
func service(o *engine.Observation) string {
	if o.Spec == nil || o.Spec.Share == nil {
		return ""
	}
	return o.Spec.Share.Service
}
