package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// completeFor gives every verb that takes a RUN, and a STEP, the completion of their names.
func (a *app) completeFor(cmd *cobra.Command, args int) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, given []string, _ string) (names []cobra.Completion,
		_ cobra.ShellCompDirective,
	) {
		if len(given) >= args || configure(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		// A database that cannot be read has no completion.
		_ = a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
			if len(given) == 0 {
				names = runNames(ctx, svc)
				return nil
			}
			r, err := svc.Run(ctx, given[0])
			if err == nil {
				names = stepKeys(r)
			}
			return err
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func runNames(ctx context.Context, svc api.Service) []cobra.Completion {
	page, err := svc.Runs(ctx, api.Query{Limit: 30})
	if err != nil {
		return nil
	}
	names := []cobra.Completion{cobra.CompletionWithDesc("@last", "the newest run")}
	for _, row := range page.Runs {
		name := live.Short(row.Run)
		if row.WorkflowID != "" && !row.Phase.Closed() {
			name = row.WorkflowID
		}
		names = append(names, cobra.CompletionWithDesc(name, screen.Clean(row.Workflow)+" "+string(row.Phase)))
	}
	return names
}

// completeFlags adds completion to the flags that take one of a few words.
func (a *app) completeFlags(root *cobra.Command) {
	phases := []cobra.Completion{}
	for _, p := range api.RunPhases() {
		phases = append(phases, string(p))
	}
	words := map[string][]cobra.Completion{
		"output": {formatTable, formatJSON, formatYAML, outputFollow, outputFailed, outputGitHub, outputNone},
		"clock":  {"run", "stop"}, "phase": phases,
		"kind": {"failed", "error"},
		"limit": {
			policy.LimitExecution.String(), policy.LimitRun.String(), policy.LimitScheduleToClose.String(),
			policy.LimitDeadline.String(), policy.LimitWait.String(),
		},
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		complete := func(f *pflag.Flag) {
			if list, ok := words[f.Name]; ok && f.Value.Type() != "int" {
				// It fails where the flag has a completion already: a persistent one is met with each command.
				_ = cmd.RegisterFlagCompletionFunc(f.Name,
					cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp))
			}
		}
		cmd.PersistentFlags().VisitAll(complete)
		cmd.LocalNonPersistentFlags().VisitAll(complete)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}
