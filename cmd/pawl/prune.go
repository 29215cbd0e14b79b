package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/api"
)

func (a databaseVerbs) pruneCommand() *cobra.Command {
	var age string
	var dry bool
	cmd := &cobra.Command{
		Use: "prune --older-than AGE", Short: "Remove runs that ended some time ago, with their logs",
		Args: cobra.NoArgs,
		Long: `Removes the runs that ended longer ago than the age says: their histories, their rows, and the logs of
their steps on this machine. Open runs stay. The idempotency keys of removed runs, and the ids of events that they took,
are forgotten. It works beside a process that has the file. A database in PostgreSQL that processes on several machines
work with is pruned on each, for the logs there.

To do that all the time, give --retention, best in the configuration file: "retention: 30d". While a command carries
runs on, or pawl dev serves, older runs go by themselves.`,
		Example: "  pawl prune --older-than 30d --dry-run\n  pawl prune --older-than 30d",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if age == "" {
				return usage("say which runs: --older-than 30d")
			}
			older, err := parseDuration(age)
			if err != nil {
				return usage("--older-than: %w", err)
			}
			return a.prune(cmd.Context(), api.PruneRequest{OlderThan: api.Duration(older), DryRun: dry})
		},
	}
	cmd.Flags().StringVar(&age, "older-than", "", "how long ago a run ended at least: 30d")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "count the runs, and remove nothing")
	return cmd
}

func (a databaseVerbs) prune(ctx context.Context, r api.PruneRequest) error {
	m, err := a.start(ctx, false)
	if err != nil {
		return err
	}
	p := api.Pruner(m.remote)
	if m.remote == nil {
		p = m.Pruner()
	}
	out, err := p.Prune(ctx, r)
	if err = errors.Join(err, m.close()); err != nil {
		return err
	}
	if a.structured() {
		return a.print(out)
	}
	verb := "removed"
	if r.DryRun {
		verb = "would be removed"
	}
	a.say("%s %s", count(out.Runs, "run"), verb)
	if out.Logs > 0 {
		a.say("logs of %s removed", count(out.Logs, "run"))
	}
	if out.Artifacts > 0 {
		a.say("artifacts of %s removed", count(out.Artifacts, "run"))
	}
	return nil
}

// retentionOf reads --retention. Zero if this process removes nothing, since it does not carry runs on or is not asked
// to remove them.
func (a *app) retentionOf(work bool) (time.Duration, error) {
	if a.retention == "" || !work {
		return 0, nil
	}
	d, err := parseDuration(a.retention)
	if err == nil && d <= 0 {
		err = errors.New("it is longer than nothing")
	}
	if err != nil {
		return 0, usage("--retention: %w", err)
	}
	return d, nil
}
