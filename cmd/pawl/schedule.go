package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedule"
)

func (a *app) scheduleCommand() *cobra.Command {
	return noun("schedule", "Look at the schedules of Go programs",
		"The schedules of a database: when they start runs, and what they missed. They are changed, paused and\n"+
			"triggered by the program that they belong to; see pawl.ScheduleOf in its documentation.",
		a.scheduleListCommand(), a.scheduleShowCommand())
}

// shownSchedule is a schedule as -o json prints it.
type shownSchedule struct {
	Name     string            `json:"name"`
	Run      string            `json:"run"`
	Workflow string            `json:"workflow"`
	Spec     schedule.Spec     `json:"schedule"`
	Labels   map[string]string `json:"labels,omitempty"`
	Next     api.Time          `json:"next,omitzero"`
	Last     api.Time          `json:"last,omitzero"`
	LastRun  string            `json:"lastRun,omitempty"`
	Paused   api.Time          `json:"paused,omitzero"`
	Deadline api.Time          `json:"deadline,omitzero"`
	Missed   int               `json:"missed"`
	Recent   []schedule.Missed `json:"recentMissed,omitempty"`
}

func (a *app) scheduleListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List schedules, the newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.reading(cmd.Context(), a.listSchedules)
		},
	}
}

func (a *app) listSchedules(ctx context.Context, svc api.Service) error {
	all := []shownSchedule{}
	q := api.Query{Workflow: schedule.Workflow, Phases: openPhases, Limit: 100}
	for {
		page, err := svc.Runs(ctx, q)
		if err != nil {
			return err
		}
		for _, r := range page.Runs {
			s, err := readSchedule(ctx, svc, r.Run)
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		if q.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	if a.structured() {
		return a.print(all)
	}
	if len(all) == 0 {
		a.say("There is no schedule.")
		return nil
	}
	now := apiNow()
	cells := make([][]string, len(all))
	for i, s := range all {
		cells[i] = []string{
			screen.Clean(s.Name), screen.Clean(s.Workflow), strings.TrimSpace(s.Spec.Cron + " " + s.Spec.Zone),
			nextFiring(&s, now), s.when(s.Last), fmt.Sprint(s.Missed),
		}
	}
	return a.table([]string{"NAME", "WORKFLOW", "SCHEDULE", "NEXT", "LAST", "MISSED"}, cells)
}

func (a *app) scheduleShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a schedule: its firings, and what it missed", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				s, err := readSchedule(ctx, svc, schedule.Prefix+args[0])
				if err != nil {
					return err
				}
				if a.structured() {
					return a.print(s)
				}
				a.showSchedule(&s)
				return nil
			})
		},
	}
}

func (a *app) showSchedule(s *shownSchedule) {
	fact := func(label, text string) {
		if text != "" {
			a.say("  %s%s", screen.Pad(label, 10), text)
		}
	}
	a.say("%s starts runs of %s", screen.Clean(s.Name), screen.Clean(s.Workflow))
	fact("cron", strings.TrimSpace(s.Spec.Cron+" "+s.Spec.Zone))
	fact("overlap", string(s.Spec.Overlap))
	fact("catch up", s.Spec.CatchUp)
	fact("run", s.Run)
	fact("next", nextFiring(s, apiNow()))
	fact("last", strings.TrimSpace(s.when(s.Last)+"  "+screen.Clean(s.LastRun)))
	if s.Deadline != 0 {
		fact("until", live.Local(s.Deadline))
	}
	fact("missed", fmt.Sprint(s.Missed))
	for _, m := range s.Recent {
		text := live.Local(api.At(m.From))
		if m.Count > 1 {
			text += " to " + live.Local(api.At(m.To))
		}
		fact("", fmt.Sprintf("%s  %s: %s", text, count(m.Count, "firing"), missedReason(m.Reason)))
	}
}

// missedReason says why firings started no run.
func missedReason(reason string) string {
	switch reason {
	case schedule.MissedLate:
		return "the program was not there within the catch-up window"
	case schedule.MissedPaused:
		return "the schedule was paused"
	case schedule.MissedOverlap:
		return "the run before had not ended"
	default:
		return screen.Clean(reason)
	}
}

func nextFiring(s *shownSchedule, now api.Time) string {
	switch {
	case s.Paused != 0:
		return "paused since " + live.Local(s.Paused)
	case s.Next == 0:
		return "never"
	case s.Next <= now:
		return "due since " + screen.For(now.Sub(s.Next))
	default:
		return s.when(s.Next) + ", in " + screen.For(s.Next.Sub(now))
	}
}

// when is an instant in the schedule's zone.
func (s *shownSchedule) when(at api.Time) string {
	if at == 0 {
		return "-"
	}
	zone, err := time.LoadLocation(s.Spec.Zone)
	if err != nil {
		zone = time.UTC
	}
	return at.Std().In(zone).Format(time.DateTime)
}

func noSuchSchedule(run string) error {
	return &api.Error{
		Code:    api.CodeNotFound,
		Message: fmt.Sprintf("there is no schedule %q: see pawl schedule list", schedule.NameOf(run)),
	}
}

// readSchedule reads a schedule from its run.
func readSchedule(ctx context.Context, svc api.Service, run string) (out shownSchedule, err error) {
	r, err := svc.Run(ctx, run)
	if err != nil {
		if api.CodeOf(err) == api.CodeNotFound {
			return out, noSuchSchedule(run)
		}
		return out, err
	}
	if r.Workflow != schedule.Workflow || r.Phase.Closed() {
		return out, noSuchSchedule(run)
	}
	var last []byte
	for _, s := range r.Steps {
		if schedule.IsState(s.Step) && s.Phase == api.StepSucceeded {
			last = s.Output
		}
	}
	s, err := schedule.Read(r.Input, last)
	if err != nil {
		return out, fmt.Errorf("schedule %q cannot be read: its program may encode values in another way than JSON: %w",
			schedule.NameOf(r.WorkflowID), err)
	}
	if s.Due.IsZero() {
		s.Due = r.CreatedAt.Std()
	}
	out = shownSchedule{
		Name: s.Name, Run: r.Run, Workflow: s.Workflow, Spec: s.Spec, Labels: s.Labels, LastRun: s.Previous,
		Deadline: r.Deadline, Missed: s.Missed, Recent: s.Recent,
	}
	for to, from := range map[*api.Time]time.Time{
		&out.Next: s.Next(clockNow()), &out.Last: s.Last, &out.Paused: s.Paused,
	} {
		if !from.IsZero() {
			*to = api.At(from)
		}
	}
	return out, nil
}
