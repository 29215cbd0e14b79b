package sim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestChecksFindMistakesOfBodies plants one mistake at a time between the engine and the bodies. The checks must notice
// it.
func TestChecksFindMistakesOfBodies(t *testing.T) {
	nightly.OnlyPlain(t, "it searches universes for a planted mistake")
	for _, m := range []struct {
		name string
		opt  Options
		see  []Invariant
	}{
		{"decisions that depend on a changed result are recorded", Options{Decide: func(d Decision) {
			completeFirst(d)
			d.Call.Body = engine.NewBody(d.Generation)
			d.take()
		}}, []Invariant{Decided}},
		{"decisions of a lost generation are recorded", Options{WrapJournal: refuseEvery(3), Decide: func(d Decision) {
			if d.Generation != d.Current {
				d.Call.Body = engine.NewBody(d.Current)
			}
			d.take()
		}}, []Invariant{Decided}},
		{"the end of an attempt beside a refused one is dropped", Options{Decide: func(d Decision) {
			completeFirst(d)
			untilRefused(d)
		}}, []Invariant{NoHang}},
		{"the body of a run that is opened again gets no news", Options{Bodies: func(b engine.Bodies) engine.Bodies {
			return &lossyBodies{Bodies: b}
		}}, []Invariant{NoHang, Liveness}},
		{"a body does not know the headers of its run", Options{Bodies: func(b engine.Bodies) engine.Bodies {
			return headlessBodies{b}
		}}, []Invariant{Decided}},
		{"a news message is lost", Options{Bodies: func(b engine.Bodies) engine.Bodies {
			return &lossyBodies{Bodies: b, misses: 20}
		}}, []Invariant{NoHang}},
		{"a refused body is not told", Options{Calls: func(c body.EngineCalls) body.EngineCalls {
			return &lossyCalls{EngineCalls: c, answers: true}
		}}, []Invariant{NoHang}},
		{"a body that comes to a step does not say so", Options{Calls: func(c body.EngineCalls) body.EngineCalls {
			return &lossyCalls{EngineCalls: c, begins: true}
		}}, []Invariant{NoHang}},
		{"a decision does not say what it follows from", Options{Calls: func(c body.EngineCalls) body.EngineCalls {
			return &withoutCauses{EngineCalls: c, causes: true}
		}}, []Invariant{Decided}},
		{"the end of a run does not say where it came from", Options{Calls: func(c body.EngineCalls) body.EngineCalls {
			return &withoutCauses{EngineCalls: c}
		}}, []Invariant{Decided}},
		{"a stuck body is not called again", Options{Shell: func(s body.Shell) body.Shell {
			return &silentTimer{Shell: s, timer: body.TimerRetry}
		}}, []Invariant{NoHang, Liveness}},
		{"a body may compute without a limit", Options{Shell: func(s body.Shell) body.Shell {
			return &silentTimer{Shell: s, timer: body.TimerTask}
		}}, []Invariant{NoHang, Liveness}},
		{"decisions are not held back beside branches that nobody began", Options{
			Bodies: func(b engine.Bodies) engine.Bodies { return earlyBodies{b} },
		}, []Invariant{Decided}},
		{"an end that waits is lost with its session", Options{Calls: func(c body.EngineCalls) body.EngineCalls {
			return &lossyCalls{EngineCalls: c, reports: true}
		}}, []Invariant{NoHang}},
		{
			"a body does not say again after whole news that it waits",
			Options{Decide: withoutRepeats()},
			[]Invariant{NoHang},
		},
		{"a search is not answered when its session is gone", Options{Search: onlyOfLiveSessions}, []Invariant{NoHang}},
	} {
		m.opt.Partitions = 1 // so that there are many bodies in one partition
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			expectViolation(t, m.opt, m.see)
		})
	}
}

// headlessBodies does not tell bodies the headers of their runs.
type headlessBodies struct{ engine.Bodies }

func (b headlessBodies) Consult(n engine.News) (decides bool) {
	if n.Head != nil {
		head := *n.Head
		head.Headers = ""
		n.Head = &head
	}
	return b.Bodies.Consult(n)
}

// untilRefused gives the engine a body's inputs one by one. It stops at the first one that is refused.
func untilRefused(d Decision) {
	all := d.Call
	for i, in := range all.Inputs {
		c := &engine.DoCall{Run: all.Run, Inputs: []core.Input{in}, Body: all.Body}
		if i == len(all.Inputs)-1 {
			c.Done = all.Done
		}
		d.Partition.Handle(c, d.At)
		if c.Err != nil && c.Done == nil {
			all.Done(c.Err)
			return
		}
	}
}

// completeFirst completes a step by hand just before the engine gets the end of its attempt from the body. So that end
// is refused.
func completeFirst(d Decision) {
	if end, ok := d.Call.Inputs[0].(core.TaskEnded); ok {
		op := core.Operation{Op: core.OpComplete, Step: end.Step}
		d.Partition.Handle(&engine.InputCall{Run: d.Call.Run, Input: op}, d.At)
	}
}

// refuseEvery refuses every nth batch with entries.
func refuseEvery(nth int) func(journal.Journal) journal.Journal {
	return func(j journal.Journal) journal.Journal { return &refusingJournal{Journal: j, nth: nth} }
}

type refusingJournal struct {
	journal.Journal
	nth, count int
}

func (j *refusingJournal) Append(ctx context.Context, b *journal.Batch) error {
	if len(b.Encoded) > 0 {
		j.count++
	}
	if len(b.Encoded) > 0 && j.count%j.nth == 0 {
		return journal.ErrFull
	}
	return j.Journal.Append(ctx, b)
}

// lossyBodies is a host of bodies that does not get all news. With misses 0 it does not get the next news after the end
// of a run. Else it does not get every nth news.
type lossyBodies struct {
	engine.Bodies
	misses, count int
	ended         core.RunID
}

func (d *lossyBodies) Forget(run core.RunID) {
	d.ended = run
	d.Bodies.Forget(run)
}

func (d *lossyBodies) Consult(n engine.News) (decides bool) {
	d.count++
	if (d.misses == 0 && n.Run == d.ended) || (d.misses > 0 && d.count%d.misses == 0) {
		return false
	}
	d.ended = core.RunID{}
	return d.Bodies.Consult(n)
}

// lossyCalls loses calls of the engine or their answers.
type lossyCalls struct {
	body.EngineCalls
	answers, begins, reports bool
}

func (c *lossyCalls) Do(run core.RunID, b *engine.Body, inputs []core.Input, done func(error)) {
	c.EngineCalls.Do(run, b, inputs, func(err error) {
		if !c.answers || err == nil {
			done(err)
		}
	})
}

func (c *lossyCalls) Begin(run core.RunID, step core.StepID) {
	if !c.begins {
		c.EngineCalls.Begin(run, step)
	}
}

func (c *lossyCalls) Report(run core.RunID, in core.Input) {
	if !c.reports {
		c.EngineCalls.Report(run, in)
	}
}

// withoutRepeats drops a body's message that it waits if the number of closed steps is the same as in its last one. A
// session sends it again only after whole news.
func withoutRepeats() func(Decision) {
	last := map[*engine.Body]int{}
	return func(d Decision) {
		commands, ok := d.Call.Inputs[len(d.Call.Inputs)-1].(core.Commands)
		if !ok || !commands.Waits {
			d.take()
			return
		}
		closed, said := last[d.Call.Body]
		last[d.Call.Body] = commands.Closed
		if said && closed == commands.Closed && len(commands.Commands) == 0 && len(d.Call.Inputs) == 1 {
			d.Call.Done(d.Call.Err)
			return
		}
		d.take()
	}
}

// onlyOfLiveSessions drops the answer to an attempt that it must look for its function again.
func onlyOfLiveSessions(answer func(body.Answer, body.Func)) func(body.Answer, body.Func) {
	return func(a body.Answer, fn body.Func) {
		if a != body.LookAgain {
			answer(a, fn)
		}
	}
}

// silentTimer is a shell in which one kind of timer never fires.
type silentTimer struct {
	body.Shell
	timer body.Timer
}

type noAlarm struct{}

func (noAlarm) Stop() bool               { return true }
func (noAlarm) Reset(time.Duration) bool { return true }

func (b *silentTimer) AfterFunc(run core.RunID, t body.Timer, d time.Duration, f func()) body.Alarm {
	if t == b.timer {
		return noAlarm{}
	}
	return b.Shell.AfterFunc(run, t, d, f)
}

// withoutCauses leaves out the causes of decisions, or the steps that a run's failure came from.
type withoutCauses struct {
	body.EngineCalls
	causes bool
}

func (w *withoutCauses) Do(run core.RunID, by *engine.Body, inputs []core.Input, done func(error)) {
	for _, in := range inputs {
		c, _ := in.(core.Commands)
		for i := range c.Commands {
			switch cmd := c.Commands[i].(type) {
			case core.Schedule:
				if w.causes {
					cmd.Causes = core.Causes{}
				}
				c.Commands[i] = cmd
			case core.Close:
				if !w.causes {
					cmd.From = nil
				}
				c.Commands[i] = cmd
			default:
			}
		}
	}
	w.EngineCalls.Do(run, by, inputs, done)
}

// earlyBodies do not know of the branches that code of before has begun. So they hold nothing back for them.
type earlyBodies struct{ engine.Bodies }

func (b earlyBodies) Consult(n engine.News) (decides bool) {
	if hosted, ok := b.Bodies.(hostedBodies); ok && hosted.codeIsChanged {
		n.Steps = slices.Clone(n.Steps)
		for i := range n.Steps {
			s := &n.Steps[i]
			old := s.Spec.Type == body.TypeBranch && !isRenamed(s.Spec)
			s.Dropped = s.Dropped || old || (branchOf(s.Spec.Name) != "" && !strings.Contains(s.Spec.Name, renamedPart))
		}
	}
	return b.Bodies.Consult(n)
}
