package trail

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// pause is a time in which the run was paused.
type pause struct {
	from, to api.Time // a pause that goes on has no end
}

// notePauses keeps when the run was paused.
func (t *Trail) notePauses(at api.Time) {
	n := len(t.pauses)
	goesOn := n > 0 && t.pauses[n-1].to == 0
	switch paused := t.Run.PausedAt != 0; {
	case paused && !goesOn:
		t.pauses = append(t.pauses, pause{from: at})
	case !paused && goesOn:
		t.pauses[n-1].to = at
	}
}

// bars returns the bars of a step: what it did, and what is to come.
func (t *Trail) bars(s *core.Step, ahead *api.Ahead) []api.Bar {
	attempts := t.attempts[s.ID]
	var all []api.Bar
	for i := range attempts {
		all = attemptBars(all, attempts, i, s.Stopping && i == len(attempts)-1)
	}
	if len(attempts) == 0 && s.Reason.String() != "skipped" {
		all = append(all, api.Bar{
			Kind: api.BarWaits, From: api.Time(s.ScheduledAt), To: api.Time(s.EndedAt), Bad: failedBadly(s),
			Text: waitText(s),
		})
	}
	if ahead != nil {
		for _, a := range ahead.Attempts {
			all = append(all, api.Bar{
				Kind: api.BarAhead, From: a.From, To: a.To, Attempt: a.Attempt,
				Text: fmt.Sprintf("attempt %d would begin", a.Attempt),
			})
		}
	}
	for _, p := range t.pauses {
		from, to := max(p.from, api.Time(s.ScheduledAt)), p.to
		if end := api.Time(s.EndedAt); end != 0 && (to == 0 || end < to) {
			to = end
		}
		if to == 0 || from < to {
			all = append(all, api.Bar{Kind: api.BarPaused, From: from, To: to, Text: "the run was paused"})
		}
	}
	return all
}

// waitText returns what a step without attempts did all the time.
func waitText(s *core.Step) string {
	switch s.Spec.Kind {
	case core.KindSleep:
		return "sleeps"
	case core.KindWait:
		if s.Spec.Update != "" {
			return "waits for the update " + s.Spec.Update
		}
		if s.Spec.Event == "" {
			return "waits for the first of several"
		}
		return "waits for the event " + s.Spec.Event
	case core.KindGroup:
		return "works on its items"
	case core.KindSend:
		return "its message was on its way"
	default:
		return words(s.Phase.String())
	}
}

// attemptBars adds the bars of an attempt: its wait for a worker, its work, the stop of the work, the pause before the
// next attempt, and how late that was ready. stopping says that its work has not stopped yet.
func attemptBars(all []api.Bar, attempts []api.Attempt, i int, stopping bool) []api.Bar {
	a := &attempts[i]
	add := func(kind string, from, to api.Time, text string) {
		if to == 0 || to > from {
			bad := a.Outcome != "" && a.Outcome != "succeeded"
			all = append(all, api.Bar{Kind: kind, From: from, To: to, Attempt: a.Attempt, Bad: bad, Text: text})
		}
	}
	n := fmt.Sprintf("attempt %d", a.Attempt)
	if until := first(a.StartedAt, a.EndedAt); a.ReadyAt != 0 && until != a.ReadyAt {
		text := n + " waits for a worker"
		if a.Held != nil {
			text = n + " is " + a.Held.Why
		}
		add(api.BarQueued, a.ReadyAt, until, text)
	}
	if a.StartedAt != 0 {
		all = append(all, api.Bar{
			Kind: api.BarRunning, From: a.StartedAt, To: a.EndedAt, Attempt: a.Attempt,
			Bad: a.Outcome != "" && a.Outcome != "succeeded", Text: n + " " + doneText(a),
		})
	}
	if a.EndedAt == 0 {
		return all
	}
	if stopping || a.StoppedAt > a.EndedAt {
		add(api.BarStopping, a.EndedAt, a.StoppedAt, n+" "+stopText(a))
	}
	if a.NextAt != 0 {
		add(api.BarBackoff, a.EndedAt, max(a.NextAt, a.EndedAt), n+" is tried again after this pause")
		if i+1 < len(attempts) && attempts[i+1].ReadyAt > a.NextAt && attempts[i+1].Life == a.Life {
			all = append(all, api.Bar{
				Kind: api.BarLate, From: a.NextAt, To: attempts[i+1].ReadyAt, Attempt: a.Attempt + 1,
				Text: fmt.Sprintf("attempt %d is late", a.Attempt+1),
			})
		}
	}
	return all
}

// first returns the first instant that is one.
func first(a, b api.Time) api.Time {
	if a != 0 {
		return a
	}
	return b
}

// mostWhy is how many characters of a failure a bar shows.
const mostWhy = 200

func doneText(a *api.Attempt) string {
	text := "runs"
	switch {
	case a.Outcome == "succeeded":
		text = "succeeded"
	case a.Outcome != "":
		why := []rune(a.Why)
		text = words(a.Outcome) + ": " + string(why[:min(len(why), mostWhy)])
	}
	if a.Worker != "" {
		text += " (on " + a.Worker + ")"
	}
	return text
}

func stopText(a *api.Attempt) string {
	switch {
	case a.Abandoned:
		return "did not stop, and was abandoned"
	case a.Killed:
		return "did not stop, and was killed"
	case a.StoppedAt == 0:
		return "was told to stop"
	default:
		return "stopped"
	}
}

// bounds returns the instants that bound a step: the possible ends of an open one, and the deadlines of a closed one.
func bounds(ends []api.End, deadlines []api.Deadline, open bool) []api.Bound {
	var all []api.Bound
	if open {
		for _, e := range ends {
			if e.Ends != endsRun && e.At != 0 && !e.Renewed {
				all = append(all, api.Bound{At: e.At, Text: placed(e.Text, e.Origin), GivesUp: e.Cause != api.EndLimit})
			}
		}
		return all
	}
	for _, d := range deadlines {
		if d.At != 0 {
			e := named(api.End{Cause: api.EndLimit, Limit: d.Limit, After: d.After})
			all = append(all, api.Bound{At: d.At, Text: placed(e.Text, d.Origin)})
		}
	}
	return all
}

func placed(text, origin string) string {
	if origin == "" {
		return text
	}
	return text + ", set at " + origin
}
