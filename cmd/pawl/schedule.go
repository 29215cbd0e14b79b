package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
	return noun("schedule", "Look at schedules, and change them",
		"The schedules of a database: when they start runs, which runs those are, and what was missed and why.\n"+
			"A flow with a cron has one (pawl run FILE, pawl server FOLDER); Go programs make theirs with\n"+
			"EnsureSchedule. Each firing starts a run of its own, which is operated on like any other:\n"+
			"pawl run list --schedule NAME.",
		a.scheduleListCommand(), a.scheduleShowCommand(), a.scheduleWeekCommand(), a.scheduleNextCommand(),
		a.scheduleVerbCommand(schedule.OpPause, "Start no runs until it is resumed; say why with --reason"),
		a.scheduleVerbCommand(schedule.OpResume, "Let a schedule go on with its next firing"),
		a.scheduleVerbCommand(schedule.OpTrigger, "Start a run now, also while the schedule is paused"),
		a.scheduleVerbCommand(schedule.OpSkip, "Take one firing out: the next one, or --firing"),
		a.scheduleVerbCommand(schedule.OpUnskip, "Take a firing in again that was taken out"),
		a.scheduleVerbCommand(schedule.OpBackfill, "Start runs for the firings of a span that have none"),
		a.scheduleVerbCommand(schedules.VerbRemove, "End a schedule; its runs go on"))
}

// scheduleFlags are the flags of the verbs for schedules.
type scheduleFlags struct {
	from, before, firing string
	change               schedules.ScheduleChange
}

func (a scheduleVerbs) scheduleVerbCommand(verb, short string) *cobra.Command {
	var f scheduleFlags
	cmd := &cobra.Command{
		Use: verb + " NAME", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			c := &f.change
			c.Actor, c.Reason = a.who(), a.reason
			clock := a.clockOf(cmd.Context())
			for _, at := range []struct {
				flag, text string
				to         *api.Time
			}{{"--from", f.from, &c.From}, {"--before", f.before, &c.Before}, {"--firing", f.firing, &c.Firing}} {
				if *at.to, err = readInstant(clock, at.flag, at.text); err != nil {
					return err
				}
			}
			return a.changeSchedule(cmd.Context(), args[0], verb, f.change)
		},
	}
	flags := cmd.Flags()
	switch verb {
	case schedule.OpBackfill:
		flags.StringVar(&f.from, "from", "", "the first firing: an age such as 2d, or an instant")
		flags.StringVar(&f.before, "before", "", "where the span ends: an age such as 2h, or an instant; default now")
		flags.BoolVar(&f.change.AtOnce, "at-once", false, "the runs do not wait for one another")
		flags.IntVar(&f.change.Limit, "limit", 0, "refuse to make up for more firings than this; default 100")
		flags.BoolVar(&f.change.DryRun, "dry-run", false, "say how many firings the span has, and start nothing")
	case schedule.OpSkip, schedule.OpUnskip:
		flags.StringVar(&f.firing, "firing", "", "the instant of the firing")
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
	if a.structured() {
		return a.print(out)
	}
	a.say("schedule %s: %s", screen.Clean(name), a.changedText(ctx, verb, &c, &out))
	return nil
}

// changedText reports what a change has done.
func (a scheduleVerbs) changedText(
	ctx context.Context, verb string, c *schedules.ScheduleChange, out *schedules.ScheduleChanged,
) string {
	s := &out.Schedule
	next := "next: " + nextFiring(s, api.At(a.runsNow(ctx)))
	switch verb {
	case schedule.OpPause:
		if p := s.Paused; p != nil && (p.Reason != c.Reason || p.Actor != c.Actor) {
			return fmt.Sprintf("was paused already, by %s: %s; that stays", screen.Clean(p.Actor),
				screen.Clean(p.Reason))
		}
		return "paused; nothing begins before it is resumed, and what is missed meanwhile is counted"
	case schedule.OpResume:
		text := "resumed; " + next
		if n := len(s.Recent); n > 0 && s.Recent[n-1].Reason == schedule.MissedPaused {
			text += fmt.Sprintf("; %s missed meanwhile: pawl schedule backfill %s --from %s",
				count(s.Recent[n-1].Count, "firing"), screen.Clean(s.Name), s.Recent[n-1].From.Format(time.RFC3339))
		}
		return text
	case schedule.OpTrigger:
		text := "a run begins: " + screen.Clean(out.WorkflowID)
		if !a.joined && a.server == "" {
			text += "; nothing carries it on: pawl resume " + screen.Clean(s.Name)
		}
		return text
	case schedule.OpSkip:
		return whenOf(s, out.Firing) + " is taken out; " + next
	case schedule.OpUnskip:
		return whenOf(s, out.Firing) + " is taken in again; " + next
	case schedule.OpBackfill:
		text := fmt.Sprintf("the span has %s", count(out.Firings, "firing"))
		switch {
		case c.DryRun:
			return text
		case c.AtOnce:
			return text + "; those that have no run get one at once"
		default:
			return text + "; those that have no run get one, each when the one before has ended"
		}
	case schedules.VerbRemove:
		return "removed; its runs go on"
	default:
		return verb + " is done"
	}
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
			nextFiring(&s, now), whenOf(&s, s.Last), fmt.Sprint(s.Fired), fmt.Sprint(s.Missed),
		}
	}
	return a.table([]string{"NAME", "WORKFLOW", "SCHEDULE", "NEXT", "LAST", "FIRED", "MISSED"}, cells)
}

func (a scheduleVerbs) scheduleWeekCommand() *cobra.Command {
	return &cobra.Command{
		Use: "week", Short: "Show what all schedules start in a week", Args: cobra.NoArgs,
		Long: "Shows the firings from three days ago to three days ahead, by day in UTC: ✓ started a run that " +
			"succeeded, ✗ one that failed, ▶ one that is open, ! started none, · is to come.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.reading(cmd.Context(), a.week)
		},
	}
}

// week prints the firings of a week.
func (a scheduleVerbs) week(ctx context.Context, svc api.Service) error {
	now := a.runsNow(ctx)
	from := now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -3)
	w, err := schedules.WeekFrom(ctx, svc, from, now)
	if err != nil {
		return err
	}
	if a.structured() {
		return a.print(w)
	}
	if len(w.Schedules) == 0 {
		a.say("There is no schedule.")
		return nil
	}
	head := []string{"NAME"}
	for day := range 7 {
		head = append(head, strings.ToUpper(from.AddDate(0, 0, day).Format("Mon 2")))
	}
	cells := make([][]string, len(w.Schedules))
	for i, s := range w.Schedules {
		cells[i] = append([]string{screen.Clean(s.Schedule)}, daysOf(&s, from)...)
	}
	return a.table(head, cells)
}

// daysOf counts the firings of a week by day: ✓23 ✗1.
func daysOf(s *schedules.InWeek, from time.Time) []string {
	var days [7]schedules.Hour
	for _, h := range s.Hours {
		d := &days[min(max(int(h.At.Std().Sub(from)/(24*time.Hour)), 0), 6)]
		d.Succeeded, d.Failed, d.Running = d.Succeeded+h.Succeeded, d.Failed+h.Failed, d.Running+h.Running
		d.Missed, d.Coming = d.Missed+h.Missed, d.Coming+h.Coming
	}
	out := make([]string, len(days))
	for i, d := range days {
		var parts []string
		for _, p := range []struct {
			sign string
			n    int
		}{{"✓", d.Succeeded}, {"✗", d.Failed}, {"▶", d.Running}, {"!", d.Missed}, {"·", d.Coming}} {
			if p.n > 0 {
				parts = append(parts, p.sign+strconv.Itoa(p.n))
			}
		}
		out[i] = strings.Join(parts, " ")
	}
	return out
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

func (a scheduleVerbs) scheduleNextCommand() *cobra.Command {
	return &cobra.Command{
		Use: "next NAME [N]", Short: "Show the next N firings of a schedule; default 10", Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n := 10
			if len(args) > 1 {
				var err error
				if n, err = strconv.Atoi(args[1]); err != nil || n < 1 || n > 1000 {
					return usage("%q: the number of firings is from 1 to 1000", args[1])
				}
			}
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				s, err := schedules.Get(ctx, svc, args[0], a.runsNow(ctx))
				if err != nil {
					return err
				}
				all, err := schedules.Next(ctx, svc, args[0], n, a.runsNow(ctx))
				if err != nil {
					return err
				}
				if a.structured() {
					return a.print(all)
				}
				for _, at := range all {
					a.say("%s", zoned(&s, at).Format("Mon 2006-01-02 15:04:05 -07:00 MST"))
				}
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
	fact("except", s.Spec.Except)
	fact("overlap", string(s.Spec.Overlap))
	fact("catch up", s.Spec.CatchUp)
	fact("jitter", s.Spec.Jitter)
	fact("timeout", s.Spec.Timeout)
	fact("not after", s.Spec.NotAfter)
	fact("input", screen.Clean(string(s.Input)))
	fact("labels", pairs(s.Labels))
	fact("headers", pairs(s.Headers))
	fact("run", s.Run)
	fact("next", nextFiring(s, now))
	if s.Paused != nil {
		fact("why", screen.Clean(s.Paused.Reason))
	}
	for _, at := range s.Skips {
		fact("skips", whenOf(s, at))
	}
	fact("last", strings.TrimSpace(whenOf(s, s.Last)+"  "+screen.Clean(s.LastRun)))
	fact("open", screen.Clean(strings.Join(s.Open, ", ")))
	for _, at := range s.Waiting {
		fact("waits", whenOf(s, at))
	}
	for _, b := range s.Backfills {
		fact("backfill", fmt.Sprintf("%s started, until %s", count(b.Started, "run"), whenOf(s, api.At(b.Before))))
	}
	if s.Until != 0 {
		fact("until", live.Local(s.Until))
	}
	fact("fired", fmt.Sprint(s.Fired))
	if s.Failures > 0 {
		fact("failed", count(s.Failures, "run")+" one after the other")
	}
	fact("missed", fmt.Sprint(s.Missed))
	for _, m := range s.Recent {
		text := whenOf(s, api.At(m.From))
		if m.Count > 1 {
			text += " to " + whenOf(s, api.At(m.To))
		}
		fact("", fmt.Sprintf("%s  %s: %s", text, count(m.Count, "firing"), missedReason(m.Reason, m.Note)))
	}
	fact("problem", screen.Clean(s.Problem))
}

// pairs formats labels or headers, in the order of their names.
func pairs(all map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, screen.Clean(name+"="+all[name]))
	}
	return strings.Join(out, ", ")
}

// missedReason reports why firings started no run.
func missedReason(reason, note string) string {
	switch reason {
	case schedule.MissedLate:
		return "no engine was there to start it within the catch-up window"
	case schedule.MissedPaused:
		return "the schedule was paused"
	case schedule.MissedOverlap:
		return "a run before had not ended"
	case schedule.MissedSkipped:
		return "it was taken out"
	case schedule.MissedNotAfter:
		return "its latest time of day had passed"
	case schedule.MissedRefused:
		return "its run could not be started: " + screen.Clean(note)
	default:
		return screen.Clean(reason)
	}
}

func nextFiring(s *schedules.Schedule, now api.Time) string {
	switch {
	case s.Paused != nil:
		return "paused since " + live.Local(api.At(s.Paused.At))
	case s.Next == 0:
		return "never"
	case s.Next <= now:
		return "due since " + screen.For(now.Sub(s.Next))
	default:
		return zoned(s, s.Next).Format(time.DateTime+" MST") + ", in " + screen.For(s.Next.Sub(now))
	}
}

// zoned returns an instant in the schedule's zone.
func zoned(s *schedules.Schedule, at api.Time) time.Time {
	zone, err := time.LoadLocation(s.Spec.Zone)
	if err != nil {
		zone = time.UTC
	}
	return at.Std().In(zone)
}

// whenOf formats an instant in the schedule's zone.
func whenOf(s *schedules.Schedule, at api.Time) string {
	if at == 0 {
		return "-"
	}
	return zoned(s, at).Format(time.DateTime)
}
