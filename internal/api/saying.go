package api

import (
	"fmt"
	"strings"
	"time"
)

// Saying is a sentence about a run or a step. It stays true as time passes, since it has instants and no countdowns.
type Saying struct {
	Text string `json:"text"`
	// Parts are the same text in pieces. A viewer makes links of the references, and counts down to instants.
	Parts []Part `json:"parts,omitempty"`
}

// Part is a piece of a sentence, and what it refers to.
type Part struct {
	Text    string `json:"text"`
	Step    string `json:"step,omitempty"` // the key of a step
	Run     string `json:"run,omitempty"`
	Queue   string `json:"queue,omitempty"`
	Service string `json:"service,omitempty"`
	Event   string `json:"event,omitempty"`
	Place   string `json:"place,omitempty"` // where something was set: order.yaml:12:5
	At      Time   `json:"at,omitzero"`     // the instant that the text names
	Form    AtForm `json:"form,omitempty"`  // how an instant reads for people
	Failure bool   `json:"failure,omitempty"`
}

// AtForm is how an instant in a sentence reads at another one.
type AtForm string

// The forms of instants.
const (
	FormIn  AtForm = "in"  // reads "in 1m10s"
	FormFor AtForm = "for" // reads "for 22m"
	FormAgo AtForm = "ago" // reads "14m ago"
)

// Length writes a length of time for people, three digits of it: 320ms, 4.2s, 42s, 3m10s, 2h05m, 6d23h, and 5m where
// nothing follows.
func Length(d time.Duration) string {
	text := Digits(d)
	for zero, unit := range map[string]string{".0s": "s", "m00s": "m", "h00m": "h", "d00h": "d"} {
		if whole, ok := strings.CutSuffix(text, zero); ok {
			return whole + unit
		}
	}
	return text
}

// Digits writes a length of time as [Length] does, always with both units.
func Digits(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Digits(-d)
	case d < time.Millisecond:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%ds", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}

// Reads returns the sentence as it reads at an instant. left writes how long something is still away.
func (s *Saying) Reads(now Time, left func(time.Duration) string) string {
	if s == nil {
		return ""
	}
	if len(s.Parts) == 0 {
		return s.Text
	}
	var b strings.Builder
	for _, p := range s.Parts {
		b.WriteString(p.Reads(now, left))
	}
	return b.String()
}

// Reads returns the piece as it reads at an instant.
func (p *Part) Reads(now Time, left func(time.Duration) string) string {
	switch p.Form {
	case FormIn:
		return "in " + left(max(p.At.Sub(now), 0))
	case FormFor:
		return "for " + Digits(max(now.Sub(p.At), 0))
	case FormAgo:
		return Digits(max(now.Sub(p.At), 0)) + " ago"
	default:
		return p.Text
	}
}

// The causes of an end.
const (
	EndLimit    = "limit"    // a limit expires
	EndAttempts = "attempts" // the attempts are used up
	EndNoTime   = "no_time"  // another attempt would begin after a deadline
)

// End is something that can end an open run, a step of it, or an attempt.
type End struct {
	Cause    string   `json:"cause"`              // limit, attempts or no_time
	Ends     string   `json:"ends"`               // run, step or attempt
	Step     string   `json:"step,omitempty"`     // the step that fails then, among the ends of a run
	Limit    string   `json:"limit,omitempty"`    // the limit that expires, or leaves no time
	Attempts int      `json:"attempts,omitempty"` // how many attempts there may be, or are until then
	At       Time     `json:"at,omitzero"`        // absent: the time is unknown, or its clock is stopped
	From     Time     `json:"from,omitzero"`      // when the limit's clock started
	After    Duration `json:"after,omitzero"`     // the length that was set
	Left     Duration `json:"left,omitzero"`      // the remaining time of a limit whose clock is stopped
	Origin   string   `json:"origin,omitempty"`   // where it was set: order.yaml:12:5
	Renewed  bool     `json:"renewed,omitempty"`  // each sign of life moves it
	Soonest  bool     `json:"soonest,omitempty"`  // other runs share a limit, so it may come later
	Child    string   `json:"child,omitempty"`    // the child run that it ends first
	Text     string   `json:"text"`               // its words: scheduleToClose 30m
}

// The kinds of bars.
const (
	BarQueued   = "queued"   // an attempt waits for a worker, or is held
	BarRunning  = "running"  // an attempt runs
	BarStopping = "stopping" // the work of an ended attempt is being stopped
	BarBackoff  = "backoff"  // the pause before the next attempt
	BarLate     = "late"     // the next attempt was ready later than planned
	BarWaits    = "waits"    // it sleeps, or waits for something other than a worker
	BarPaused   = "paused"   // the run was paused
	BarAhead    = "ahead"    // an attempt to come, if those before fail
)

// Bar is a span of time in a step's life.
type Bar struct {
	Kind    string `json:"kind"`
	From    Time   `json:"from"`
	To      Time   `json:"to,omitzero"`       // absent: it goes on
	Attempt int    `json:"attempt,omitempty"` // 0: the step as a whole
	Bad     bool   `json:"bad,omitempty"`     // the attempt, or the step, failed
	Text    string `json:"text"`
}

// Bound is an instant that bounds a run or a step.
type Bound struct {
	At      Time   `json:"at"`
	Text    string `json:"text"`
	GivesUp bool   `json:"givesUp,omitempty"` // the step gives up then, before a limit
}
