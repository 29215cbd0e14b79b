package schedule_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// ledger reads what becomes durable of schedules, and of the runs that they start.
type ledger struct {
	t   *testing.T
	mu  sync.Mutex
	of  map[string]*account
	run map[core.RunID]*account
}

// account is what is durable of a schedule.
type account struct {
	made    time.Time
	edits   []time.Time
	pauses  []span
	fired   map[time.Time][]time.Time // when runs were started, by firing
	skipped map[time.Time]bool        // firings that somebody has taken out
	missed  map[row]schedule.Missed
	last    *schedule.State
}

// row names a row of missed firings, which may still grow.
type row struct {
	from   time.Time
	reason string
}

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, of: map[string]*account{}, run: map[core.RunID]*account{}}
}

// account returns what is known of a schedule.
func (l *ledger) account(name string) *account {
	if l.of[name] == nil {
		l.of[name] = &account{
			fired: map[time.Time][]time.Time{}, skipped: map[time.Time]bool{}, missed: map[row]schedule.Missed{},
		}
	}
	return l.of[name]
}

// fault reads each batch that is durable. It returns no fault.
func (l *ledger) fault(op memory.Op, b *journal.Batch) error {
	if op != memory.OpAck {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := b.Entries
	if b.Encoded != nil {
		var err error
		if entries, err = core.ReadEntries(b.Encoded); err != nil {
			l.t.Error(err)
		}
	}
	for _, e := range entries {
		for _, rec := range e.Records {
			l.take(e.Run, e.At.Std().UTC(), rec)
		}
	}
	return nil
}

func (l *ledger) take(run core.RunID, at time.Time, rec core.Record) {
	switch rec := rec.(type) {
	case core.RunCreated:
		if rec.Workflow == schedule.Workflow {
			name, _ := schedule.NameOf(rec.WorkflowID)
			a := l.account(name)
			l.run[run] = a
			if a.made.IsZero() {
				a.made = at
			}
			return
		}
		if name, _, _ := strings.Cut(rec.WorkflowID, "@"); rec.Chain.Previous == (core.RunID{}) {
			a, firing := l.account(name), rec.Firing.Std().UTC()
			a.fired[firing] = append(a.fired[firing], at)
		}
	case core.SignalKept:
		var c schedule.Change
		if rec.Name != schedule.Event || rec.Carried || json.Unmarshal(rec.Payload, &c) != nil {
			return
		}
		switch a := l.run[run]; c.Op {
		case schedule.OpUpdate:
			a.edits = append(a.edits, at)
		case schedule.OpSkip:
			a.skipped[c.Firing.UTC()] = true
		}
	case core.Turned:
		if rec.Value != nil {
			l.turned(l.run[run], at, rec.Value)
		}
	}
}

// turned takes the value that a turn has left.
func (l *ledger) turned(a *account, at time.Time, value []byte) {
	s, err := schedule.Decode(value)
	if err != nil {
		l.t.Error(err)
		return
	}
	a.last = s
	for _, m := range s.Recent {
		a.missed[row{m.From, m.Reason}] = m
	}
	open := len(a.pauses) > 0 && a.pauses[len(a.pauses)-1].to.IsZero()
	switch {
	case s.Paused != nil && !open:
		a.pauses = append(a.pauses, span{from: s.Paused.At})
	case s.Paused == nil && open:
		a.pauses[len(a.pauses)-1].to = at
	}
}

// check compares what is durable of all schedules with when they fire.
func (w *world) check() {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	fired, missed := 0, 0
	reasons := map[string]int{}
	for _, name := range w.names() {
		p, a := w.schedules[name], w.ledger.of[name]
		due := w.due(p, a)
		for at, starts := range a.fired {
			if len(starts) > 1 {
				w.t.Errorf("%s has fired for %s at %s", name, at, starts)
			}
			if due[at] == 0 {
				w.t.Errorf("%s has fired for %s, when it does not fire", name, at)
			}
			due[at]++
			fired++
		}
		for _, m := range a.missed {
			n := 0
			for at := range due {
				if !at.Before(m.From) && !at.After(m.To) {
					due[at]++
					n++
					w.reason(p, a, at, m)
				}
			}
			if n != m.Count {
				w.t.Errorf("%s tells %d firings from %s to %s as missed (%s), and there were %d", name, m.Count,
					m.From, m.To, m.Reason, n)
			}
			missed += n
			reasons[m.Reason] += n
		}
		for _, at := range a.last.Waiting {
			due[at.UTC()]++
		}
		for at, n := range due {
			if n != 2 {
				w.t.Errorf("%s: the firing at %s was dealt with %d times (%+v)", name, at, n-1, p.table.spec())
			}
		}
	}
	w.t.Logf("%d firings have a run, %d were missed: %v", fired, missed, reasons)
	if fired < 10*len(w.schedules) || missed < len(w.schedules) || len(reasons) < 4 {
		w.t.Error("not much has happened")
	}
}

// due returns the firings that the schedule has dealt with, each with 1.
func (w *world) due(p *planned, a *account) map[time.Time]int {
	if len(a.edits) != len(p.all)-1 {
		w.t.Fatalf("%s was edited %d times, and %d edits are durable", p.name, len(p.all)-1, len(a.edits))
	}
	out := map[time.Time]int{}
	from, anchor, last := a.made, a.made.Truncate(time.Second), a.last.Due.UTC()
	for i, table := range p.all {
		until := last
		if i < len(a.edits) {
			until = a.edits[i]
		}
		if i > 0 && table.spec().Cron != p.all[i-1].spec().Cron {
			anchor = from.Truncate(time.Second)
		}
		for _, at := range table.firings(from, until, anchor) {
			out[at] = 1
		}
		from = until
	}
	if a.last.Paused != nil {
		return out // firings meanwhile are counted when it is resumed
	}
	// Nothing that was due long ago is left.
	for _, at := range p.table.firings(last, w.machines[0].now().Add(-3*time.Hour), anchor) {
		w.t.Errorf("%s has not dealt with the firing at %s", p.name, at)
	}
	return out
}

// reason checks that there was the reason for which a firing was missed.
func (w *world) reason(p *planned, a *account, at time.Time, m schedule.Missed) {
	was := false
	switch m.Reason {
	case schedule.MissedPaused:
		for _, s := range a.pauses {
			was = was || !at.Before(s.from.Add(-time.Hour)) && (s.to.IsZero() || !at.After(s.to))
		}
	case schedule.MissedLate:
		for _, s := range w.disturbed {
			was = was || at.After(s.from.Add(-4*time.Hour)) && at.Before(s.to.Add(4*time.Hour))
		}
	case schedule.MissedSkipped:
		was = a.skipped[at]
	case schedule.MissedOverlap:
		for _, t := range p.all {
			was = was || t.overlap != schedule.OverlapAllow
		}
	case schedule.MissedNotAfter:
		for _, t := range p.all {
			was = was || t.notAfter != ""
		}
	}
	if !was {
		w.t.Errorf("%s: the firing at %s was missed (%s) without that reason", p.name, at, m.Reason)
	}
}
