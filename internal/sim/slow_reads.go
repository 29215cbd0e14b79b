package sim

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// slowReads make the reading of runs that come due slow in some universes, and make it fail now and then. In the
// others, it takes no time.
type slowReads struct {
	random
	planted bool
	most    time.Duration // how long each part takes at most
	failing float64       // chance that a read fails
	reading bool          // a window is read now
}

// newSlowReads uses random numbers of its own, so that universes without slow reads do not change.
func newSlowReads(u *universe) *slowReads {
	r := &slowReads{random: newRandom(u.seed, 0x510)}
	r.planted = !u.opt.NoFaults && r.chance(0.3)
	r.most, r.failing = r.span(time.Millisecond, 20*time.Second), 0.2*r.Float64()
	return r
}

// fault makes a read of a window fail.
func (r *slowReads) fault(op memory.Op) error {
	if r.reading && (op == memory.OpDue || op == memory.OpHistory) && r.chance(r.failing) {
		return errDisk
	}
	return nil
}

// lateWindow is a node's knowledge of the window that it reads slowly.
type lateWindow struct {
	reader *engine.Window // the one that is being read; nil if there is none
	again  core.Time      // a window could not be read: when it must be read again at the latest; 0 if there is none
}

// waits reports whether the node waits for runs that come due.
func (l *lateWindow) waits() bool { return l.reader != nil || l.again != 0 }

// readWindow reads the runs of the next window if it is time. In universes with slow reads they arrive later, in parts,
// and may be out of date by then. The first window after the opening is read at once, because all checks of the last
// owner's remains begin after it.
func (n *node) readWindow(now core.Time) {
	slow := n.u.slowReads
	w, ok := n.p.Window(now)
	if !ok {
		return
	}
	n.late = lateWindow{}
	if !slow.planted || n.u.noFaults || w.From <= 1 {
		far, err := n.readRuns(w, func(runs []engine.Loaded) { n.p.Loaded(w, runs, now) })
		n.p.WindowDone(w, far, err)
		return
	}
	n.late.reader = &w
	var parts [][]engine.Loaded
	slow.reading = true
	far, err := n.readRuns(w, func(runs []engine.Loaded) { parts = append(parts, runs) })
	slow.reading = false
	n.u.tracef("%s reads a window of %d parts: %v", n.name, len(parts), err)
	n.takeWindow(&w, parts, far, err)
}

func (n *node) readRuns(w engine.Window, take func([]engine.Loaded)) (core.Time, error) {
	return engine.ReadWindow(n.u.ctx, n.store, n.home.number, w, func(runs []engine.Loaded) error {
		take(runs)
		return nil
	})
}

// takeWindow takes the parts of a window one after the other.
func (n *node) takeWindow(w *engine.Window, parts [][]engine.Loaded, far core.Time, err error) {
	slow := n.u.slowReads
	n.after(slow.between(0, slow.most), n.name+" takes a part of a window", func() {
		if n.late.reader != w {
			return // the partition has forgotten its memory since the reader began
		}
		now := n.u.clock()
		if len(parts) > 0 {
			n.p.Loaded(*w, parts[0], now)
			n.takeWindow(w, parts[1:], far, err)
		} else {
			n.late = lateWindow{}
			if err != nil {
				n.late.again = n.u.latest().Add(longestRetry) // its time does not go back with the clock
			}
			n.p.WindowDone(*w, far, err)
		}
		n.turn()
	})
}

// loaded reports whether a run is in the node's memory.
func (n *node) loaded(id core.RunID) (found bool) {
	n.p.Each(func(r *core.Run) { found = found || r.ID == id })
	return found
}

// longestRetry is within what time a window that could not be read must be read again.
const longestRetry = time.Second
