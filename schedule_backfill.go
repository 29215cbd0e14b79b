package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// span is the input of a run that makes up for the firings of a span.
type span struct {
	State  schedule.State `json:"state"`
	Run    string         `json:"run"`   // its workflow id
	After  time.Time      `json:"after"` // the last firing that is dealt with
	Before time.Time      `json:"before"`
	Runs   int            `json:"runs"` // how many it has started or found
}

// backfill starts a run that makes up for the firings of a span: those after an instant.
func (s *scheduler) backfill(ctx Context, c *schedule.Change, after time.Time, actor string) error {
	b := ctx.of()
	input, err := b.encode(b.host.codec, "the span", place{kind: kindInput, workflow: schedule.Backfiller}, span{
		State: *s.State, Run: c.Run, After: after, Before: c.Before,
	})
	if err != nil {
		return err
	}
	_, err = s.start(ctx, "backfill", client.StartRequest{
		Workflow: schedule.Backfiller, ID: c.Run, Input: input, Labels: map[string]string{schedule.Label: s.Name},
		Headers: s.Headers, Actor: actor, Reason: c.Reason,
	}, "")
	return err
}

// backfillWorkflow makes up for the firings of a span. It returns how many runs there are for them.
func backfillWorkflow(runs starter) *Workflow[span, int] {
	return Define(schedule.Backfiller, func(ctx Context, in span) (int, error) {
		table, err := in.State.Parse()
		if err != nil {
			return in.Runs, err
		}
		s := &scheduler{&in.State, runs, Info(ctx).Deadline}
		for range historyLength {
			at := table.Next(in.After)
			if at.IsZero() || !at.Before(in.Before) {
				return in.Runs, nil
			}
			if err := s.makeUp(ctx, at, in.Run); err != nil {
				return in.Runs, err
			}
			in.After, in.Runs = at, in.Runs+1
		}
		return in.Runs, ContinueAsNew(ctx, in)
	})
}

// makeUp starts the run of a firing, unless there was one, and waits for its end unless runs may overlap.
func (s *scheduler) makeUp(ctx Context, at time.Time, notify string) error {
	if s.Overlap == client.OverlapAllow {
		return s.begin(ctx, at, "")
	}
	if existing, err := s.exists(ctx, schedule.RunID(s.Name, at)); err != nil || existing {
		return err
	}
	if err := s.begin(ctx, at, notify); err != nil {
		return err
	}
	return s.turn(ctx)
}

// exists reports whether a firing has a run.
func (s *scheduler) exists(ctx Context, id string) (bool, error) {
	return Step(ctx, "look", func(ctx context.Context) (bool, error) {
		_, err := s.runs.DescribeRun(ctx, id)
		if errors.Is(err, ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	}, patient())
}
