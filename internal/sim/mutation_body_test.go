package sim

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestChecksBiteBodies does the same to what is between the engine and the bodies.
func TestChecksBiteBodies(t *testing.T) {
	for _, m := range []struct {
		name string
		opt  Options
		see  []Invariant
	}{
		{"what a body decides on something void is recorded", Options{Decide: func(d Decision) {
			outrun(d)
			d.Call.Body = engine.NewBody(d.Generation)
			d.take()
		}}, []Invariant{Decided}},
		{"what a body of before a failure decides is recorded", Options{Wrap: failing(3), Decide: func(d Decision) {
			if d.Generation != d.Current {
				d.Call.Body = engine.NewBody(d.Current)
			}
			d.take()
		}}, []Invariant{Decided}},
		{"an end beside a refused one is dropped", Options{Decide: func(d Decision) {
			outrun(d)
			untilRefused(d)
		}}, []Invariant{NoHang}},
		{"the body of a run that is opened again is not told", Options{Bodies: func(b engine.Bodies) engine.Bodies {
			return &deaf{Bodies: b}
		}}, []Invariant{NoHang, Liveness}},
		{"a body misses news", Options{Bodies: func(b engine.Bodies) engine.Bodies {
			return &deaf{Bodies: b, misses: 20}
		}}, []Invariant{NoHang}},
		{"a refused body is not told", Options{Calls: func(c body.EngineCalls) body.EngineCalls {
			return &cut{EngineCalls: c, answers: true}
		}}, []Invariant{NoHang}},
		{"a body that comes to a step does not say so", Options{Calls: func(c body.EngineCalls) body.EngineCalls {
			return &cut{EngineCalls: c, begins: true}
		}}, []Invariant{NoHang}},
		{"a decision does not say what it follows from", Options{Calls: func(c body.EngineCalls) body.EngineCalls {
			return &blind{EngineCalls: c, causes: true}
		}}, []Invariant{Decided}},
		{"the end of a run does not say where it came from", Options{Calls: func(c body.EngineCalls) body.EngineCalls {
			return &blind{EngineCalls: c}
		}}, []Invariant{Decided}},
		{"a stuck body is not called again", Options{Shell: func(s body.Shell) body.Shell {
			return &broken{Shell: s, timer: body.TimerRetry}
		}}, []Invariant{NoHang, Liveness}},
		{"a body may compute for ever", Options{Shell: func(s body.Shell) body.Shell {
			return &broken{Shell: s, timer: body.TimerTask}
		}}, []Invariant{NoHang, Liveness}},
	} {
		m.opt.Partitions = 1 // where bodies are many
		t.Run(m.name, func(t *testing.T) { bites(t, m.opt, m.see) })
	}
}

// untilRefused hands what a body sends to the engine one by one, up to the first that is refused.
func untilRefused(d Decision) {
	all := d.Call
	for i, in := range all.Inputs {
		c := &engine.Call{Op: engine.CallBody, Run: all.Run, Inputs: []core.Input{in}, Body: all.Body}
		if i == len(all.Inputs)-1 {
			c.Done = func(c *engine.Call) {
				all.Err = c.Err
				all.Done(all)
			}
		}
		d.Partition.Handle(c, d.At)
		if c.Err != nil && c.Done == nil {
			all.Err = c.Err
			all.Done(all)
			return
		}
	}
}

// outrun completes by hand, just before a body is heard, the first of the steps whose ends it says. The end is
// refused.
func outrun(d Decision) {
	if end, ok := d.Call.Inputs[0].(core.TaskEnded); ok {
		op := core.Operation{Op: core.OpComplete, Step: end.Step}
		d.Partition.Handle(&engine.Call{Op: engine.CallInput, Run: d.Call.Run, Input: op}, d.At)
	}
}

// failing refuses every nth batch with entries.
func failing(nth int) func(journal.Journal) journal.Journal {
	return func(j journal.Journal) journal.Journal { return &full{Journal: j, nth: nth} }
}

type full struct {
	journal.Journal
	nth, count int
}

func (j *full) Append(ctx context.Context, b *journal.Batch) error {
	if len(b.Encoded) > 0 {
		j.count++
	}
	if len(b.Encoded) > 0 && j.count%j.nth == 0 {
		return journal.ErrFull
	}
	return j.Journal.Append(ctx, b)
}

// deaf is a host of bodies that does not hear what follows a run's end, or one of so many news.
type deaf struct {
	engine.Bodies
	misses, count int
	ended         core.RunID
}

func (d *deaf) Forget(run core.RunID) {
	d.ended = run
	d.Bodies.Forget(run)
}

func (d *deaf) Consult(n engine.News) {
	d.count++
	if (d.misses == 0 && n.Run == d.ended) || (d.misses > 0 && d.count%d.misses == 0) {
		return
	}
	d.ended = core.RunID{}
	d.Bodies.Consult(n)
}

// cut is an engine that does not hear all that a host of bodies says, or does not answer.
type cut struct {
	body.EngineCalls
	answers, begins bool
}

func (c *cut) Do(run core.RunID, b *engine.Body, inputs []core.Input, done func(error)) {
	c.EngineCalls.Do(run, b, inputs, func(err error) {
		if !c.answers || err == nil {
			done(err)
		}
	})
}

func (c *cut) Begin(run core.RunID, step core.StepID) {
	if !c.begins {
		c.EngineCalls.Begin(run, step)
	}
}

// blind leaves the causes of decisions out, or the steps that a run's failure came from.
type blind struct {
	body.EngineCalls
	causes bool
}

func (b *blind) Do(run core.RunID, by *engine.Body, inputs []core.Input, done func(error)) {
	for _, in := range inputs {
		c, _ := in.(core.Commands)
		for i := range c.Commands {
			switch cmd := c.Commands[i].(type) {
			case core.Schedule:
				if b.causes {
					cmd.Causes = core.Causes{}
				}
				c.Commands[i] = cmd
			case core.Close:
				if !b.causes {
					cmd.From = nil
				}
				c.Commands[i] = cmd
			default:
			}
		}
	}
	b.EngineCalls.Do(run, by, inputs, done)
}

// broken is a shell with a timer that is set and never fires.
type broken struct {
	body.Shell
	timer body.Timer
}

type noAlarm struct{}

func (noAlarm) Stop() bool               { return true }
func (noAlarm) Reset(time.Duration) bool { return true }

func (b *broken) AfterFunc(run core.RunID, t body.Timer, d time.Duration, f func()) body.Alarm {
	if t == b.timer {
		return noAlarm{}
	}
	return b.Shell.AfterFunc(run, t, d, f)
}
