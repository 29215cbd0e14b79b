package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/overview"
	"github.com/pawl-dev/pawl/internal/schedule"
)

func (a runVerbs) runListCommand() *cobra.Command {
	var q api.Query
	var f listFlags
	cmd := &cobra.Command{
		Use: "list [QUERY]", Short: "List runs, the newest or the most urgent first", Args: cobra.ArbitraryArgs,
		Long: "Lists the runs that somebody or a schedule started, the newest first. Runs that steps of others " +
			"started are listed with --parent RUN, --workflow NAME or --children.\n\n" +
			"With --deadline-within and --will-miss the runs with the soonest deadlines come first. A run will miss " +
			"its deadline if it does nothing by itself before it, or if runs of its workflow usually take longer.\n\n" +
			queryHelp(),
		Example: "  pawl run list is:open flow:order customer=42\n  pawl run list 'error:\"503 Service\"' newer:2d\n" +
			"  pawl run list --open\n  pawl run list --phase failed,timed_out --workflow order -o json\n" +
			"  pawl run list --label customer=42 --since 2d\n  pawl run list --deadline-within 10m --retrying",
		RunE: func(cmd *cobra.Command, args []string) error {
			asked, err := f.complete(&q, args, a.clockOf(cmd.Context()))
			if err != nil {
				return err
			}
			q.Top = !f.children && asked.Parent == "" && asked.Workflow == "" && asked.WorkflowID == "" &&
				!asked.Stuck && !asked.ByDeadline() && !asked.Retrying
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				if f.counts {
					return a.count(ctx, svc, q)
				}
				return a.list(ctx, svc, q, f.all)
			})
		},
	}
	flags := cmd.Flags()
	f.flags(flags, &q, 50)
	flags.BoolVar(&f.all, "all", false, "all of them, whatever --limit says")
	flags.BoolVar(&f.children, "children", false, "child runs, too")
	flags.BoolVar(&f.counts, "counts", false,
		fmt.Sprintf("how many there are by phase; up to %d of each are counted", api.MostCounted))
	return cmd
}

// listFlags are the flags of `pawl run list` that a query does not have in the same form.
type listFlags struct {
	phases, labels []string
	schedule       string
	open, all      bool
	children       bool
	counts         bool
	since, until   string
	within         string
	inputs         []string
}

// flags adds the flags that choose runs.
func (f *listFlags) flags(flags *pflag.FlagSet, q *api.Query, most int) {
	flags.StringVar(&q.Workflow, "workflow", "", "runs of this workflow only")
	flags.StringVar(&q.Parent, "parent", "", "child runs that the steps of this RUN started only")
	flags.StringVar(&q.WorkflowID, "workflow-id", "", "runs of this workflow id only")
	flags.StringSliceVar(&f.phases, "phase", nil, "runs in these phases only: running,failed,…")
	flags.BoolVar(&f.open, "open", false, "runs that have not ended only")
	flags.StringArrayVar(&f.labels, "label", nil, "runs with this label only: key=value; repeatable")
	flags.StringVar(&f.schedule, "schedule", "", "runs of this schedule only")
	flags.StringVar(&f.since, "since", "", "runs created since: an age such as 2d, or 2026-01-02T15:04:05Z")
	flags.StringVar(&f.until, "until", "", "runs created before: an age such as 2h, or an instant")
	flags.BoolVar(&q.Stuck, "stuck", false, "runs that cannot go on until somebody acts: code panicked, a history is "+
		"unreadable (see also: pawl doctor), or no worker takes their tasks")
	flags.BoolVar(&q.Resting, "resting", false, "open runs that nothing carries on, as after a crash or a reboot")
	flags.StringVar(&f.within, "deadline-within", "", "open runs whose deadline comes within this time: 10m")
	flags.BoolVar(&q.Retrying, "retrying", false, "open runs of which a step backs off or is tried again")
	flags.BoolVar(&q.WillMiss, "will-miss", false, "open runs that will miss their deadlines")
	flags.StringArrayVar(&f.inputs, "with-input", nil,
		"runs with this value in their input: customer.id=42; repeatable; slow, unlike labels")
	flags.IntVar(&q.Limit, "limit", most, "how many at most")
}

// queryHelp explains the text that finds runs.
func queryHelp() string {
	var b strings.Builder
	b.WriteString("A QUERY has terms between spaces, and a run has to fit all of them: words that stand in its name, " +
		"its workflow, its labels or its message, labels as KEY=VALUE, and\n\n")
	for _, k := range api.FindKeys() {
		fmt.Fprintf(&b, "  %-10s %s\n", k[0]+":", k[1])
	}
	b.WriteString("\nWrite a text with spaces or colons in \"quotation marks\".")
	return b.String()
}

// complete checks the flags and a text and adds them to a query. It also returns the query with the meaning of the
// text.
func (f *listFlags) complete(q *api.Query, text []string, now func() time.Time) (asked api.Query, err error) {
	if err := f.add(q, now); err != nil {
		return asked, err
	}
	q.Text = strings.Join(text, " ")
	if asked, err = q.Read(api.At(now())); err != nil {
		return asked, usage("%w", err)
	}
	return asked, nil
}

// add checks the flags and adds them to a query.
func (f *listFlags) add(q *api.Query, now func() time.Time) (err error) {
	for _, name := range f.phases {
		p := api.RunPhase(strings.ReplaceAll(name, "-", "_"))
		if !slices.Contains(api.RunPhases(), p) {
			return usage("--phase: there is no run phase %q; there are pending, running, waiting, paused, "+
				"succeeded, failed, timed_out, cancelled, terminated, continued", name)
		}
		q.Phases = append(q.Phases, p)
	}
	if f.open {
		q.Phases = append(q.Phases, openPhases...)
	}
	if q.Limit < 1 {
		return usage("--limit is at least 1")
	}
	if f.schedule != "" {
		f.labels = append(f.labels, schedule.Label+"="+f.schedule)
	}
	if q.Labels, err = readLabels(f.labels); err != nil {
		return err
	}
	if q.CreatedFrom, err = readInstant(now, "--since", f.since); err != nil {
		return err
	}
	if q.DeadlineWithin, err = lengthOf("--deadline-within", f.within); err != nil {
		return err
	}
	for _, text := range f.inputs {
		path, value, ok := strings.Cut(text, "=")
		if !ok || path == "" {
			return usage("--with-input %q: write it as path=value, such as customer.id=42", text)
		}
		if q.Input == nil {
			q.Input = map[string]string{}
		}
		q.Input[path] = value
	}
	q.CreatedBefore, err = readInstant(now, "--until", f.until)
	return err
}

// readLabels reads labels that are given as key=value.
func readLabels(given []string) (map[string]string, error) {
	var labels map[string]string
	for _, text := range given {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" || value == "" {
			return nil, usage("--label %q: write it as key=value", text)
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	if _, err := core.MakeLabels(labels); err != nil {
		return nil, usage("--label: %w", err)
	}
	return labels, nil
}

// readHeaders reads headers that are given as name=value.
func readHeaders(given []string) (map[string]string, error) {
	var headers map[string]string
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usage("--header %q: write it as name=value", text)
		}
		if headers == nil {
			headers = map[string]string{}
		}
		headers[name] = value
	}
	if _, err := core.MakeHeaders(headers); err != nil {
		return nil, usage("--header: %w", err)
	}
	return headers, nil
}

// readInstant reads an instant, or an age as the instant so long before now. An empty text means no instant.
func readInstant(now func() time.Time, flag, text string) (api.Time, error) {
	if text == "" {
		return 0, nil
	}
	if age, err := parseDuration(text); err == nil {
		return api.At(now().Add(-age)), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return api.At(at), nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", time.DateTime} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return api.At(at), nil
		}
	}
	return 0, usage("%s %q is neither an age such as 2d, nor a day or time such as 2026-01-02 or "+
		"\"2026-01-02 15:04\", nor an instant such as 2026-01-02T15:04:05Z", flag, text)
}

func (a runVerbs) attentionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "attention", Short: "Show what needs a person, the worst first", Args: cobra.NoArgs,
		Long: "Shows the runs that failed within a day, will miss their deadlines, cannot go on, are paused or wait " +
			"for an event, and the schedules, webhooks and flows that do not work. What has the same cause is one " +
			"line.",
		Example: "  pawl attention\n  pawl attention -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.reading(cmd.Context(), a.attention)
		},
	}
}

// attention prints what needs a person. A server is asked, since it has more than runs.
func (a runVerbs) attention(ctx context.Context, svc api.Service) error {
	now := a.runsNow(ctx)
	look := overview.Sources{Runs: svc, Now: func() time.Time { return now }}.Attention
	if server, ok := svc.(*httpapi.Client); ok {
		look = server.Attention
	}
	all, err := look(ctx)
	if err != nil {
		return err
	}
	if a.structured() {
		return a.print(all)
	}
	cells := make([][]string, len(all.Concerns))
	for i, c := range all.Concerns {
		since := "-"
		if c.At != 0 && c.Cause != api.CauseWillMiss {
			since = screen.For(api.At(now).Sub(c.At))
		}
		cells[i] = []string{
			string(c.Level), screen.Cut(screen.Clean(c.Says.Reads(api.At(now), screen.Left)), 60), since,
			screen.Clean(c.Why.Reads(api.At(now), screen.Left)),
		}
	}
	if len(cells) == 0 {
		a.say("Nothing needs anybody.")
		return nil
	}
	head := []string{"LEVEL", "WHAT", "SINCE", "WHY"}
	cutLast(head, cells, a.textWidth())
	return a.table(head, cells)
}

// count prints how many runs there are by phase.
func (a runVerbs) count(ctx context.Context, svc api.Service, q api.Query) error {
	counts, err := svc.Counts(ctx, q)
	if err != nil {
		return err
	}
	if a.structured() {
		return a.print(counts)
	}
	for _, c := range counts {
		more := ""
		if c.More {
			more = "+"
		}
		if c.Runs > 0 || c.More {
			fmt.Fprintf(a.Out, "%6d%-1s %s\n", c.Runs, more, strings.ReplaceAll(string(c.Phase), "_", " "))
		}
	}
	return nil
}

func (a *app) list(ctx context.Context, svc api.Service, q api.Query, all bool) error {
	rows := []api.RunSummary{}
	wanted := q.Limit
	for {
		if q.Limit = wanted - len(rows); all {
			q.Limit = max(wanted, 1000)
		}
		page, err := svc.Runs(ctx, q)
		if err != nil {
			return err
		}
		rows, q.Cursor = append(rows, page.Runs...), page.Next
		if page.Next == "" || !all && len(rows) >= wanted {
			break
		}
	}
	if a.structured() {
		return a.print(rows)
	}
	if len(rows) == 0 {
		a.say("No run matches.")
		return nil
	}
	if err := a.runTable(rows, api.At(a.runsNow(ctx))); err != nil {
		return err
	}
	if q.Cursor != "" {
		a.say("… and more: --limit or --all shows them")
	}
	if slices.ContainsFunc(rows, func(r api.RunSummary) bool { return r.Resting && r.Phase != api.RunPaused }) {
		a.say("What nothing carries goes on with: pawl resume")
	}
	return nil
}

// Columns of the table of runs that a narrow terminal leaves out, from the first on.
var lessNeeded = []string{"WORKFLOW ID", "TOOK", "CREATED"}

// runTable writes runs as a table that fits the terminal.
func (a *app) runTable(rows []api.RunSummary, now api.Time) error {
	cells := make([][]string, len(rows))
	alike := map[string]int{}
	for _, r := range rows {
		alike[live.Short(r.Run)]++
	}
	for i, r := range rows {
		name := live.Short(r.Run)
		if alike[name] > 1 {
			name = r.Run // child runs begun in one instant differ at the end only
		}
		id := r.WorkflowID // never cut: it is copied, and a part of it names nothing
		if id == "" || id == r.Run {
			id = "-"
		}
		cells[i] = []string{
			name, screen.Cut(screen.Clean(r.Workflow), 24), screen.Clean(id),
			phaseShown(r),
			screen.For(now.Sub(r.CreatedAt)) + " ago", lasting(r, now), screen.Clean(about(r, now)),
		}
	}
	head := []string{"RUN", "WORKFLOW", "WORKFLOW ID", "PHASE", "CREATED", "TOOK", "ABOUT"}
	for _, name := range lessNeeded {
		if tableWidth(head, cells) <= a.textWidth() {
			break
		}
		head, cells = withoutColumn(head, cells, name)
	}
	cutLast(head, cells, a.textWidth())
	return a.table(head, cells)
}

// minLast is the least room for the last column of a table.
const minLast = 24

// tableWidth returns the width that a table needs.
func tableWidth(head []string, rows [][]string) int {
	width := minLast
	for column := range head[:len(head)-1] {
		width += columnWidth(head, rows, column) + 2
	}
	return width
}

func columnWidth(head []string, rows [][]string, column int) int {
	widest := screen.Width(head[column])
	for _, row := range rows {
		widest = max(widest, screen.Width(row[column]))
	}
	return widest
}

// withoutColumn leaves a column out of a table.
func withoutColumn(head []string, rows [][]string, name string) ([]string, [][]string) {
	column := slices.Index(head, name)
	without := func(row []string) []string {
		return slices.Concat(row[:column], row[column+1:])
	}
	out := make([][]string, len(rows))
	for i, row := range rows {
		out[i] = without(row)
	}
	return without(head), out
}

// phaseShown returns the phase of a run in words.
func phaseShown(r api.RunSummary) string {
	if r.Stopping {
		return "stopping"
	}
	return strings.ReplaceAll(string(r.Phase), "_", " ")
}

func lasting(r api.RunSummary, now api.Time) string {
	if r.EndedAt != 0 {
		return screen.For(r.EndedAt.Sub(r.CreatedAt))
	}
	return screen.For(now.Sub(r.CreatedAt)) + "…"
}

// about returns what a person wants to know next of a run: why it ended, what holds it, or when it goes on.
func about(r api.RunSummary, now api.Time) string {
	var parts []string
	if r.Parent != "" {
		parts = append(parts, "child of "+live.Short(r.Parent))
	}
	switch {
	case r.Resting && r.Workflow == schedule.Workflow:
		parts = append(parts, "schedule, not carried")
	case r.Resting:
		parts = append(parts, "nothing carries it")
	}
	switch {
	case !r.Phase.Closed() && r.Problem != "":
		parts = append(parts, "cannot go on: "+r.Problem)
	case r.Phase.Closed(), r.Message != "": // an open run's message says why it cannot go on
		parts = append(parts, r.Message)
	case r.Wake != 0 && r.Wake > now:
		parts = append(parts, "next in "+screen.For(r.Wake.Sub(now)))
	case r.Wake != 0:
		parts = append(parts, "due since "+screen.For(now.Sub(r.Wake)))
	}
	switch {
	case r.Deadline == 0 || r.Phase.Closed():
	case r.Deadline <= now && r.Phase == api.RunPaused: // its clock stands: else the run would have ended
	case r.Deadline > now:
		parts = append(parts, "deadline in "+screen.For(r.Deadline.Sub(now)))
	default:
		parts = append(parts, "deadline passed "+screen.For(now.Sub(r.Deadline))+" ago")
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}
