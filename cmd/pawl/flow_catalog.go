package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/scheduled"
	"github.com/pawl-dev/pawl/internal/service"
)

// withCatalog calls fn with the flows of the server, of the process that holds the database, or of the database.
func (a flowVerbs) withCatalog(ctx context.Context, fn func(flows api.Catalog) error) error {
	m, err := a.start(ctx, false)
	if err != nil {
		return err
	}
	if m.remote != nil {
		return errors.Join(fn(m.remote), m.close())
	}
	applied := scheduled.Applied{
		Catalog: workflows.Applied(m.journal), Service: m.svc, Read: scheduled.Reader(&a.flows.Flows),
		Now: func() time.Time { return a.runsNow(ctx) },
	}
	return errors.Join(fn(applied), m.close())
}

func (a flowVerbs) flowApplyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "apply FILE…", Short: "Make flow files the newest versions of their flows", Args: cobra.MinimumNArgs(1),
		Long: `Keeps the flows in the database, with those beside them that their steps start, so that servers of the
database start them by name. All versions are kept. A flow that has not changed stays at its version. Runs go on with
the version that they were started with.

All files are checked before the first one is applied.`,
		Example: "  pawl flow apply flows/*.yaml\n  pawl flow apply order.yaml --server https://pawl.example",
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []api.ApplyRequest
			for _, file := range args {
				c, err := a.loadBundle(file)
				if err != nil {
					return err
				}
				d, err := a.flows.Keep(c)
				if err != nil {
					return err
				}
				all = append(all, api.ApplyRequest{
					Definition: d, Actor: a.who(), Reason: a.reason,
				})
			}
			return a.withCatalog(cmd.Context(), func(flows api.Catalog) error {
				return a.apply(cmd.Context(), flows, all)
			})
		},
	}
}

// apply applies flows and prints the outcome for each.
func (a *app) apply(ctx context.Context, flows api.Catalog, all []api.ApplyRequest) error {
	done := []api.Flow{}
	for _, r := range all {
		f, err := flows.Apply(ctx, r)
		if err != nil {
			return fmt.Errorf("flow %s: %w", screen.Clean(r.Definition.Name), err)
		}
		done = append(done, f)
		switch {
		case a.structured():
		case f.New:
			a.say("%s: version %d", screen.Clean(f.Name), f.Version)
		default:
			a.say("%s: version %d, as before", screen.Clean(f.Name), f.Version)
		}
		if f.Schedule != "" && !a.structured() {
			a.say("%s", screen.Clean(f.Schedule))
		}
	}
	if a.structured() {
		return a.print(done)
	}
	return nil
}

func (a flowVerbs) flowListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the flows that can be started by name", Args: cobra.NoArgs,
		Long: "Lists the flows that were applied, and through a server also the files of its folder.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withCatalog(cmd.Context(), func(flows api.Catalog) error {
				all, err := flows.Flows(cmd.Context())
				if err != nil {
					return err
				}
				return a.tellFlows(all, "There are no flows; pawl flow apply FILE makes one.")
			})
		},
	}
}

func (a flowVerbs) flowVersionsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "versions NAME", Short: "List the versions of a flow that was applied", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCatalog(cmd.Context(), func(flows api.Catalog) error {
				all, err := flows.Versions(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.tellFlows(all, "")
			})
		},
	}
}

// tellFlows prints flows, or versions of one.
func (a flowVerbs) tellFlows(all []api.Flow, none string) error {
	if a.structured() {
		return a.print(all)
	}
	if len(all) == 0 {
		a.say("%s", none)
	}
	for _, f := range all {
		text := fmt.Sprintf("%-24s ", screen.Clean(f.Name))
		if f.Version > 0 {
			text += fmt.Sprintf("version %d of %s", f.Version, f.AppliedAt)
		} else {
			text += screen.Clean(f.File)
		}
		if f.Actor != "" {
			text += " by " + screen.Clean(f.Actor)
		}
		if f.Reason != "" {
			text += ": " + screen.Clean(f.Reason)
		}
		if f.Problem != "" {
			text += "\n  " + screen.Clean(f.Problem)
		}
		a.say("%s", text)
	}
	return nil
}

func (a flowVerbs) flowShowCommand() *cobra.Command {
	version := 0
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Print the text of a flow that can be started by name", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if version < 0 {
				return usage("--version %d: versions count from 1", version)
			}
			return a.withCatalog(cmd.Context(), func(flows api.Catalog) error {
				f, err := flows.Flow(cmd.Context(), args[0], version)
				if err != nil {
					return err
				}
				if a.structured() {
					return a.print(f)
				}
				stored, err := service.Definition(api.Definition{
					ID: f.Definition, Kind: f.Kind, Name: f.Name, Source: f.Source,
				})
				if err != nil {
					return err
				}
				read, err := flowkind.Read(stored)
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(a.Out, read.Bundle.Flow.Text)
				return err
			})
		},
	}
	cmd.Flags().IntVar(&version, "version", 0, "which one (default: the newest)")
	return cmd
}
