package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/cron"
	"github.com/pawl-dev/pawl/internal/engine"
)

// scheduler is the name of the workflow that every engine has: a schedule is a run of it.
const scheduler = "pawl.schedule"

// schedulePrefix begins the workflow id of a schedule's run.
const schedulePrefix = "schedule:"

// historyLength is after how many firings a schedule continues as a new run, so that its history stays short.
const historyLength = 100

// Overlap says what a schedule does when the run before has not ended.
type Overlap string

// The overlap policies.
const (
	OverlapSkip   Overlap = "skip"   // this firing is left out (the default)
	OverlapQueue  Overlap = "queue"  // it waits for its turn
	OverlapCancel Overlap = "cancel" // the run before is told to stop, then it begins
	OverlapAllow  Overlap = "allow"  // both run
)

// Schedule starts runs of a workflow again and again.
type Schedule struct {
	// Cron has five fields (minute hour day month weekday), or is "@daily", "@every 90m" and the like.
	Cron string `json:"cron"`
	Zone string `json:"zone,omitempty"` // IANA name; default UTC
	// Skipped says what happens to a local time that the clocks skip: "shift" to the instant of the change (the
	// default), or "skip". Repeated says what happens to one that they show twice: "first" (the default) or "both". A
	// schedule whose hour is * runs by elapsed time, and neither adds nor leaves out a firing.
	Skipped  string  `json:"skipped,omitempty"`
	Repeated string  `json:"repeated,omitempty"`
	Overlap  Overlap `json:"overlap,omitempty"`
	// CatchUp is how late a firing may be, after an outage: "10m". Later ones are left out. Default 1m.
	CatchUp string `json:"catchUp,omitempty"`
}

// scheduled is the state of a schedule, the input of its runs.
type scheduled struct {
	Schedule
	Name     string          `json:"name"`
	Workflow string          `json:"workflow"`
	Input    json.RawMessage `json:"input"`
	Due      time.Time       `json:"due"`      // the last firing, zero: none
	Previous string          `json:"previous"` // the last run's workflow id; empty: none
}

// timetable is a schedule, parsed.
type timetable struct {
	cron.Timetable
	catchUp time.Duration
}

func (s Schedule) parse() (timetable, error) {
	t := timetable{catchUp: time.Minute}
	table, err := s.table()
	t.Timetable = table
	switch s.Overlap {
	case "", OverlapSkip, OverlapQueue, OverlapCancel, OverlapAllow:
	default:
		err = errors.Join(err, fmt.Errorf("overlap: %q where skip, queue, cancel or allow is expected", s.Overlap))
	}
	if s.CatchUp != "" {
		d, catchErr := duration.Parse(s.CatchUp)
		err = errors.Join(err, wrap("catchUp", catchErr))
		t.catchUp = d
	}
	return t, err
}

// table reads when a schedule fires.
func (s Schedule) table() (t cron.Timetable, err error) {
	var errs [4]error
	t.Spec, errs[0] = cron.Parse(s.Cron)
	t.Zone, errs[1] = cron.ParseZone(s.Zone)
	t.Gap, errs[2] = cron.ParseGap(s.Skipped)
	t.Fold, errs[3] = cron.ParseFold(s.Repeated)
	return t, errors.Join(errs[0], wrap("zone", errs[1]), wrap("skipped", errs[2]), wrap("repeated", errs[3]))
}

// Next returns the first n firings after t. It is how to look at a schedule before it is made.
func (s Schedule) Next(t time.Time, n int) ([]time.Time, error) {
	table, err := s.parse()
	if err != nil {
		return nil, err
	}
	var out []time.Time
	for range n {
		t = table.Next(t)
		out = append(out, t)
	}
	return out, nil
}

// CreateSchedule begins to start runs of the workflow. Each is a run of its own, with the workflow id "name@instant".
// The schedule itself is a run with the workflow id "schedule:name": pause, resume, cancel and describe it as any run.
// The option RunDeadline ends the schedule with all its runs. If a schedule of that name exists, the error is
// ErrConflict.
func CreateSchedule[In, Out any](ctx context.Context, c Client, name string, s Schedule, w *Workflow[In, Out], in In,
	opts ...StartOption,
) error {
	if _, err := s.parse(); err != nil {
		return invalid(err, "schedule %q", name)
	}
	if err := errors.Join(w.def.err, wrap("schedule", checkName(name))); err != nil {
		return err
	}
	if r, ok := c.(interface{ Register(...Definition) error }); ok {
		if err := r.Register(w); err != nil {
			return err
		}
	}
	input, err := encode(w.def.codec(c.Codec()), "the input of workflow "+w.def.name, in)
	if err != nil {
		return err
	}
	state, err := encode(c.Codec(), "the schedule",
		scheduled{Schedule: s, Name: name, Workflow: w.def.name, Input: input})
	if err != nil {
		return err
	}
	req := StartRequest{Workflow: scheduler, ID: schedulePrefix + name, Input: state}
	for _, opt := range opts {
		opt(&req)
	}
	_, err = c.StartRun(ctx, req)
	return err
}

// DeleteSchedule ends a schedule. Runs that it has started go on.
func DeleteSchedule(ctx context.Context, c Client, name string) error {
	return c.Operate(ctx, schedulePrefix+name, Operation{Op: OpTerminate, Reason: "the schedule was deleted"})
}

// scheduleWorkflow is the workflow that schedules are runs of.
func scheduleWorkflow(e *Engine) *Workflow[scheduled, struct{}] {
	return Define(scheduler, func(ctx Context, s scheduled) (struct{}, error) {
		table, err := s.parse()
		if err != nil {
			return struct{}{}, err
		}
		if s.Due.IsZero() {
			s.Due = Now(ctx)
		}
		for range historyLength {
			// Of the firings that an outage missed, only those that are not too late are made up for.
			s.Due = table.Next(later(s.Due, Now(ctx).Add(-table.catchUp-time.Nanosecond)))
			if s.Due.IsZero() {
				return struct{}{}, nil
			}
			if err := SleepUntil(ctx, "until", s.Due); err != nil {
				return struct{}{}, err
			}
			if Now(ctx).Sub(s.Due) > table.catchUp {
				continue
			}
			if err := s.fire(ctx, e); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, ContinueAsNew(ctx, s)
	})
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// fire starts the run that is due, as the overlap policy allows.
func (s *scheduled) fire(ctx Context, e *Engine) error {
	patient := RetryWith(RetryPolicy{MaxAttempts: -1, MaxInterval: time.Minute})
	if s.Previous != "" {
		free, err := s.free(ctx, e, patient)
		if err != nil || !free {
			return err
		}
	}
	deadline, id := Info(ctx).Deadline, s.Name+"@"+s.Due.UTC().Format(time.RFC3339)
	_, err := Step(ctx, "start", func(ctx context.Context) (Started, error) {
		req := StartRequest{
			Workflow: s.Workflow, ID: id, Key: schedulePrefix + id, Input: s.Input, Deadline: deadline,
			Actor: "schedule " + s.Name,
		}
		started, err := e.startRun(ctx, req, func(r *engine.StartRequest) error {
			if s.waits() {
				r.Notify = schedulePrefix + s.Name
			}
			return nil
		})
		if errors.Is(err, ErrTooLarge) {
			err = NonRetryable(err)
		}
		// This firing has a run already, started with other input: trying again changes nothing.
		if errors.Is(err, ErrConflict) {
			if d, findErr := e.DescribeRun(ctx, id); findErr == nil && d.Workflow == s.Workflow {
				return Started{ID: d.ID, Existing: true}, nil
			}
		}
		return started, err
	}, patient)
	if err != nil {
		return err
	}
	s.Previous = id
	return nil
}

// waits reports whether the schedule waits for the end of each run before the next one. An event tells it of the end.
func (s *scheduled) waits() bool { return s.Overlap == OverlapQueue || s.Overlap == OverlapCancel }

// free waits until the run before has ended, or reports that this firing is to be left out.
func (s *scheduled) free(ctx Context, e *Engine, patient StepOption) (bool, error) {
	if s.Overlap == OverlapCancel {
		err := Do(ctx, "cancel", func(ctx context.Context) error {
			err := e.Operate(ctx, s.Previous,
				Operation{Op: OpInterrupt, Actor: "schedule " + s.Name, Reason: "the next run is due"})
			if errors.Is(err, ErrRunClosed) || errors.Is(err, ErrNotFound) {
				return nil
			}
			return err
		}, patient)
		if err != nil {
			return false, err
		}
	}
	switch {
	case s.waits():
		ended := &core.StepSpec{Kind: core.KindWait, Event: core.SignalEnded(s.Previous)}
		_, err := begin[struct{}](ctx, "turn", ended, core.Schedule{}, nil, stepOptions{}, nil).Get(ctx)
		return err == nil, err
	case s.Overlap == OverlapAllow:
		return true, nil
	}
	return Step(ctx, "previous", func(ctx context.Context) (bool, error) {
		d, err := e.DescribeRun(ctx, s.Previous)
		if errors.Is(err, ErrNotFound) {
			return true, nil // it was removed, having ended
		}
		return !d.EndedAt.IsZero(), err
	}, patient)
}
