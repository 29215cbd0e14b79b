package pawl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// EnsureSchedule makes a schedule of that name, which starts runs of the workflow. If there is one, it is changed where
// it has another timetable, workflow, input or labels. So a program calls this each time it starts. Each run has the
// workflow id "name@instant", the labels of the options, and the label "pawl.schedule" with the name.
//
// The schedule is kept in the database and goes on with the program that opens it. It is a run itself, with the
// workflow id "schedule:name"; its history has who changed it, and why. The option RunDeadline ends a new schedule
// with all its runs.
func (w *Workflow[In, Out]) EnsureSchedule(ctx context.Context, c Client, name string, s client.Schedule, in In,
	opts ...StartOption,
) (ScheduleHandle, error) {
	h := ScheduleOf(c, name)
	_, err := schedule.Spec(s).Parse()
	if err := errors.Join(err, wrap("name", checkName(name))); err != nil {
		return h, invalid(err, "schedule %q", name)
	}
	req := client.StartRequest{Workflow: schedule.Workflow, ID: schedule.Prefix + name}
	for _, opt := range opts {
		opt(&req)
	}
	if req.Key != "" || req.UseExisting || req.ID != schedule.Prefix+name {
		return h, invalid(errors.New("a schedule has no idempotency key: its name is enough"), "schedule %q", name)
	}
	if err := errors.Join(w.def.err, checkCarried(name, &req)); err != nil {
		return h, err
	}
	if err := c.Register(w); err != nil {
		return h, err
	}
	at := place{kind: kindInput, workflow: w.def.name}
	input, err := encode(ctx, w.def.codec(c.Codec()), "the input of workflow "+w.def.name, at, in)
	if err != nil {
		return h, err
	}
	state := schedule.State{
		Spec: schedule.Spec(s), Name: name, Workflow: w.def.name, Input: input,
		Labels: req.Labels, Headers: req.Headers,
	}
	at = place{kind: kindInput, workflow: schedule.Workflow}
	if req.Input, err = encode(ctx, c.Codec(), "the schedule", at, state); err != nil {
		return h, err
	}
	h.Actor = req.Actor
	for {
		_, is, err := h.state(ctx)
		switch {
		case err == nil:
			return h, h.ensure(ctx, &is, &state, req.Reason)
		case !errors.Is(err, ErrNotFound):
			return h, err
		}
		if _, err = c.StartRun(ctx, req); !errors.Is(err, ErrConflict) {
			return h, err
		}
	}
}

// ensure changes a schedule that differs from what is wanted.
func (h ScheduleHandle) ensure(ctx context.Context, is, want *schedule.State, reason string) error {
	change := schedule.Change{Op: schedule.Update, Reason: reason}
	if is.Spec != want.Spec {
		change.Spec = &want.Spec
	}
	if is.Workflow != want.Workflow || !sameJSON(is.Input, want.Input) || !maps.Equal(is.Labels, want.Labels) ||
		!maps.Equal(is.Headers, want.Headers) {
		change.Workflow, change.Input = want.Workflow, want.Input
		change.Labels, change.Headers = want.Labels, want.Headers
	}
	if change.Spec == nil && change.Workflow == "" {
		return nil
	}
	return h.change(ctx, change)
}

// sameJSON compares two texts as they are stored within a state.
func sameJSON(a, b json.RawMessage) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// checkCarried checks the labels and headers of the runs that a schedule will start.
func checkCarried(name string, r *client.StartRequest) error {
	_, labels := core.MakeLabels(r.Labels)
	_, headers := core.MakeHeaders(r.Headers)
	return invalid(errors.Join(labels, headers), "schedule %q", name)
}

// ScheduleHandle names a schedule. What it does is durable when it returns, and takes effect as soon as the program
// that has the schedule's workflow runs; while the schedule waits for its turn, when that has come. Errors:
// ErrNotFound, ErrInvalid, ErrClosed.
type ScheduleHandle struct {
	Name   string
	Actor  string // who changes the schedule, for its history
	client Client
}

// ScheduleOf names a schedule. Whether it exists is not looked up.
func ScheduleOf(c Client, name string) ScheduleHandle { return ScheduleHandle{Name: name, client: c} }

// Describe returns the schedule as it stands.
func (h ScheduleHandle) Describe(ctx context.Context) (client.ScheduleDescription, error) {
	d, s, err := h.state(ctx)
	if err != nil {
		return client.ScheduleDescription{}, err
	}
	out := client.ScheduleDescription{
		Schedule: client.Schedule(s.Spec), Name: s.Name, Workflow: s.Workflow, Input: s.Input, Labels: s.Labels,
		Headers: s.Headers,
		Next:    s.Next(time.Now()), Last: s.Last, LastRun: s.Previous, Paused: s.Paused, Missed: s.Missed,
		Deadline: d.Deadline, Problem: d.Problem,
	}
	for _, m := range s.Recent {
		out.RecentMissed = append(out.RecentMissed, client.MissedFirings(m))
	}
	return out, nil
}

// state reads what is stored of the schedule.
func (h ScheduleHandle) state(ctx context.Context) (d client.Description, s schedule.State, err error) {
	if h.Name == "" {
		return d, s, invalid(errors.New("the name is empty"), "schedule")
	}
	d, err = h.client.DescribeRun(ctx, schedule.Prefix+h.Name)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && !d.EndedAt.IsZero():
		return d, s, fmt.Errorf("pawl: there is no schedule %q: %w", h.Name, ErrNotFound)
	case err != nil:
		return d, s, err
	case d.Workflow != schedule.Workflow:
		return d, s, fmt.Errorf("pawl: the workflow id %q is taken by a run of workflow %q: %w",
			schedule.Prefix+h.Name, d.Workflow, ErrConflict)
	}
	stored, at := d.Input, placeOf(kindInput, d.ID, d.Workflow, "")
	for i := range d.Steps {
		if st := &d.Steps[i]; schedule.IsState(st.Name) && st.Phase == client.PhaseSucceeded {
			stored, at.kind, at.name = st.Output, kindOutput, st.Name
		}
	}
	s, err = decode[schedule.State](ctx, h.client.Codec(), "schedule "+h.Name, at, stored)
	if s.Due.IsZero() {
		s.Due = d.CreatedAt
	}
	return d, s, err
}

// change sends the schedule a change.
func (h ScheduleHandle) change(ctx context.Context, c schedule.Change) error {
	c.Actor = h.Actor
	payload, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if h.Name == "" {
		return invalid(errors.New("the name is empty"), "schedule")
	}
	r := client.SendRequest{Name: schedule.Event, Payload: payload, Actor: c.Actor}
	err = h.client.SendEvent(ctx, schedule.Prefix+h.Name, r)
	if errors.Is(err, ErrRunClosed) || errors.Is(err, ErrNotFound) {
		return fmt.Errorf("pawl: there is no schedule %q: %w", h.Name, ErrNotFound)
	}
	return err
}

// Update gives the schedule another timetable. What the new one would have fired before now is not made up for.
func (h ScheduleHandle) Update(ctx context.Context, s client.Schedule, reason string) error {
	spec := schedule.Spec(s)
	if _, err := spec.Parse(); err != nil {
		return invalid(err, "schedule %q", h.Name)
	}
	return h.change(ctx, schedule.Change{Op: schedule.Update, Spec: &spec, Reason: reason})
}

// Pause lets the schedule start no runs until Resume. The firings meanwhile count as missed.
func (h ScheduleHandle) Pause(ctx context.Context, reason string) error {
	return h.change(ctx, schedule.Change{Op: schedule.Pause, Reason: reason})
}

// Resume lets a paused schedule go on with its next firing.
func (h ScheduleHandle) Resume(ctx context.Context, reason string) error {
	return h.change(ctx, schedule.Change{Op: schedule.Resume, Reason: reason})
}

// Trigger starts a run now, whatever the overlap policy says and also while the schedule is paused. It returns the
// workflow id that the run will have.
func (h ScheduleHandle) Trigger(ctx context.Context, reason string) (string, error) {
	id := schedule.TriggerID(h.Name, time.Now())
	return id, h.change(ctx, schedule.Change{Op: schedule.Trigger, Run: id, Reason: reason})
}

// Backfill starts runs for the firings of a span, from ≤ firing < before, that have started none yet: one after
// another, or all at once if the schedule allows overlaps. It returns the workflow id of the run that does so.
func (h ScheduleHandle) Backfill(ctx context.Context, from, before time.Time, reason string) (string, error) {
	if !from.Before(before) {
		return "", invalid(fmt.Errorf("from %s to %s is no span", from, before), "backfill schedule %q", h.Name)
	}
	id := schedule.BackfillID(h.Name, from, before)
	return id, h.change(ctx, schedule.Change{
		Op: schedule.Backfill, Run: id, From: from.UTC(), Before: before.UTC(), Reason: reason,
	})
}

// Delete ends the schedule. Runs that it has started go on.
func (h ScheduleHandle) Delete(ctx context.Context, reason string) error {
	if _, _, err := h.state(ctx); err != nil {
		return err
	}
	if reason == "" {
		reason = "the schedule was deleted"
	}
	end := Operation{Op: client.OpTerminate, Actor: h.Actor, Reason: reason}
	return h.client.Operate(ctx, schedule.Prefix+h.Name, end)
}

// ListSchedules describes all schedules, the newest first.
func ListSchedules(ctx context.Context, c Client) ([]client.ScheduleDescription, error) {
	var out []client.ScheduleDescription
	open := []client.Phase{client.PhasePending, client.PhaseRunning, client.PhaseWaiting, client.PhasePaused}
	q := client.Query{Workflow: schedule.Workflow, Phases: open, Limit: 100}
	for {
		runs, err := c.ListRuns(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			d, err := ScheduleOf(c, schedule.NameOf(r.WorkflowID)).Describe(ctx)
			switch {
			case err == nil:
				out = append(out, d)
			case !errors.Is(err, ErrNotFound): // it has ended meanwhile
				return nil, err
			}
			q.After = r.ID
		}
		if len(runs) < q.Limit {
			return out, nil
		}
	}
}
