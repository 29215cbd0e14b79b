package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
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

func (a runVerbs) runRetryCommand() *cobra.Command {
	var file string
	var input []string
	w := &operation{op: api.Operation{Operation: api.OpRetryRun}, done: "failed steps begin again"}
	cmd := a.runVerb("retry", "Try the failed steps of a run again",
		`The failed and timed-out steps that made the run fail begin again with a fresh budget of attempts and fresh
deadlines. Whatever needs them, directly or not, is decided anew: what had begun because they failed, and what was left
out. All other results stay. A run that ended before a step of it began, or between two, goes on.

With --flow the run goes on with another text of its flow, with --input with other values: as a new run in which all
that failed and all that depends on it runs again, as with "pawl run rerun --failed"; it takes over the results of all
other steps. If one of these steps differs in the new text, or used a value
that differs, nothing is started, and the differences are told. "pawl run diff" compares the two runs.

In a Go workflow, what it did because steps had failed is dropped and decided anew; what succeeded before or beside them
stays, and so do failures with which it has dealt. Where the error does not say which step it came from, the failed
steps are listed: --step goes back to one of them.`, w)
	cmd.Example = "  pawl run retry order-42 --follow\n" +
		"  pawl run retry order-42 --flow order.yaml --input amount=5 --follow"
	run := cmd.RunE
	var src sources
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case w.op.Step != "" && (file != "" || len(input) > 0):
			return usage("--step is for the run as it is; --flow and --input make a new run, from all failed steps")
		case file != "" || len(input) > 0:
			return a.againWith(cmd.Context(), args[0], api.RestartRequest{Failed: true}, changedBy{file, input, &src},
				w.follow)
		case w.op.Step != "":
			w.op.Operation, w.done = api.OpRetryStep, "it begins again"
		}
		return run(cmd, args)
	}
	flags := cmd.Flags()
	flags.StringVar(&w.op.Step, "step", "", "go back to this step")
	flags.StringVar(&file, "flow", "", "go on with this file, another text of the flow")
	flags.StringArrayVar(&input, "input", nil, "go on with another value of the input: name=value, or @file.json; "+
		"repeatable")
	src.flags(flags)
	return cmd
}

// changedBy says how a run differs from the earlier one that it goes on from.
type changedBy struct {
	file  string // another text of the flow; empty: the same
	input []string
	src   *sources
}

// againWith starts a run that makes some steps of an earlier one again with another text or input.
func (a runVerbs) againWith(
	ctx context.Context, name string, req api.RestartRequest, with changedBy, follow bool,
) error {
	req.Actor, req.Reason = a.who(), a.reason
	var c *compiled
	var err error
	if with.file != "" {
		if c, err = a.load(with.file, with.src); err != nil {
			return err
		}
		d, err := a.flows.Keep(c)
		if err != nil {
			return err
		}
		req.Definition = &d
	}
	var earlier *api.Run
	err = a.reading(ctx, func(ctx context.Context, svc api.Service) (err error) {
		if earlier, err = a.findCarried(ctx, svc, name); err == nil && c == nil {
			c, err = a.definitionOf(ctx, svc, earlier.Definition)
		}
		if err != nil {
			return err
		}
		return checkSteps(earlier, req)
	})
	if err != nil {
		return err
	}
	if len(with.input) > 0 {
		if req.Input, err = a.inputOver(c, earlier.Input, with.input); err != nil {
			return asUsage(err)
		}
	}
	if err := a.checkPlaceholders(ctx, c.Doc, follow); err != nil {
		return err
	}
	begin := func(ctx context.Context, svc api.Service) (api.Started, error) {
		started, err := svc.Restart(ctx, earlier.Run, req)
		if err == nil {
			fmt.Fprintf(a.Err, "pawl: it goes on from run %s; compare them with: pawl run diff %[1]s %s\n",
				live.Short(earlier.Run), live.Short(started.Run))
		}
		return started, startError(err, earlier.WorkflowID)
	}
	return a.startRun(ctx, begin, follow, a.chooseTelling(false, false))
}

// inputOver puts values over an earlier run's input. A file replaces the whole value.
func (a runVerbs) inputOver(c *compiled, earlier []byte, args []string) (json.RawMessage, error) {
	over, err := a.readInput(c, args)
	if err != nil {
		return nil, err
	}
	for _, arg := range args {
		if strings.HasPrefix(arg, "@") {
			return over, nil
		}
	}
	merged, values := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	objects := json.Unmarshal(over, &values) == nil && (len(earlier) == 0 || json.Unmarshal(earlier, &merged) == nil)
	if !objects { // there is no value to overlay
		return over, nil
	}
	for name, value := range values {
		merged[name] = value
	}
	return json.Marshal(merged)
}
