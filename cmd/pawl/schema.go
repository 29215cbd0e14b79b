package main

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
)

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema [flow]", Short: "Print the JSON Schema of flow files, for editors",
		Long: `Prints the JSON Schema of flow files. An editor with the YAML language server uses it where the file
begins with

  # yaml-language-server: $schema=./flow.json`,
		Example: "  pawl schema flow > flow.json", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] != "flow" {
				return usage("there is no schema %q; there is flow", args[0])
			}
			_, err := a.Out.Write(flow.Schema(dialect.Forms()...))
			return err
		},
	}
}
