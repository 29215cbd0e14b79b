package main

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/judge"
)

func (a policyVerbs) policyLintCommand() *cobra.Command {
	var given policyFlags
	cmd := &cobra.Command{
		Use:   "lint FILE… | --retry POLICY [--timeout LIMITS]",
		Short: "Find limits and retries that contradict each other",
		Long: `Finds what is legal in a policy but can never have an effect: an attempt that can never start because
the delays before it do not fit in a deadline, a limit that another one always beats, a cap that nothing reaches. Exit
status 1 if there is any.`,
		Example: "  pawl policy lint flow.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			var all []warning
			if given.given() {
				p, err := given.policy()
				if err != nil {
					return asUsage(err)
				}
				for _, f := range judge.Lint(&p, 0) {
					all = append(all, warningOf("", f))
				}
			} else if len(args) == 0 {
				return usage("name a flow file, or give --retry and --timeout")
			}
			for _, file := range args {
				doc, _, err := a.compileFile(file)
				if err != nil {
					return err
				}
				all = append(all, lint(doc, false)...)
			}
			return a.warnings(all)
		},
	}
	given.add(cmd)
	return cmd
}
