package flow

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/cron"
	"github.com/pawl-dev/pawl/policy"
)

// cron reads when run after run begins: an expression alone, or with a time zone.
func (p *parsing) cron(n *node) *Cron {
	if n == nil || n.kind == nodeNull {
		return nil
	}
	if n.kind == nodeText {
		return &Cron{Schedule: n.text, n: n}
	}
	if !p.object(n, "cron", cronKeys) {
		return nil
	}
	if n.get("schedule") == nil {
		p.fail(n.pos, `add schedule: "0 12 * * *"`, "cron does not say when")
		return nil
	}
	return &Cron{
		Schedule: p.text(n.get("schedule"), "schedule"), Zone: p.text(n.get("zone"), "zone"),
		Skipped: p.text(n.get("skipped"), "skipped"), Repeated: p.text(n.get("repeated"), "repeated"), n: n,
	}
}

// at is the place of a field.
func (c *Cron) at(name string) Pos {
	if c.n == nil {
		return Pos{}
	}
	return c.n.at([]string{name}).pos
}

// cron compiles when run after run begins.
func (b *builder) cron() {
	c := b.doc.Cron
	if b.doc.StartDelay < 0 {
		b.fail(Pos{}, "", "startDelay is negative")
	}
	if c == nil {
		return
	}
	if b.doc.StartDelay > 0 {
		b.fail(c.at(""), "keep one of them", "a flow has cron or startDelay, not both: with cron a run begins when that says")
	}
	var table cron.Timetable
	var err error
	if table.Spec, err = cron.Parse(c.Schedule); err != nil {
		b.fail(c.at("schedule"), "", "%s", err)
	}
	check := func(name string, err error) {
		if err != nil {
			b.fail(c.at(name), "", "%s: %s", name, err)
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

// follows returns when the next run begins by cron; zero: it does not fire any more.
func (d *definition) follows(began, now core.Time) core.Time {
	return instant(d.cron.Following(began.Std(), now.Std()))
}

// instant is a firing, zero where there is none.
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

func encodeCron(c *Cron) Value {
	if c == nil {
		return Value{}
	}
	if *c == (Cron{Schedule: c.Schedule, n: c.n}) {
		return V(c.Schedule)
	}
	out := object{}
	out.text("schedule", c.Schedule)
	out.text("zone", c.Zone)
	out.text("skipped", c.Skipped)
	out.text("repeated", c.Repeated)
	return out.value()
}
