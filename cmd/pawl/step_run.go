package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
)

// tryFlags are the flags of `pawl step run`.
type tryFlags struct {
	input   []string
	outputs []string
	from    string
	quiet   bool
}

func (a stepVerbs) stepRunCommand() *cobra.Command {
	var f tryFlags
	cmd := &cobra.Command{
		Use: "run FILE STEP", Short: "Run one step of a flow by itself, to try it", Args: cobra.ExactArgs(2),
		Long: `Runs one step of a flow file with its own limits and retries, and nothing else: no other step, no hook,
no run of the database. What it needs of other steps comes from an earlier run (--from RUN), whose input it gets
too, or is given (--given STEP=JSON). The steps inside a loop cannot be run by themselves.`,
		Example: "  pawl step run order.yaml render --from @last\n" +
			"  pawl step run order.yaml render --input orderId=42 --given 'charge={\"json\":{\"id\":7}}'",
		Annotations: map[string]string{following: "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.tryStep(cmd.Context(), args[0], args[1], &f)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.input, "input", nil, "name=value (JSON, else text), or @file.json; repeatable")
	flags.StringArrayVar(&f.outputs, "given", nil, "STEP=JSON: what another step's output is; repeatable")
	flags.StringVar(&f.from, "from", "", "take the input and the outputs of other steps from this RUN")
	flags.BoolVar(&f.quiet, "quiet", false, "print the output and nothing else")
	return cmd
}

// tryStep runs one step in its own database in memory.
func (a stepVerbs) tryStep(ctx context.Context, file, name string, f *tryFlags) error {
	if a.server != "" {
		return usage("pawl step run works on this machine: leave --server (PAWL_SERVER) out")
	}
	c, err := a.load(file, &sources{})
	if err != nil {
		return err
	}
	given, recorded, err := a.givenOutputs(ctx, c, f)
	if err != nil {
		return err
	}
	doc, err := single(c.Doc, name, given)
	if err != nil {
		return err
	}
	if doc.Input.IsZero() { // a single step may use less of it than the flow
		doc.Input = flow.V(true)
	}
	text, err := flow.Encode(doc)
	if err != nil {
		return asUsage(err)
	}
	b := c.Bundle
	b.Flow = source{File: c.Bundle.Flow.File, Text: string(text)}
	if c, err = workflows.Compile(b); err != nil {
		return asUsage(err)
	}
	start := &startFlags{input: f.input, quiet: f.quiet}
	req, err := a.startRequest(c, start)
	if err != nil {
		return err
	}
	if len(f.input) == 0 && recorded != nil {
		req.Input = recorded
	}
	a.database = "memory:"
	begin := func(ctx context.Context, svc api.Service) (api.Started, error) { return svc.Start(ctx, req) }
	return a.startRun(ctx, begin, true, a.chooseTelling(false, f.quiet))
}

// givenOutputs returns the outputs of other steps: those of an earlier run, then those from the command line.
func (a stepVerbs) givenOutputs(
	ctx context.Context, c *compiled, f *tryFlags,
) (given map[string]json.RawMessage, input json.RawMessage, err error) {
	given = map[string]json.RawMessage{}
	if f.from != "" {
		err := a.reading(ctx, func(ctx context.Context, svc api.Service) error {
			r, err := svc.Run(ctx, f.from)
			if err != nil {
				return err
			}
			if r.Workflow != c.Doc.Name {
				return fmt.Errorf("run %s is of the workflow %q, not %q", live.Short(r.Run), r.Workflow, c.Doc.Name)
			}
			input = r.Input
			for _, s := range r.Steps {
				if s.Phase == api.StepSucceeded && !s.Superseded && s.Item == nil {
					given[s.Name] = s.Output
				}
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	for _, text := range f.outputs {
		step, value, ok := strings.Cut(text, "=")
		if !ok || !json.Valid([]byte(value)) {
			return nil, nil, usage("--given %q: write it as STEP=JSON", text)
		}
		if !slices.ContainsFunc(c.Doc.Steps, func(s *flow.Step) bool { return s.Name == step }) {
			return nil, nil, usage("--given %q: the flow has no step %q", text, step)
		}
		given[step] = json.RawMessage(value)
	}
	return given, input, nil
}

// single returns a flow of one step of another flow. The steps that it needs have the outputs that are given.
func single(doc *flow.Document, name string, given map[string]json.RawMessage) (*flow.Document, error) {
	byName := map[string]*flow.Step{}
	var names []string
	for _, s := range doc.Steps {
		byName[s.Name] = s
		names = append(names, s.Name)
	}
	target := byName[name]
	switch {
	case target == nil:
		return nil, usage("the flow has no step %q; %s", name, nearestStep(name, names))
	case target.Each != "" || target.Action == nil:
		return nil, usage("step %q is part of a loop, and cannot be run by itself", name)
	}
	one := *doc
	one.Steps, one.Hooks, one.RunSettings, one.Queue = nil, flow.Hooks{}, flow.RunSettings{}, nil
	one.Output = flow.V("${{ steps['" + name + "'].output }}")
	step := *target
	needed := map[string]bool{}
	var visit func(s *flow.Step)
	visit = func(s *flow.Step) {
		for _, need := range s.Needs {
			if !needed[need] && byName[need] != nil {
				needed[need] = true
				visit(byName[need])
			}
		}
	}
	visit(target)
	var unknown []string
	step.Needs = nil
	for _, s := range doc.Steps {
		if !needed[s.Name] {
			continue
		}
		output, ok := given[s.Name]
		if !ok {
			unknown = append(unknown, s.Name)
		}
		var value any
		if err := json.Unmarshal(output, &value); ok && len(output) > 0 && err != nil {
			return nil, errors.Join(usage("the output of step %q is not JSON", s.Name), err)
		}
		one.Steps = append(one.Steps, &flow.Step{Name: s.Name, Action: &flow.Noop{Output: literal(value)}})
		step.Needs = append(step.Needs, s.Name)
	}
	if len(unknown) > 0 && len(given) == 0 {
		return nil, usage("step %q needs %s: give their outputs with --given STEP=JSON, or an earlier run with --from "+
			"RUN; --given %s=null if it does not use them", name, strings.Join(unknown, ", "), unknown[0])
	}
	one.Steps = append(one.Steps, &step)
	return &one, nil
}

// literal returns a value in which nothing is taken for an expression.
func literal(v any) flow.Value {
	return flow.V(escaped(v))
}

func escaped(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "${{", "$${{")
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = escaped(item)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[name] = escaped(item)
		}
		return out
	default:
		return v
	}
}
