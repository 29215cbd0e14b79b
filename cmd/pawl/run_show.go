package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker"
)

func (a *app) runShowCommand() *cobra.Command {
	var logs string
	var attempt int
	var all bool
	cmd := &cobra.Command{
		Use: "show RUN", Short: "Show a run: every step, every attempt, every deadline, and why it ended",
		Args: cobra.ExactArgs(1),
		Long: "Shows a run as it is on disk, whether or not another process carries it. With --logs STEP, what " +
			"the step's attempts printed.",
		Example: "  pawl run show @last\n  pawl run show order-42 --logs render --attempt 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				r, err := svc.Run(ctx, args[0])
				if err != nil {
					return err
				}
				if logs != "" {
					return a.showLogs(r, logs, attempt)
				}
				return a.show(r, all)
			})
		},
	}
	cmd.Flags().StringVar(&logs, "logs", "", "print what this step's attempts printed")
	cmd.Flags().IntVar(&attempt, "attempt", 0, "with --logs: of this attempt only")
	cmd.Flags().BoolVar(&all, "all", false, "every item of a forEach, however many there are")
	a.completeFor(cmd, 1)
	return cmd
}

func (a *app) show(r *api.Run, all bool) error {
	if a.structured() {
		return a.print(r)
	}
	a.lines(live.Show(r, apiNow(), a.textWidth(), all))
	if r.Phase.Closed() {
		a.say("")
		a.lines(a.ending(r))
	}
	return nil
}

// showLogs prints what a step's attempts printed, as it was; on a terminal with its control characters made visible.
func (a *app) showLogs(r *api.Run, step string, attempt int) error {
	s, err := findStep(r, step)
	if err != nil {
		return err
	}
	p, err := a.where()
	if err != nil {
		return err
	}
	run, err := core.ParseRunID(r.Run)
	if err != nil {
		return err
	}
	found := false
	for _, at := range s.Attempts {
		if attempt != 0 && at.Attempt != attempt {
			continue
		}
		path := worker.LogPath(p.logDir(), core.Token{Run: run, Step: core.StepID(s.ID), Attempt: at.Attempt}, s.Step)
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if attempt == 0 && len(s.Attempts) > 1 {
			fmt.Fprintf(a.Out, "==> attempt %d\n", at.Attempt)
		}
		err = a.copyLog(f)
		f.Close()
		if err != nil {
			return err
		}
		found = true
	}
	if !found {
		return fmt.Errorf("step %q of run %s has no log: an attempt of an exec step has one from its start on, "+
			"if it ran on this machine", step, live.Short(r.Run))
	}
	return nil
}

func (a *app) copyLog(f io.Reader) error {
	if !isTerminal(a.Out) {
		_, err := io.Copy(a.Out, f)
		return err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		fmt.Fprintln(a.Out, screen.Visible(strings.ReplaceAll(line, "\t", "    ")))
	}
	return nil
}
