package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
)

// The output formats.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatPlot  = "plot"
)

// The values of -o for the output of steps where runs are followed; everything else is printed as with table.
const (
	outputFollow = "follow" // each line, as it comes
	outputFailed = "failed" // all that an attempt printed, once it has failed
	outputNone   = "none"   // nothing, also at the end
	outputGitHub = "github" // each line, as GitHub Actions reads it
)

// following marks the commands that follow runs, beside those that have the flag --follow.
const following = "follow"

// plotting marks the commands that also draw.
const plotting = "plot"

// writing marks the commands whose -o names a file.
const writing = "file"

// checkOutput refuses an unknown format before anything is done.
func (a *app) checkOutput(cmd *cobra.Command) error {
	formats := []string{formatTable, formatJSON, formatYAML}
	if cmd.Annotations[writing] != "" {
		return nil
	}
	if cmd.Annotations[plotting] != "" {
		formats = append(formats, formatPlot)
	}
	if cmd.Annotations[following] != "" || cmd.Flags().Lookup("follow") != nil {
		formats = append(formats, outputFollow, outputFailed, outputGitHub, outputNone)
	}
	if a.output == "" {
		a.output = formatTable
	}
	if !slices.Contains(formats, a.output) {
		return fmt.Errorf("unknown output format %q; use %s", a.output, strings.Join(formats, ", "))
	}
	return nil
}

// printsSteps reports whether what steps print is printed while runs are followed.
func printsSteps(output string) bool {
	return output == outputFollow || output == outputFailed || output == outputGitHub
}

// structured reports whether the output is for programs.
func (a *app) structured() bool { return a.output == formatJSON || a.output == formatYAML }

// print writes a value for programs, in the chosen format.
func (a *app) print(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if a.output == formatYAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
		_, err = a.Out.Write(text)
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s\n", text)
	return err
}

// table writes rows for people, aligned in columns.
func (a *app) table(head []string, rows [][]string) error {
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	if len(head) > 0 {
		fmt.Fprintln(w, strings.Join(head, "\t"))
	}
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// cutLast shortens a table's last column to the width that the others leave.
func cutLast(head []string, rows [][]string, width int) {
	last := len(head) - 1
	for column := range last {
		width -= columnWidth(head, rows, column) + 2
	}
	for _, row := range rows {
		row[last] = screen.Cut(row[last], max(width, minLast))
	}
}

// say writes a line for people; it writes nothing if the output is for programs.
func (a *app) say(format string, args ...any) {
	if !a.structured() {
		fmt.Fprintf(a.Out, format+"\n", args...)
	}
}
