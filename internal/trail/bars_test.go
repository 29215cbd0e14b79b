package trail_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// bars compares the bars of a step: each with its seconds since the run began.
func (p *player) bars(key string, want ...string) {
	p.Helper()
	r := p.run()
	since := func(at api.Time) string {
		if at == 0 {
			return "…"
		}
		return fmt.Sprint(at.Sub(r.CreatedAt).Seconds())
	}
	var got []string
	for _, s := range r.Steps {
		for _, b := range s.Bars {
			text := fmt.Sprintf("%s %s-%s", b.Kind, since(b.From), since(b.To))
			if b.Attempt > 0 {
				text += fmt.Sprintf(" #%d", b.Attempt)
			}
			if b.Bad {
				text += " bad"
			}
			if s.Step == key {
				got = append(got, text)
			}
		}
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		p.Errorf("the bars of %s are\n%s\nand not\n%s", key, a, b)
	}
}

// TestBars checks from when to when each thing of a step is drawn: waits for workers, attempts, pauses, timers that are
// late, pauses of the run, and what is to come.
func TestBars(t *testing.T) {
	p := began(t, `
pawl: 1
name: order
steps:
  - {name: charge, exec: {command: [a]}, retry: "fixed(4, 10s)", timeout: {scheduleToClose: 5m}}
  - {name: rest, sleep: 1h}
`)
	p.bars("charge", "queued 0-… #1")
	p.now = p.now.Add(2 * time.Second)
	p.do(core.TaskStarted{Step: 0, Attempt: 1, Worker: "here"})
	p.now = p.now.Add(time.Second)
	p.bars("charge", "queued 0-2 #1", "running 2-… #1") // nothing tells when a first attempt ends
	p.do(core.TaskEnded{Step: 0, Attempt: 1, Failure: unavailable})
	p.bars("charge", "queued 0-2 #1 bad", "running 2-3 #1 bad", "backoff 3-13 #1 bad",
		"ahead 13-14 #2", "ahead 24-25 #3", "ahead 35-36 #4")
	p.pass(11 * time.Second) // the timer is late
	p.bars("charge", "queued 0-2 #1 bad", "running 2-3 #1 bad", "backoff 3-13 #1 bad", "late 13-14 #2",
		"queued 14-… #2")
	p.operate(core.OpPause, "", nil)
	p.now = p.now.Add(time.Minute)
	p.bars("rest", "waits 0-…", "paused 14-…")
	p.operate(core.OpResume, "", nil)
	p.operate(core.OpSkip, "rest", nil)
	p.now = p.now.Add(time.Minute)
	p.bars("rest", "waits 0-74", "paused 14-74")
	if b := p.run().Steps[0].Bounds; len(b) != 1 || b[0].Text != "scheduleToClose 5m, set at order.yaml:5:93" {
		t.Errorf("its bounds are %+v", b)
	}
}

// TestBarsOfAStop checks that the work that goes on after the end of its attempt has a bar.
func TestBarsOfAStop(t *testing.T) {
	p := began(t, `
pawl: 1
name: order
steps:
  - {name: charge, exec: {command: [a]}, timeout: {startToClose: 10s}}
`)
	p.do(core.TaskStarted{Step: 0, Attempt: 1, Worker: "here"})
	p.now = p.now.Add(10 * time.Second)
	out, err := core.Advance(p.state, p.def, core.Tick{}, p.now)
	if err != nil {
		t.Fatal(err)
	}
	p.trail.Fold(out.Entry)
	p.bars("charge", "running 0-10 #1 bad", "stopping 10-… #1 bad")
	p.now = p.now.Add(4 * time.Second)
	if out, err = core.Advance(p.state, p.def, core.TaskStopped{Step: 0, Attempt: 1, Killed: true}, p.now); err != nil {
		t.Fatal(err)
	}
	p.trail.Fold(out.Entry)
	p.bars("charge", "running 0-10 #1 bad", "stopping 10-14 #1 bad")
	if b := p.run().Steps[0].Bars[1]; b.Text != "attempt 1 did not stop, and was killed" {
		t.Errorf("it says %q", b.Text)
	}
}
