package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/trail"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// listed is a run as programs get it from a list.
type listed struct {
	Run        string `json:"run"`
	Workflow   string `json:"workflow"`
	WorkflowID string `json:"workflowId,omitempty"`
	Key        string `json:"key,omitempty"`
	Phase      string `json:"phase"`
	CreatedAt  string `json:"createdAt"`
	EndedAt    string `json:"endedAt,omitempty"`
	Deadline   string `json:"deadline,omitempty"`
	Wake       string `json:"wake,omitempty"` // when it next does something by itself
	Parent     string `json:"parent,omitempty"`
	Message    string `json:"message,omitempty"`
}

func (a *app) runListCommand() *cobra.Command {
	var q journal.Query
	var phases []string
	var open, all bool
	cmd := &cobra.Command{
		Use: "list", Short: "List runs, the newest first", Args: cobra.NoArgs,
		Example: "  pawl run list --open\n  pawl run list --phase failed,timed_out --workflow order -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range phases {
				var p core.RunPhase
				if err := p.UnmarshalText([]byte(strings.ReplaceAll(name, "-", "_"))); err != nil {
					return usage("--phase: there is no run phase %q; there are pending, running, waiting, paused, succeeded, failed, timed_out, cancelled, terminated, continued", name)
				}
				q.Phases = append(q.Phases, p)
			}
			if open {
				q.Phases = append(q.Phases, openPhases...)
			}
			if q.Limit < 1 {
				return usage("--limit is at least 1")
			}
			return a.reading(cmd.Context(), func(ctx context.Context, h reader) error { return a.list(ctx, h, q, all) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&q.Workflow, "workflow", "", "runs of this workflow only")
	flags.StringVar(&q.WorkflowID, "workflow-id", "", "runs of this workflow id only")
	flags.StringSliceVar(&phases, "phase", nil, "runs in these phases only: running,failed,…")
	flags.BoolVar(&open, "open", false, "runs that have not ended only")
	flags.IntVar(&q.Limit, "limit", 50, "how many at most")
	flags.BoolVar(&all, "all", false, "all of them, whatever --limit says")
	return cmd
}

func (a *app) list(ctx context.Context, h histories, q journal.Query, all bool) error {
	var rows []journal.RunRow
	more := false
	if all {
		q.Limit = max(q.Limit, 1000)
	}
	for {
		page, err := h.List(ctx, q)
		if err != nil {
			return err
		}
		rows, more = append(rows, page.Runs...), page.More
		if !all || !page.More || len(page.Runs) == 0 {
			break
		}
		q.After = page.Runs[len(page.Runs)-1].ID
	}
	if a.structured() {
		out := make([]listed, len(rows))
		for i, r := range rows {
			out[i] = listRow(r)
		}
		return a.print(out)
	}
	if len(rows) == 0 {
		a.say("There is no such run.")
		return nil
	}
	now := now()
	cells := make([][]string, len(rows))
	alike := map[string]int{}
	for _, r := range rows {
		alike[live.Short(r.ID)]++
	}
	for i, r := range rows {
		name := live.Short(r.ID)
		if alike[name] > 1 {
			name = r.ID.String() // child runs begun in one instant differ at the end only
		}
		id := r.WorkflowID
		if first, err := core.ParseRunID(id); err == nil {
			id = live.Short(first) // the first run of a chain that nobody named
		}
		if id == "" || id == live.Short(r.ID) {
			id = "-"
		}
		cells[i] = []string{
			name, screen.Clean(r.Workflow), screen.Cut(screen.Clean(id), 24), strings.ReplaceAll(r.Phase.String(), "_", " "),
			screen.For(now.Sub(r.CreatedAt)) + " ago", lasting(r, now), screen.Clean(about(r, now)),
		}
	}
	head := []string{"RUN", "WORKFLOW", "WORKFLOW ID", "PHASE", "CREATED", "TOOK", "ABOUT"}
	cutLast(head, cells, a.textWidth())
	if err := a.table(head, cells); err != nil {
		return err
	}
	if more {
		a.say("… and more: --limit or --all shows them")
	}
	return nil
}

func lasting(r journal.RunRow, now core.Time) string {
	if r.EndedAt != 0 {
		return screen.For(r.EndedAt.Sub(r.CreatedAt))
	}
	return screen.For(now.Sub(r.CreatedAt)) + "…"
}

// about is what a person wants to know of a run next: why it ended, or when it goes on.
func about(r journal.RunRow, now core.Time) string {
	var parts []string
	if r.Parent != (core.RunID{}) {
		parts = append(parts, "child of "+live.Short(r.Parent))
	}
	switch {
	case r.Phase.Closed():
		parts = append(parts, r.Message)
	case r.Wake > 1 && r.Wake > now:
		parts = append(parts, "next in "+screen.For(r.Wake.Sub(now)))
	case r.Wake > 1:
		parts = append(parts, "due since "+screen.For(now.Sub(r.Wake)))
	}
	switch {
	case r.Deadline == 0 || r.Phase.Closed():
	case r.Deadline > now:
		parts = append(parts, "deadline in "+screen.For(r.Deadline.Sub(now)))
	default:
		parts = append(parts, "deadline passed "+screen.For(now.Sub(r.Deadline))+" ago")
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}

func listRow(r journal.RunRow) listed {
	l := listed{
		Run: r.ID.String(), Workflow: r.Workflow, WorkflowID: r.WorkflowID, Key: r.Key, Phase: r.Phase.String(),
		CreatedAt: trail.Instant(r.CreatedAt), EndedAt: trail.Instant(r.EndedAt), Deadline: trail.Instant(r.Deadline), Message: r.Message,
	}
	if r.Wake > 1 {
		l.Wake = trail.Instant(r.Wake)
	}
	if r.Parent != (core.RunID{}) {
		l.Parent = r.Parent.String()
	}
	return l
}
