package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker"
)

// heldType is a task that runs until the row ends it. Each has a slot.
const heldType = "bench.held"

// heldAttempts measures the memory of runs of a flow whose attempts run: state, stack, and the worker's data.
func heldAttempts(ctx context.Context, s *session) (Row, error) {
	n := pick(s, 10_000, 2_000)
	end := make(chan struct{})
	var began atomic.Int64
	held := worker.FuncExecutor(func(ctx context.Context, _ core.Task, _ worker.Alive) ([]byte, error) {
		began.Add(1)
		select {
		case <-end:
		case <-ctx.Done():
		}
		return nil, nil
	})
	st, err := s.open(ctx, map[string]worker.Executor{heldType: held})
	if err != nil {
		return Row{}, err
	}
	before := settledMemory()
	ids := make([]core.RunID, n)
	def := definition(heldFlow)
	err = each(ctx, n, inFlight, func(ctx context.Context, i int) (err error) {
		ids[i], err = st.start(ctx, def, nil)
		return err
	})
	if err == nil {
		err = until(ctx, func() bool { return began.Load() == int64(n) })
	}
	added := max(settledMemory()-before, 0)
	close(end)
	if err == nil {
		err = each(ctx, n, inFlight, func(ctx context.Context, i int) error { return st.await(ctx, ids[i]) })
	}
	if err = errors.Join(err, st.close()); err != nil {
		return Row{}, err
	}
	row := attemptsRow(added, n, 6)
	return row, s.measureFile(&row)
}

// attemptsRow returns a row of the memory that n attempts take, each so many KB at most.
func attemptsRow(added int64, n int, most float64) Row {
	row := Row{Value: float64(added) / float64(n) / 1000, Unit: "KB RSS/run", RSS: added}
	row.detail = fmt.Sprintf("%d attempts", n)
	row.reached = row.Value <= most
	return row
}
