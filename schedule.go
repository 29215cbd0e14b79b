package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/kind"
	kindschedule "github.com/pawl-dev/pawl/internal/kind/schedule"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/schedules"
	"github.com/pawl-dev/pawl/internal/told"
)

// scheduleWorkflow returns the workflow that schedules are runs of. Every engine has it.
func scheduleWorkflow() Definition {
	d := kindschedule.Definition()
	made, err := kindschedule.Read(d)
	if err != nil {
		return &Workflow[any, any]{def: &definition{name: d.Name, err: err}}
	}
	return &Workflow[any, any]{def: &definition{name: d.Name, document: &kind.Foreign{
		Source: d, Definition: made.Definition, Begin: made.Begin,
	}}}
}

// EnsureSchedule makes a schedule of that name, which starts runs of the workflow. If there is one already, what is
// different about it, such as its times, input or labels, is changed from its next firing on. So a program calls this
// each time it starts. Each run is independent of the others. It has the workflow id "name@instant", the labels of the
// options, and the label "pawl.schedule" with the name.
//
// The schedule is kept in the database and goes on with the program that opens it. It is a run itself, with the
// workflow id "@name"; its history has who changed it, and why. The option RunDeadline ends a new schedule
// with all its runs.
func (w *Workflow[In, Out]) EnsureSchedule(ctx context.Context, c Client, name string, s client.Schedule, in In,
	opts ...StartOption,
) (ScheduleHandle, error) {
	h := ScheduleOf(c, name)
	if err := usable(ctx, c); err != nil {
		return h, err
	}
	if err := wrap("name", checkName(name)); err != nil {
		return h, invalid(err, "schedule %q", name)
	}
	req := client.StartRequest{Workflow: schedule.Workflow, ID: schedule.Prefix + name}
	if err := applied(opts, &req); err != nil {
		return h, invalid(err, "schedule %q", name)
	}
	if req.IdempotencyKey != "" || req.UseExisting || req.ID != schedule.Prefix+name {
		return h, invalid(errors.New("a schedule has no idempotency key: its name is enough"), "schedule %q", name)
	}
	if err := errors.Join(w.definition().err, checkCarried(name, &req)); err != nil {
		return h, err
	}
	if err := c.Register(w); err != nil {
		return h, err
	}
	codec := w.definition().codec(c.Codec())
	at := place{kind: kindInput, workflow: w.definition().name}
	input, err := encode(ctx, codec, "the input of workflow "+w.definition().name, at, in)
	if err != nil {
		return h, err
	}
	d := w.definition().source()
	h.Actor = req.Actor
	state := &schedule.State{
		Spec: told.Spec(s), Name: name, Until: req.Deadline,
		Target: schedule.Target{
			Workflow: d.Name, Kind: d.Kind, Definition: schedule.ID(d.ID.String()), Source: string(d.Source),
			Input: input, Labels: req.Labels, Headers: req.Headers,
		},
	}
	_, err = schedules.Ensure(ctx, clientRuns{c}, state, req.Actor, req.Reason)
	return h, h.ownError(err)
}

// checkCarried checks the labels and headers of the runs that a schedule will start.
func checkCarried(name string, r *client.StartRequest) error {
	_, labels := core.MakeLabels(r.Labels)
	_, headers := core.MakeHeaders(r.Headers)
	return invalid(errors.Join(labels, headers), "schedule %q", name)
}

// ScheduleHandle names a schedule. What it does is durable and in effect when it returns. Errors: ErrNotFound,
// ErrInvalid, ErrClosed.
type ScheduleHandle struct {
	Name   string
	Actor  string // the caller that changes the schedule, for its history
	client Client
}

// ScheduleOf names a schedule. Whether it exists is not looked up.
func ScheduleOf(c Client, name string) ScheduleHandle { return ScheduleHandle{Name: name, client: c} }

// ownError makes an error of this package of one that an operation on a schedule returned.
func (h ScheduleHandle) ownError(err error) error {
	switch api.CodeOf(err) {
	case "":
		return err
	case api.CodeNotFound:
		return fmt.Errorf("pawl: there is no schedule %q: %w", h.Name, ErrNotFound)
	case api.CodeInvalid:
		return invalid(err, "schedule %q", h.Name)
	default:
		return err
	}
}

// Describe returns the schedule as it stands.
func (h ScheduleHandle) Describe(ctx context.Context) (client.ScheduleDescription, error) {
	if err := h.named(ctx); err != nil {
		return client.ScheduleDescription{}, err
	}
	s, err := schedules.Get(ctx, clientRuns{h.client}, h.Name, time.Now())
	return described(&s), h.ownError(err)
}

// named returns an error for a handle that names no schedule, or has no client.
func (h ScheduleHandle) named(ctx context.Context) error {
	if h.Name == "" {
		return invalid(errors.New("the name is empty"), "schedule")
	}
	return usable(ctx, h.client)
}

// described returns a schedule in the words of package client.
func described(s *schedules.Schedule) client.ScheduleDescription {
	out := client.ScheduleDescription{
		Schedule: told.Schedule(s.Spec).(client.Schedule), Name: s.Name, Workflow: s.Workflow, Input: s.Input,
		Labels: s.Labels, Headers: s.Headers, Next: s.Next.Std(), Last: s.Last.Std(), LastRun: s.LastRun,
		Open: s.Open, Fired: s.Fired,
		Missed: s.Missed, Failures: s.Failures, Deadline: s.Until.Std(), Problem: s.Problem,
	}
	if p := s.Paused; p != nil {
		out.Paused, out.PauseReason = p.At, p.Reason
	}
	for _, m := range s.Recent {
		out.RecentMissed = append(out.RecentMissed, client.MissedFirings(m))
	}
	return out
}

// do changes the schedule.
func (h ScheduleHandle) do(
	ctx context.Context, verb string, c schedules.ScheduleChange, reason string,
) (schedules.ScheduleChanged, error) {
	if err := h.named(ctx); err != nil {
		return schedules.ScheduleChanged{}, err
	}
	c.Actor, c.Reason = h.Actor, reason
	out, err := schedules.Do(ctx, clientRuns{h.client}, h.Name, verb, c, time.Now())
	return out, h.ownError(err)
}

// Update gives the schedule other times and rules. What the new ones would have fired before now is not made up for;
// what a paused schedule has missed until now is counted as before.
func (h ScheduleHandle) Update(ctx context.Context, s client.Schedule, reason string) error {
	spec := told.Spec(s)
	_, err := h.do(ctx, schedule.OpUpdate, schedules.ScheduleChange{Spec: &spec}, reason)
	return err
}

// Pause lets the schedule start no runs until Resume. The firings meanwhile count as missed.
func (h ScheduleHandle) Pause(ctx context.Context, reason string) error {
	_, err := h.do(ctx, schedule.OpPause, schedules.ScheduleChange{}, reason)
	return err
}

// Resume lets a paused schedule go on with its next firing.
func (h ScheduleHandle) Resume(ctx context.Context, reason string) error {
	_, err := h.do(ctx, schedule.OpResume, schedules.ScheduleChange{}, reason)
	return err
}

// Trigger starts a run now, whatever the overlap policy says and also while the schedule is paused. It returns the
// workflow id of the run.
func (h ScheduleHandle) Trigger(ctx context.Context, reason string) (string, error) {
	out, err := h.do(ctx, schedule.OpTrigger, schedules.ScheduleChange{}, reason)
	return out.WorkflowID, err
}

// Skip leaves out one firing that is to come; zero: the next one. It returns that firing.
func (h ScheduleHandle) Skip(ctx context.Context, firing time.Time, reason string) (time.Time, error) {
	var c schedules.ScheduleChange
	if !firing.IsZero() {
		c.Firing = api.At(firing)
	}
	out, err := h.do(ctx, schedule.OpSkip, c, reason)
	return out.Firing.Std(), err
}

// Backfill starts runs for the firings of a span, from ≤ firing < before, that have started none yet: one after
// another, or all at once if the schedule allows overlaps. It returns how many firings the span has. It refuses a span
// that ends in the future, and one of more than 10,000 firings.
func (h ScheduleHandle) Backfill(ctx context.Context, from, before time.Time, reason string) (int, error) {
	d, err := h.Describe(ctx)
	if err != nil {
		return 0, err
	}
	out, err := h.do(ctx, schedule.OpBackfill, schedules.ScheduleChange{
		From: api.At(from), Before: api.At(before), AtOnce: d.Overlap == client.OverlapAllow,
		Limit: schedule.MostBackfilled,
	}, reason)
	return out.Firings, err
}

// Delete ends the schedule. Runs that it has started go on.
func (h ScheduleHandle) Delete(ctx context.Context, reason string) error {
	_, err := h.do(ctx, schedules.VerbRemove, schedules.ScheduleChange{}, reason)
	return err
}

// ListSchedules describes all schedules, the newest first.
func (e *local) ListSchedules(ctx context.Context) ([]client.ScheduleDescription, error) {
	return listSchedules(ctx, e)
}

func (c *connected) ListSchedules(ctx context.Context) ([]client.ScheduleDescription, error) {
	return listSchedules(ctx, c)
}

func listSchedules(ctx context.Context, c Client) ([]client.ScheduleDescription, error) {
	all, err := schedules.List(ctx, clientRuns{c}, time.Now())
	var out []client.ScheduleDescription
	for i := range all {
		out = append(out, described(&all[i]))
	}
	return out, err
}

// clientRuns lets package schedules work with the runs of a client.
type clientRuns struct{ Client }

var _ schedules.Service = clientRuns{}

func (c clientRuns) Run(ctx context.Context, name string) (*api.Run, error) {
	d, err := c.DescribeRun(ctx, name)
	if err != nil {
		return nil, coded(err)
	}
	out := &api.Run{
		RunSummary: api.RunSummary{
			Run: d.ID, Workflow: d.Workflow, WorkflowID: d.WorkflowID, Phase: api.RunPhase(d.Phase),
			CreatedAt: api.At(d.CreatedAt), Message: d.Problem,
		},
		Input: d.Input, State: d.State,
	}
	return out, nil
}

func (c clientRuns) Runs(ctx context.Context, q api.Query) (api.Page, error) {
	asked := client.Query{Workflow: q.Workflow, Limit: q.Limit, After: q.Cursor}
	for _, p := range q.Phases {
		asked.Phases = append(asked.Phases, client.Phase(p))
	}
	all, err := c.ListRuns(ctx, asked)
	var page api.Page
	for _, r := range all {
		page.Runs = append(page.Runs, api.RunSummary{Run: r.ID, WorkflowID: r.WorkflowID})
	}
	if len(all) == q.Limit {
		page.Next = all[len(all)-1].ID
	}
	return page, err
}

// Definition implements schedules.Reader. A client does not say what is stored: so a schedule has it with it.
func (clientRuns) Definition(context.Context, string) (api.Definition, error) {
	return api.Definition{}, &api.Error{Code: api.CodeNotFound, Message: "a client does not read definitions"}
}

func (c clientRuns) Start(ctx context.Context, r api.StartRequest) (api.Started, error) {
	s, err := c.StartRun(ctx, client.StartRequest{
		Workflow: schedule.Workflow, ID: r.WorkflowID, Input: r.Input, Actor: r.Actor, Reason: r.Reason,
	})
	return api.Started{Run: s.ID}, coded(err)
}

func (c clientRuns) Send(ctx context.Context, name string, s api.SendRequest) error {
	r := client.SendRequest{Name: s.Name, Payload: s.Payload, Actor: s.Actor}
	return coded(c.SendEvent(ctx, name, r))
}

func (c clientRuns) Operate(ctx context.Context, name string, op api.Operation) error {
	asked := Operation{Op: client.Op(op.Operation), Actor: op.Actor, Reason: op.Reason}
	return coded(c.Client.Operate(ctx, name, asked))
}

// coded gives an error its code, where only the errors of this package tell it.
func coded(err error) error {
	if err == nil || api.CodeOf(err) != "" {
		return err
	}
	for code, known := range map[api.Code]error{
		api.CodeNotFound: ErrNotFound, api.CodeConflict: ErrConflict, api.CodeRunClosed: ErrRunClosed,
		api.CodeInvalid: ErrInvalid, api.CodeClosed: ErrClosed,
	} {
		if errors.Is(err, known) {
			return &api.Error{Code: code, Message: err.Error(), Err: err}
		}
	}
	return err
}
