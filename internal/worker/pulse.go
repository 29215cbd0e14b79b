package worker

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// detailsEvery is how long new details of a heartbeat wait at most until they are reported. That much progress is lost
// if the process is killed, whatever the limits are. It is also the least time between two reports of details.
const detailsEvery = time.Second

// Clock is an engine's clock.
type Clock struct {
	Now    func() core.Time
	Stands bool // it shows the same instant until somebody moves it
}

// Pulse receives an attempt's signs of life and reports as few of them as the limits need.
//
// The engine's deadline is the last reported sign plus the limit. Pulse holds signs back until three quarters of the
// limit have passed since the last reported sign, and then reports the latest. With a heartbeat limit of 60s and a
// heartbeat every second, the engine gets a report every 45s. As long as the work gives signs within its limit, the
// engine gets one at least a quarter of the limit before its deadline. There are at most two reports in three quarters
// of the limit. Details that differ from the reported ones do not wait so long: they are reported after detailsEvery.
//
// A clock that is moved jumps over any length of time at once, so nothing is held back there: the first sign at each of
// its instants is reported when it comes, and so are new details.
type Pulse struct {
	clock                 Clock // the engine's
	reporter              Reporter
	token                 core.Token
	heartbeat, inactivity time.Duration // limits; zero if there is none

	over atomic.Bool // nothing more is reported

	mu             sync.Mutex
	timer          *time.Timer  // nil until a sign has to wait
	armed          time.Time    // when the timer fires; zero if it is not set
	beat, output   time.Time    // the last signs
	reportedBeat   time.Time    // the last heartbeat that the engine knows
	reportedSign   time.Time    // the last sign of either kind that the engine knows
	details        []byte       // the last ones
	reported       []byte       // the last details that the engine knows
	detailsPending bool         // details differ from reported
	detailsAt      time.Time    // when details were last reported, or the attempt's start
	told           [2]core.Time // the last reported heartbeat and output, if the clock has to be moved
}

// Begin makes the pulse ready for the signs of an attempt that begins. The clock is the engine's.
func (p *Pulse) Begin(t core.Task, clock Clock, r Reporter) {
	now := time.Now()
	p.clock, p.reporter, p.token = clock, r, t.Token
	p.heartbeat = time.Duration(t.Heartbeat) * time.Microsecond
	p.inactivity = time.Duration(t.Inactivity) * time.Microsecond
	p.beat, p.output, p.reportedBeat, p.reportedSign, p.detailsAt = now, now, now, now, now
}

// Output receives a sign of life.
func (p *Pulse) Output() {
	if p.inactivity == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.output = time.Now()
	p.update(p.output)
}

// Heartbeat receives a heartbeat.
func (p *Pulse) Heartbeat(details []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat = time.Now()
	if details != nil {
		p.details = bytes.Clone(details)
		p.detailsPending = p.reported == nil || !bytes.Equal(p.details, p.reported)
	}
	p.update(p.beat)
}

// update reports the due signs, and sets the timer for the next report.
func (p *Pulse) update(now time.Time) {
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
		return // a timer that is set earlier checks again when it fires
	case p.timer == nil:
		p.timer = time.AfterFunc(next.Sub(now), p.onTimer)
	default:
		p.timer.Reset(next.Sub(now))
	}
	p.armed = next
}

func (p *Pulse) onTimer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = time.Time{}
	p.update(time.Now())
}

// due returns the instant of the next report. It returns zero if there is nothing to report.
func (p *Pulse) due() time.Time {
	var d time.Time
	earlier := func(at time.Time) {
		if d.IsZero() || at.Before(d) {
			d = at
		}
	}
	if p.heartbeat > 0 && p.beat.After(p.reportedBeat) {
		earlier(p.reportedBeat.Add(p.hold(p.heartbeat / 4 * 3)))
	}
	if p.inactivity > 0 && p.lastSign().After(p.reportedSign) {
		earlier(p.reportedSign.Add(p.hold(p.inactivity / 4 * 3)))
	}
	if p.detailsPending {
		earlier(p.detailsAt.Add(p.hold(detailsEvery)))
	}
	return d
}

// hold returns how long a sign is held back.
func (p *Pulse) hold(d time.Duration) time.Duration {
	if p.clock.Stands {
		return 0
	}
	return d
}

func (p *Pulse) lastSign() time.Time {
	if p.beat.After(p.output) {
		return p.beat
	}
	return p.output
}

// report sends the latest signs that are due. A heartbeat counts for both limits, an output only for inactivity.
func (p *Pulse) report(now time.Time) {
	beatDue := p.heartbeat > 0 && p.beat.After(p.reportedBeat) &&
		!now.Before(p.reportedBeat.Add(p.hold(p.heartbeat/4*3)))
	signDue := p.inactivity > 0 && p.lastSign().After(p.reportedSign) &&
		!now.Before(p.reportedSign.Add(p.hold(p.inactivity/4*3)))
	if beatDue || p.detailsPending || signDue && !p.output.After(p.beat) {
		p.send(now, p.beat, false)
		p.reportedBeat = p.beat
	}
	if signDue && p.output.After(p.reportedSign) {
		p.send(now, p.output, true)
	}
}

// send reports one sign. Its instant is the engine's time now minus the sign's age: if the wall clock was changed since
// the sign, the age is still right.
func (p *Pulse) send(now, sign time.Time, output bool) {
	in := core.Beat{
		Step: p.token.Step, Attempt: p.token.Attempt, Output: output,
		At: p.clock.Now().Add(-now.Sub(sign)),
	}
	if p.clock.Stands && !p.tells(in) {
		return
	}
	if !output && p.detailsPending {
		in.Details, p.reported = p.details, p.details
		p.detailsPending = false
		p.detailsAt = now
	}
	if sign.After(p.reportedSign) {
		p.reportedSign = sign
	}
	p.reporter.Report(p.token.Run, in)
}

// tells reports whether a sign is new to the engine: the first one at an instant of a clock that has to be moved, or
// details.
func (p *Pulse) tells(in core.Beat) bool {
	kind := 0
	if in.Output {
		kind = 1
	}
	first := p.told[kind] != in.At
	p.told[kind] = in.At
	return first || !in.Output && p.detailsPending
}

// Mute stops the reports of an attempt that has ended for the engine. It takes no lock, because the engine calls it: a
// report that waits for the engine may hold the lock.
func (p *Pulse) Mute() { p.over.Store(true) }

// End stops the reports and returns the details that were not reported.
func (p *Pulse) End() []byte {
	p.Mute()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	if !p.detailsPending {
		return nil
	}
	p.detailsPending = false
	return p.details
}
