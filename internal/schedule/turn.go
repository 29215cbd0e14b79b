package schedule

import (
	"fmt"
	"slices"
	"time"
)

// News is an event for a schedule since its last turn. One of its fields is set.
type News struct {
	Change  *Change
	Ended   *Ended
	Refused *Ended // Phase: the run exists already
}

// Ended is how a run of the schedule has ended.
type Ended struct {
	WorkflowID string
	Phase      string
	Message    string
}

// Turn is the result of a schedule's turn at one instant.
type Turn struct {
	Wake  time.Time // its next turn, unless it has news before; zero: none
	Start []Start
	Stop  []string // the workflow ids of runs that are cancelled, because the next one is due
	Over  bool     // no firing is to come, and it waits for nothing
}

// Start is a run that the schedule starts.
type Start struct {
	WorkflowID string
	Firing     time.Time // zero if it is for none
	Notify     bool      // the schedule learns of its end
	Timeout    time.Duration
	NotAfter   time.Time // the run does not live past it; zero if there is none
	Failed     bool      // the last run has failed
	Own        *Target   // its input, labels and headers, over the schedule's; nil: it has none of its own
	Actor      string
	Reason     string
}

// turning is a turn in progress.
type turning struct {
	*State
	table *Table
	now   time.Time
	early bool // firings do not wait for their part of the jitter
	out   Turn
}

// Turn makes a turn: it changes the state, and returns the results. The error is that of a timetable which this version
// cannot read.
func (s *State) Turn(now time.Time, news []News) (Turn, error) {
	s.Begin(now)
	table, err := s.Table()
	if err != nil {
		return Turn{}, err
	}
	t := &turning{State: s, table: table, now: now}
	for _, one := range news {
		switch {
		case one.Change != nil:
			t.change(one.Change)
		case one.Ended != nil:
			t.ended(one.Ended)
		case one.Refused != nil:
			t.refused(one.Refused)
		}
	}
	if t.Paused == nil {
		t.fire()
		t.serve()
		t.backfill()
	}
	t.wake()
	return t.out, nil
}

// by returns who starts the runs of the schedule.
func (s *State) by() string { return "schedule " + s.Name }

// fire deals with the firings that are due.
func (t *turning) fire() {
	var due []time.Time
	for n := 0; ; n++ {
		at := t.table.Next(t.Due)
		start := at
		if !t.early {
			start = at.Add(t.table.delay(t.Name, at))
		}
		if at.IsZero() || start.After(t.now) || t.isOver(at) {
			break
		}
		// An earlier one may wait for a longer part of the jitter: it is not late because of that.
		late := t.now.Add(-t.table.catchUp - t.table.jitter)
		if at.Before(late) {
			t.missUntil(t.table, late.Add(-1), MissedLate)
			continue
		}
		if n == mostCounted {
			break // the rest is handled at once, in a separate turn
		}
		t.Due = at.UTC()
		switch {
		case t.takeSkip(at):
			t.miss(t.table, at, MissedSkipped)
		case t.tooLate(at):
			t.miss(t.table, at, MissedNotAfter)
		default:
			due = append(due, at)
		}
	}
	switch {
	case len(due) == 1:
		t.onTime(due[0])
	case len(due) > 1:
		t.made(due)
	}
}

// isOver reports whether the schedule does not live to a firing.
func (t *turning) isOver(at time.Time) bool { return !t.Until.IsZero() && !at.Before(t.Until) }

// tooLate reports whether the latest time of day of a firing's run has passed.
func (t *turning) tooLate(firing time.Time) bool {
	latest := t.table.latest(firing)
	return !latest.IsZero() && !latest.After(t.now)
}

// onTime handles a firing that is due alone: its overlap policy decides what happens if an earlier run has not ended.
func (t *turning) onTime(at time.Time) {
	if len(t.Open)+len(t.Waiting) == 0 {
		t.start(at)
		return
	}
	switch t.Overlap {
	case OverlapAllow:
		t.start(at)
	case OverlapQueue:
		t.wait(at)
	case OverlapCancel:
		t.stopOpen()
		t.waitAlone(at)
	case OverlapNewest:
		t.waitAlone(at)
	default:
		t.miss(t.table, at, MissedOverlap)
	}
}

// stopOpen cancels the runs that have not ended.
func (t *turning) stopOpen() {
	for _, r := range t.Open {
		t.out.Stop = append(t.out.Stop, RunID(t.Name, r.Firing))
	}
}

// made makes up for firings that are due together, after an outage: their runs begin one after the other, unless they
// may overlap, or only the newest one counts.
func (t *turning) made(due []time.Time) {
	for i, at := range due {
		switch t.Overlap {
		case OverlapAllow:
			t.start(at)
		case OverlapCancel:
			if i == 0 {
				t.stopOpen()
			}
			t.waitAlone(at) // each would cancel the one before
		case OverlapNewest:
			t.waitAlone(at)
		default:
			t.wait(at)
		}
	}
}

// wait makes a firing wait for its turn.
func (t *turning) wait(at time.Time) {
	if len(t.Waiting) >= mostWaiting {
		t.miss(t.table, at, MissedOverlap)
		return
	}
	t.Waiting = append(t.Waiting, at.UTC())
}

// waitAlone makes a firing wait in place of the waiting ones.
func (t *turning) waitAlone(at time.Time) {
	t.missWaiting(t.Waiting, MissedOverlap)
	t.Waiting = []time.Time{at.UTC()}
}

// missWaiting notes that firings which have waited started no run. Firings between two of them have started no run,
// either: only those that were missed for another reason separate them, whatever the timetable was then.
func (t *turning) missWaiting(firings []time.Time, reason string) {
	var row Missed
	for _, at := range firings {
		parted := func(m Missed) bool { return m.To.After(row.To) && m.From.Before(at) }
		if row.Count == 0 || slices.ContainsFunc(t.Recent, parted) {
			t.missRow(t.table, row)
			row = Missed{From: at, Reason: reason}
		}
		row.To = at
		row.Count++
	}
	t.missRow(t.table, row)
}

// serve starts the firing that has waited longest, once the earlier run has ended; all of them, if they may overlap.
func (t *turning) serve() {
	for len(t.Waiting) > 0 && (len(t.Open) == 0 || t.Overlap == OverlapAllow) {
		late := 0
		for late < len(t.Waiting) && t.tooLate(t.Waiting[late]) {
			late++
		}
		t.missWaiting(t.Waiting[:late], MissedNotAfter)
		if t.Waiting = t.Waiting[late:]; len(t.Waiting) > 0 {
			t.start(t.Waiting[0])
			t.Waiting = t.Waiting[1:]
		}
	}
	if len(t.Waiting) == 0 {
		t.Waiting = nil
	}
}

// start starts the run of a firing.
func (t *turning) start(at time.Time) {
	at = at.UTC()
	t.Last, t.LastRun = at, RunID(t.Name, at)
	t.Fired++
	if len(t.Open) < mostOpen {
		t.Open = append(t.Open, Run{Firing: at})
	}
	t.out.Start = append(t.out.Start, t.startOf(at, t.by(), ""))
}

// startOf returns the start of a firing's run.
func (t *turning) startOf(at time.Time, actor, reason string) Start {
	return Start{
		WorkflowID: RunID(t.Name, at), Firing: at, Notify: true, Timeout: t.table.timeout, NotAfter: t.end(at),
		Failed: t.Failures > 0, Actor: actor, Reason: reason,
	}
}

// end returns the instant that the run of a firing does not live past, zero if there is none.
func (t *turning) end(firing time.Time) time.Time {
	end := t.table.latest(firing)
	if end.IsZero() || !t.Until.IsZero() && t.Until.Before(end) {
		end = t.Until
	}
	return end
}

// mostAtOnce is how many runs one turn of backfills starts, so that it leaves time for others.
const mostAtOnce = 100

// backfill goes on with the backfills. One that runs in order has one open run.
func (t *turning) backfill() {
	kept := t.Backfills[:0]
	for _, b := range t.Backfills {
		over := false
		for b.Open.IsZero() {
			at := t.table.Next(b.After)
			over = at.IsZero() || !at.Before(b.Before) || b.Started+b.Had >= MostBackfilled
			if over || len(t.out.Start) >= mostAtOnce {
				break
			}
			b.After = at.UTC()
			b.Started++
			s := t.startOf(b.After, b.Actor, b.Reason)
			s.NotAfter = t.Until // its time of day has passed long ago
			t.out.Start = append(t.out.Start, s)
			if !b.AtOnce {
				b.Open = b.After
			}
		}
		if !over {
			kept = append(kept, b)
		}
	}
	if t.Backfills = kept; len(kept) == 0 {
		t.Backfills = nil
	}
}

// close forgets a run that has ended, or was not started, and returns its firing, or false if the schedule waits for no
// such run.
func (t *turning) close(workflowID string) (at time.Time, known bool) {
	for i := range t.Backfills {
		b := &t.Backfills[i]
		if !b.Open.IsZero() && RunID(t.Name, b.Open) == workflowID {
			at, known = b.Open, true
			b.Open = time.Time{}
		}
	}
	i := slices.IndexFunc(t.Open, func(r Run) bool { return RunID(t.Name, r.Firing) == workflowID })
	if i < 0 {
		return at, known
	}
	at = t.Open[i].Firing
	if t.Open = slices.Delete(t.Open, i, i+1); len(t.Open) == 0 {
		t.Open = nil
	}
	return at, true
}

// ended notes how a run has ended. After too many failures the schedule pauses itself.
func (t *turning) ended(e *Ended) {
	t.close(e.WorkflowID)
	switch e.Phase {
	case "succeeded":
		t.Failures = 0
	case "failed", "timed_out":
		t.fail(e)
	}
}

func (t *turning) fail(e *Ended) {
	t.Failures++
	if t.MaxFailures == 0 || t.Failures < t.MaxFailures || t.Paused != nil {
		return
	}
	reason := fmt.Sprintf("%d runs have failed one after the other, the last one is %s", t.Failures, e.WorkflowID)
	if e.Message != "" {
		reason += ": " + e.Message
	}
	t.Paused = &Pause{At: t.now.UTC(), Actor: t.by(), Reason: reason}
}

// refused notes that a run was not started: another one was started for the firing before, or it could not be.
func (t *turning) refused(e *Ended) {
	for i := range t.Backfills {
		if b := &t.Backfills[i]; RunID(t.Name, b.Open) == e.WorkflowID && e.Phase != "" {
			b.Started, b.Had = b.Started-1, b.Had+1
		}
	}
	at, known := t.close(e.WorkflowID)
	if e.Phase != "" {
		return
	}
	if known {
		t.missRow(t.table, Missed{From: at, To: at, Count: 1, Reason: MissedRefused, Note: e.Message})
	}
	t.fail(e)
}

// wake finds the next turn.
func (t *turning) wake() {
	if t.Paused != nil {
		return
	}
	at := t.table.Next(t.Due)
	switch {
	case at.IsZero() || t.isOver(at):
		t.out.Over = len(t.Open)+len(t.Waiting)+len(t.Backfills) == 0
	default:
		t.out.Wake = at.Add(t.table.delay(t.Name, at))
	}
	more := slices.ContainsFunc(t.Backfills, func(b Backfill) bool { return b.Open.IsZero() })
	if more || !t.out.Wake.IsZero() && !t.out.Wake.After(t.now) {
		t.out.Wake = t.now.Add(time.Millisecond)
	}
}
