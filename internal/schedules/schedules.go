// Package schedules shows the schedules of Go programs and changes them, over any api.Service.
package schedules

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// Schedule is a schedule as it stands.
type Schedule struct {
	Name     string            `json:"name"`
	Run      string            `json:"run"`
	Workflow string            `json:"workflow"`
	Spec     schedule.Spec     `json:"schedule"`
	Labels   map[string]string `json:"labels,omitempty"`
	Next     api.Time          `json:"next,omitzero"`
	Coming   []api.Time        `json:"coming,omitempty" doc:"The next firings, the first of them is next."`
	Last     api.Time          `json:"last,omitzero"`
	LastRun  string            `json:"lastRun,omitempty"`
	Paused   api.Time          `json:"paused,omitzero"`
	Deadline api.Time          `json:"deadline,omitzero"`
	Missed   int               `json:"missed"`
	Recent   []schedule.Missed `json:"recentMissed,omitempty"`
}

// ScheduleChange is a change of a schedule, with its actor.
type ScheduleChange struct {
	From   api.Time `json:"from,omitzero" doc:"backfill: the first firing that is made up for."`
	Before api.Time `json:"before,omitzero" doc:"backfill: where that ends."`
	Actor  string   `json:"actor,omitempty"`
	Reason string   `json:"reason,omitempty"`
}

// ScheduleChanged answers a change.
type ScheduleChanged struct {
	// WorkflowID is that of the run that a trigger or a backfill starts, once the schedule's program runs.
	WorkflowID string `json:"workflowId,omitempty"`
}

// coming is how many firings are shown.
const coming = 5

var open = []api.RunPhase{api.RunPending, api.RunRunning, api.RunWaiting, api.RunPaused}

// List returns all schedules, the newest first.
func List(ctx context.Context, s api.Reader, now time.Time) ([]Schedule, error) {
	all := []Schedule{}
	for q := (api.Query{Workflow: schedule.Workflow, Phases: open, Limit: 100}); ; {
		page, err := s.Runs(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Runs {
			one, err := read(ctx, s, r.Run, schedule.NameOf(r.WorkflowID), now)
			if api.CodeOf(err) == api.CodeNotFound {
				continue // it has ended meanwhile
			}
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		if q.Cursor = page.Next; page.Next == "" {
			return all, nil
		}
	}
}

// Get returns one schedule. Errors: CodeNotFound.
func Get(ctx context.Context, s api.Reader, name string, now time.Time) (Schedule, error) {
	return read(ctx, s, schedule.Prefix+name, name, now)
}

func notFound(name string) error {
	return &api.Error{
		Code: api.CodeNotFound, Message: fmt.Sprintf("there is no schedule %q: see pawl schedule list", name),
	}
}

// read reads a schedule from its run.
func read(ctx context.Context, s api.Reader, run, name string, now time.Time) (out Schedule, err error) {
	r, err := s.Run(ctx, run)
	if err != nil {
		if api.CodeOf(err) == api.CodeNotFound {
			return out, notFound(name)
		}
		return out, err
	}
	if r.Workflow != schedule.Workflow || r.Phase.Closed() {
		return out, notFound(name)
	}
	var last []byte
	for _, st := range r.Steps {
		if schedule.IsState(st.Step) && st.Phase == api.StepSucceeded {
			last = st.Output
		}
	}
	state, err := schedule.Read(r.Input, last)
	if err != nil {
		return out, fmt.Errorf("schedule %q cannot be read: its program may encode values in another way than JSON: %w",
			schedule.NameOf(r.WorkflowID), err)
	}
	if state.Due.IsZero() {
		state.Due = r.CreatedAt.Std()
	}
	out = Schedule{
		Name: state.Name, Run: r.Run, Workflow: state.Workflow, Spec: state.Spec, Labels: state.Labels,
		LastRun: state.Previous, Deadline: r.Deadline, Missed: state.Missed, Recent: state.Recent,
		Next: at(state.Next(now)), Last: at(state.Last), Paused: at(state.Paused),
	}
	table, err := state.Parse()
	if err != nil {
		return out, nil //nolint:nilerr // a timetable that this version does not read has no firings that it knows
	}
	for next := out.Next.Std(); !next.IsZero() && len(out.Coming) < coming; next = table.Next(next) {
		out.Coming = append(out.Coming, at(next))
	}
	return out, nil
}

func at(t time.Time) api.Time {
	if t.IsZero() {
		return 0
	}
	return api.At(t)
}

// Do changes a schedule. It is durable then, and takes effect as soon as the schedule's program runs. Errors:
// CodeNotFound, CodeInvalid.
func Do(
	ctx context.Context, s api.Service, name, verb string, c ScheduleChange, now time.Time,
) (out ScheduleChanged, err error) {
	change := schedule.Change{Op: verb, Actor: c.Actor, Reason: c.Reason}
	switch verb {
	case schedule.Pause, schedule.Resume:
	case schedule.Trigger:
		out.WorkflowID = schedule.TriggerID(name, now)
	case schedule.Backfill:
		if c.From == 0 || c.Before <= c.From {
			return out, &api.Error{
				Code: api.CodeInvalid, Message: "a backfill needs a span: from, and before, which is later",
			}
		}
		change.From, change.Before = c.From.Std(), c.Before.Std()
		out.WorkflowID = schedule.BackfillID(name, change.From, change.Before)
	default:
		return out, &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf("a schedule knows no %q", verb)}
	}
	if verb != schedule.Backfill && (c.From != 0 || c.Before != 0) {
		return out, &api.Error{Code: api.CodeInvalid, Message: "from and before are for a backfill"}
	}
	if _, err := Get(ctx, s, name, now); err != nil {
		return ScheduleChanged{}, err
	}
	change.Run = out.WorkflowID
	payload, err := json.Marshal(change)
	if err != nil {
		return ScheduleChanged{}, err
	}
	err = s.Send(ctx, schedule.Prefix+name, api.SendRequest{
		Name: schedule.Event, Payload: payload, Actor: c.Actor, Reason: c.Reason,
	})
	switch api.CodeOf(err) {
	case "":
		return out, nil
	case api.CodeNotFound, api.CodeRunClosed:
		return ScheduleChanged{}, notFound(name)
	default:
		return ScheduleChanged{}, err
	}
}
