package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/overview"
)

func (a runVerbs) overviewCommand() *cobra.Command {
	over := "24h"
	cmd := &cobra.Command{
		Use: "overview", Short: "Show how the runs of a span of time went", Args: cobra.NoArgs,
		Long: "Shows what began, failed and was tried again, how long runs took and attempts waited, over time and " +
			"by flow. A server counts that minute by minute and keeps it; without one it is taken from the runs that " +
			"are there.",
		Example: "  pawl overview\n  pawl overview --over 7d -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			span, err := parseDuration(over)
			if err != nil || span <= 0 {
				return usage("--over %q: write a length of time such as 1h, 24h or 7d", over)
			}
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				return a.overview(ctx, svc, span)
			})
		},
	}
	cmd.Flags().StringVar(&over, "over", over, "the span, up to now")
	return cmd
}

// overview prints how the runs of a span of time went.
func (a runVerbs) overview(ctx context.Context, svc api.Service, span time.Duration) error {
	now := a.runsNow(ctx)
	look := overview.Sources{Runs: svc, Now: func() time.Time { return now }}.Overview
	if server, ok := svc.(*httpapi.Client); ok {
		look = server.Overview
	}
	o, err := look(ctx, span)
	if err != nil {
		return err
	}
	if a.structured() {
		return a.print(o)
	}
	all := &o.Counted.All
	a.say(fmt.Sprintf("%d open, %d retrying; %d attempts wait for a worker", o.Open, o.Retrying, o.Queued))
	values := func(of func(*api.Sample) float64) string {
		out := make([]float64, len(o.Counted.Parts))
		for i := range o.Counted.Parts {
			out[i] = of(&o.Counted.Parts[i])
		}
		return sparks(out)
	}
	cells := [][]string{
		{"started", strconv.Itoa(all.Started), values(func(s *api.Sample) float64 { return float64(s.Started) })},
		{"failed", strconv.Itoa(all.Failed), values(func(s *api.Sample) float64 { return float64(s.Failed) })},
		{"retries", strconv.Itoa(all.Retries), values(func(s *api.Sample) float64 { return float64(s.Retries) })},
		{"run time p95", lengthOr(all.RunP95), values(func(s *api.Sample) float64 { return float64(s.RunP95) })},
		{"wait p95", lengthOr(all.WaitP95), values(func(s *api.Sample) float64 { return float64(s.WaitP95) })},
	}
	each := "EACH " + strings.ToUpper(o.Counted.Each.String())
	if err := a.table([]string{"FIGURE", "ALL", each}, cells); err != nil {
		return err
	}
	if len(o.Flows) == 0 {
		return nil
	}
	cells = nil
	for _, f := range o.Flows {
		cells = append(cells, []string{
			screen.Clean(f.Workflow), strconv.Itoa(f.Runs), strconv.Itoa(f.Failed), strconv.Itoa(f.Open),
			lengthOr(f.P50), lengthOr(f.P95),
		})
	}
	a.say("")
	return a.table([]string{"FLOW", "RUNS", "FAILED", "OPEN", "P50", "P95"}, cells)
}

func lengthOr(d api.Duration) string {
	if d == 0 {
		return "-"
	}
	return screen.For(d.Std())
}

// sparks draws values as blocks of different heights.
func sparks(values []float64) string {
	const blocks = " ▁▂▃▄▅▆▇█"
	levels := []rune(blocks)
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		level := 0
		if v > 0 {
			level = max(int(v/most*float64(len(levels)-1)), 1)
		}
		b.WriteRune(levels[level])
	}
	return strings.TrimRight(b.String(), " ")
}

func (a runVerbs) queuesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "queues", Short: "Show what waits for workers, what limits hold back, and who works", Args: cobra.NoArgs,
		Long: "Shows the task queues of a server with their depth and their oldest attempt, how much of each limit " +
			"is used, circuit breakers with their next probe, and the workers by name. Limits are counted by each " +
			"node of a cluster for itself.",
		Example: "  pawl queues --server http://pawl:8080\n  pawl queues -o json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.reading(cmd.Context(), a.queues) },
	}
}

// queues prints the queues of a server.
func (a runVerbs) queues(ctx context.Context, svc api.Service) error {
	server, ok := svc.(*httpapi.Client)
	if !ok {
		return fmt.Errorf("no server has this database: queues and workers are what a server has; " +
			"start one with pawl dev, or name one with --server")
	}
	q, err := httpapi.Queues(ctx, server)
	if err != nil {
		return err
	}
	if a.structured() {
		return a.print(q)
	}
	a.say(fmt.Sprintf("%d attempts wait, %d run", q.Queued, q.Running))
	var cells [][]string
	for _, t := range q.Queues {
		oldest, free := "-", "any number"
		if t.Oldest != 0 {
			oldest = screen.For(q.At.Sub(t.Oldest))
		}
		switch {
		case t.Unserved:
			free = "no worker"
		case t.Free != nil:
			free = strconv.Itoa(*t.Free)
		}
		name := screen.Clean(t.Queue)
		if name == "" {
			name = "(built-in)"
		}
		cells = append(cells, []string{
			name, screen.Clean(t.Type), strconv.Itoa(t.Waiting), oldest, strconv.Itoa(t.Running), free,
			strconv.Itoa(t.PerMinute),
		})
	}
	head := []string{"QUEUE", "TYPE", "WAITING", "OLDEST", "RUNNING", "FREE", "A MINUTE"}
	if err := a.tableOf(head, cells); err != nil {
		return err
	}
	cells = nil
	for i := range q.Limits {
		l := &q.Limits[i]
		cells = append(cells, []string{
			l.Kind, screen.Clean(l.Name), strings.Join(usesOf(l), ", "), screen.Clean(l.Says.Reads(q.At, screen.Left)),
		})
	}
	if err := a.tableOf([]string{"LIMITS OF", "NAME", "USED", "HOW IT STANDS"}, cells); err != nil {
		return err
	}
	cells = nil
	for _, w := range q.Workers {
		types := "everything"
		if len(w.Types) > 0 {
			types = screen.Clean(strings.Join(w.Types, ", "))
		}
		cells = append(cells, []string{
			screen.Clean(w.Name), screen.Clean(w.Queue), types, strconv.Itoa(w.Running), screen.For(q.At.Sub(w.Since)),
			screen.For(q.At.Sub(w.Last)),
		})
	}
	return a.tableOf([]string{"WORKER", "QUEUE", "TAKES", "RUNNING", "SINCE", "LAST"}, cells)
}

// usesOf returns each limit with what of it is used.
func usesOf(l *api.LimitUse) []string {
	var out []string
	for _, u := range l.Uses {
		text := strings.ReplaceAll(u.Limit, "_", " ") + " "
		if strings.Contains(u.Limit, "key") {
			text += "at most " + strconv.Itoa(u.Most)
		} else {
			text += fmt.Sprintf("%d of %d", u.Used, u.Most)
		}
		if u.Per != 0 {
			text += " in " + u.Per.String()
		}
		out = append(out, text)
	}
	return out
}

// tableOf prints a table after an empty line; of none, nothing.
func (a runVerbs) tableOf(head []string, cells [][]string) error {
	if len(cells) == 0 {
		return nil
	}
	a.say("")
	cutLast(head, cells, a.textWidth())
	return a.table(head, cells)
}
