package engine

import (
	"runtime"
	"time"
)

const (
	// maxPatience is how long a batch waits at most for the decision of a body that was asked in it.
	maxPatience = 200 * time.Microsecond
	// patientLooks is how many times the loop looks for the decision at most, whatever its clock says.
	patientLooks = 1000
	// restAfterVain is how many batches do not wait after one has waited in vain.
	restAfterVain = 1
)

// awaitDecision gives a body that was just asked time to decide, if nothing else keeps the batch from being cut. Then
// the cause and the decision are one commit: the start of a run and that of its first step, for example. It waits for
// half of the time that a commit takes, so it costs less than it can save; most bodies need some microseconds. Where
// commits take no time, it does not wait at all. The loop yields instead of sleeping, because a timer may take a
// millisecond. If the wait was in vain, the body probably computes, and others may do so too: the next batch does not
// wait. It reports whether more requests may be waiting.
func (l *loop) awaitDecision() (more bool) {
	if l.busy || l.patience == 0 || !l.p.pipeline.awaitsDecision() {
		return false
	}
	if l.hasty > 0 {
		l.hasty--
		return false
	}
	began := time.Now()
	for range patientLooks {
		runtime.Gosched() // the body goes on in this thread
		more = l.handle(l.clock.Read())
		if !l.p.pipeline.awaitsDecision() || !l.hasRoom() {
			return more
		}
		if time.Since(began) >= l.patience {
			break
		}
	}
	l.hasty = restAfterVain
	return more
}

// awaitsDecision reports whether the open batch holds something that a body was asked about, and the body has not
// decided yet. Only the run that was asked last counts: by the time its body has decided, most others have.
func (l *pipeline) awaitsDecision() bool {
	b := l.open
	if b == nil || b.asked == nil || !b.mustSave() {
		return false
	}
	return b.asked.aside == nil && b.asked.state.WaitsForBody()
}
