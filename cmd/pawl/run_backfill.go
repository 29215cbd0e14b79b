package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cron"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// mostFirings is how many firings a backfill makes up for unless --limit says another number, and mostBackfilled is the
// highest such number.
const (
	mostFirings    = 100
	mostBackfilled = 10_000
)

// backfillFlags are what `pawl run backfill` takes.
type backfillFlags struct {
	start        startFlags
	from, before string
	limit        int
	dry          bool
}

// firing is an instant at which a flow's cron fired, and its run.
type firing struct {
	At         api.Time     `json:"scheduledAt"`
	WorkflowID string       `json:"workflowId"`      // the workflow id of the run that makes up for it
	Run        string       `json:"run,omitempty"`   // the run that exists already
	Phase      api.RunPhase `json:"phase,omitempty"` // the phase of that run
	open       bool         // the run was started by an earlier backfill and has not ended
}

func (a runVerbs) runBackfillCommand() *cobra.Command {
	var f backfillFlags
	cmd := &cobra.Command{
		Use: "backfill FILE --from INSTANT", Short: "Start runs for the firings of a flow's cron that have none",
		Args: cobra.ExactArgs(1), Annotations: map[string]string{following: "yes"},
		Long: `Starts a run for each firing of the flow's cron in a span that has none, the oldest first, each when the
one before has ended. In such a run, run.scheduledAt is the firing, and no run follows by cron. A run that fails does
not hold up the next one; the exit status is that of the first failure.

A firing that has a run, of a cron or of an earlier backfill, gets no other one, however that run ended. So a backfill
that was interrupted goes on when it is asked for again. The firings of an interval (@every) are counted from
--from.`,
		Example: "  pawl run backfill report.yaml --from 2026-01-05T00:00:00Z --before 2026-01-08T00:00:00Z " +
			"--dry-run\n" +
			"  pawl run backfill report.yaml --from 7d",
		RunE: func(cmd *cobra.Command, args []string) error { return a.backfill(cmd.Context(), args[0], &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "the first firing: an age such as 2d, or an instant")
	flags.StringVar(&f.before, "before", "", "where the span ends: an age such as 2h, or an instant; default now")
	flags.IntVar(&f.limit, "limit", mostFirings, "refuse to make up for more firings than this")
	flags.BoolVar(&f.dry, "dry-run", false, "show the firings, and start nothing")
	flags.BoolVar(&f.start.detach, "detach", false,
		"start all runs at once and leave: they do not wait for one another")
	flags.StringArrayVar(&f.start.input, "input", nil, "name=value (JSON, else text), or @file.json; repeatable")
	flags.StringVar(&f.start.timeout, "timeout", "", "limit of each run, instead of the flow's: 30m")
	flags.StringArrayVar(&f.start.labels, "label", nil, "key=value, to find the runs by with pawl run list; repeatable")
	return cmd
}

// backfill makes up for the firings of a span.
func (a runVerbs) backfill(ctx context.Context, file string, f *backfillFlags) error {
	c, table, req, err := a.readOnce(file, f)
	if err != nil {
		return err
	}
	firings, err := f.firings(c.Doc.Name, table, a.clockOf(ctx))
	if err != nil {
		return err
	}
	if err := a.findRuns(ctx, c.Doc.Name, firings); err != nil {
		return err
	}
	if f.dry {
		return a.tellFirings(firings)
	}
	if err := a.checkPlaceholders(ctx, c.Doc, true); err != nil {
		return err
	}
	started := 0
	var failed error
	for _, one := range firings {
		if one.Run != "" && !one.open {
			continue
		}
		started++
		req.WorkflowID, req.Key = one.WorkflowID, one.WorkflowID
		begin := func(ctx context.Context, svc api.Service) (api.Started, error) { return svc.Start(ctx, req) }
		err := a.startRun(ctx, begin, !f.start.detach, a.chooseTelling(false, false))
		var ended *statusError
		switch {
		case err == nil:
		case errors.As(err, &ended) && ended.err == nil && ended.status != exitCancelled:
			failed = cmp.Or(failed, err)
		default:
			return err
		}
	}
	fmt.Fprintf(a.Err, "pawl: %s started; %s had a run already\n", count(started, "run"),
		count(len(firings)-started, "firing"))
	return failed
}

// readOnce reads a flow with a cron, as it is run for one firing, and returns its timetable and what starts such a run.
func (a runVerbs) readOnce(file string, f *backfillFlags) (
	c *compiled, t cron.Timetable, req api.StartRequest, err error,
) {
	if c, err = a.load(file, &f.start.sources); err != nil {
		return nil, t, req, err
	}
	table := c.Doc.Cron
	if table == nil {
		return nil, t, req, usage("flow %q has no cron, so no firing of it was missed; start it with pawl run",
			screen.Clean(c.Doc.Name))
	}
	t, err = schedule.Spec{
		Cron: table.Schedule, Zone: table.Zone, Skipped: table.Skipped, Repeated: table.Repeated,
	}.Table()
	if err != nil {
		return nil, t, req, err
	}
	once := c.Bundle
	once.Once = true
	if c, err = workflows.Compile(once); err != nil {
		return nil, t, req, asUsage(err)
	}
	if req, err = a.startRequest(c, &f.start); err != nil {
		return nil, t, req, err
	}
	if req.Labels == nil {
		req.Labels = map[string]string{}
	}
	req.Labels[schedule.Label] = c.Doc.Name // makes run.scheduledAt the instant in the workflow id
	return c, t, req, nil
}

// span reads from when until when firings are made up for.
func (f *backfillFlags) span(clock func() time.Time) (from, before time.Time, err error) {
	now := api.At(clock())
	first, err := readInstant(clock, "--from", f.from)
	if err != nil {
		return from, before, err
	}
	end, err := readInstant(clock, "--before", f.before)
	if err != nil {
		return from, before, err
	}
	if end == 0 {
		end = now
	}
	switch {
	case first == 0:
		err = usage("say where the span begins: --from 2d, or --from with an instant")
	case end > now:
		err = usage("--before %s lies in the future: what fires then is not missed yet", live.Local(end))
	case first >= end:
		err = usage("the span is empty: --from %s is not before its end, %s", live.Local(first), live.Local(end))
	case f.limit < 1 || f.limit > mostBackfilled:
		err = usage("--limit is a number from 1 to %d", mostBackfilled)
	}
	return first.Std().Truncate(time.Second), end.Std(), err
}

// firings returns the firings of a flow's cron in the span, the oldest first, with the runs that they have.
func (f *backfillFlags) firings(workflow string, t cron.Timetable, clock func() time.Time) ([]firing, error) {
	from, before, err := f.span(clock)
	if err != nil {
		return nil, err
	}
	var all []firing
	for at := t.Next(t.Before(from, from)); !at.IsZero() && at.Before(before); at = t.Next(at) {
		if len(all) == f.limit {
			return nil, usage("there are more than %s in the span; choose a shorter one, or a higher --limit",
				count(f.limit, "firing"))
		}
		all = append(all, firing{At: api.At(at), WorkflowID: schedule.RunID(workflow, at)})
	}
	return all, nil
}

// findRuns notes which firings have a run: one of a cron that began, or one of an earlier backfill.
func (a runVerbs) findRuns(ctx context.Context, workflow string, firings []firing) error {
	if len(firings) == 0 {
		return nil
	}
	if a.server == "" {
		p, err := a.where()
		if err != nil {
			return err
		}
		if _, err := os.Stat(p.Path); p.Path != "" && errors.Is(err, os.ErrNotExist) {
			return nil // the first run makes the database
		}
	}
	return a.reading(ctx, func(ctx context.Context, svc api.Service) error {
		return matchRuns(ctx, svc, workflow, firings)
	})
}

// matchRuns notes the runs of a service beside their firings.
func matchRuns(ctx context.Context, svc api.Service, workflow string, firings []firing) error {
	byInstant := make(map[api.Time]*firing, len(firings))
	for i := range firings {
		byInstant[firings[i].At] = &firings[i]
	}
	for q := (api.Query{Workflow: workflow, Limit: 1000}); ; {
		page, err := svc.Runs(ctx, q)
		if err != nil {
			return err
		}
		for _, row := range page.Runs {
			if row.EndedAt != 0 && row.EndedAt < firings[0].At {
				continue // it ended before the first firing
			}
			at, backfilled := firingOf(&row)
			if !backfilled {
				r, err := svc.Run(ctx, row.Run)
				if err != nil {
					return err
				}
				at = r.ScheduledAt
			}
			one := byInstant[at]
			if one == nil || row.EndedAt != 0 && row.EndedAt < at {
				continue // a cron that was cancelled before this firing began no run for it
			}
			if one.Run == "" || row.EndedAt == 0 {
				one.Run, one.Phase, one.open = row.Run, row.Phase, backfilled && row.EndedAt == 0
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// firingOf returns the firing that a run makes up for; false: it is no run of a backfill.
func firingOf(row *api.RunSummary) (api.Time, bool) {
	if row.Labels[schedule.Label] == "" {
		return 0, false
	}
	at, ok := schedule.Firing(row.WorkflowID)
	return api.At(at), ok
}

// tellFirings prints the firings, and what would happen to each.
func (a runVerbs) tellFirings(firings []firing) error {
	if a.structured() {
		return a.print(firings)
	}
	if len(firings) == 0 {
		a.say("There is no firing in the span.")
		return nil
	}
	cells := make([][]string, len(firings))
	for i, one := range firings {
		run, phase := "-", "would be started"
		if one.Run != "" {
			run, phase = live.Short(one.Run), strings.ReplaceAll(string(one.Phase), "_", " ")
		}
		cells[i] = []string{live.Local(one.At), run, phase}
	}
	return a.table([]string{"FIRING", "RUN", "STATE"}, cells)
}
