package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	kindschedule "github.com/pawl-dev/pawl/internal/kind/schedule"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/policy"
)

// manySchedules measures the cost of schedules whose next firing is far: disk, memory, processor time while nothing is
// due, and how long the engine takes to find what is due.
func manySchedules(ctx context.Context, s *session) (Row, error) {
	n := pick(s, 1_000_000, 50_000)
	st, err := s.open(ctx, nil)
	if err != nil {
		return Row{}, err
	}
	def := definition(oneStepFlow)
	if err := st.once(ctx, def, nil); err != nil { // the flow is stored
		return Row{}, st.fail(err)
	}
	before := settledMemory()
	from := time.Now()
	err = each(ctx, n, inFlight, func(ctx context.Context, i int) error {
		state := schedule.State{
			Name: fmt.Sprintf("s%07d", i), Spec: schedule.Spec{Cron: fmt.Sprintf("%d 4 1 %d *", i%60, 1+(i%12))},
			Target: schedule.Target{Workflow: def.Name, Kind: def.Kind, Definition: schedule.ID(def.ID.String())},
		}
		input, err := state.Encode()
		if err != nil {
			return err
		}
		_, err = st.engine.Start(ctx, engine.StartRequest{
			Definition: kindschedule.Definition(),
			Start:      core.Start{Input: input, WorkflowID: schedule.Prefix + state.Name},
		})
		return err
	})
	if err != nil {
		return Row{}, st.fail(err)
	}
	made := time.Since(from)
	if err := until(ctx, func() bool { return st.engine.Stats().Behind == 0 }); err != nil {
		return Row{}, st.fail(err)
	}
	row := Row{Unit: "B on disk/schedule", RSS: max(settledMemory()-before, 0)}
	stop := meter()
	rest(ctx, pick(s, 10*time.Second, 2*time.Second))
	idle := stop()
	looked, err := st.looks(ctx)
	if err != nil {
		return Row{}, st.fail(err)
	}
	if err := st.close(); err != nil {
		return Row{}, err
	}
	if err := s.measureFile(&row); err != nil {
		return Row{}, err
	}
	row.Value = float64(row.DB) / float64(n)
	row.detail = fmt.Sprintf("%d schedules, %.0f made/s, %.0f B RSS each, idle cpu %.2g %%, what is due found in %s",
		n, float64(n)/made.Seconds(), float64(row.RSS)/float64(n), idle.cpu.Seconds()/idle.took.Seconds()*100, looked)
	row.reached = row.Value <= 300 && looked < 5*time.Millisecond
	return row, nil
}

// looks returns how long it takes to find the runs that are due within a day.
func (st *stack) looks(ctx context.Context) (time.Duration, error) {
	now := policy.At(time.Now())
	from := time.Now()
	for range 10 {
		if _, err := st.journal.Due(ctx, 0, 0, now.Add(24*time.Hour), 1000); err != nil {
			return 0, err
		}
	}
	return time.Since(from) / 10, nil
}
