package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/schedules"
)

func (a scheduleVerbs) scheduleCommand() *cobra.Command {
	return noun("schedule", "Look at the schedules of Go programs, and change them",
		"The schedules of a database: when they start runs, and what they missed. They are made by the program that\n"+
			"they belong to; see pawl.ScheduleOf in its documentation. What is done to them here is kept, and takes\n"+
			"effect as soon as that program runs.",
		a.scheduleListCommand(), a.scheduleShowCommand(),
		a.scheduleVerbCommand(schedule.Pause, "Start no runs until it is resumed"),
		a.scheduleVerbCommand(schedule.Resume, "Let a schedule go on with its next firing"),
		a.scheduleVerbCommand(schedule.Trigger, "Start a run now, also while the schedule is paused"),
		a.scheduleVerbCommand(schedule.Backfill, "Start runs for the firings of a span that have none"))
}

func (a scheduleVerbs) scheduleVerbCommand(verb, short string) *cobra.Command {
	var from, before string
	cmd := &cobra.Command{
		Use: verb + " NAME", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			c := schedules.ScheduleChange{Actor: a.who(), Reason: a.reason}
			if c.From, err = readInstant(a.clockOf(cmd.Context()), "--from", from); err != nil {
				return err
			}
			if c.Before, err = readInstant(a.clockOf(cmd.Context()), "--before", before); err != nil {
				return err
			}
			return a.changeSchedule(cmd.Context(), args[0], verb, c)
		},
	}
	if verb == schedule.Backfill {
		cmd.Flags().StringVar(&from, "from", "", "the first firing: an age such as 2d, or an instant")
		cmd.Flags().StringVar(&before, "before", "", "where the span ends: an age such as 2h, or an instant")
	}
	return cmd
}

func (a scheduleVerbs) changeSchedule(ctx context.Context, name, verb string, c schedules.ScheduleChange) error {
	m, err := a.start(ctx, false)
	if err != nil {
		return err
	}
	out, err := schedules.Do(ctx, m.svc, name, verb, c, a.runsNow(ctx))
	if err := errors.Join(err, m.close()); err != nil {
		return err
	}
	switch {
	case a.structured():
		return a.print(out)
	case out.WorkflowID != "":
		a.say("schedule %s: %s is kept; its run will have the workflow id %s", screen.Clean(name), verb,
			screen.Clean(out.WorkflowID))
	default:
		a.say("schedule %s: %s is kept", screen.Clean(name), verb)
	}
	return nil
}

func (a scheduleVerbs) scheduleListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List schedules, the newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.reading(cmd.Context(), a.listSchedules)
		},
	}
}

func (a scheduleVerbs) listSchedules(ctx context.Context, svc api.Service) error {
	all, err := schedules.List(ctx, svc, a.runsNow(ctx))
	if err != nil {
		return err
	}
	if a.structured() {
		return a.print(all)
	}
	if len(all) == 0 {
		a.say("There is no schedule.")
		return nil
	}
	now := api.At(a.runsNow(ctx))
	cells := make([][]string, len(all))
	for i, s := range all {
		cells[i] = []string{
			screen.Clean(s.Name), screen.Clean(s.Workflow), strings.TrimSpace(s.Spec.Cron + " " + s.Spec.Zone),
			nextFiring(&s, now), whenOf(&s, s.Last), fmt.Sprint(s.Missed),
		}
	}
	return a.table([]string{"NAME", "WORKFLOW", "SCHEDULE", "NEXT", "LAST", "MISSED"}, cells)
}

func (a scheduleVerbs) scheduleShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a schedule: its firings, and what it missed", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				s, err := schedules.Get(ctx, svc, args[0], a.runsNow(ctx))
				if err != nil {
					return err
				}
				if a.structured() {
					return a.print(s)
				}
				a.showSchedule(&s, api.At(a.runsNow(ctx)))
				return nil
			})
		},
	}
}

func (a scheduleVerbs) showSchedule(s *schedules.Schedule, now api.Time) {
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
	fact("next", nextFiring(s, now))
	fact("last", strings.TrimSpace(whenOf(s, s.Last)+"  "+screen.Clean(s.LastRun)))
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

func nextFiring(s *schedules.Schedule, now api.Time) string {
	switch {
	case s.Paused != 0:
		return "paused since " + live.Local(s.Paused)
	case s.Next == 0:
		return "never"
	case s.Next <= now:
		return "due since " + screen.For(now.Sub(s.Next))
	default:
		return whenOf(s, s.Next) + ", in " + screen.For(s.Next.Sub(now))
	}
}

// whenOf formats an instant in the schedule's zone.
func whenOf(s *schedules.Schedule, at api.Time) string {
	if at == 0 {
		return "-"
	}
	zone, err := time.LoadLocation(s.Spec.Zone)
	if err != nil {
		zone = time.UTC
	}
	return at.Std().In(zone).Format(time.DateTime)
}
