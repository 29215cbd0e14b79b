package main

import (
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
)

func (a databaseVerbs) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema [flow|config]", Short: "Print the JSON Schema of flow files or of a server's configuration",
		Long: `Prints the JSON Schema of flow files, or of the configuration of pawl server. An editor with the YAML
language server uses it where the file begins with

  # yaml-language-server: $schema=./flow.json

or with the address of the newest one, as pawl init and pawl flow fmt write it.`,
		Example: "  pawl schema flow > flow.json\n  pawl schema config > pawl-config.json", Args: cobra.MaximumNArgs(1),
		ValidArgs: []string{"flow", "config"},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && !slices.Contains([]string{"flow", "config"}, args[0]) {
				return usage("there is no schema %q; there are flow and config", args[0])
			}
			text := flow.Schema(dialect.Forms()...)
			if len(args) == 1 && args[0] == "config" {
				var err error
				if text, err = configSchema(a.rootCommand()); err != nil {
					return err
				}
			}
			_, err := a.Out.Write(text)
			return err
		},
	}
}

// configSchema describes the configuration file of pawl server: its keys are the command's flags.
func configSchema(root *cobra.Command) ([]byte, error) {
	cmd, _, err := root.Find([]string{"server"})
	if err != nil {
		return nil, err
	}
	cmd.InheritedFlags() // they belong to the command from now on
	properties := map[string]any{}
	known := keysOf(cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if known[f.Name] != nil && isSetting(f) {
			properties[f.Name] = keySchema(f)
		}
	})
	text, err := json.MarshalIndent(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "The configuration of pawl server",
		"type": "object", "properties": properties, "additionalProperties": false,
	}, "", "  ")
	return append(text, '\n'), err
}

func keySchema(f *pflag.Flag) map[string]any {
	out := map[string]any{"description": f.Usage}
	switch f.Value.Type() {
	case "int":
		out["type"] = "integer"
	case "bool":
		out["type"] = "boolean"
	case "stringSlice", "stringArray":
		texts := map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
		forms := []any{map[string]any{"type": "string"}, texts}
		if f.Name == namespacesFlag {
			forms = append(forms, map[string]any{
				"type": "object", "additionalProperties": map[string]any{"type": []string{"string", "null"}},
			})
		}
		out["anyOf"] = forms
	default:
		out["type"] = "string"
	}
	if d := f.DefValue; d != "" && d != "[]" && d != "0" && d != "false" && out["type"] == "string" {
		out["default"] = d
	}
	return out
}
