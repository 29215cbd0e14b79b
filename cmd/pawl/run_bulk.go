package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/bulk"
)

// manyVerbs are the operations that make sense on many runs, by the verb for one run.
var manyVerbs = map[string]string{
	"cancel": api.OpCancel, "terminate": api.OpTerminate, "pause": api.OpPause, "resume": api.OpResume,
	"retry": api.OpRetryRun, "extend": api.OpExtend,
}

// bulkFlags are the flags of `pawl run bulk`.
type bulkFlags struct {
	list          listFlags
	q             api.Query
	by, to, over  string
	dryRun, every bool
}

func (a runVerbs) runBulkCommand() *cobra.Command {
	var f bulkFlags
	cmd := &cobra.Command{
		Use: "bulk VERB [QUERY]", Short: "Operate on all runs that match, the oldest first",
		Args: cobra.MinimumNArgs(1),
		Long: `Applies a verb for one run to all runs that match: cancel, terminate, pause, resume, retry or extend. The
runs are chosen first, the newest up to --limit of them. If one refuses, the others go on, and the exit status is 1.

--dry-run shows which runs these are. --over spreads the operations over a time, so that a thousand retries do not all
begin at once.

` + queryHelp(),
		Example: "  pawl run bulk pause is:retrying flow:order\n" +
			"  pawl run bulk retry --workflow order --phase failed --since 2h --limit 1000 --over 10m\n" +
			"  pawl run bulk cancel --label customer=42 --open --dry-run",
		ValidArgs: []cobra.Completion{"cancel", "terminate", "pause", "resume", "retry", "extend"},
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.request(args[0], args[1:], a.clockOf(cmd.Context()))
			if err != nil {
				return err
			}
			return a.bulk(cmd.Context(), args[0], r)
		},
	}
	flags := cmd.Flags()
	f.list.flags(flags, &f.q, 100)
	flags.BoolVar(&f.every, "every", false, "all runs; required if there is no filter")
	flags.StringVar(&f.by, "by", "", "extend: by how much: 10m, -30s")
	flags.StringVar(&f.to, "to", "", "extend: until when: an RFC 3339 instant, or none")
	flags.StringVar(&f.over, "over", "", "spread the operations over this time: 10m")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the runs, and do nothing")
	return cmd
}

// request checks the flags.
func (f *bulkFlags) request(verb string, text []string, now func() time.Time) (r bulk.Request, err error) {
	op := api.Operation{Operation: manyVerbs[verb]}
	if op.Operation == "" {
		known := make([]string, 0, len(manyVerbs))
		for name := range manyVerbs {
			known = append(known, name)
		}
		slices.Sort(known)
		return r, usage("%q is not done to many runs: %s", verb, nearestOr(verb, known, "choose one of"))
	}
	if _, err := f.list.complete(&f.q, text, now); err != nil {
		return r, err
	}
	if f.q.Limit > bulk.MaxRuns {
		return r, usage("--limit is at most %d", bulk.MaxRuns)
	}
	q := f.q
	if chosen := q.Workflow != "" || q.WorkflowID != "" || len(q.Phases) > 0 || len(q.Labels) > 0 ||
		q.CreatedFrom != 0 || q.CreatedBefore != 0 || q.Stuck || q.Parent != "" || q.ByDeadline() || q.Retrying ||
		q.Resting || len(q.Input) > 0 || q.Text != ""; chosen == f.every {
		return r, usage("say which runs, such as flow:order is:open, or --every for any")
	}
	switch {
	case verb == "extend":
		err = extension(&op, f.by, f.to, "")
	case f.by != "" || f.to != "":
		err = usage("--by and --to are for extend")
	}
	if err != nil {
		return r, err
	}
	r = bulk.Request{Query: q, Operation: op, Limit: q.Limit, DryRun: f.dryRun}
	if f.over != "" {
		if r.Over, err = parseDuration(f.over); err != nil {
			return r, usage("--over: %w", err)
		}
	}
	return r, nil
}

// bulk operates on many runs and prints the outcome for each.
func (a runVerbs) bulk(ctx context.Context, verb string, r bulk.Request) error {
	r.Operation.Actor, r.Operation.Reason = a.who(), a.reason
	m, err := a.start(ctx, false)
	if err != nil {
		return err
	}
	results := []bulk.Result{}
	refused := 0
	err = bulk.Apply(ctx, m.svc, r, func(result bulk.Result) error {
		results = append(results, result)
		if result.Code != "" {
			refused++
		}
		if !a.structured() {
			a.say("%s", outcomeLine(result, verb, r.DryRun))
		}
		return nil
	})
	if err := errors.Join(err, m.close()); err != nil {
		return err
	}
	if a.structured() {
		err = a.print(results)
	} else {
		a.say("%s", bulkTotal(len(results), refused, verb, r))
	}
	if err == nil && refused > 0 {
		err = &statusError{status: exitFailed}
	}
	return err
}

// outcomeLine formats the outcome for one run as a line.
func outcomeLine(r bulk.Result, verb string, dry bool) string {
	name := fmt.Sprintf("%s  %s", r.Run, screen.Clean(r.Workflow))
	if r.WorkflowID != "" {
		name += "  " + screen.Clean(r.WorkflowID)
	}
	switch {
	case dry:
		return fmt.Sprintf("%s  %s", name, strings.ReplaceAll(string(r.Status), "_", " "))
	case r.Done:
		return fmt.Sprintf("%s  %s", name, verb)
	default:
		return fmt.Sprintf("%s  refused: %s", name, screen.Clean(r.Message))
	}
}

func bulkTotal(all, refused int, verb string, r bulk.Request) string {
	switch {
	case all == 0:
		return "No run matches."
	case r.DryRun && r.Over > 0 && all > 1:
		return fmt.Sprintf("%s match; one every %s", count(all, "run"), screen.For(r.Over/time.Duration(all-1)))
	case r.DryRun:
		if all == 1 {
			return "1 run matches"
		}
		return count(all, "run") + " match"
	default:
		return fmt.Sprintf("%s: %s done, %d refused", verb, count(all-refused, "run"), refused)
	}
}
