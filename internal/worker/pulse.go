package worker

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// detailsEvery bounds how often details are reported that no heartbeat limit asks for: they are there to survive a
// crash.
const detailsEvery = time.Second

// pulse takes an attempt's signs of life and reports as few of them as the limits need. The engine's deadline is the
// last reported sign plus the limit. So a sign is kept here until three quarters of the limit have passed since the
// reported one; then the latest is reported. As long as the work gives signs within its limit, the engine hears of one
// before its deadline, with a quarter of the limit to spare, and at most twice in three quarters of the limit.
type pulse struct {
	pool                  *Pool
	token                 core.Token
	heartbeat, inactivity time.Duration // limits; zero: none

	over atomic.Bool // nothing more is reported

	mu           sync.Mutex
	timer        *time.Timer // nil until a sign has to wait
	armed        time.Time   // when it fires; zero: it does not
	beat, output time.Time   // the last signs
	beatSaid     time.Time   // the last heartbeat the engine knows
	signSaid     time.Time   // the last sign of either kind that the engine knows
	details      []byte
	unsaid       bool // details are newer than what the engine knows
	detailsSaid  time.Time
}

func newPulse(p *Pool, t core.Task) *pulse {
	now := time.Now()
	return &pulse{
		pool: p, token: t.Token,
		heartbeat:  time.Duration(t.Heartbeat) * time.Microsecond,
		inactivity: time.Duration(t.Inactivity) * time.Microsecond,
		beat:       now, output: now, beatSaid: now, signSaid: now,
	}
}

// Output takes a sign of life.
func (p *pulse) Output() {
	if p.inactivity == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.output = time.Now()
	p.tell(p.output)
}

// Heartbeat takes a heartbeat.
func (p *pulse) Heartbeat(details []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat = time.Now()
	if details != nil {
		p.details, p.unsaid = bytes.Clone(details), true
	}
	p.tell(p.beat)
}

// tell reports what is due, and sets the timer for what will be.
func (p *pulse) tell(now time.Time) {
	if p.over.Load() {
		return
	}
	next := p.due()
	if !next.IsZero() && !now.Before(next) {
		p.report(now)
		next = p.due()
	}
	switch {
	case next.IsZero() || !p.armed.IsZero() && !next.Before(p.armed):
		return // a timer that fires early looks again
	case p.timer == nil:
		p.timer = time.AfterFunc(next.Sub(now), p.ring)
	default:
		p.timer.Reset(next.Sub(now))
	}
	p.armed = next
}

func (p *pulse) ring() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = time.Time{}
	p.tell(time.Now())
}

// due returns the instant from which on something has to be reported; zero: nothing new.
func (p *pulse) due() time.Time {
	var d time.Time
	earlier := func(at time.Time) {
		if d.IsZero() || at.Before(d) {
			d = at
		}
	}
	if p.heartbeat > 0 && (p.unsaid || p.beat.After(p.beatSaid)) {
		earlier(p.beatSaid.Add(p.heartbeat / 4 * 3))
	}
	if p.inactivity > 0 && p.lastSign().After(p.signSaid) {
		earlier(p.signSaid.Add(p.inactivity / 4 * 3))
	}
	if p.unsaid && p.heartbeat == 0 {
		earlier(p.detailsSaid.Add(detailsEvery))
	}
	return d
}

func (p *pulse) lastSign() time.Time {
	if p.beat.After(p.output) {
		return p.beat
	}
	return p.output
}

// report tells the engine the latest signs that are due or have waited for another report.
func (p *pulse) report(now time.Time) {
	beatDue := p.heartbeat > 0 && p.beat.After(p.beatSaid) && !now.Before(p.beatSaid.Add(p.heartbeat/4*3))
	signDue := p.inactivity > 0 && p.lastSign().After(p.signSaid) && !now.Before(p.signSaid.Add(p.inactivity/4*3))
	if beatDue || p.unsaid || signDue && !p.output.After(p.beat) {
		p.send(now, p.beat, false)
		p.beatSaid = p.beat
	}
	if signDue && p.output.After(p.signSaid) {
		p.send(now, p.output, true)
	}
}

// send reports one sign. Its instant is the engine's now less the sign's age, so that a clock that was set in the
// meantime does no harm.
func (p *pulse) send(now, sign time.Time, output bool) {
	in := core.Beat{
		Step: p.token.Step, Attempt: p.token.Attempt, Output: output,
		At: p.pool.cfg.Now().Add(-now.Sub(sign)),
	}
	if !output && p.unsaid {
		in.Details = p.details
		p.unsaid, p.detailsSaid = false, now
	}
	if sign.After(p.signSaid) {
		p.signSaid = sign
	}
	p.pool.cfg.Reporter.Report(p.token.Run, in)
}

// mute ends the reports of an attempt that has ended for the engine. It takes no lock: the engine calls it, and may be
// who a report waits for.
func (p *pulse) mute() { p.over.Store(true) }

// end ends the reports and returns the details that none of them carried.
func (p *pulse) end() []byte {
	p.mute()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	if !p.unsaid {
		return nil
	}
	p.unsaid = false
	return p.details
}
