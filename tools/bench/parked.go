package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// parkedRuns is how many runs sleep while others are measured.
const parkedRuns = 100_000

// parked compares the rate of short runs beside many sleeping runs with the rate on an empty engine.
func parked(ctx context.Context, s *session) (Row, error) {
	row, err := s.compareFull(ctx, func(st *stack) error {
		_, err := st.park(ctx, s, parkedRuns)
		return err
	})
	row.reached = row.Value >= 0.95
	return row, err
}

// retained compares the rate of short runs in a file that has kept many closed runs with the rate in an empty file.
func retained(ctx context.Context, s *session) (Row, error) {
	n := pick(s, 3_000_000, 50_000)
	row, err := s.compareFull(ctx, func(st *stack) error {
		def := definition(oneStepFlow)
		err := each(ctx, n, inFlight, func(ctx context.Context, _ int) error { return st.once(ctx, def, nil) })
		if err != nil {
			return err
		}
		s.logf("%d runs are closed", n)
		return until(ctx, func() bool { return st.engine.Stats().Behind == 0 })
	})
	row.reached = row.Value >= 0.97
	return row, err
}

// compareFull compares the rate of short runs on an engine that was filled with the rate on an empty engine. Both
// engines are open all the time and take turns, so that a disturbance from outside hits both. The value is the median
// of the ratios.
func (s *session) compareFull(ctx context.Context, fill func(*stack) error) (Row, error) {
	names := [2]string{"empty", "full"}
	var stacks [2]*stack
	var rates, costs [2][]float64
	for i, name := range names {
		dir := filepath.Join(s.dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return Row{}, err
		}
		st, err := openStack(ctx, dir, nil)
		if err != nil {
			return Row{}, err
		}
		defer st.close() //nolint:errcheck // closed below where nothing failed; a second close does nothing
		stacks[i] = st
	}
	if err := fill(stacks[1]); err != nil {
		return Row{}, err
	}
	settledMemory()
	var row Row
	rounds := pick(s, 8, 4)
	for round := range 2 * rounds {
		i := []int{0, 1, 1, 0}[round%4] // so that a steady trend outside weighs on both the same
		w, err := stacks[i].loop(ctx, s, oneStepFlow, inFlight, s.length()/4)
		if err != nil {
			return Row{}, err
		}
		rates[i] = append(rates[i], w.rate())
		costs[i] = append(costs[i], w.cost())
		if i == 1 {
			row = w.row("of the empty rate", 1)
		}
		s.logf("round %d, %s: %.0f runs/s%s", round/2+1, names[i], w.rate(), w.usage)
	}
	for _, st := range stacks {
		if err := st.close(); err != nil {
			return Row{}, err
		}
	}
	ratios := make([]float64, rounds)
	for i := range ratios {
		ratios[i] = rates[1][i] / rates[0][i]
	}
	row.Value = median(ratios)
	row.detail = fmt.Sprintf("%.0f of %.0f runs/s at %.3g of %.3g ms cpu a run, medians of %d rounds",
		median(rates[1]), median(rates[0]), median(costs[1]), median(costs[0]), rounds)
	var err error
	row.DB, err = folderBytes(stacks[1].dir)
	return row, err
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}
