// Package schedule describes the schedules of Go programs: what is stored of one, how it is changed while it runs, and
// how it is shown. A schedule is a run of the workflow [Workflow]; the root's package has its body. The command changes
// schedules without that program, so the package is between the two.
package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/cron"
)

// Names that are stored.
const (
	Workflow   = "pawl.schedule" // a schedule is a run of it
	Backfiller = "pawl.backfill" // makes up for the firings of a span
	Prefix     = "schedule:"     // begins the workflow id of a schedule
	Event      = "pawl.schedule" // changes a schedule; its payload is a Change in JSON
	StateStep  = "state"         // a step of a schedule whose output is its State
	Label      = "pawl.schedule" // the label of the runs that a schedule starts: its name
)

// Overlap says what a schedule does when the run before has not ended.
type Overlap string

// Overlap policies.
const (
	OverlapSkip   Overlap = "skip"
	OverlapQueue  Overlap = "queue"
	OverlapCancel Overlap = "cancel"
	OverlapAllow  Overlap = "allow"
)

// Spec says when a schedule fires, and what happens to firings that are late or overlap.
type Spec struct {
	Cron     string  `json:"cron"`
	Zone     string  `json:"zone,omitempty"`
	Skipped  string  `json:"skipped,omitempty"`
	Repeated string  `json:"repeated,omitempty"`
	Overlap  Overlap `json:"overlap,omitempty"`
	CatchUp  string  `json:"catchUp,omitempty"`
}

// State is what is stored of a schedule: the input of its runs, and the output of their state steps.
type State struct {
	Spec
	Name     string            `json:"name"`
	Workflow string            `json:"workflow"`
	Input    json.RawMessage   `json:"input"`
	Labels   map[string]string `json:"labels,omitempty"`  // labels of the runs that it starts
	Headers  map[string]string `json:"headers,omitempty"` // headers of these runs, too
	Due      time.Time         `json:"due"`               // firings up to here are dealt with; zero: none
	Previous string            `json:"previous"`          // the last run's workflow id; empty: none
	Notified bool              `json:"notified,omitempty"`
	Last     time.Time         `json:"last,omitzero"`   // the last firing that started a run
	Paused   time.Time         `json:"paused,omitzero"` // the instant when it was paused; zero: it is not
	Missed   int               `json:"missed,omitempty"`
	Recent   []Missed          `json:"recent,omitempty"` // the newest of them, the oldest first
}

// Missed is a row of firings that started no run.
type Missed struct {
	From   time.Time `json:"from"` // the first one
	To     time.Time `json:"to"`   // the last one
	Count  int       `json:"count"`
	Reason string    `json:"reason"`
}

// Why a firing started no run.
const (
	MissedLate    = "late"    // nothing ran to start it within the catch-up window
	MissedPaused  = "paused"  // the schedule was paused
	MissedOverlap = "overlap" // the run before had not ended
)

// Operations of a Change.
const (
	Update   = "update"
	Pause    = "pause"
	Resume   = "resume"
	Trigger  = "trigger"
	Backfill = "backfill"
)

// Change is a change of a schedule.
type Change struct {
	Op       string            `json:"op"`
	Spec     *Spec             `json:"spec,omitempty"`     // Update
	Workflow string            `json:"workflow,omitempty"` // Update; empty: it, its input, labels and headers stay
	Input    json.RawMessage   `json:"input,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Run      string            `json:"run,omitempty"`   // Trigger, Backfill: the workflow id of the run to start
	From     time.Time         `json:"from,omitzero"`   // Backfill
	Before   time.Time         `json:"before,omitzero"` // Backfill
	Actor    string            `json:"actor,omitempty"`
	Reason   string            `json:"reason,omitempty"`
}

// Timetable is a Spec, parsed.
type Timetable struct {
	cron.Timetable
	CatchUp time.Duration
}

// Parse checks a schedule.
func (s Spec) Parse() (Timetable, error) {
	t := Timetable{CatchUp: time.Minute}
	table, err := s.Table()
	t.Timetable = table
	switch s.Overlap {
	case "", OverlapSkip, OverlapQueue, OverlapCancel, OverlapAllow:
	default:
		err = errors.Join(err, fmt.Errorf("overlap: %q where skip, queue, cancel or allow is expected", s.Overlap))
	}
	if s.CatchUp != "" {
		d, catchErr := duration.Parse(s.CatchUp)
		err = errors.Join(err, wrap("catchUp", catchErr))
		t.CatchUp = d
	}
	return t, err
}

// Table reads when a schedule fires.
func (s Spec) Table() (t cron.Timetable, err error) {
	var errs [4]error
	t.Spec, errs[0] = cron.Parse(s.Cron)
	t.Zone, errs[1] = cron.ParseZone(s.Zone)
	t.Gap, errs[2] = cron.ParseGap(s.Skipped)
	t.Fold, errs[3] = cron.ParseFold(s.Repeated)
	return t, errors.Join(errs[0], wrap("zone", errs[1]), wrap("skipped", errs[2]), wrap("repeated", errs[3]))
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// After returns the first firing to start after the last one: not one that is later than the catch-up window by now.
// It is zero if there is none.
func (t *Timetable) After(last, now time.Time) time.Time {
	if from := now.Add(-t.CatchUp); from.After(last) {
		last = t.Before(last, from)
	}
	return t.Next(last)
}

const (
	mostCounted = 10_000 // the most firings that one row of missed firings counts
	mostRecent  = 10     // rows of missed firings are shown
)

// Miss notes that the firings after the last one and before another instant started no run. Due becomes the last of
// them. Of very many only the first ones are counted.
func (s *State) Miss(t *Timetable, before time.Time, reason string) {
	m := Missed{Reason: reason}
	for at := t.Next(s.Due); !at.IsZero() && at.Before(before) && m.Count < mostCounted; at = t.Next(at) {
		if m.Count == 0 {
			m.From = at
		}
		m.To = at
		m.Count++
	}
	if m.Count == 0 {
		return
	}
	s.Due = m.To
	s.Missed += m.Count
	if n := len(s.Recent); n > 0 && s.Recent[n-1].Reason == reason && s.Last.Before(s.Recent[n-1].From) {
		s.Recent[n-1].To = m.To
		s.Recent[n-1].Count += m.Count
		return
	}
	s.Recent = append(slices.Clone(s.Recent), m)
	s.Recent = s.Recent[max(0, len(s.Recent)-mostRecent):]
}

// Span returns an instant from which the timetable's Next finds the first firing of a span: from ≤ firing < before.
func (s *State) Span(t *Timetable, from, before time.Time) time.Time {
	anchor := s.Due
	for _, m := range slices.Backward(s.Recent) {
		if !m.To.Before(from) && m.From.Before(before) {
			anchor = m.From // an update or a resume since then may have let the interval begin anew
		}
	}
	return t.Before(anchor, from)
}

// Apply carries out an update, a pause or a resume.
func (s *State) Apply(c *Change, t *Timetable, now time.Time) {
	switch c.Op {
	case Update:
		if c.Spec != nil && *c.Spec != s.Spec {
			// Firings that the new timetable would have had before now are not made up for.
			s.Spec, s.Due = *c.Spec, now
		}
		if c.Workflow != "" {
			s.Workflow, s.Input, s.Labels, s.Headers = c.Workflow, c.Input, c.Labels, c.Headers
		}
	case Pause:
		if s.Paused.IsZero() {
			s.Paused = now
		}
	case Resume:
		if !s.Paused.IsZero() {
			s.Miss(t, now.Add(time.Nanosecond), MissedPaused)
			s.Paused, s.Due = time.Time{}, now
		}
	}
}

// Next returns when a schedule will fire next. It is zero if it is paused, or never fires again.
func (s *State) Next(now time.Time) time.Time {
	t, err := s.Parse()
	if err != nil || !s.Paused.IsZero() {
		return time.Time{}
	}
	return t.After(s.Due, now)
}

// IsState reports whether a step's key is that of a state step.
func IsState(key string) bool {
	name, _, _ := strings.Cut(key, "#")
	return name == StateStep
}

// NameOf returns the name of the schedule with a workflow id.
func NameOf(workflowID string) string { return strings.TrimPrefix(workflowID, Prefix) }

// RunID returns the workflow id of the run that a firing starts.
func RunID(name string, due time.Time) string { return name + "@" + due.UTC().Format(time.RFC3339) }

// Firing returns the firing that started the run with a workflow id; false: none did.
func Firing(workflowID string) (due time.Time, ok bool) {
	due, err := time.Parse(time.RFC3339, workflowID[strings.LastIndex(workflowID, "@")+1:])
	return due.UTC(), err == nil
}

// TriggerID returns a workflow id for a run that a trigger starts now.
func TriggerID(name string, now time.Time) string {
	return name + "@" + now.UTC().Format(time.RFC3339Nano) + "-trigger"
}

// BackfillID returns the workflow id of the run that makes up for a span.
func BackfillID(name string, from, before time.Time) string {
	return fmt.Sprintf("backfill:%s@%s..%s", name, from.UTC().Format(time.RFC3339Nano),
		before.UTC().Format(time.RFC3339Nano))
}

// Read reads the state of a schedule: its run's input, or the output of the last state step, if there is one.
func Read(input, lastOutput []byte) (s State, err error) {
	if lastOutput != nil {
		input = lastOutput
	}
	return s, json.Unmarshal(input, &s)
}
