package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/collector"
)

func main() {
	collector.Tune() // as the command that is measured does
	if command().ExecuteContext(context.Background()) != nil {
		os.Exit(1)
	}
}

// command returns the command line of this program. Rows that kill an engine start the program again, as a child.
func command() *cobra.Command {
	var (
		o       Options
		output  string
		profile string
		library bool
	)
	cmd := &cobra.Command{
		Use:          "bench [NAME...]",
		Short:        "Measure this machine: rates, latency, sleepers, timers, recovery",
		SilenceUsage: true,
		Long: "Measure Pawl on this machine, on a SQLite file that syncs every commit. With --database postgres://…" +
			" also on\n" +
			"that database, in schemas named pawl_bench_ROW.\n\n" + table(),
		Args:      cobra.ArbitraryArgs,
		ValidArgs: Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "table" && output != "json" {
				return fmt.Errorf("--output %s: there is table and json", output)
			}
			if library && len(args) == 0 {
				args = goRows()
			}
			if o.Database != "" && !isServer(o.Database) {
				return fmt.Errorf("--database %s: write postgres://…", o.Database)
			}
			if o.Database != "" && len(args) == 0 {
				args = serverRows()
			}
			o.Names = args
			err := o.check()
			if err != nil {
				return err
			}
			o.Log = cmd.ErrOrStderr()
			stop, err := startProfile(profile)
			if err != nil {
				return err
			}
			rows, err := Run(cmd.Context(), o)
			stop()
			if len(rows) > 0 {
				if failed := Write(cmd.OutOrStdout(), rows, output == "json"); err == nil {
					err = failed
				}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&library, "go", false, "the rows of the Go library only")
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "short windows and small numbers, for trends")
	cmd.Flags().StringVar(&o.Dir, "dir", "", "folder on the disk to measure (default: the folder for temporary files)")
	cmd.Flags().StringVar(&o.Database, "database", "", "a database in PostgreSQL: postgres://…")
	cmd.Flags().StringVar(&o.Pawl, "pawl", "", "the command that rows of a server start (default: built with go build)")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	cmd.Flags().StringVar(&profile, "cpuprofile", "", "write a processor profile")
	if err := cmd.Flags().MarkHidden("cpuprofile"); err != nil {
		panic(err) // the flag is defined two lines above
	}
	cmd.AddCommand(childOf())
	return cmd
}

// check refuses rows that do not exist, or that cannot be measured where they are asked for.
func (o *Options) check() error {
	chosen, err := choose(o.Names)
	for _, w := range chosen {
		if o.Database == "" && onServerAlone(w.name) {
			err = fmt.Errorf("%s: it is about nodes, which share a database: name one with"+
				" --database postgres://…", w.name)
		}
		if o.Database != "" && onServer(w.name) == "" {
			err = fmt.Errorf("%s: it is not measured on PostgreSQL; these are: %s", w.name,
				strings.Join(serverRows(), ", "))
		}
	}
	return err
}

// childOf returns the hidden command for the child processes of rows.
func childOf() *cobra.Command {
	return &cobra.Command{
		Use:    childCommand + " MODE DIR RUNS",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[2])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			go func() {
				_, _ = io.Copy(io.Discard, cmd.InOrStdin()) // its end is the parent's
				cancel()
			}()
			return runChild(ctx, cmd.OutOrStdout(), args[0], args[1], n)
		},
	}
}

// table lists the rows for the help.
func table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range works {
		fmt.Fprintf(w, "%s\t%s\t%s\n", row.name, row.what, row.target)
	}
	fmt.Fprintln(w, "With --database postgres://… also:")
	for _, row := range nodeWorks {
		fmt.Fprintf(w, "%s\t%s\t%s\n", row.name, row.what, row.target)
	}
	w.Flush()
	return b.String()
}

// startProfile profiles the process until the function it returns is called.
func startProfile(path string) (func(), error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}

// Write writes the rows: for programs as one JSON list with a line for each row, for people with the target of each.
func Write(w io.Writer, rows []Row, asJSON bool) error {
	if asJSON {
		for i, row := range rows {
			b, err := json.Marshal(row)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%s%s", [2]string{"[\n", ",\n"}[min(i, 1)], b); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintln(w, "\n]")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tVALUE\tUNIT\tP50 MS\tP99 MS\tCPU S\tRSS\tDB\tFDATASYNC MS\tREACH\t")
	for _, r := range rows {
		reach, name, target := "yes", r.Name, find(r.Name).target
		if !r.reached {
			reach = "no"
		}
		if r.Database != "" {
			name, target = name+" "+r.Database, onServer(r.Name)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.3g\t%.3g\t%.3g\t%s\t%s\t%.3g\t%s: %s\t\n",
			name, number(r.Value), r.Unit, r.P50, r.P99, r.CPU, size(r.RSS), size(r.DB), r.Floor,
			reach, target)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if r.detail == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", strings.TrimSpace(r.Name+" "+r.Database), r.detail); err != nil {
			return err
		}
	}
	return nil
}

// number writes a value with three digits or, if it is large, as a whole number.
func number(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// size writes a number of bytes for people.
func size(n int64) string {
	const step = 1024
	switch {
	case n < step:
		return fmt.Sprintf("%d B", n)
	case n < step*step:
		return fmt.Sprintf("%.1f KiB", float64(n)/step)
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/step/step)
	}
}
