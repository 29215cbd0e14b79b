package main

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

func (a stepVerbs) stepCommand() *cobra.Command {
	return noun("step", "Decide about one step of a run, or try one",
		"Operations on one step. A STEP is its name, and with forEach name[item], as pawl run show prints it. Each "+
			"is kept in the run's history\nwith --actor and --reason.",
		a.stepRunCommand(), a.stepRetryCommand(), a.stepSkipCommand(), a.stepCompleteCommand(), a.stepFailCommand(),
		a.stepNowCommand(), a.stepPolicyCommand())
}

// stepVerb makes a verb that is one operation on a step.
func (a stepVerbs) stepVerb(use, short, long string, w *operation) *cobra.Command {
	cmd := &cobra.Command{
		Use: use + " RUN STEP", Short: short, Long: long, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			w.run, w.op.Step = args[0], args[1]
			return a.operate(cmd.Context(), *w)
		},
	}
	followFlag(cmd, w)
	a.completeFor(cmd, 2)
	return cmd
}

func (a stepVerbs) stepRetryCommand() *cobra.Command {
	return a.stepVerb("retry", "Try a failed step again",
		"The step begins again with a fresh budget of attempts and fresh deadlines; a run that had ended is opened "+
			"again.",
		&operation{op: api.Operation{Operation: api.OpRetryStep}, done: "it begins again"})
}

func (a stepVerbs) stepSkipCommand() *cobra.Command {
	return a.stepVerb("skip", "Skip an open step",
		"The step is skipped; for what needs it that counts like a condition that is false.",
		&operation{op: api.Operation{Operation: api.OpSkip}, done: "skipped"})
}

func (a stepVerbs) stepNowCommand() *cobra.Command {
	return a.stepVerb("now", "End a step's backoff: its next attempt is due now", "",
		&operation{op: api.Operation{Operation: api.OpNow}, done: "its next attempt is due now"})
}

func (a stepVerbs) stepCompleteCommand() *cobra.Command {
	var result string
	w := &operation{op: api.Operation{Operation: api.OpComplete}, done: "completed"}
	cmd := a.stepVerb("complete", "Complete an open step with a result of yours",
		"The step succeeds with the given result; work of its that runs is stopped.", w)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if w.op.Output, err = a.readJSON("--result", result); err != nil {
			return err
		}
		return run(cmd, args)
	}
	cmd.Flags().StringVar(&result, "result", "", "the step's output: JSON, or @file.json")
	return cmd
}

func (a stepVerbs) stepFailCommand() *cobra.Command {
	var message, kind string
	f := &policy.Failure{}
	w := &operation{op: api.Operation{Operation: api.OpFail, Failure: f}, done: "failed"}
	cmd := a.stepVerb("fail", "Fail an open step", "The step ends failed, whatever attempts it has left.", w)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch kind {
		case "failed":
			f.Kind = policy.KindFailed
		case "error":
			f.Kind = policy.KindError
		default:
			return usage("--kind is failed or error, not %q", kind)
		}
		if f.Message = message; message == "" {
			f.Message = "failed by " + a.who()
		}
		return run(cmd, args)
	}
	cmd.Flags().StringVar(&message, "message", "", "what to say about it")
	cmd.Flags().StringVar(&f.Type, "type", "operator", "the failure's type")
	cmd.Flags().StringVar(&kind, "kind", "failed", "the failure's kind: failed or error")
	return cmd
}

func (a stepVerbs) stepPolicyCommand() *cobra.Command {
	var given policyFlags
	var file string
	w := &operation{op: api.Operation{Operation: api.OpSetPolicy}, done: "it has another policy"}
	cmd := a.stepVerb("set-policy", "Replace the policy of an open step",
		`Replaces retry and timeout as a whole. Deadlines that run are moved to the new amounts, counted from
where their clocks started.`, w)
	cmd.Example = "  pawl step set-policy @last charge --retry 'exponential(8, 1s, max=30s)' " +
		"--timeout scheduleToClose=10m"
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := a.newPolicy(&given, file)
		if err != nil {
			return err
		}
		w.op.Policy = &p
		return run(cmd, args)
	}
	forecastFlag(cmd, w)
	given.add(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "a file with retry: and timeout:")
	return cmd
}

func (a stepVerbs) newPolicy(given *policyFlags, file string) (policy.Policy, error) {
	switch {
	case given.given() && file != "":
		return policy.Policy{}, usage("give -f or --retry and --timeout, not both")
	case given.given():
		p, err := given.policy()
		return originate(p, "set-policy"), asUsage(err)
	case file == "":
		return policy.Policy{}, usage("say what the policy is: --retry, --timeout or -f FILE")
	}
	name, src, err := a.readFile(file)
	if err != nil {
		return policy.Policy{}, asUsage(err)
	}
	var v any
	if err := yaml.Unmarshal(src, &v); err != nil {
		return policy.Policy{}, usage("%s: %s", name, yaml.FormatError(err, false, true))
	}
	p, err := policy.DecodePolicy(v)
	if err != nil {
		return p, usage("%s: %s", name, strings.TrimPrefix(err.Error(), "policy: "))
	}
	return originate(p, fmt.Sprintf("set-policy %s", name)), nil
}

// originate returns where each part of a policy was configured.
func originate(p policy.Policy, origin string) policy.Policy {
	if p.Retry != nil {
		p.Retry.Origin = origin
	}
	for _, kind := range policy.StepLimits {
		if l := p.Get(kind); l != nil {
			l.Origin = origin
		}
	}
	return p
}
