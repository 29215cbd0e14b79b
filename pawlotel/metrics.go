package pawlotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pawl-dev/pawl/client"
)

// metrics are the instruments. What is counted by step has the step's name without the numbers of repetitions and of
// branches, so that there are not as many time series as items.
type metrics struct {
	runsStarted, runsEnded, attempts, held, stopped, entries metric.Int64Counter

	runDuration, attemptDuration, attemptWait, lateness, commitDuration metric.Float64Histogram
}

func newMetrics(m metric.Meter) (*metrics, error) {
	var out metrics
	var errs []error
	for _, c := range []struct {
		to             *metric.Int64Counter
		name, unit, is string
	}{
		{&out.runsStarted, "pawl.runs.started", "{run}", "Runs that have begun"},
		{&out.runsEnded, "pawl.runs.ended", "{run}", "Runs that have ended"},
		{&out.attempts, "pawl.attempts", "{attempt}", "Attempts of steps that have ended"},
		{&out.held, "pawl.attempts.held", "{attempt}", "Attempts that limits of a queue or service have held back"},
		{&out.stopped, "pawl.bodies.stopped", "{call}", "Calls of bodies that could not go on"},
		{&out.entries, "pawl.commit.entries", "{entry}", "Entries that the journal has taken"},
	} {
		var err error
		*c.to, err = m.Int64Counter(c.name, metric.WithUnit(c.unit), metric.WithDescription(c.is))
		errs = append(errs, err)
	}
	for _, h := range []struct {
		to       *metric.Float64Histogram
		name, is string
	}{
		{&out.runDuration, "pawl.run.duration", "From the start of a run to its end"},
		{&out.attemptDuration, "pawl.attempt.duration", "From the start of an attempt to its end"},
		{&out.attemptWait, "pawl.attempt.wait", "How long an attempt waited for a worker"},
		{&out.lateness, "pawl.timer.lateness", "How late due work was handled"},
		{&out.commitDuration, "pawl.commit.duration", "How long the journal took for a batch"},
	} {
		var err error
		*h.to, err = m.Float64Histogram(h.name, metric.WithUnit("s"), metric.WithDescription(h.is),
			metric.WithExplicitBucketBoundaries(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 60, 600, 3600, 86400))
		errs = append(errs, err)
	}
	return &out, errors.Join(errs...)
}

func with(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}

func (m *metrics) runStarted(o client.RunObservation) {
	m.runsStarted.Add(context.Background(), 1, with(attribute.String("workflow", o.Workflow)))
}

func (m *metrics) runEnded(o client.RunObservation) {
	by := with(attribute.String("workflow", o.Workflow), attribute.String("phase", string(o.Phase)))
	m.runsEnded.Add(context.Background(), 1, by)
	if !o.StartedAt.IsZero() {
		m.runDuration.Record(context.Background(), o.EndedAt.Sub(o.StartedAt).Seconds(), by)
	}
}

func (m *metrics) attemptEnded(a client.AttemptObservation) {
	if a.Child {
		return // the run is counted
	}
	outcome := "succeeded"
	if a.Failure != nil {
		outcome = a.Failure.Kind.String()
	}
	step := []attribute.KeyValue{
		attribute.String("workflow", a.Workflow), attribute.String("step", stepName(a.Step)),
	}
	by := with(append(step, attribute.String("outcome", outcome), attribute.Bool("retry", a.Retry))...)
	m.attempts.Add(context.Background(), 1, by)
	if a.StartedAt.IsZero() {
		return // it ended while it waited
	}
	m.attemptDuration.Record(context.Background(), a.EndedAt.Sub(a.StartedAt).Seconds(), by)
	if !a.ReadyAt.IsZero() {
		m.attemptWait.Record(context.Background(), a.StartedAt.Sub(a.ReadyAt).Seconds(), with(step...))
	}
}

func (m *metrics) attemptHeld(a client.AttemptObservation) {
	if a.Held != "" {
		m.held.Add(context.Background(), 1, with(
			attribute.String("by", a.HeldBy), attribute.String("reason", a.Held),
		))
	}
}

func (m *metrics) bodyStopped(client.RunObservation) { m.stopped.Add(context.Background(), 1) }

func (m *metrics) timerFired(due, fired time.Time) {
	m.lateness.Record(context.Background(), fired.Sub(due).Seconds())
}

func (m *metrics) committed(took time.Duration, entries, _ int) {
	m.commitDuration.Record(context.Background(), took.Seconds())
	m.entries.Add(context.Background(), int64(entries))
}

// stepName returns a step's key without the numbers of repetitions, items and branches: "m[3]/charge#2" is "m/charge".
func stepName(key string) string {
	out, skip := make([]byte, 0, len(key)), false
	for i := range len(key) {
		switch c := key[i]; {
		case c == '[', c == '#':
			skip = true
		case c == ']':
			skip = false
		case c == '/':
			skip = false
			out = append(out, c)
		case !skip:
			out = append(out, c)
		}
	}
	return string(out)
}
