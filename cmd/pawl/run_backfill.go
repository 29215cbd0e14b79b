package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// mostFirings is the default of --limit: how many firings a backfill makes up for. mostBackfilled is the highest number
// that the flag takes.
const (
	mostFirings    = 100
	mostBackfilled = 10_000
)

// backfillFlags are the flags of `pawl run backfill`.
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
	open       bool         // the run was started by an earlier backfill of a file, and has not ended
}

func (a runVerbs) runBackfillCommand() *cobra.Command {
	var f backfillFlags
	cmd := &cobra.Command{
		Use: "backfill FILE --from INSTANT", Short: "Start runs for the firings of a flow's cron that have none",
		Args: cobra.ExactArgs(1), Annotations: map[string]string{following: "yes"},
		Long: `Starts a run for each firing of the flow's cron in a span that has none, the oldest first, each when the
one before has ended, and shows them. In such a run, run.scheduledAt is the firing. A run that fails does not hold up
the next one; the exit status is that of the first failure.

A firing that has a run, of the schedule or of an earlier backfill, gets no other one, however that run ended. So a
backfill that was interrupted goes on when it is asked for again. The firings of an interval (@every) are counted from
--from. A schedule that is there makes up for firings without this command: pawl schedule backfill.`,
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
	flags.StringVar(&f.start.id, "id", "", "the name of the schedule; default that of the flow")
	flags.StringArrayVar(&f.start.input, "input", nil, "name=value (JSON, else text), or @file.json; repeatable")
	flags.StringVar(&f.start.timeout, "timeout", "", "limit of each run, instead of the flow's: 30m")
	flags.StringArrayVar(&f.start.labels, "label", nil, "key=value, to find the runs by with pawl run list; repeatable")
	return cmd
}

// backfill makes up for the firings of a span.
func (a runVerbs) backfill(ctx context.Context, file string, f *backfillFlags) error {
	c, table, req, err := a.readScheduled(file, f)
	if err != nil {
		return err
	}
	firings, err := f.firings(table, a.clockOf(ctx))
	if err != nil {
		return err
	}
	if err := a.findRuns(ctx, firings); err != nil {
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
		req.WorkflowID, req.Key, req.ScheduledAt = one.WorkflowID, schedule.Prefix+one.WorkflowID, one.At
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

// readScheduled reads a flow with a cron, and returns its times and the start of its runs.
func (a runVerbs) readScheduled(file string, f *backfillFlags) (
	c *compiled, t *schedule.Table, req api.StartRequest, err error,
) {
	if c, err = a.load(file, &f.start.sources); err != nil {
		return nil, t, req, err
	}
	if c.Doc.Cron == nil {
		return nil, t, req, usage("flow %q has no cron, so no firing of it was missed; start it with pawl run",
			screen.Clean(c.Doc.Name))
	}
	from, _, err := f.span(a.clockOf(context.Background()))
	if err != nil {
		return nil, t, req, err
	}
	if t, err = c.Doc.Cron.Spec().Parse(from); err != nil {
		return nil, t, req, err
	}
	if f.start.id == "" {
		f.start.id = c.Doc.Name
	}
	name := f.start.id
	if req, err = a.startRequest(c, &f.start); err != nil {
		return nil, t, req, err
	}
	labels := map[string]string{schedule.Label: name}
	maps.Copy(labels, req.Labels)
	req.Labels, req.Zone = labels, c.Doc.Cron.Zone
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

// firings returns the firings of a flow's cron in the span, the oldest first, with the workflow ids of their runs.
func (f *backfillFlags) firings(t *schedule.Table, clock func() time.Time) ([]firing, error) {
	from, before, err := f.span(clock)
	if err != nil {
		return nil, err
	}
	var all []firing
	for at := t.Next(from.Add(-1)); !at.IsZero() && at.Before(before); at = t.Next(at) {
		if len(all) == f.limit {
			return nil, usage("there are more than %s in the span; choose a shorter one, or a higher --limit",
				count(f.limit, "firing"))
		}
		all = append(all, firing{At: api.At(at), WorkflowID: schedule.RunID(f.start.id, at)})
	}
	return all, nil
}

// findRuns notes which firings have a run: one that the schedule or an earlier backfill has started.
func (a runVerbs) findRuns(ctx context.Context, firings []firing) error {
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
		for i := range firings {
			one := &firings[i]
			r, err := svc.Run(ctx, one.WorkflowID)
			switch {
			case api.CodeOf(err) == api.CodeNotFound:
				continue
			case err != nil:
				return err
			}
			one.Run, one.Phase, one.open = r.Run, r.Phase, !r.Phase.Closed() && r.Notify == ""
		}
		return nil
	})
}

// tellFirings prints the firings, and what happens or would happen to each.
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
