package flow

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/cron"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// cron reads when run after run begins: an expression alone, or with a time zone.
func (p *parsing) cron(n *tree.Node) *Cron {
	if n == nil || n.Kind == tree.Null {
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
	c := &Cron{
		Schedule: p.text(n.Get("schedule"), "schedule"), Zone: p.text(n.Get("zone"), "zone"),
		Skipped: p.text(n.Get("skipped"), "skipped"), Repeated: p.text(n.Get("repeated"), "repeated"), n: n,
	}
	if d := p.duration(n.Get("catchUp"), "catchUp"); d != nil {
		c.CatchUp = *d
	}
	return c
}

// at returns the place of a field.
func (c *Cron) at(name string) tree.Pos {
	if c.n == nil {
		return tree.Pos{}
	}
	return c.n.At([]string{name}).Pos
}

// cron compiles when run after run begins.
func (b *builder) cron() {
	c := b.doc.Cron
	if b.doc.StartDelay < 0 {
		b.Fail(tree.Pos{}, "", "startDelay is negative")
	}
	if c == nil {
		return
	}
	if b.doc.StartDelay > 0 {
		b.Fail(c.at(""), "keep one of them",
			"a flow has cron or startDelay, not both: with cron a run begins when that says")
	}
	if c.CatchUp < 0 {
		b.Fail(c.at("catchUp"), "", "catchUp is negative")
	}
	var table cron.Timetable
	var err error
	if table.Spec, err = cron.Parse(c.Schedule); err != nil {
		b.Fail(c.at("schedule"), "", "%s", err)
	}
	check := func(name string, err error) {
		if err != nil {
			b.Fail(c.at(name), "", "%s: %s", name, err)
		}
	}
	table.Zone, err = cron.ParseZone(c.Zone)
	check("zone", err)
	table.Gap, err = cron.ParseGap(c.Skipped)
	check("skipped", err)
	table.Fold, err = cron.ParseFold(c.Repeated)
	check("repeated", err)
	b.def.cron = &table
}

// begins returns when a run begins that is started now: at once, after the delay, or at the first firing.
func (d *definition) begins(now core.Time) core.Time {
	if d.cron != nil {
		return instant(d.cron.Next(now.Std()))
	}
	return now.Add(d.doc.StartDelay)
}

// follows returns when the next run begins by cron, the zero time if it does not fire any more. It counts from the
// begin of a run, also of one that repeats an earlier run; where missed firings are caught up, from the firing.
func (d *definition) follows(firing, began, now core.Time) core.Time {
	if late := d.doc.Cron.CatchUp; late > 0 {
		return instant(d.cron.Following(firing.Std(), now.Std().Add(-late)))
	}
	return instant(d.cron.Following(began.Std(), now.Std()))
}

// instant converts the time of a firing; zero stays zero.
func instant(t time.Time) core.Time {
	if t.IsZero() {
		return 0
	}
	return policy.At(t)
}

// timetable says for people when runs of the flow begin; "" where it has no cron.
func (d *definition) timetable() string {
	c := d.doc.Cron
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
	out.text("zone", c.Zone)
	out.text("skipped", c.Skipped)
	out.text("repeated", c.Repeated)
	if c.CatchUp > 0 {
		out.put("catchUp", V(c.CatchUp))
	}
	return out.value()
}
