package limit

import (
	"math"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// breaker is the state of a service's circuit breaker. Nothing about it is stored: the attempts that an open breaker
// holds have recorded until when, and how many probes had failed. So a process that starts finds it open again; see
// restore.
type breaker struct {
	failed   []bool // how the last attempts ended, a ring
	next     int
	failures int // the failures in the ring

	open   bool
	until  core.Time // open: no probe goes before that
	probes int       // open: that have failed
	probe  *Ticket   // open: the attempt that goes first
	mute   core.Time // open: when another probe goes, if this one has not reported
	since  core.Time // the last time that it opened, stayed open after a probe, or closed
}

// holds reports whether the breaker holds an attempt now.
func (b *breaker) holds(t *Ticket, now core.Time) bool {
	return b.open && (now < b.until || b.probe != nil && b.probe != t && now < b.mute)
}

// send makes an attempt the probe, if the breaker is open. One that hangs, or whose run is paused, does not hold the
// service for longer than the longest pause.
func (b *breaker) send(t *Ticket, rule policy.Breaker, now core.Time) {
	if b.open {
		b.probe, b.mute = t, now.Add(rule.PauseAfter(math.MaxInt))
	}
}

// ended takes in how an attempt ended. It reports whether the breaker has opened, closed or stays open for another
// pause.
func (b *breaker) ended(t *Ticket, failed bool, rule policy.Breaker, now core.Time) (changed bool) {
	switch {
	case rule.Failures == 0:
		*b = breaker{}
		return false
	case b.open && b.probe != t:
		return false // it began before the breaker opened, and brings no news
	case b.open && failed:
		b.probes++
		b.probe = nil
		b.until, b.since = now.Add(rule.PauseAfter(b.probes)), now
		return true
	case b.open:
		*b = breaker{since: now}
		return true
	}
	b.note(failed, rule.Window())
	if b.failures < rule.Failures {
		return false
	}
	*b = breaker{open: true, until: now.Add(rule.PauseAfter(0)), since: now}
	return true
}

// note keeps how the last attempts ended.
func (b *breaker) note(failed bool, window int) {
	if len(b.failed) > window { // the limits have changed
		b.failed, b.next, b.failures = nil, 0, 0
	}
	if len(b.failed) < window {
		b.failed = append(b.failed, failed)
	} else {
		if b.failed[b.next] {
			b.failures--
		}
		b.failed[b.next] = failed
		b.next = (b.next + 1) % window
	}
	if failed {
		b.failures++
	}
}

// restore opens the breaker as it was according to an attempt's record, unless something newer is known. It stays open
// no longer than it could if it had opened now: the clock of the process before may have been ahead.
func (b *breaker) restore(h core.Held, since core.Time, rule policy.Breaker, now core.Time) {
	until := min(h.Until, now.Add(rule.PauseAfter(h.Probes)))
	if since <= b.since || (b.open && b.until >= until) {
		return
	}
	*b = breaker{open: true, until: until, probes: h.Probes, since: since}
}
