package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// runVerb makes a verb that is one operation on a run.
func (a runVerbs) runVerb(use, short, long string, w *operation) *cobra.Command {
	cmd := &cobra.Command{
		Use: use + " RUN", Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w.run = args[0]
			return a.operate(cmd.Context(), *w)
		},
	}
	if w.op.Operation != api.OpPause && w.op.Operation != api.OpTerminate { // these leave nothing to follow
		followFlag(cmd, w)
	}
	a.completeFor(cmd, 1)
	return cmd
}

func (a runVerbs) runCancelCommand() *cobra.Command {
	var graceful bool
	w := &operation{op: api.Operation{Operation: api.OpCancel}, done: "cancelled"}
	cmd := a.runVerb("cancel", "Ask a run to stop",
		`Nothing new is scheduled; sleeps, waits and backoffs end at once. Running attempts are told to stop; with
--graceful they may finish, and their results are kept. Hooks for a cancelled run still run: pawl resume executes
them.`, w)
	cmd.PreRun = func(*cobra.Command, []string) {
		if graceful {
			w.op.Operation = api.OpCancelGracefully
		}
	}
	cmd.Flags().BoolVar(&graceful, "graceful", false, "let running attempts finish")
	return cmd
}

func (a runVerbs) runTerminateCommand() *cobra.Command {
	return a.runVerb("terminate", "Close a run at once, without waiting for anything",
		"The run is closed at once: no hook runs, nothing is waited for. Cancel asks, terminate forces.",
		&operation{op: api.Operation{Operation: api.OpTerminate}, done: "terminated"})
}

func (a runVerbs) runPauseCommand() *cobra.Command {
	clock := "run"
	w := &operation{op: api.Operation{Operation: api.OpPause}, done: "paused"}
	cmd := a.runVerb("pause", "Let nothing new start in a run", `Running attempts go on, nothing new starts. The run's
own deadlines keep running; with --clock stop they stand still. Open steps get fresh deadlines when the run is
resumed.`, w)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch clock {
		case "run", "stop":
			w.op.StopClock = clock == "stop"
			return run(cmd, args)
		default:
			return usage("--clock is run or stop, not %q", clock)
		}
	}
	cmd.Flags().StringVar(&clock, "clock", "run", "the run's own deadlines meanwhile: run or stop")
	return cmd
}

func (a runVerbs) runResumeCommand() *cobra.Command {
	return a.runVerb("resume", "Let a paused run go on",
		"Ends a pause: open steps get fresh deadlines. (To carry on runs that were left, use pawl resume.)",
		&operation{op: api.Operation{Operation: api.OpResume}, done: "resumed"})
}

func (a runVerbs) runExtendCommand() *cobra.Command {
	var by, to, limit string
	w := &operation{op: api.Operation{Operation: api.OpExtend}}
	cmd := a.runVerb("extend", "Move a stored deadline of an open run or step", `Moves a deadline that is being
counted down, and nothing else. --by moves it by a duration (a negative one with a leading minus), --to sets an
instant, --to none takes it away. Without --limit, it is the one deadline there is.`, w)
	cmd.Example = "  pawl run extend order-42 --by 10m\n  pawl run extend @last --step charge --limit " +
		"scheduleToClose --to none"
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := extension(&w.op, by, to, limit); err != nil {
			return err
		}
		return run(cmd, args)
	}
	forecastFlag(cmd, w)
	flags := cmd.Flags()
	flags.StringVar(&by, "by", "", "by how much: 10m, -30s")
	flags.StringVar(&to, "to", "", "until when: an RFC 3339 instant, or none")
	flags.StringVar(&w.op.Step, "step", "", "of this step; without, of the run")
	flags.StringVar(&limit, "limit", "",
		"which deadline: execution or run; of a step scheduleToClose, deadline or wait")
	return cmd
}

func extension(op *api.Operation, by, to, limit string) error {
	if (by == "") == (to == "") {
		return usage("say either --by how much or --to when")
	}
	if op.Limit = limit; limit != "" {
		var kind policy.LimitKind
		if err := kind.UnmarshalText([]byte(limit)); err != nil {
			return usage("--limit: %s", strings.TrimPrefix(err.Error(), "policy: "))
		}
	}
	switch {
	case to == "none":
		op.Remove = true
	case to != "":
		at, err := time.Parse(time.RFC3339, to)
		if err != nil {
			return usage("--to %q is not an instant; write it as 2026-01-02T15:04:05Z, or none", to)
		}
		op.To = api.At(at)
	default:
		text, negative := strings.CutPrefix(by, "-")
		d, err := parseDuration(text)
		if err != nil {
			return usage("--by: %w", err)
		}
		if op.By = api.Extension(d); negative {
			op.By = -op.By
		}
	}
	return nil
}
