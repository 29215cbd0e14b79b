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

// The marks around the table in a file.
const (
	begin = "<!-- peers: begin -->\n"
	end   = "<!-- peers: end -->"
)

// A table is for works with the same figures.
type table struct {
	columns []string
	figures func(t, first turn) string // the figures of the columns, with the turn of the first peer to compare with
}

// lastColumns are the columns that all tables end with.
var lastColumns = []string{"CPU ms a run", "of its server", "of the database server", "others, cores"}

var (
	rates = table{[]string{"runs/s", "to the first", "p50 / p99 ms"}, func(t, first turn) string {
		return fmt.Sprintf("%.0f | %.2g | %.3g / %.3g", t.Rate, t.Rate/first.Rate, t.P50, t.P99)
	}}
	timers = table{[]string{"runs", "late p50 / p99 ms"}, func(t, _ turn) string {
		return fmt.Sprintf("%.0f | %.3g / %.3g", t.Runs, t.P50, t.P99)
	}}
	sleepers = table{[]string{"runs", "memory B a run", "disk B a run", "idle, cores"}, func(t, _ turn) string {
		return fmt.Sprintf("%.0f | %.0f | %.0f | %.2g", t.Runs, t.Memory, t.Disk, t.Idle)
	}}
	recoveries = table{[]string{"runs", "s until all ended", "steps run again", "runs lost"}, func(t, _ turn) string {
		return fmt.Sprintf("%.0f | %.3g | %.0f | %.0f", t.Runs, t.Seconds, t.Again, t.Lost)
	}}
)

func (t table) head() string {
	all := slices.Concat([]string{"work", "peer"}, t.columns, lastColumns)
	return "\n| " + strings.Join(all, " | ") + " |\n" + strings.Repeat("|---", len(all)) + "|\n"
}

func (t table) row(of, first turn) string {
	return fmt.Sprintf("%s | %.3g | %.3g | %.3g | %.2g", t.figures(of, first), of.Own, of.Beside, of.Database,
		of.Others)
}

// brief returns the beginning of a reason: some peers add a stack or a log.
func brief(reason string) string {
	first, _, _ := strings.Cut(reason, "\n")
	if r := []rune(first); len(r) > 240 {
		return string(r[:240]) + "…"
	}
	return first
}

// report prints the table, and writes it where that is asked for.
func (o options) report(all []cell, missing []string, disk *floor) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rounds, window %s after %s; 4 KiB and fdatasync p50 %.2g ms, p99 %.2g ms\n", o.rounds,
		o.length, o.warm, quantile(disk.took, 0.5), quantile(disk.took, 0.99))
	var above *table
	for _, c := range all {
		if c.work.table != above {
			above = c.work.table
			b.WriteString(above.head())
		}
		first := all[slices.IndexFunc(all, func(f cell) bool { return f.work.name == c.work.name })]
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.work.name, c.peer.name, above.row(c.turn, first.turn))
	}
	for _, m := range missing {
		fmt.Fprintf(&b, "\nMissing: %s\n", brief(m))
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
