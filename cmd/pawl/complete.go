package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/journal"
)

// completeFor gives every verb that takes a RUN, and a STEP, the completion of their names.
func (a *app) completeFor(cmd *cobra.Command, args int) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, given []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(given) >= args || configure(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		// What cannot be read has no completion.
		_ = a.reading(cmd.Context(), func(ctx context.Context, h reader) error {
			if len(given) == 0 {
				names = runNames(ctx, h)
				return nil
			}
			id, err := findRun(ctx, h, given[0])
			if err != nil {
				return err
			}
			t, err := loadTrail(ctx, h, id)
			if err == nil {
				names = t.Keys()
			}
			return err
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func runNames(ctx context.Context, h histories) []cobra.Completion {
	page, err := h.List(ctx, journal.Query{Limit: 30})
	if err != nil {
		return nil
	}
	names := []cobra.Completion{cobra.CompletionWithDesc("@last", "the newest run")}
	for _, row := range page.Runs {
		name := live.Short(row.ID)
		if row.WorkflowID != "" && !row.Phase.Closed() {
			name = row.WorkflowID
		}
		names = append(names, cobra.CompletionWithDesc(name, screen.Clean(row.Workflow)+" "+row.Phase.String()))
	}
	return names
}
