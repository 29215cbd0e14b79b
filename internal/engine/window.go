package engine

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/clock"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Loaded is a run that a reader has read because it comes due.
type Loaded struct {
	Run     core.RunID
	Wake    core.Time // the wake time in its row
	History journal.History
	Err     error // why it can never be read; nil if it was read
}

const (
	// longestHorizon bounds how far ahead windows are read while the storage is slow.
	longestHorizon = time.Minute
	// firstRetry is the delay before a window is read again that could not be read. It doubles each time, up to
	// lastRetry.
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Second
)

// horizon returns how long before their wake time runs are loaded at most. They are loaded earlier if the last window
// took long to read, so that the next one takes less than half of that time. The reader's pauses do not count: they end
// before they make a run late (see pace), and a longer window has more of them, so it would grow without need.
func (s *residents) horizon(least time.Duration) time.Duration {
	return max(least, min(4*s.windowTook, longestHorizon))
}

// windowDue returns when the next window must be read; zero: not before something changes. If no run is known to
// wake soon, nothing is read for a long time.
//
// The first window is read at once. It also finds the runs that were active when an earlier owner stopped.
func (s *residents) windowDue(now core.Time, least time.Duration) core.Time {
	switch {
	case s.readingWindow:
		return 0
	case s.window.Before == 0:
		return now
	case s.nextWake == 0:
		return 0
	default:
		return max(s.window.Before, s.nextWake).Add(-s.horizon(least) / 2)
	}
}

// beginWindow notes that a reader begins with the next window.
func (s *residents) beginWindow(now core.Time, least time.Duration) Window {
	s.readingWindow, s.evicted, s.nextWake, s.windowBegan = true, make(map[core.RunID]struct{}), 0, now
	s.window = Window{From: max(s.window.Before, 1), Before: now.Add(s.horizon(least)), gen: s.window.gen}
	return s.window
}

// isReading reports whether a reader reads this window now. It is false for a window from before the memory was
// forgotten.
func (s *residents) isReading(w Window) bool { return s.readingWindow && w.gen == s.window.gen }

// changedMeanwhile reports whether the data that was read of a run may be out of date, because the run is in memory, or
// was there since the reader began.
func (s *residents) changedMeanwhile(id core.RunID) bool {
	_, left := s.evicted[id]
	return left || s.runs[id] != nil || s.aside[id] != nil
}

// readAgain makes the windows be read again from the first one on. One that is being read is ignored.
func (s *residents) readAgain() {
	s.readingWindow, s.evicted, s.nextWake = false, nil, 0
	s.window = Window{gen: s.window.gen + 1}
}

// endWindow notes that the reader is done. far is the first wake time after the window, zero if there is none.
func (s *residents) endWindow(far, now core.Time, rested time.Duration) {
	s.readingWindow, s.evicted = false, nil
	s.nextWake = earliest(s.nextWake, far)
	s.windowTook, s.windowRetry = now.Sub(s.windowBegan)-rested, 0
}

// retryWindow makes a window that could not be read be read again soon.
func (s *residents) retryWindow(w Window, now core.Time, least time.Duration) {
	s.readingWindow, s.evicted = false, nil
	s.windowRetry = min(max(2*s.windowRetry, firstRetry), lastRetry)
	s.window.Before, s.nextWake = max(w.From, 1), now.Add(s.windowRetry+s.horizon(least)/2)
}

// Window returns the next window if it must be read now. The caller then calls Loaded for the runs of the window,
// and WindowDone at the end.
func (p *Partition) Window(now core.Time) (Window, bool) {
	p.at(now)
	if due := p.residents.windowDue(p.now, p.cfg.Horizon); due == 0 || due > p.now {
		return Window{}, false
	}
	return p.residents.beginWindow(p.now, p.cfg.Horizon), true
}

// Loaded takes runs that were read. A run that is in memory, or was there since the reader began, is left as it is,
// because the data that was read may be out of date.
func (p *Partition) Loaded(w Window, runs []Loaded, now core.Time) {
	p.at(now)
	if !p.residents.isReading(w) {
		return
	}
	for i := range runs {
		p.loadDue(&runs[i])
		p.settle()
	}
}

// loadDue takes one run that comes due.
func (p *Partition) loadDue(l *Loaded) {
	changed := p.residents.changedMeanwhile(l.Run)
	if l.Err != nil {
		if !changed {
			_ = p.residents.setAside(l.Run, l.Err)
		}
		return
	}
	r := p.residents.runs[l.Run]
	if changed && r == nil && p.residents.aside[l.Run] == nil && l.Wake == journal.WakeSetAside {
		// It left memory, and its row does not contain its wake time until it is written again.
		h, err := p.history(l.Run)
		if p.unreadable(err, "a run cannot be read and stays where it is", "run", l.Run.String()) {
			return
		}
		l.History, changed = h, false
	}
	if !changed {
		var err error
		r, err = p.residents.loadRun(l.Run, l.History)
		if p.unreadable(err, "a run cannot be loaded and stays where it is", "run", l.Run.String()) {
			return
		}
		p.takeOver(r)
		p.residents.evictLater(r)
	}
	if l.Wake == journal.WakeSetAside && r != nil && r.aside == nil {
		p.resumeSetAside(r, l.History.Entries)
	}
}

// WindowDone ends the reading of a window. far is the first wake time after it, zero if there is none. After an
// error the window is read again.
func (p *Partition) WindowDone(w Window, far core.Time, err error) {
	if !p.residents.isReading(w) {
		return
	}
	if err != nil {
		p.cfg.Log.Error("runs that come due cannot be read; they are read again soon",
			"id", "due-runs-unreadable", "error", err)
		p.residents.retryWindow(w, p.now, p.cfg.Horizon)
		return
	}
	p.residents.endWindow(far, p.now, w.rested)
	p.residents.activeRead = true
	p.admissions.finishLoad()
	p.settle()
}

// duePage is how many runs ReadWindow reads at a time, loadedPage how many it hands over at a time.
const (
	duePage    = 1024
	loadedPage = 64
)

// ReadWindow reads the runs of a window from a journal and gives them to fn, in the order of their wake times. It
// returns the first wake time after the window. It does not use the partition, so it may run at the same time.
func ReadWindow(
	ctx context.Context, j journal.Journal, partition int, w Window, fn func([]Loaded) error,
) (core.Time, error) {
	from, limit := w.From, duePage
	var seen map[core.RunID]bool // runs of the previous page that are on the next one too: it begins with the same time
	for {
		page, err := j.Due(ctx, partition, from, w.Before, limit)
		if err != nil {
			return 0, err
		}
		if err := readRuns(ctx, j, page, seen, fn); err != nil {
			return 0, err
		}
		if len(page) < limit {
			break
		}
		last := page[len(page)-1].Wake
		if last == from && page[0].Wake == from {
			limit *= 2 // the page has one wake time only, so the next page must be larger to get past it
		}
		seen = make(map[core.RunID]bool)
		for _, d := range page {
			if d.Wake == last {
				seen[d.Run] = true
			}
		}
		from = last
	}
	next, err := j.Due(ctx, partition, w.Before, core.Time(1<<63-1), 1)
	if err != nil || len(next) == 0 {
		return 0, err
	}
	return next[0].Wake, nil
}

// readRuns reads the runs of a page, except those that were seen, and gives them to fn.
func readRuns(
	ctx context.Context, j journal.Journal, page []journal.Due, seen map[core.RunID]bool, fn func([]Loaded) error,
) error {
	var out []Loaded
	for i, d := range page {
		if !seen[d.Run] {
			h, err := j.History(ctx, d.Run)
			switch {
			case errors.Is(err, journal.ErrNotFound): // the run was deleted meanwhile
			case errors.Is(err, journal.ErrCorrupt):
				out = append(out, Loaded{Run: d.Run, Wake: d.Wake, Err: err}) // only this run is set aside
			case err != nil:
				return err
			default:
				out = append(out, Loaded{Run: d.Run, Wake: d.Wake, History: h})
			}
		}
		if len(out) == loadedPage || (i == len(page)-1 && len(out) > 0) {
			if err := fn(out); err != nil {
				return err
			}
			out = nil
		}
	}
	return nil
}

// Refill reads the next window if it is time, in one call.
func (p *Partition) Refill(now core.Time) {
	w, ok := p.Window(now)
	if !ok {
		return
	}
	far, err := ReadWindow(p.ctx, p.cfg.Journal, p.cfg.Partition, w, func(runs []Loaded) error {
		p.Loaded(w, runs, now)
		return nil
	})
	p.WindowDone(w, far, err)
}

const (
	// restsFor is how many times as long as it has worked the reader of a window pauses after a part. So it takes a
	// tenth of the disk's time, and of a core's, at most.
	restsFor = 9
	// longestRest bounds a rest. A clock that is set forward makes runs due that were not read yet, and nothing tells
	// the reader.
	longestRest = time.Second
)

// pace makes the reader of a window pause after each part. A reader without pauses and the garbage collector occupy
// both cores of a small machine for tens of milliseconds, and timers that are due then fire late.
//
// A pause makes no run late. There is none in the first window, for which recovery waits. And each ends once the last
// run that was read wakes in a quarter of the window: from then on the reader goes on without pauses. A quarter is
// enough for the whole window, because windows are four times as long as the last one took to read without its pauses.
// Runs that take longer than that to read, a hundred thousand that come due together after a quiet time, may come a
// second late: their own work takes many.
type pace struct {
	off    bool
	clock  clock.Clock   // the reader's own, which continues that of the loop
	near   time.Duration // the reader does not rest after a run that wakes sooner than this
	began  time.Time     // when the reader began with the current part
	rested time.Duration // the sum of all rests
}

// newPace returns the pace of a reader that begins with a window now. If the clock is not the system's, it is unknown
// how far away a run is, so there are no pauses.
func newPace(w Window, of *clock.Clock, now core.Time) *pace {
	return &pace{
		off:   w.From <= 1 || !of.Real(),
		clock: of.Fork(),
		near:  w.Before.Sub(now) / 4,
		began: time.Now(),
	}
}

// rest rests after a part. It ends at once with an error when the context is done.
func (p *pace) rest(ctx context.Context, part []Loaded) error {
	if p.off {
		return nil
	}
	began := time.Now()
	if d := p.length(began.Sub(p.began), part[len(part)-1].Wake.Sub(p.clock.Read())); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.began = time.Now()
	p.rested += p.began.Sub(began)
	return nil
}

// length returns how long to rest after a part that took some time, if its last run wakes after another one.
func (p *pace) length(worked, wakesIn time.Duration) time.Duration {
	return min(restsFor*worked, wakesIn-p.near, longestRest)
}
