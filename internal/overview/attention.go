// Package overview lists what needs a person, grouped by its cause, and summarises how the runs of a period went.
package overview

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedules"
)

const (
	mostRuns  = 500 // runs of one cause that are looked at
	mostRead  = 24  // those of them that are read in full
	mostNamed = 100 // ids that a concern has
	inARow    = 2   // runs of a schedule that failed one after the other before it is a concern
	// failedWithin is how long a run that ended badly is a concern.
	failedWithin = 24 * time.Hour
)

// Sources are where an overview looks.
type Sources struct {
	Runs     api.Reader
	Webhooks api.Webhooks // nil if there are none
	// Flows lists the flows that can be started by name, or returns nil if there are none.
	Flows func(ctx context.Context) ([]api.Flow, error)
	Stats func(ctx context.Context) (api.Stats, error) // nil: nothing is counted
	// Minutes reads what was counted by minute; nil: nothing was.
	Minutes Minutes
	Now     func() time.Time
}

// looking is one look at all sources.
type looking struct {
	Sources
	now      api.Time
	concerns []api.Concern
	more     bool
}

// Attention returns what needs a person.
func (s Sources) Attention(ctx context.Context) (api.Attention, error) {
	l := &looking{Sources: s, now: api.At(s.Now()), concerns: []api.Concern{}}
	for _, look := range []func(context.Context) error{
		l.failed, l.willMiss, l.stuck, l.paused, l.waits, l.schedules, l.webhooks, l.flows,
	} {
		if err := look(ctx); err != nil {
			return api.Attention{}, err
		}
	}
	slices.SortStableFunc(l.concerns, func(a, b api.Concern) int {
		return cmp.Or(cmp.Compare(rank(a.Level), rank(b.Level)), cmp.Compare(b.Runs, a.Runs))
	})
	return api.Attention{Concerns: l.concerns, More: l.more}, nil
}

func rank(l api.Level) int {
	return slices.Index([]api.Level{api.LevelBad, api.LevelWarn, api.LevelInfo}, l)
}

// list returns the runs of a query, at most mostRuns.
func (l *looking) list(ctx context.Context, q api.Query) ([]api.RunSummary, error) {
	q.Limit = mostRuns
	page, err := l.Runs.Runs(ctx, q)
	l.more = l.more || page.Next != ""
	return page.Runs, err
}

// group is a set of runs that have the same cause.
type group struct {
	workflow string
	text     string // the text of their failure, without numbers
	runs     []api.RunSummary
}

// grouped joins runs of the same workflow with the same problem text, in the order in which they come.
func grouped(runs []api.RunSummary, text func(api.RunSummary) string) []*group {
	var all []*group
	by := map[[2]string]*group{}
	for _, r := range runs {
		key := [2]string{r.Workflow, alike(text(r))}
		g := by[key]
		if g == nil {
			g = &group{workflow: r.Workflow, text: key[1]}
			by[key], all = g, append(all, g)
		}
		g.runs = append(g.runs, r)
	}
	return all
}

// numbers are the parts in which errors of the same kind differ: numbers and ids.
var numbers = regexp.MustCompile(`[0-9a-f]*[0-9][0-9a-f-]*`)

func alike(text string) string { return numbers.ReplaceAllString(text, "#") }

// concern makes a concern of runs. said is the text about them after their number.
func (g *group) concern(cause string, level api.Level, one, several string) api.Concern {
	c := api.Concern{Cause: cause, Level: level, Name: g.workflow, Runs: len(g.runs)}
	for _, r := range g.runs[:min(len(g.runs), mostNamed)] {
		c.Of = append(c.Of, r.Run)
	}
	if first := g.runs[0]; len(g.runs) == 1 {
		c.Says = saying(api.Part{Text: cmp.Or(first.WorkflowID, g.workflow), Run: first.Run}, plain(" "+one))
	} else {
		c.Says = saying(plain(fmt.Sprintf("%d runs of %s %s", len(g.runs), g.workflow, several)))
	}
	c.ID, c.Key = idOf(cause, g.workflow, fmt.Sprint(len(g.runs)), g.runs[0].Run), idOf(cause, g.workflow, g.text)
	return c
}

func idOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

func plain(text string) api.Part { return api.Part{Text: text} }

func saying(parts ...api.Part) api.Saying {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return api.Saying{Text: b.String(), Parts: parts}
}

func why(parts ...api.Part) *api.Saying {
	s := saying(parts...)
	return &s
}

// failed adds the runs that ended badly not long ago, with those of the same failure together.
func (l *looking) failed(ctx context.Context) error {
	runs, err := l.list(ctx, api.Query{
		Phases: []api.RunPhase{api.RunFailed, api.RunTimedOut}, Top: true,
		CreatedFrom: api.At(l.now.Std().Add(-failedWithin)),
	})
	for _, g := range grouped(runs, func(r api.RunSummary) string { return string(r.Phase) + r.Message }) {
		said := strings.ReplaceAll(string(g.runs[0].Phase), "_", " ") // failed, or timed out
		c := g.concern(api.CauseFailed, api.LevelBad, said, said+" alike")
		c.At = g.runs[0].EndedAt
		if g.runs[0].Message != "" {
			c.Why = why(api.Part{Text: g.runs[0].Message, Failure: true})
		}
		l.concerns = append(l.concerns, c)
	}
	return err
}

// willMiss adds the runs that will miss their deadlines. Those that are paused, or wait for somebody, are others.
func (l *looking) willMiss(ctx context.Context) error {
	runs, err := l.list(ctx, api.Query{WillMiss: true, Top: true})
	read := 0
	runs = slices.DeleteFunc(runs, func(r api.RunSummary) bool {
		if r.Phase != api.RunWaiting || r.Wake != r.Deadline || read == mostRead {
			return r.Phase == api.RunPaused
		}
		read++
		whole, err := l.Runs.Run(ctx, r.Run)
		return err != nil || slices.ContainsFunc(whole.Steps, outside)
	})
	for _, g := range grouped(runs, func(api.RunSummary) string { return "" }) {
		c := g.concern(api.CauseWillMiss, api.LevelBad, "will miss its deadline", "will miss their deadlines")
		first := g.runs[0]
		c.At, c.Why = first.Deadline, why(plain("the deadline comes "), in(first.Deadline))
		if first.ExpectedEnd.Sub(first.Deadline) > 0 {
			c.Why = why(append(c.Why.Parts, plain(", and it would end "), in(first.ExpectedEnd))...)
		}
		l.concerns = append(l.concerns, c)
	}
	return err
}

// outside reports whether a step is open until something comes from outside of its run.
func outside(s *api.Step) bool {
	return !s.Phase.Closed() && (s.Kind == api.KindWait || s.Kind == api.KindFlow)
}

func in(at api.Time) api.Part { return api.Part{Text: "at " + at.String(), At: at, Form: api.FormIn} }

// stuck adds the runs that cannot go on until somebody acts.
func (l *looking) stuck(ctx context.Context) error {
	runs, err := l.list(ctx, api.Query{Stuck: true})
	for _, g := range grouped(runs, func(r api.RunSummary) string { return r.Problem }) {
		c := g.concern(api.CauseStuck, api.LevelWarn, "cannot go on", "cannot go on")
		oldest := g.runs[len(g.runs)-1]
		if c.At = oldest.CreatedAt; oldest.Problem != "" {
			c.Why = why(plain(oldest.Problem))
		}
		l.concerns = append(l.concerns, c)
	}
	return err
}

// paused adds the runs that somebody has paused, with who and why.
func (l *looking) paused(ctx context.Context) error {
	runs, err := l.list(ctx, api.Query{Phases: []api.RunPhase{api.RunPaused}, Top: true})
	if err != nil {
		return err
	}
	by := map[string]string{}
	for _, r := range runs[:min(len(runs), mostRead)] {
		whole, err := l.Runs.Run(ctx, r.Run)
		if err != nil {
			continue // it has just ended
		}
		for _, o := range whole.Operations {
			if o.Operation == api.OpPause {
				by[r.Run] = cmp.Or(o.Actor, "somebody")
				if o.Reason != "" {
					by[r.Run] += ": " + o.Reason
				}
			}
		}
	}
	for _, g := range grouped(runs, func(r api.RunSummary) string { return by[r.Run] }) {
		c := g.concern(api.CausePaused, api.LevelInfo, "is paused", "are paused")
		oldest := g.runs[len(g.runs)-1]
		if c.At = oldest.CreatedAt; by[oldest.Run] != "" {
			c.Why = why(plain("by " + by[oldest.Run]))
		}
		l.concerns = append(l.concerns, c)
	}
	return nil
}

// waits adds the runs that do nothing until somebody sends them an event.
func (l *looking) waits(ctx context.Context) error {
	runs, err := l.list(ctx, api.Query{Phases: []api.RunPhase{api.RunWaiting}})
	if err != nil {
		return err
	}
	events, since, until := map[string]string{}, map[string]api.Time{}, map[string]api.Time{}
	var waiting []api.RunSummary
	for _, r := range runs[:min(len(runs), mostRead)] {
		whole, err := l.Runs.Run(ctx, r.Run)
		if err != nil {
			continue // it has just ended
		}
		i := slices.IndexFunc(whole.Steps, func(s *api.Step) bool { return !s.Phase.Closed() && awaited(s) != "" })
		if i >= 0 {
			s := whole.Steps[i]
			events[r.Run], since[r.Run], until[r.Run] = awaited(s), s.ScheduledAt, s.NextAt
			waiting = append(waiting, r)
		}
	}
	for _, g := range grouped(waiting, func(r api.RunSummary) string { return events[r.Run] }) {
		said := "for the event " + events[g.runs[0].Run]
		c := g.concern(api.CauseWaits, api.LevelInfo, "waits "+said, "wait "+said)
		oldest := g.runs[len(g.runs)-1]
		c.At = since[oldest.Run]
		switch ends := until[oldest.Run]; {
		case len(g.runs) > 1:
			c.Why = why(plain("the oldest is "), api.Part{Text: cmp.Or(oldest.WorkflowID, oldest.Run), Run: oldest.Run})
		case ends != 0:
			c.Why = why(plain("the wait ends "), in(ends))
		}
		l.concerns = append(l.concerns, c)
	}
	return nil
}

// awaited returns the event that a step waits for, or those of which the first to come ends its wait, as they are
// written; empty if it waits for none.
func awaited(s *api.Step) string {
	all := s.Any
	if s.Event != "" {
		all = []string{s.Event}
	}
	out := make([]string, len(all))
	for i, event := range all {
		out[i] = strconv.Quote(event)
	}
	return strings.Join(out, " or ")
}

// schedules adds the schedules that cannot go on, and those whose runs fail one after the other.
func (l *looking) schedules(ctx context.Context) error {
	all, err := schedules.List(ctx, l.Runs, l.now.Std())
	for _, s := range all {
		c := api.Concern{Cause: api.CauseSchedule, Level: api.LevelWarn, Name: s.Name, At: s.Last}
		switch {
		case s.Problem != "":
			c.Says, c.Why = saying(plain("The schedule "+s.Name+" cannot go on")), why(plain(s.Problem))
		case s.Failures >= inARow:
			c.Says = saying(plain(fmt.Sprintf("The last %d runs of the schedule %s failed", s.Failures, s.Name)))
		default:
			continue
		}
		c.ID, c.Key = idOf(c.Cause, c.Says.Text), idOf(c.Cause, c.Name)
		l.concerns = append(l.concerns, c)
	}
	return err
}

// webhooks adds the webhooks that are disabled, and those whose messages do not arrive.
func (l *looking) webhooks(ctx context.Context) error {
	if l.Webhooks == nil {
		return nil
	}
	all, err := l.Webhooks.Webhooks(ctx)
	for _, w := range all {
		c := api.Concern{Cause: api.CauseWebhook, Level: api.LevelWarn, Name: w.Name, At: w.DisabledAt}
		if w.Disabled != "" {
			c.Says, c.Why = saying(plain("The webhook "+w.Name+" is disabled")), why(plain(w.Disabled))
		} else if d := l.undelivered(ctx, w); d != nil {
			c.Says = saying(plain(fmt.Sprintf("The webhook %s fails, %d messages wait", w.Name, w.Pending)))
			c.Why, c.At = why(plain(d.Why)), d.At
		} else {
			continue
		}
		c.ID, c.Key = idOf(c.Cause, c.Says.Text), idOf(c.Cause, c.Name)
		l.concerns = append(l.concerns, c)
	}
	return err
}

// undelivered returns the delivery of a webhook that was tried most often and has not ended, or nil if there is none.
func (l *looking) undelivered(ctx context.Context, w api.Webhook) *api.Delivery {
	if w.Pending == 0 {
		return nil
	}
	page, err := l.Webhooks.Deliveries(ctx, w.Name, api.DeliveryQuery{Limit: mostRead})
	if err != nil {
		return nil
	}
	var worst *api.Delivery
	for i, d := range page.Deliveries {
		if d.EndedAt == 0 && d.Tried > 0 && (worst == nil || d.Tried > worst.Tried) {
			worst = &page.Deliveries[i]
		}
	}
	return worst
}

// flows adds the flows that cannot be started.
func (l *looking) flows(ctx context.Context) error {
	if l.Flows == nil {
		return nil
	}
	all, err := l.Flows(ctx)
	for _, f := range all {
		if f.Problem != "" {
			c := api.Concern{Cause: api.CauseFlow, Level: api.LevelWarn, Name: f.Name, Why: why(plain(f.Problem))}
			c.Says = saying(plain("The flow " + cmp.Or(f.Name, f.File) + " cannot be started"))
			c.ID, c.Key = idOf(c.Cause, f.Name, f.Problem), idOf(c.Cause, f.Name, f.File)
			l.concerns = append(l.concerns, c)
		}
	}
	return err
}
