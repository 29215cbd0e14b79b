package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/pawl-dev/pawl/internal/journal/sqlite"
	"github.com/pawl-dev/pawl/internal/worker"
)

func oneStep(ctx context.Context, s *session) (Row, error) {
	row, err := s.rate(ctx, oneStepFlow, "runs/s", 1, inFlight)
	row.reached = s.reaches(row.Value >= 10000, row.cost <= 0.021)
	return row, err
}

// partitioned runs oneStep on a database with which the engine can use several cores. Its value is the ratio of the
// rates on two cores and on one. The two take turns, so that a disturbance from outside hits both.
func partitioned(ctx context.Context, s *session) (Row, error) {
	j, err := sqlite.Open(filepath.Join(s.dir, databaseFile), sqlite.Options{Partitions: 4})
	if err == nil {
		err = j.Close() // the stack opens it with as many
	}
	if err != nil {
		return Row{}, err
	}
	st, err := s.open(ctx, nil)
	if err != nil {
		return Row{}, err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var row Row
	rates := make([][]float64, 2)
	for range pick(s, 3, 1) {
		for i := range rates {
			runtime.GOMAXPROCS(i + 1)
			w, err := st.loop(ctx, s, oneStepFlow, inFlight, pick(s, 3*time.Second, 500*time.Millisecond))
			if err != nil {
				return Row{}, st.fail(err)
			}
			rates[i] = append(rates[i], w.rate())
			s.logf("%.0f runs/s, cpu %.3g ms a run with GOMAXPROCS=%d%s", w.rate(), w.cost(), i+1, w.usage)
			row = w.row("of the rate on one core", 1)
		}
	}
	one, two := median(rates[0]), median(rates[1])
	row.Value = two / one
	row.reached = row.Value >= 1.5
	row.detail = fmt.Sprintf("%.0f runs/s on one core, %.0f on two", one, two)
	if err := st.close(); err != nil {
		return Row{}, err
	}
	return row, s.measureFile(&row)
}

func tenStep(ctx context.Context, s *session) (Row, error) {
	row, err := s.rate(ctx, tenStepFlow, "steps/s", 10, inFlight)
	row.reached = s.reaches(row.Value >= 25000, row.cost <= 0.125)
	return row, err
}

func retry(ctx context.Context, s *session) (Row, error) {
	row, err := s.rate(ctx, retryFlow, "runs/s", 1, inFlight)
	row.reached = row.Value >= 4000
	return row, err
}

func latency(ctx context.Context, s *session) (Row, error) {
	row, err := s.rate(ctx, oneStepFlow, "runs/s", 1, 1)
	row.Value, row.Unit = row.P50, "ms"
	return row, err
}

// rate measures how many runs of a flow end in a second while that many clients start and await them.
func (s *session) rate(ctx context.Context, source, unit string, steps, clients int) (Row, error) {
	st, err := s.open(ctx, map[string]worker.Executor{"bench.flaky": flaky(2)})
	if err != nil {
		return Row{}, err
	}
	if s.server != nil {
		s.server.before = s.server.stored.Statements()
	}
	w, err := st.loop(ctx, s, source, clients, s.length())
	if err != nil {
		return Row{}, st.fail(err)
	}
	row := w.row(unit, steps)
	s.perStep = s.statements(w.done, steps)
	row.cost = w.cost()
	row.detail = fmt.Sprintf("cpu %.3g ms a run%s%s", row.cost, w.usage, s.perStep)
	if err := s.measureServer(ctx, &row); err != nil {
		return Row{}, st.fail(err)
	}
	if err := st.close(); err != nil {
		return Row{}, err
	}
	return row, s.measureFile(&row)
}

// length returns how long a closed loop is measured.
func (s *session) length() time.Duration { return pick(s, 10*time.Second, 2*time.Second) }

// loop makes clients start runs of a flow and wait for them.
func (st *stack) loop(ctx context.Context, s *session, source string, clients int,
	length time.Duration,
) (window, error) {
	def := definition(source)
	warm := pick(s, 3*time.Second, 500*time.Millisecond)
	return closedLoop(ctx, clients, warm, length, func(ctx context.Context) error {
		return st.once(ctx, def, nil)
	}, s.sampleFloor)
}
