// Package schedules makes schedules, shows them and changes them, over any api.Service.
package schedules

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// Schedule is the present state of a schedule.
type Schedule struct {
	Name       string              `json:"name"`
	Run        string              `json:"run" doc:"The run that the schedule is: its history has who changed it."`
	Workflow   string              `json:"workflow" doc:"The workflow that it starts."`
	Definition string              `json:"definition" doc:"The definition that its next run has."`
	File       string              `json:"file,omitempty" doc:"The file of a server's folder that it comes from."`
	Spec       schedule.Spec       `json:"schedule"`
	Input      json.RawMessage     `json:"input,omitempty"`
	Labels     map[string]string   `json:"labels,omitempty"`
	Headers    map[string]string   `json:"headers,omitempty"`
	Since      api.Time            `json:"since" doc:"The times are as they are since then."`
	Next       api.Time            `json:"next,omitzero" doc:"The next firing; of a paused schedule there is none."`
	Coming     []api.Time          `json:"coming,omitempty" doc:"The next firings, the first of them is next."`
	Last       api.Time            `json:"last,omitzero" doc:"The last firing that started a run."`
	LastRun    string              `json:"lastRun,omitempty"`
	Open       []string            `json:"open,omitempty" doc:"The workflow ids of the runs that have not ended."`
	Waiting    []api.Time          `json:"waiting,omitempty" doc:"Firings that wait for a run before them to end."`
	Skips      []api.Time          `json:"skips,omitempty" doc:"Firings to come that somebody has taken out."`
	Backfills  []schedule.Backfill `json:"backfills,omitempty"`
	Paused     *schedule.Pause     `json:"paused,omitempty"`
	Until      api.Time            `json:"until,omitzero" doc:"Instant at which it ends, with all its runs."`
	Failures   int                 `json:"failures" doc:"Number of runs that have failed one after the other."`
	Fired      int                 `json:"fired" doc:"Firings that started a run."`
	Missed     int                 `json:"missed" doc:"Firings that started none."`
	Recent     []schedule.Missed   `json:"recentMissed,omitempty" doc:"The newest of those, the oldest first."`
	Problem    string              `json:"problem,omitempty" doc:"Reason why it cannot go on until somebody acts."`
}

// Reader is the part of api.Reader that is needed to read a schedule.
type Reader interface {
	Run(ctx context.Context, name string) (*api.Run, error)
	Runs(ctx context.Context, q api.Query) (api.Page, error)
	Definition(ctx context.Context, id string) (api.Definition, error)
}

// Service is the part of api.Service that is needed to change a schedule.
type Service interface {
	Reader
	Start(ctx context.Context, r api.StartRequest) (api.Started, error)
	Send(ctx context.Context, name string, s api.SendRequest) error
	Operate(ctx context.Context, name string, op api.Operation) error
}

// coming is how many firings are shown.
const coming = 5

var open = []api.RunPhase{api.RunPending, api.RunRunning, api.RunWaiting, api.RunPaused}

// mostListed is how many schedules a list has at most.
const mostListed = 1000

// List returns schedules, the newest first: up to 1000.
func List(ctx context.Context, s Reader, now time.Time) ([]Schedule, error) {
	all := []Schedule{}
	for q := (api.Query{Workflow: schedule.Workflow, Phases: open, Limit: 100}); ; {
		page, err := s.Runs(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Runs {
			name, _ := schedule.NameOf(r.WorkflowID)
			one, err := read(ctx, s, r.Run, name, now)
			if api.CodeOf(err) == api.CodeNotFound {
				continue // it has ended meanwhile
			}
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		if q.Cursor = page.Next; page.Next == "" || len(all) >= mostListed {
			return all, nil
		}
	}
}

// Get returns one schedule. Errors: CodeNotFound.
func Get(ctx context.Context, s Reader, name string, now time.Time) (Schedule, error) {
	return read(ctx, s, schedule.Prefix+name, name, now)
}

// Next returns the next n firings of a schedule, whether or not it is paused. Errors: CodeNotFound.
func Next(ctx context.Context, s Reader, name string, n int, now time.Time) ([]api.Time, error) {
	state, _, err := stateOf(ctx, s, schedule.Prefix+name, name)
	if err != nil {
		return nil, err
	}
	table, err := state.Table()
	if err != nil {
		return nil, invalid(err)
	}
	return times(state.Coming(table, now, n)), nil
}

func notFound(name string) error {
	return &api.Error{
		Code: api.CodeNotFound, Message: fmt.Sprintf("there is no schedule %q: see pawl schedule list", name),
	}
}

func invalid(err error) error {
	return &api.Error{Code: api.CodeInvalid, Message: err.Error(), Err: err}
}

// stateOf reads the value of a schedule's run.
func stateOf(ctx context.Context, s Reader, run, name string) (*schedule.State, *api.Run, error) {
	r, err := s.Run(ctx, run)
	switch {
	case api.CodeOf(err) == api.CodeNotFound:
		return nil, nil, notFound(name)
	case err != nil:
		return nil, nil, err
	case r.Workflow != schedule.Workflow || r.Phase.Closed():
		return nil, nil, notFound(name)
	}
	text := r.State
	if len(text) == 0 {
		text = r.Input
	}
	state, err := schedule.Decode(text)
	if err != nil {
		return nil, r, invalid(err)
	}
	state.Begin(r.CreatedAt.Std())
	return state, r, nil
}

// read reads a schedule from its run.
func read(ctx context.Context, s Reader, run, name string, now time.Time) (out Schedule, err error) {
	stored, r, err := stateOf(ctx, s, run, name)
	if err != nil {
		return out, err
	}
	state := stored.Settled(now)
	out = Schedule{
		Name: state.Name, Run: r.Run, Workflow: state.Workflow, Definition: string(state.Definition), File: state.File,
		Spec:  state.Spec,
		Input: state.Input, Labels: state.Labels, Headers: state.Headers, Since: at(state.Since),
		Last: at(state.Last), LastRun: state.LastRun, Waiting: times(state.Waiting), Skips: times(state.Skips),
		Backfills: state.Backfills, Paused: state.Paused, Until: at(state.Until), Failures: state.Failures,
		Fired: state.Fired, Missed: state.Missed, Recent: state.Recent, Problem: r.Message,
	}
	for _, one := range state.Open {
		out.Open = append(out.Open, schedule.RunID(state.Name, one.Firing))
	}
	table, err := state.Table()
	if err != nil || state.Paused != nil {
		return out, nil //nolint:nilerr // times that this version does not read have no firings that it knows
	}
	out.Coming = times(state.Coming(table, now, coming))
	if len(out.Coming) > 0 {
		out.Next = out.Coming[0]
	}
	return out, nil
}

func at(t time.Time) api.Time {
	if t.IsZero() {
		return 0
	}
	return api.At(t)
}

func times(all []time.Time) []api.Time {
	var out []api.Time
	for _, t := range all {
		out = append(out, at(t))
	}
	return out
}
