package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/schedules"
	"github.com/pawl-dev/pawl/internal/service"
)

// scheduleOf returns the schedule of a flow with a cron, as the flags and the file define it.
func scheduleOf(c *compiled, req *api.StartRequest, name string) *schedule.State {
	spec := c.Doc.Cron.Spec()
	if req.Timeout != nil {
		spec.Timeout = req.Timeout.After.String()
	}
	return &schedule.State{
		Name: name, Spec: spec, Until: req.Deadline.Std(),
		Target: schedule.Target{
			Workflow: req.Definition.Name, Kind: req.Definition.Kind, Definition: schedule.ID(req.Definition.ID),
			Source: req.Definition.Source, Input: req.Input, Labels: req.Labels, Headers: req.Headers,
		},
	}
}

// runSchedule makes the schedule of a flow with a cron, or changes the existing one, and carries on it and its runs
// until it is interrupted.
func (a runVerbs) runSchedule(
	ctx context.Context, c *compiled, f *startFlags, req *api.StartRequest, how telling,
) error {
	if f.key != "" || f.queue != (api.RunQueue{}) {
		return usage("flow %q has a cron: its schedule, %q, is there once, and a flow says its queue itself; leave "+
			"out --key and --queue", c.Doc.Name, c.Doc.Name)
	}
	name := f.id
	if name == "" {
		name = c.Doc.Name
	}
	tops, err := a.scheduleFamily(ctx, name)
	if err != nil {
		return err
	}
	m, err := a.start(ctx, !f.detach, tops...)
	if err != nil {
		return err
	}
	if m.place.Memory && f.detach {
		return errors.Join(usage("--detach with a database in memory: would lose the schedule; "+
			"use --database sqlite:PATH"), m.close())
	}
	want, once := scheduleOf(c, req, name), schedules.ScheduleChange{Actor: a.who(), Reason: a.reason}
	if err := a.beforeSchedule(ctx, m.svc, c, f, want, &once); err != nil {
		return errors.Join(err, m.close())
	}
	ensured, err := schedules.Ensure(ctx, m.svc, want, req.Actor, req.Reason)
	var s schedules.Schedule
	var now schedules.ScheduleChanged
	if err == nil && f.now {
		now, err = schedules.Do(ctx, m.svc, name, schedule.OpTrigger, once, a.runsNow(ctx))
	}
	if err == nil {
		s, err = schedules.Get(ctx, m.svc, name, a.runsNow(ctx))
	}
	if err != nil {
		return errors.Join(err, m.close())
	}
	text := a.ensuredText(ctx, &s, ensured, want)
	if f.now {
		text += "; a run begins now"
		if once.Own != nil && once.Own.Input != nil {
			text += ", and it alone has the input " + screen.Clean(string(once.Own.Input))
		}
	}
	if f.detach {
		return errors.Join(a.tellDetached(&s, text), m.close())
	}
	if how != tellQuiet && how != tellJSON {
		fmt.Fprintf(a.Err, "pawl: %s\n", text)
	}
	ids := []string{s.Run}
	if run := a.triggered(ctx, m.svc, now.WorkflowID); run != "" {
		ids = append(ids, run)
	}
	return a.carry(ctx, m, ids, how)
}

// beforeSchedule checks what the flags say beside an existing schedule. With --now what they say of a run is for that
// run alone: want keeps what the schedule has, and once gets the rest.
func (a runVerbs) beforeSchedule(
	ctx context.Context, svc api.Service, c *compiled, f *startFlags, want *schedule.State,
	once *schedules.ScheduleChange,
) error {
	is, err := schedules.Get(ctx, svc, want.Name, a.runsNow(ctx))
	made := api.CodeOf(err) != api.CodeNotFound
	if made && err != nil {
		return err
	}
	if made && f.deadline != "" && !want.Until.Equal(is.Until.Std()) {
		return usage("--deadline is the end of a schedule that is made, and schedule %q is there already: leave it "+
			"out, or end the schedule with pawl schedule remove %[1]s first", want.Name)
	}
	if !f.now {
		return nil
	}
	if len(f.input)+len(f.labels)+len(f.headers) > 0 {
		once.Own = &schedule.Target{Labels: want.Labels, Headers: want.Headers}
	}
	if len(f.input) > 0 {
		once.Own.Input = want.Input
	}
	if f.timeout != "" {
		once.OwnTimeout = want.Timeout
	}
	want.Input, want.Labels, want.Headers = is.Input, is.Labels, is.Headers
	want.Timeout = is.Spec.Timeout
	if _, err := c.Doc.Start(want.Input); err != nil && made {
		return usage("the input of schedule %q, %s, does not fit the flow: %w\ngive the schedule another with pawl "+
			"run FILE --input NAME=VALUE, without --now", want.Name, orNone(want.Input), err)
	} else if err != nil {
		return usage("schedule %q is not made yet, and the input of --now is for one run only: %w\nmake the schedule "+
			"first, with the input of all its runs: pawl run FILE --detach --input NAME=VALUE", want.Name, err)
	}
	return nil
}

// orNone returns an input as a person reads it.
func orNone(input []byte) string {
	if len(input) == 0 {
		return "none"
	}
	return screen.Clean(string(input))
}

// triggered waits for the run that a schedule was told to begin, and returns its id, empty if it has not begun in time.
func (a runVerbs) triggered(ctx context.Context, svc api.Service, workflowID string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for workflowID != "" {
		if r, err := svc.Run(ctx, workflowID); err == nil {
			return r.Run
		}
		select {
		case <-time.After(frameEvery):
		case <-ctx.Done():
			return ""
		}
	}
	return ""
}

// tellDetached prints that the schedule exists, and who carries it on.
func (a runVerbs) tellDetached(s *schedules.Schedule, text string) error {
	if a.structured() {
		return a.print(s)
	}
	on := "a server carries it: pawl server, or pawl resume " + screen.Clean(s.Name)
	if a.joined {
		on = "the process that has the database carries it"
	}
	a.say("%s; %s", text, on)
	return nil
}

// ensuredText reports what happened to a schedule, and when it fires next.
func (a runVerbs) ensuredText(
	ctx context.Context, s *schedules.Schedule, e schedules.Ensured, want *schedule.State,
) string {
	state := "was there already, and nothing is changed"
	switch {
	case e.Made:
		state = "is new"
	case len(e.Changed) > 0:
		state = "has changed (" + strings.Join(e.Changed, ", ") + "), which counts from its next firing on"
	}
	if slices.Contains(e.Changed, "input") {
		state += "; the input of all its runs is now " + orNone(want.Input)
	}
	return fmt.Sprintf("schedule %s %s; it fires next: %s", screen.Clean(s.Name), state,
		nextFiring(s, api.At(a.runsNow(ctx))))
}

// scheduleFamily returns the families that a process carries on for a schedule: its own, and those of its open runs.
// There are none if it does not exist yet.
func (a *app) scheduleFamily(ctx context.Context, name string) (tops []core.RunID, err error) {
	if a.server == "" {
		p, err := a.where()
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(p.Path); p.Path != "" && errors.Is(err, os.ErrNotExist) {
			return nil, nil // the schedule makes the database
		}
		if p.Memory {
			return nil, nil
		}
	}
	err = a.reading(ctx, func(ctx context.Context, svc api.Service) error {
		r, err := svc.Run(ctx, schedule.Prefix+name)
		if api.CodeOf(err) == api.CodeNotFound {
			return nil
		}
		if err != nil || r.Phase.Closed() {
			return err
		}
		_, tops, err = familyOf(ctx, svc, r)
		return err
	})
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	}
	return tops, err
}

// familyOf returns the runs to follow and the families to carry of a schedule's run.
func familyOf(ctx context.Context, svc api.Service, r *api.Run) (ids []string, tops []core.RunID, err error) {
	top, err := service.TopOf(ctx, svc, r)
	if err != nil {
		return nil, nil, err
	}
	ids, tops = append(ids, r.Run), append(tops, top)
	name, _ := schedule.NameOf(r.WorkflowID)
	q := api.Query{Labels: map[string]string{schedule.Label: name}, Phases: openPhases, Top: true, Limit: 500}
	for more := true; more; {
		page, err := svc.Runs(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		for _, row := range page.Runs {
			run, err := svc.Run(ctx, row.Run)
			if err != nil {
				return nil, nil, err
			}
			if top, err = service.TopOf(ctx, svc, run); err != nil {
				return nil, nil, err
			}
			ids, tops = append(ids, row.Run), append(tops, top)
		}
		more, q.Cursor = page.Next != "" && len(tops) < maxFollowed, page.Next
	}
	return ids, tops, nil
}

// runOfSchedule returns the open run of a schedule if the name is that of a schedule and not of a run, empty if it is
// not, or if the schedule has no open run, or several.
func runOfSchedule(ctx context.Context, svc api.Service, name string, now time.Time) (*schedules.Schedule, string) {
	s, err := schedules.Get(ctx, svc, name, now)
	if err != nil {
		return nil, ""
	}
	if len(s.Open) == 1 {
		return &s, s.Open[0]
	}
	return &s, ""
}

// findRun reads the run that an operation is about. The name of a schedule can stand for its open run: whoever cancels
// "nightly" means tonight's run, and the schedule goes on.
func (a *app) findRun(ctx context.Context, svc api.Service, name string) (*api.Run, error) {
	r, err := svc.Run(ctx, name)
	if api.CodeOf(err) != api.CodeNotFound {
		return r, err
	}
	s, run := runOfSchedule(ctx, svc, name, a.runsNow(ctx))
	switch {
	case s == nil:
		return nil, err
	case run == "":
		return nil, &api.Error{
			Code:    api.CodeNotFound,
			Message: fmt.Sprintf("%q is a schedule, and has %s", name, count(len(s.Open), "open run")),
			Hint: fmt.Sprintf("its runs are shown by pawl run list --schedule %s, itself by pawl schedule show %s; "+
				"pawl schedule pause, resume, trigger or remove %s is about the schedule", name, name, name),
		}
	}
	fmt.Fprintf(a.Err, "pawl: %s is a schedule, and goes on (next: %s); this is about its run %s\n", screen.Clean(name),
		nextFiring(s, api.At(a.runsNow(ctx))), screen.Clean(run))
	return svc.Run(ctx, run)
}
