package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/timeline"
	"github.com/pawl-dev/pawl/internal/cases"
)

func (a policyVerbs) policyCommand() *cobra.Command {
	return noun("policy", "Try out retries and timeouts without running anything", "",
		a.policySimulateCommand(), a.policyExplainCommand(), a.policyLintCommand())
}

func (a policyVerbs) policySimulateCommand() *cobra.Command {
	var files []string
	var check bool
	cmd := &cobra.Command{
		Use: "simulate -f FILE", Short: "Drive the engine's state machine through policy cases in virtual time",
		Long: `Runs a list of policy cases (YAML or JSON) on the machine that real runs use, in virtual time, and
tells what became of each: phase, reason, instant, and every attempt. With --check the results are compared with what
each case expects; the first difference is printed with both sides, and the exit status is 1.`,
		Example: "  pawl policy simulate -f cases.yaml -o plot\n  pawl policy simulate -f cases.yaml --check",
		Args:    cobra.NoArgs, Annotations: map[string]string{plotting: "yes"},
		RunE: func(*cobra.Command, []string) error {
			if len(files) == 0 {
				return usage("name the cases: pawl policy simulate -f FILE")
			}
			for _, file := range files {
				if err := a.simulate(file, check); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil,
		"file of cases, or - for the standard input; may be given several times")
	cmd.Flags().BoolVar(&check, "check", false, "compare with what the cases expect")
	return cmd
}

func (a policyVerbs) simulate(file string, check bool) error {
	name, src, err := a.readFile(file)
	if err != nil {
		return asUsage(err)
	}
	list, err := cases.Parse(name, src)
	if err != nil {
		return asUsage(err)
	}
	results := make([]cases.Result, len(list))
	for i, c := range list {
		if results[i], err = c.Run(); err != nil {
			return asUsage(fmt.Errorf("%s: %w", name, err))
		}
		if check {
			if err := c.Check(results[i]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	switch {
	case a.structured():
		return a.print(results)
	case check:
		a.say("%s: %d cases, all as expected", name, len(list))
		return nil
	case a.output == formatPlot:
		for i, r := range results {
			if i > 0 {
				a.say("")
			}
			a.plotResult(r)
		}
		return nil
	default:
		return a.resultTable(results)
	}
}

func (a policyVerbs) resultTable(results []cases.Result) error {
	var rows [][]string
	for _, r := range results {
		starts := make([]string, 0, len(r.Attempts))
		for i, at := range r.Attempts {
			if i == 8 && len(r.Attempts) > 9 {
				starts = append(starts, fmt.Sprintf("… %d in all", len(r.Attempts)))
				break
			}
			starts = append(starts, milliseconds(at.At))
		}
		rows = append(rows, []string{r.Name, r.Phase, r.Reason, milliseconds(r.At), strings.Join(starts, " ")})
	}
	return a.table([]string{"CASE", "PHASE", "REASON", "AT", "ATTEMPTS AT"}, rows)
}

func milliseconds(ms int64) string { return exact(time.Duration(ms) * time.Millisecond) }

func (a policyVerbs) plotResult(r cases.Result) {
	p := timeline.Plot{Until: time.Duration(r.At) * time.Millisecond}
	offset := func(ms *int64) *time.Duration {
		if ms == nil {
			return nil
		}
		d := time.Duration(*ms) * time.Millisecond
		return &d
	}
	for i, at := range r.Attempts {
		end := at.End
		if at.Limit != "" {
			end += " " + at.Limit
		}
		p.Rows = append(p.Rows, timeline.Row{
			Number: i + 1, At: time.Duration(at.At) * time.Millisecond, Started: offset(at.Started),
			Ended: offset(at.Ended), End: end,
		})
	}
	verdict := r.Phase
	if r.Reason != "" {
		verdict += " (" + r.Reason + ")"
	}
	a.say("%s: %s at %s", r.Name, verdict, milliseconds(r.At))
	a.lines(p.Draw(a.width()))
}
