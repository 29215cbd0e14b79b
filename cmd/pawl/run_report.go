package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/report"
	"github.com/pawl-dev/pawl/internal/api"
)

func (a runVerbs) runReportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "report RUN [-o FILE]", Short: "Write an HTML page or a JUnit file of a run, to keep with a build",
		Args: cobra.ExactArgs(1), Annotations: map[string]string{writing: "yes"},
		Long: `Writes one HTML file: how the run ended and why, a timeline of all attempts with their limits, and every
attempt with its reason. Without -o it goes to the output. It has no script, loads nothing from elsewhere, and every
value in it is escaped. A FILE that ends with .xml is one of JUnit, in which each step is a test: CI systems show it.`,
		Example: "  pawl run report @last -o report.html\n  pawl run report @last -o junit.xml",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				r, err := svc.Run(ctx, args[0])
				if err != nil {
					return err
				}
				to := a.output
				// The configuration may give -o a format: it names no file.
				if slices.Contains([]string{"", "-", formatTable, formatJSON, formatYAML}, to) {
					return report.Write(a.Out, r, api.At(a.runsNow(ctx)))
				}
				f, err := os.Create(to)
				if err != nil {
					return err
				}
				write := report.Write
				if strings.HasSuffix(to, ".xml") {
					write = report.WriteJUnit
				}
				if err := write(f, r, api.At(a.runsNow(ctx))); err != nil {
					_ = f.Close()
					return err
				}
				if err := f.Close(); err != nil {
					return err
				}
				fmt.Fprintf(a.Err, "pawl: the report of run %s is in %s\n", live.Short(r.Run), to)
				return nil
			})
		},
	}
	a.completeFor(cmd, 1)
	return cmd
}
