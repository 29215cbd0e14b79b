package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// late is the step that follows a timer. It reads the clock first.
type late struct {
	mu  sync.Mutex
	all []time.Duration
}

func (l *late) Execute(_ context.Context, t *core.Task, _ worker.Alive) worker.Result {
	now := time.Now()
	var due time.Time
	if err := json.Unmarshal(t.Payload, &due); err != nil {
		return worker.Result{Failure: &policy.Failure{
			Kind:    policy.KindFailed,
			Message: err.Error(), NonRetryable: true,
		}}
	}
	l.mu.Lock()
	l.all = append(l.all, now.Sub(due))
	l.mu.Unlock()
	return worker.Result{}
}

// timers measures how late work starts that was due at an instant.
func timers(ctx context.Context, s *session) (Row, error) {
	n := pick(s, 10_000, 3_000)
	spread := time.Duration(n) * time.Millisecond
	clock := &late{all: make([]time.Duration, 0, n)}
	st, err := s.open(ctx, map[string]worker.Executor{"bench.late": clock})
	if err != nil {
		return Row{}, err
	}
	ids := make([]core.RunID, n)
	first := time.Now().UTC().Add(pick(s, 10*time.Second, 4*time.Second)).Truncate(time.Microsecond)
	def := definition(timerFlow)
	err = each(ctx, n, inFlight, func(ctx context.Context, i int) error {
		input, err := json.Marshal(first.Add(spread * time.Duration(i) / time.Duration(n)))
		if err != nil {
			return err
		}
		ids[i], err = st.start(ctx, def, input)
		return err
	})
	if err != nil {
		return Row{}, st.fail(err)
	}
	ahead := time.Until(first)
	s.logf("%d runs sleep, the first is due in %s", n, ahead.Round(time.Millisecond))
	rest(ctx, ahead-100*time.Millisecond)
	stop := meter()
	err = each(ctx, n, 64, func(ctx context.Context, i int) error { return st.await(ctx, ids[i]) })
	if err != nil {
		return Row{}, st.fail(err)
	}
	used := stop()
	row := Row{Unit: "ms late (p99)", CPU: used.cpu.Seconds(), RSS: resident()}
	if err := s.measureServer(ctx, &row); err != nil {
		return Row{}, st.fail(err)
	}
	if err := st.close(); err != nil {
		return Row{}, err
	}
	bare, err := s.floor.paced(ctx, n/2, spread/time.Duration(n))
	if err != nil {
		return Row{}, err
	}
	sum, floor := summarise(clock.all), summarise(bare)
	row.P50, row.P99, row.Value = sum.p50, sum.p99, sum.p99
	worst := slices.Max(clock.all).Seconds() * 1e3
	row.reached = ahead > 0 && s.reaches(sum.p99 <= 20, sum.p99 <= 1 && worst <= 5)
	row.detail = fmt.Sprintf("%d runs over %s, worst %.3g ms; bare writes and syncs at that pace: p99 %.3g ms, "+
		"worst %.3g ms%s", sum.count, spread, worst, floor.p99, bare[len(bare)-1].Seconds()*1e3, used)
	if ahead <= 0 {
		row.detail += fmt.Sprintf("; starting them took %s too long", -ahead)
	}
	return row, s.measureFile(&row)
}
