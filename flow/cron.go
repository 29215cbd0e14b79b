package flow

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/cron"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// cron reads when runs begin on their own: an expression alone, or with settings for its firings.
func (p *parsing) cron(n *tree.Node) *Cron {
	if n == nil || n.Kind == tree.Null {
		return nil
	}
	if p.expression(n, "cron") {
		return nil
	}
	if n.Kind == tree.Text {
		return &Cron{Schedule: n.Text, n: n}
	}
	if !p.object(n, "cron", cronKeys) {
		return nil
	}
	if n.Get("schedule") == nil {
		p.Fail(n.Pos, `add schedule: "0 12 * * *"`, "cron does not say when")
		return nil
	}
	for _, key := range cronKeys {
		if p.expression(n.Get(key), key) {
			return nil
		}
	}
	c := &Cron{
		Schedule: p.several(n.Get("schedule"), "schedule"), Except: p.several(n.Get("except"), "except"),
		Zone: p.text(n.Get("zone"), "zone"), Skipped: p.text(n.Get("skipped"), "skipped"),
		Repeated: p.text(n.Get("repeated"), "repeated"), Overlap: p.text(n.Get("overlap"), "overlap"),
		NotAfter: p.text(n.Get("notAfter"), "notAfter"), n: n,
	}
	for _, f := range []struct {
		name string
		to   *time.Duration
	}{{"catchUp", &c.CatchUp}, {"jitter", &c.Jitter}} {
		if d := p.duration(n.Get(f.name), f.name); d != nil {
			*f.to = *d
		}
	}
	if m := n.Get("maxFailures"); m != nil {
		most, ok := m.Scalar.(int)
		if !ok || most < 1 {
			p.Fail(m.Pos, "", "maxFailures is a whole number from 1 on, not %s", tree.Describe(m))
		}
		c.MaxFailures = most
	}
	return c
}

// several reads a text, or a list of texts, as one text with semicolons.
func (p *parsing) several(n *tree.Node, what string) string {
	if n == nil || n.Kind == tree.Text {
		return p.text(n, what)
	}
	for _, item := range n.Items {
		if p.expression(item, what) {
			return ""
		}
	}
	all, _ := p.texts(n, what)
	return strings.Join(all, "; ")
}

// at returns the place of a field.
func (c *Cron) at(name string) tree.Pos {
	if c.n == nil {
		return tree.Pos{}
	}
	return c.n.At([]string{name}).Pos
}

// Spec returns the times and rules of the flow's schedule.
func (c *Cron) Spec() schedule.Spec {
	s := schedule.Spec{
		Cron: c.Schedule, Except: c.Except, Zone: c.Zone, Skipped: c.Skipped, Repeated: c.Repeated,
		Overlap: schedule.Overlap(c.Overlap), NotAfter: c.NotAfter, MaxFailures: c.MaxFailures,
	}
	if c.CatchUp > 0 {
		s.CatchUp = duration.Format(c.CatchUp)
	}
	if c.Jitter > 0 {
		s.Jitter = duration.Format(c.Jitter)
	}
	return s
}

// cron checks when runs begin on their own, and compiles when run after run of a chain begins.
func (b *builder) cron() {
	if b.doc.StartDelay < 0 {
		b.Fail(tree.Pos{}, "", "startDelay is negative")
	}
	if c := b.doc.Chain; c != nil {
		table, err := cron.Written{Cron: c.Schedule, Zone: c.Zone}.Parse()
		if err != nil {
			b.Fail(tree.Pos{}, "", "%s", err)
		}
		b.def.chain = &table
	}
	c := b.doc.Cron
	if c == nil {
		return
	}
	if b.doc.StartDelay > 0 {
		b.Fail(c.at(""), "keep one of them",
			"a flow has cron or startDelay, not both: with cron a run begins when that says")
	}
	// One field after the other, so that each error has its place.
	spec := c.Spec()
	usual := schedule.Spec{Cron: "@daily"}
	for _, f := range []struct {
		name string
		only schedule.Spec
	}{
		{"schedule", schedule.Spec{Cron: spec.Cron}},
		{"zone", schedule.Spec{Cron: usual.Cron, Zone: spec.Zone}},
		{"skipped", schedule.Spec{Cron: usual.Cron, Skipped: spec.Skipped}},
		{"repeated", schedule.Spec{Cron: usual.Cron, Repeated: spec.Repeated}},
		{"except", schedule.Spec{Cron: usual.Cron, Except: spec.Except}},
		{"overlap", schedule.Spec{Cron: usual.Cron, Overlap: spec.Overlap}},
		{"notAfter", schedule.Spec{Cron: usual.Cron, NotAfter: spec.NotAfter}},
	} {
		if _, err := f.only.Parse(time.Time{}); err != nil {
			b.Fail(c.at(f.name), "", "%s", err)
		}
	}
	for name, d := range map[string]time.Duration{"catchUp": c.CatchUp, "jitter": c.Jitter} {
		if d < 0 {
			b.Fail(c.at(name), "", "%s is negative", name)
		}
	}
}

// begins returns when a run begins that is started now: at once, after the delay, or at the first firing of a chain.
func (d *definition) begins(now core.Time) core.Time {
	if d.chain != nil {
		return instant(d.chain.Next(now.Std()))
	}
	return now.Add(d.doc.StartDelay)
}

// follows returns when the next run of a chain begins, or the zero time if it no longer fires. It counts from the
// beginning of a run, also of one that repeats an earlier run.
func (d *definition) follows(_, began, now core.Time) core.Time {
	return instant(d.chain.Following(began.Std(), now.Std()))
}

// instant converts the time of a firing; zero stays zero.
func instant(t time.Time) core.Time {
	if t.IsZero() {
		return 0
	}
	return policy.At(t)
}

// timetable describes for people when runs of the flow's chain begin, or is "" if it has no timetable.
func (d *definition) timetable() string {
	c := d.doc.Chain
	if c == nil {
		return ""
	}
	zone := c.Zone
	if zone == "" {
		zone = "UTC"
	}
	return c.Schedule + " " + zone
}

func encodeCron(c *Cron) tree.Value {
	if c == nil {
		return tree.Value{}
	}
	if *c == (Cron{Schedule: c.Schedule, n: c.n}) {
		return V(c.Schedule)
	}
	out := object{}
	out.text("schedule", c.Schedule)
	out.text("except", c.Except)
	out.text("zone", c.Zone)
	out.text("skipped", c.Skipped)
	out.text("repeated", c.Repeated)
	out.text("overlap", c.Overlap)
	if c.CatchUp > 0 {
		out.put("catchUp", V(c.CatchUp))
	}
	if c.Jitter > 0 {
		out.put("jitter", V(c.Jitter))
	}
	out.text("notAfter", c.NotAfter)
	if c.MaxFailures > 0 {
		out.put("maxFailures", V(c.MaxFailures))
	}
	return out.value()
}
