package schedule

import (
	"slices"
	"time"
)

// Operations of a Change.
const (
	OpUpdate   = "update"
	OpPause    = "pause"
	OpResume   = "resume"
	OpTrigger  = "trigger"
	OpSkip     = "skip"
	OpUnskip   = "unskip"
	OpBackfill = "backfill"
)

// Change is a change of a schedule.
type Change struct {
	Op     string    `json:"op"`
	Spec   *Spec     `json:"spec,omitempty"`   // OpUpdate; nil if it stays; OpTrigger: its timeout is that of the run
	Target *Target   `json:"target,omitempty"` // OpUpdate; nil: it stays; OpTrigger: what this run alone has
	Run    string    `json:"run,omitempty"`    // OpTrigger: the workflow id of the run
	Firing time.Time `json:"firing,omitzero"`  // OpSkip, OpUnskip
	From   time.Time `json:"from,omitzero"`    // OpBackfill
	Before time.Time `json:"before,omitzero"`  // OpBackfill
	AtOnce bool      `json:"atOnce,omitempty"` // OpBackfill: the runs do not wait for one another
	Actor  string    `json:"actor,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// MostSkips is how many future firings may be taken out, and MostBackfills how many backfills may be in progress.
const (
	MostSkips     = 1000
	MostBackfills = 10
)

// change carries out a change. An invalid one changes nothing, and its caller gets an error before.
func (t *turning) change(c *Change) {
	// Firings that were due before are handled with the earlier schedule.
	if t.Paused == nil {
		t.fire()
	} else {
		t.missUntil(t.table, t.now, MissedPaused)
	}
	actor := c.Actor
	if actor == "" {
		actor = t.by()
	}
	switch c.Op {
	case OpUpdate:
		t.update(c)
	case OpPause:
		if t.Paused == nil {
			t.Paused = &Pause{At: t.now.UTC(), Actor: c.Actor, Reason: c.Reason}
		}
	case OpResume:
		if t.Paused != nil {
			t.Paused, t.Failures = nil, 0
		}
	case OpTrigger:
		t.trigger(c, actor)
	case OpSkip:
		if c.Firing.After(t.Due) && len(t.Skips) < MostSkips && !slices.ContainsFunc(t.Skips, c.Firing.Equal) {
			t.Skips = append(t.Skips, c.Firing.UTC())
		}
	case OpUnskip:
		t.takeSkip(c.Firing)
	case OpBackfill:
		if c.Before.After(t.now) {
			c.Before = t.now
		}
		if len(t.Backfills) < MostBackfills {
			t.Backfills = append(t.Backfills, Backfill{
				After: c.From.Add(-1).UTC(), Before: c.Before.UTC(), AtOnce: c.AtOnce, Actor: actor, Reason: c.Reason,
			})
		}
	}
}

// trigger starts a run that is for no firing. The schedule learns of its end, because the next run succeeds after a
// failure only if it knows of that failure.
func (t *turning) trigger(c *Change, actor string) {
	if c.Run == "" {
		return
	}
	timeout := t.table.timeout
	if c.Spec != nil {
		if own, err := c.Spec.Parse(t.Since); err == nil {
			timeout = own.timeout
		}
	}
	t.out.Start = append(t.out.Start, Start{
		WorkflowID: c.Run, Notify: true, Timeout: timeout, Failed: t.Failures > 0, NotAfter: t.Until, Own: c.Target,
		Actor: actor, Reason: c.Reason,
	})
}

// update gives the schedule other times or something else to start. What other times would have fired before now is
// not made up for.
func (t *turning) update(c *Change) {
	if c.Spec != nil && *c.Spec != t.Spec {
		since := t.Since
		if c.Spec.Cron != t.Cron {
			since = t.now.Truncate(time.Second)
		}
		table, err := c.Spec.Parse(since)
		if err != nil {
			return
		}
		if t.Paused == nil { // a firing that waits for its part of the jitter does not come again
			t.early = true
			t.fire()
			t.early = false
		}
		t.Spec, t.Since, t.Edited, t.table = *c.Spec, since, t.now.UTC(), table
		if t.Due.Before(t.now) {
			t.Due = t.now.UTC()
		}
		t.Skips = slices.DeleteFunc(t.Skips, func(at time.Time) bool { return !table.Next(at.Add(-1)).Equal(at) })
	}
	if c.Target != nil {
		t.Target = *c.Target
	}
}
