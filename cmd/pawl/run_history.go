package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/api"
)

func (a runVerbs) runHistoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "history RUN", Short: "Print a run's history for a replay", Args: cobra.ExactArgs(1),
		Long: `Prints all that is recorded of a run as one JSON document: each entry as it is stored, and the events
that it stands for. The document is the same each time, and later versions of Pawl read it.

Keep it in a file next to a Go program's tests: pawltest.Replay checks that the program's code of today still makes the
decisions that the history holds. Inputs and results are in it as the program's codec wrote them. What happened is
easier to read with "pawl run events".`,
		Example: "  pawl run history order-42 > testdata/order-42.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				text, err := svc.History(ctx, args[0])
				if err != nil {
					return err
				}
				if a.output == formatYAML {
					return a.print(json.RawMessage(text))
				}
				_, err = a.Out.Write(text)
				return err
			})
		},
	}
	a.completeFor(cmd, 1)
	return cmd
}
