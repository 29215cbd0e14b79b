package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
)

func (a runVerbs) runRetryCommand() *cobra.Command {
	var file string
	var input []string
	w := &operation{op: api.Operation{Operation: api.OpRetryRun}, done: "failed steps begin again"}
	cmd := a.runVerb("retry", "Try the failed steps of a run again",
		`The failed and timed-out steps that made the run fail begin again with a fresh budget of attempts and fresh
deadlines. Whatever needs them, directly or not, is decided anew: what had begun because they failed, and what was left
out. All other results stay. A run that ended before a step of it began, or between two, goes on.

With --flow the run goes on with another text of its flow, with --input with other values: as a new run that takes over
the results of all steps that a retry would leave alone. If one of these steps differs in the new text, or used a value
that differs, nothing is started, and the differences are told. "pawl run diff" compares the two runs.

In a Go workflow, what it did because steps had failed is dropped and decided anew; what succeeded before or beside them
stays, and so do failures with which it has dealt. Where the error does not say which step it came from, the failed
steps are listed: --step goes back to one of them.`, w)
	cmd.Example = "  pawl run retry order-42 --follow\n  pawl run retry order-42 --flow order.yaml --input amount=5 --follow"
	run := cmd.RunE
	var src sources
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case w.op.Step != "" && (file != "" || len(input) > 0):
			return usage("--step is for the run as it is; --flow and --input make a new run, from all failed steps")
		case file != "" || len(input) > 0:
			return a.retryWith(cmd.Context(), args[0], file, input, &src, w.follow)
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

// retryWith starts a run that goes on from the failed steps of an earlier one with another text or input.
func (a runVerbs) retryWith(ctx context.Context, name, file string, input []string, src *sources, follow bool) error {
	req := api.RestartRequest{Failed: true, Actor: a.who(), Reason: a.reason}
	var c *compiled
	var err error
	if file != "" {
		if c, err = a.load(file, src); err != nil {
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
		return err
	})
	if err != nil {
		return err
	}
	if len(input) > 0 {
		if req.Input, err = a.inputOver(c, earlier.Input, input); err != nil {
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

// inputOver puts values over an earlier run's input. A file replaces all of it.
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
	if len(earlier) > 0 && json.Unmarshal(earlier, &merged) != nil || json.Unmarshal(over, &values) != nil {
		return over, nil // it was not an object: there is nothing to put values over
	}
	for name, value := range values {
		merged[name] = value
	}
	return json.Marshal(merged)
}
