package schedule

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Version is the version of the stored form of a State.
const Version = 1

// State is the stored state of a schedule.
type State struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	Spec
	Target
	Since time.Time `json:"since,omitzero"` // intervals are counted from here; zero: it was made now
	Due   time.Time `json:"due,omitzero"`   // firings up to here are dealt with; zero: as Since
	// Edited is when the times or rules were last changed; zero: never.
	Edited time.Time `json:"edited,omitzero"`
	// Until ends the schedule, with all its runs; zero: never.
	Until     time.Time   `json:"until,omitzero"`
	Last      time.Time   `json:"last,omitzero"`     // the last firing that started a run
	LastRun   string      `json:"lastRun,omitempty"` // the workflow id of that run
	Open      []Run       `json:"open,omitempty"`    // the runs of firings that have not ended
	Waiting   []time.Time `json:"waiting,omitempty"` // firings that wait for a run before them to end
	Skips     []time.Time `json:"skips,omitempty"`   // firings to come that somebody has taken out
	Backfills []Backfill  `json:"backfills,omitempty"`
	Paused    *Pause      `json:"paused,omitempty"`
	Failures  int         `json:"failures,omitempty"` // how many runs have failed one after the other
	Fired     int         `json:"fired,omitempty"`    // firings that started a run
	Missed    int         `json:"missed,omitempty"`   // firings that started none
	Recent    []Missed    `json:"recent,omitempty"`   // the newest of those, the oldest first
}

// Target is what a schedule starts.
type Target struct {
	Workflow   string `json:"workflow"`
	Kind       string `json:"kind,omitempty"`       // the kind of the definition
	Definition ID     `json:"definition,omitempty"` // the id of the definition
	// Source is stored before the next run begins, and then left out here; empty: it is stored.
	Source  string            `json:"source,omitempty"`
	File    string            `json:"file,omitempty"` // the flow's file in a server's folder; empty: it has none there
	Input   json.RawMessage   `json:"input,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Over returns the target with the input, the labels and the headers that one run has of its own.
func (t Target) Over(own *Target) Target {
	if own == nil {
		return t
	}
	if own.Input != nil {
		t.Input = own.Input
	}
	t.Labels, t.Headers = over(t.Labels, own.Labels), over(t.Headers, own.Headers)
	return t
}

func over(all, own map[string]string) map[string]string {
	if len(own) == 0 {
		return all
	}
	out := maps.Clone(own)
	for name, value := range all {
		if _, other := own[name]; !other {
			out[name] = value
		}
	}
	return out
}

// ID is the id of a definition in hex. It is stored in base64, since there may be a million schedules.
type ID string

// MarshalText returns the stored form.
func (id ID) MarshalText() ([]byte, error) {
	b, err := hex.DecodeString(string(id))
	if err != nil {
		return nil, fmt.Errorf("the id of a definition: %w", err)
	}
	return base64.RawURLEncoding.AppendEncode(nil, b), nil
}

// UnmarshalText reads the stored form.
func (id *ID) UnmarshalText(text []byte) error {
	b, err := base64.RawURLEncoding.Strict().AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("the id of a definition: %w", err)
	}
	*id = ID(hex.EncodeToString(b))
	return nil
}

// Run is a run that the schedule has started and that has not ended.
type Run struct {
	Firing time.Time `json:"firing"`
}

// Pause is since when a schedule is paused, and why.
type Pause struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// Backfill makes up for the firings of a span.
type Backfill struct {
	After   time.Time `json:"after"` // firings up to here are dealt with
	Before  time.Time `json:"before"`
	AtOnce  bool      `json:"atOnce,omitempty"`
	Open    time.Time `json:"open,omitzero"` // the firing whose run has not ended; zero: none
	Started int       `json:"started,omitempty"`
	Had     int       `json:"had,omitempty"` // firings that had a run already
	Actor   string    `json:"actor,omitempty"`
	Reason  string    `json:"reason,omitempty"`
}

// Missed is a row of firings that started no run.
type Missed struct {
	From   time.Time `json:"from"` // the first one
	To     time.Time `json:"to"`   // the last one
	Count  int       `json:"count"`
	Reason string    `json:"reason"`
	Note   string    `json:"note,omitempty"` // MissedRefused: why
}

// Why a firing started no run.
const (
	MissedLate     = "late"     // no engine was there to start it within the catch-up window
	MissedPaused   = "paused"   // the schedule was paused
	MissedOverlap  = "overlap"  // a run before had not ended
	MissedSkipped  = "skipped"  // somebody has taken it out
	MissedNotAfter = "notAfter" // its latest time of day had passed
	MissedRefused  = "refused"  // its run could not be started
)

const (
	mostCounted = 10_000 // the most firings that one row of missed firings counts
	mostRecent  = 20     // rows of missed firings are kept
	mostWaiting = 1000   // firings wait for their turn
	mostOpen    = 1000   // runs of one schedule are known to be open

	// MostBackfilled is how many firings one backfill makes up for at most.
	MostBackfilled = 10_000
)

// Encode returns the stored form.
func (s *State) Encode() ([]byte, error) {
	s.Version = Version
	return json.Marshal(s)
}

// Decode reads the stored form.
func Decode(text []byte) (*State, error) {
	s := &State{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("a schedule: %w", err)
	}
	if s.Version != Version {
		return nil, fmt.Errorf("schedule %q is stored in form %d; this version of Pawl knows form %d", s.Name,
			s.Version, Version)
	}
	return s, nil
}

// Check returns why a schedule cannot be made, or nil if it can.
func (s *State) Check() error {
	_, err := s.Parse(time.Time{})
	if s.Name == "" {
		err = errors.Join(err, errors.New("a schedule has a name"))
	}
	if s.Workflow == "" || s.Definition == "" {
		err = errors.Join(err, errors.New("a schedule starts a workflow"))
	}
	return err
}

// Table returns the times of the schedule.
func (s *State) Table() (*Table, error) { return s.Parse(s.Since) }

// Begin sets when the schedule was made, if it is new.
func (s *State) Begin(now time.Time) {
	if s.Since.IsZero() {
		s.Since = now.Truncate(time.Second)
	}
	if s.Due.IsZero() {
		s.Due = now
	}
}

// miss notes that a firing started no run.
func (s *State) miss(t *Table, at time.Time, reason string) {
	s.missRow(t, Missed{From: at, To: at, Count: 1, Reason: reason})
}

// missRow notes that a row of firings started no run. It goes on with the row before where no other firing is between
// them: what a row spans was missed for its reason.
func (s *State) missRow(t *Table, m Missed) {
	if m.Count == 0 {
		return
	}
	m.From, m.To = m.From.UTC(), m.To.UTC()
	s.Missed += m.Count
	if n := len(s.Recent); n > 0 {
		last := &s.Recent[n-1]
		same := last.Reason == m.Reason && last.Note == m.Note && last.To.After(s.Edited)
		if same && t.Next(last.To).Equal(m.From) {
			last.To, last.Count = m.To, last.Count+m.Count
			return
		}
	}
	s.Recent = append(s.Recent, m)
	s.Recent = s.Recent[max(0, len(s.Recent)-mostRecent):]
}

// missUntil notes that the firings up to an instant started no run, except for those that were taken out. Of very many
// only the first ones are counted.
func (s *State) missUntil(t *Table, until time.Time, reason string) {
	row := Missed{Reason: reason}
	at := t.Next(s.Due)
	for ; !at.IsZero() && !at.After(until) && row.Count < mostCounted; at = t.Next(at) {
		s.Due = at.UTC()
		if s.takeSkip(at) {
			s.missRow(t, row)
			s.miss(t, at, MissedSkipped)
			row = Missed{Reason: reason}
			continue
		}
		if row.Count == 0 {
			row.From = at
		}
		row.To = at
		row.Count++
	}
	s.missRow(t, row)
	if !at.IsZero() && !at.After(until) {
		s.Due = until.UTC()
	}
}

// takeSkip reports whether somebody has taken a firing out.
func (s *State) takeSkip(at time.Time) bool {
	i := slices.IndexFunc(s.Skips, at.Equal)
	if i < 0 {
		return false
	}
	s.Skips = slices.Delete(s.Skips, i, i+1)
	return true
}

// Coming returns the next n firings that start a run, unless it is paused.
func (s *State) Coming(t *Table, now time.Time, n int) []time.Time {
	at, from := s.Due, now
	if s.Paused == nil {
		from = now.Add(-t.catchUp - t.jitter)
	}
	if from.After(at) {
		at = from
	}
	var out []time.Time
	for len(out) < n {
		if at = t.Next(at); at.IsZero() || !s.Until.IsZero() && !at.Before(s.Until) {
			return out
		}
		if !slices.ContainsFunc(s.Skips, at.Equal) {
			out = append(out, at)
		}
	}
	return out
}

// Settled returns the schedule as it would be after a turn now: the missed firings of a paused one are counted.
func (s State) Settled(now time.Time) State {
	s.Recent, s.Skips = slices.Clone(s.Recent), slices.Clone(s.Skips)
	s.Begin(now)
	if t, err := s.Table(); err == nil && s.Paused != nil {
		s.missUntil(t, now, MissedPaused)
	}
	return s
}

// CountFirings returns how many firings a span has, from ≤ firing < before, up to a bound.
func (t *Table) CountFirings(from, before time.Time, most int) int {
	n := 0
	for at := t.Next(from.Add(-1)); !at.IsZero() && at.Before(before) && n < most; at = t.Next(at) {
		n++
	}
	return n
}
