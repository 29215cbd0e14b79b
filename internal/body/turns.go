package body

import (
	"maps"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

const (
	// mostAtWork is enough to keep the workers and the disk busy, and little enough to stay in the processor's cache.
	mostAtWork = 512
	// turnTime is the least time for which nothing happens to a body until its turn is over.
	turnTime = 20 * time.Millisecond
)

// turns lets only so many bodies be at work at once. The others wait, first come, first served, and cost next to
// nothing until then. If all were called at once, each would take memory, would wait for a worker before each of its
// steps, and would no longer be in the processor's cache when it goes on.
//
// A call of a body has its turn once. The turn is over when the call ends, when it waits for something other than its
// own steps, or when nothing has happened to it for a while: its step may take an hour, and may itself need another
// body. So no call waits forever, and none is interrupted once it has begun.
//
// The host's lock guards all but beat.
type turns struct {
	most  int
	taken int // the turns that those in the table have taken which are at work

	line   []core.RunID // runs that wait; those that are not in listed no longer wait
	listed map[core.RunID]bool
	called map[core.RunID]bool // runs whose turn has come; their news are on their way

	beat    atomic.Int64 // how often the clock below has ticked
	ticking bool
}

// wait reports whether a run has to wait for its turn.
func (t *turns) wait(run core.RunID) bool {
	if t.called[run] {
		delete(t.called, run)
		return false
	}
	if len(t.listed) == 0 && t.taken < t.most {
		return false
	}
	if !t.listed[run] {
		t.listed[run] = true
		t.line = append(t.line, run)
	}
	return true
}

// forget takes a run out of the line.
func (t *turns) forget(run core.RunID) {
	delete(t.listed, run)
	delete(t.called, run)
}

// reset takes the runs that live where memory was forgotten out of the line: they are asked again.
func (t *turns) reset(lives func(core.RunID) bool) {
	for _, all := range []map[core.RunID]bool{t.listed, t.called} {
		maps.DeleteFunc(all, func(run core.RunID, _ bool) bool { return lives(run) })
	}
}

// next takes the first ones from the line, at most that many.
func (t *turns) next(most int) (runs []core.RunID) {
	for len(runs) < most && len(t.line) > 0 {
		run := t.line[0]
		t.line = t.line[1:]
		if t.listed[run] {
			delete(t.listed, run)
			t.called[run] = true
			runs = append(runs, run)
		}
	}
	return runs
}

// Waits reports whether a run waits for the turn of its body.
func (h *Host) Waits(run core.RunID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.turns.listed[run]
}

// turnOver ends the turn of a session, if it has not ended before. It returns the runs whose turns have come, to be
// consulted when the table is unlocked.
func (h *Host) turnOver(l *liveSession) []core.RunID {
	if !l.atWork {
		return nil
	}
	l.atWork = false
	t := &h.turns
	t.taken--
	return t.next(t.most - t.taken - len(t.called))
}

// rested ends the turn of a session that waits for something other than its own steps.
func (h *Host) rested(l *liveSession) {
	h.mu.Lock()
	runs := h.turnOver(l)
	h.mu.Unlock()
	h.consultAll(runs)
}

// tick ends the turns of those to whom nothing has happened since the last tick, while others wait. It does not count
// the news that are on their way, as they may be lost.
func (h *Host) tick() {
	h.mu.Lock()
	t := &h.turns
	beat := t.beat.Add(1)
	for _, l := range h.table.sessions {
		if l.atWork && l.touched.Load() < beat-1 {
			l.atWork = false
			t.taken--
		}
	}
	runs := t.next(t.most - t.taken)
	t.ticking = false
	h.keepTicking()
	h.mu.Unlock()
	h.consultAll(runs)
}

// keepTicking makes the clock call tick while there are runs that wait.
func (h *Host) keepTicking() {
	t := &h.turns
	if t.ticking || len(t.listed) == 0 || h.ctx.Err() != nil {
		return
	}
	t.ticking = true
	h.shell.AfterFunc(core.RunID{}, TimerTurn, turnTime, h.tick)
}
