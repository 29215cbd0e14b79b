package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/policy"
)

// historyLength is after how many firings a schedule continues as a new run, so that its history stays short.
const historyLength = 100

// patient returns the policy of the steps of schedules: they are tried until they succeed.
func patient() StepOption { return RetryWith(RetryPolicy{MaxAttempts: -1, MaxInterval: time.Minute}) }

// starter is what schedules work with: an engine, or the server of a process that serves workflows.
type starter interface {
	Client
	// startAndTell starts a run. The run with the workflow id notify is told of its end, if that is not empty.
	startAndTell(ctx context.Context, r client.StartRequest, notify string) (client.Started, error)
}

// lateStarter is a starter that is set before the engine begins to work. That of a node of a cluster is not its own
// engine: it can start runs on any node.
type lateStarter struct{ starter }

// scheduler executes schedules. Every engine has it.
type scheduler struct {
	*schedule.State
	runs     starter
	deadline time.Time // the deadline of the schedule with all its runs
}

// scheduleWorkflow returns the workflow that schedules are runs of.
func scheduleWorkflow(runs starter) *Workflow[schedule.State, struct{}] {
	return Define(schedule.Workflow, func(ctx Context, state schedule.State) (struct{}, error) {
		s := &scheduler{&state, runs, Info(ctx).Deadline}
		if s.Due.IsZero() {
			s.Due = Now(ctx)
		}
		for range historyLength {
			if over, err := s.round(ctx); over || err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, ContinueAsNew(ctx, state)
	})
}

// round waits for the next firing, or for somebody to change the schedule. It reports whether no firing will come.
func (s *scheduler) round(ctx Context) (over bool, err error) {
	table, err := s.Parse()
	if err != nil {
		return true, err
	}
	var next time.Time
	if s.Paused.IsZero() {
		now := Now(ctx)
		if next = table.After(s.Due, now); next.IsZero() {
			return true, nil
		}
		s.Miss(&table, next, schedule.MissedLate)
	}
	change, err := nextChange(ctx, next)
	switch {
	case errors.Is(err, ErrDeadlineExceeded):
		err = s.due(ctx, &table, next)
	case err == nil:
		err = s.apply(ctx, change, &table)
	}
	if err != nil {
		return true, err
	}
	return false, s.save(ctx)
}

// nextChange waits for a change, until an instant if there is one. A change that makes no sense changes nothing.
func nextChange(ctx Context, until time.Time) (*schedule.Change, error) {
	var o stepOptions
	if !until.IsZero() {
		o.policy.Wait = &policy.Limit{At: max(policy.At(until), 1)}
	}
	spec := &core.StepSpec{Kind: core.KindWait, Event: schedule.Event}
	f := begin[json.RawMessage](ctx, "change", spec, core.Schedule{}, nil, o, nil)
	f.codec = JSON{} // also the command sends changes, which does not know the engine's codec
	text, err := f.Get(ctx)
	if err != nil {
		return nil, err
	}
	var c schedule.Change
	if json.Unmarshal(text, &c) != nil {
		c = schedule.Change{}
	}
	_, err = core.MakeLabels(c.Labels)
	_, headersErr := core.MakeHeaders(c.Headers)
	err = errors.Join(err, headersErr)
	if c.Spec != nil {
		_, specErr := c.Spec.Parse()
		err = errors.Join(err, specErr)
	}
	if err != nil {
		c = schedule.Change{}
	}
	return &c, nil
}

// due starts the run of a firing that is due, unless it is too late by now or overlaps.
func (s *scheduler) due(ctx Context, table *schedule.Timetable, at time.Time) error {
	if Now(ctx).Sub(at) > table.CatchUp {
		s.Miss(table, at.Add(time.Nanosecond), schedule.MissedLate)
		return nil
	}
	fired, err := s.fire(ctx, at)
	if err == nil && !fired {
		s.Miss(table, at.Add(time.Nanosecond), schedule.MissedOverlap)
	}
	s.Due = at
	return err
}

// apply carries out a change.
func (s *scheduler) apply(ctx Context, c *schedule.Change, table *schedule.Timetable) error {
	actor := c.Actor
	if actor == "" {
		actor = "schedule " + s.Name
	}
	switch c.Op {
	case schedule.Trigger:
		req := client.StartRequest{
			Workflow: s.Workflow, ID: c.Run, Input: s.Input, Labels: s.labels(), Headers: s.Headers, Actor: actor,
			Reason: c.Reason,
		}
		if c.Run != "" {
			req.Key = schedule.Prefix + c.Run // a kill after the start starts no second run
		}
		_, err := s.start(ctx, "trigger", req, "")
		return err
	case schedule.Backfill:
		if after := s.Span(table, c.From, c.Before); table.Next(after).Before(c.Before) {
			return s.backfill(ctx, c, after, actor)
		}
	default:
		s.Apply(c, table, Now(ctx))
	}
	return nil
}

// save records the state, for those who describe the schedule.
func (s *scheduler) save(ctx Context) error {
	state := *s.State
	is := func(context.Context) (schedule.State, error) { return state, nil }
	_, err := Step(ctx, schedule.StateStep, is, patient())
	return err
}

// labels returns the labels of the runs that the schedule starts.
func (s *scheduler) labels() map[string]string {
	all := map[string]string{}
	maps.Copy(all, s.Labels)
	all[schedule.Label] = s.Name
	return all
}

// fire starts the run of a firing, as the overlap policy allows. It reports whether it did.
func (s *scheduler) fire(ctx Context, at time.Time) (bool, error) {
	if s.Previous != "" {
		if free, err := s.free(ctx); err != nil || !free {
			return false, err
		}
	}
	notify := ""
	if s.waits() {
		notify = schedule.Prefix + s.Name
	}
	if err := s.begin(ctx, at, notify); err != nil {
		return false, err
	}
	s.Last = at
	return true, nil
}

// begin starts the run of a firing, which is the previous one from then on. The run with the workflow id notify is told
// of its end, if that is not empty.
func (s *scheduler) begin(ctx Context, at time.Time, notify string) error {
	existing, err := s.start(ctx, "start", s.firing(at), notify)
	s.Previous = schedule.RunID(s.Name, at)
	// Somebody else may have started it, such as a backfill: then its end may be told to others only.
	s.Notified = notify != "" && !existing
	return err
}

// firing returns the start of a firing's run. The key makes sure that each firing starts one run.
func (s *scheduler) firing(at time.Time) client.StartRequest {
	id := schedule.RunID(s.Name, at)
	return client.StartRequest{
		Workflow: s.Workflow, ID: id, Key: schedule.Prefix + id, Input: s.Input, Labels: s.labels(),
		Headers: s.Headers, Actor: "schedule " + s.Name,
	}
}

// start starts a run in a step, and reports whether it was there before. If it was not, the run with the workflow id
// notify is told of its end.
func (s *scheduler) start(ctx Context, step string, req client.StartRequest, notify string) (existing bool, err error) {
	req.Deadline = s.deadline
	started, err := Step(ctx, step, func(ctx context.Context) (client.Started, error) {
		started, err := s.runs.startAndTell(ctx, req, notify)
		if errors.Is(err, ErrTooLarge) || errors.Is(err, ErrInvalid) {
			err = NonRetryable(err)
		}
		// This firing has a run already, started with other input: trying again changes nothing.
		if errors.Is(err, ErrConflict) {
			if d, findErr := s.runs.DescribeRun(ctx, req.ID); findErr == nil && d.Workflow == req.Workflow {
				return client.Started{ID: d.ID, Existing: true}, nil
			}
		}
		return started, err
	}, patient())
	return started.Existing, err
}

// waits reports whether the schedule waits for the end of each run before the next one. An event tells it of the end.
func (s *scheduler) waits() bool {
	return s.Overlap == client.OverlapQueue || s.Overlap == client.OverlapCancel
}

// free waits until the run before has ended, or reports that this firing is to be left out.
func (s *scheduler) free(ctx Context) (bool, error) {
	if s.Overlap == client.OverlapCancel {
		err := Do(ctx, "cancel", func(ctx context.Context) error {
			err := s.runs.Operate(ctx, s.Previous,
				Operation{Op: client.OpCancel, Actor: "schedule " + s.Name, Reason: "the next run is due"})
			if errors.Is(err, ErrRunClosed) || errors.Is(err, ErrNotFound) {
				return nil
			}
			return err
		}, patient())
		if err != nil {
			return false, err
		}
	}
	switch {
	case s.waits():
		return true, s.turn(ctx)
	case s.Overlap == client.OverlapAllow:
		return true, nil
	default:
		return s.ended(ctx)
	}
}

// turn waits until the run before has ended.
func (s *scheduler) turn(ctx Context) error {
	// A run of the time before an update may have been started without a note to tell of its end, and so may one that
	// was there already.
	if !s.Notified {
		for {
			if over, err := s.ended(ctx); over || err != nil {
				return err
			}
			if err := Sleep(ctx, "look again", time.Minute); err != nil {
				return err
			}
		}
	}
	ended := &core.StepSpec{Kind: core.KindWait, Event: core.SignalEnded(s.Previous)}
	_, err := begin[struct{}](ctx, "turn", ended, core.Schedule{}, nil, stepOptions{}, nil).Get(ctx)
	return err
}

// ended reports whether the run before has ended.
func (s *scheduler) ended(ctx Context) (bool, error) {
	return Step(ctx, "previous", func(ctx context.Context) (bool, error) {
		d, err := s.runs.DescribeRun(ctx, s.Previous)
		if errors.Is(err, ErrNotFound) {
			return true, nil // it was removed, having ended
		}
		return !d.EndedAt.IsZero(), err
	}, patient())
}

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
