package main

import (
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
)

// cell is the median of a peer's turns at a work.
type cell struct {
	work work
	peer peer
	turn
}

// The marks in a file between which the table stands.
const (
	begin = "<!-- peers: begin -->\n"
	end   = "<!-- peers: end -->"
)

// report prints the table, and writes it where that is asked for.
func (o options) report(all []cell, missing []string, disk *floor) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rounds, window %s after %s; 4 KiB and fdatasync p50 %.2g ms, p99 %.2g ms\n\n", o.rounds,
		o.length, o.warm, quantile(disk.took, 0.5), quantile(disk.took, 0.99))
	b.WriteString("| work | peer | runs/s | to the first | p50 / p99 ms | CPU ms a run | of the database server |" +
		" others, cores |\n|---|---|---|---|---|---|---|---|\n")
	for _, c := range all {
		first := all[slices.IndexFunc(all, func(f cell) bool { return f.work.name == c.work.name })]
		fmt.Fprintf(&b, "| %s | %s | %.0f | %.2g | %.3g / %.3g | %.3g | %.3g | %.2g |\n", c.work.name, c.peer.name,
			c.Rate, c.Rate/first.Rate, c.P50, c.P99, c.Own, c.Database, c.Others)
	}
	for _, m := range missing {
		fmt.Fprintf(&b, "\nMissing: %s\n", m)
	}
	log.Print("\n", b.String())
	if o.tables == "" {
		return nil
	}
	for _, name := range strings.Split(o.tables, ",") {
		if err := replace(name, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// replace puts a text between the marks of a file.
func replace(name, text string) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s: the lines %q and %q are missing, between which the table goes", name, begin, end)
	}
	return os.WriteFile(name, []byte(before+begin+text+end+after), 0o600)
}
