package trail

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Told is the state of a run in words: what it is at, what it says, what comes then, and what can end it. It is made
// of the run's state alone, so that it can be kept with the run's row. What is known besides, and the instant, come in
// when it is read: the sentences have slots for that. A list reads what is kept, a page what it makes from the history,
// and both read it with [Told.Read]: this is why they never differ.
type Told struct {
	status     api.Status
	says       []api.Part
	then       []api.Part
	guess      []api.Part // follows then while it holds
	next       string     // the step of which the reader names what follows it; empty: nothing does
	begun      []string   // steps that began after that one
	holds      core.Time  // guess holds until then; zero: always
	ends       []end
	children   []childEnd
	unfinished bool
}

// childEnd is a child run whose end, if it is a bad one, ends the run.
type childEnd struct {
	step  string
	child core.RunID
}

// Known is the knowledge about a run besides its history.
type Known struct {
	Problem string            // why it cannot go on until somebody acts; empty if it can
	Plan    []api.PlannedStep // the steps of its definition, without hooks
	// Unserved reports whether no worker comes for the tasks of a type in a queue. nil: that is not known.
	Unserved func(queue, taskType string) bool
	// Line is how it stands in the line of its queue, while it waits there; nil: that is not known.
	Line *core.Line
	// Child returns the name of a child run, and what can end it; nil: that is not known.
	Child func(id core.RunID) (name string, ends []api.End)
}

// Reading is what a run tells at an instant.
type Reading struct {
	Status     api.Status
	Says, Then *api.Saying
	Ends       []api.End
	// Unfinished: it has ended, and what it does at a bad end did not succeed.
	Unfinished bool
}

// Tell returns the words of the run.
func (t *Trail) Tell() *Told { return t.tell() }

// Unknown returns the words of a run of which only the phase is known.
func Unknown(phase core.RunPhase) *Told {
	say := &phrase{}
	say.add("Is %s.", words(phase.String()))
	return &Told{status: api.Status(phase.String()), says: say.parts}
}

// Into writes what the run tells into its summary.
func (r Reading) Into(s *api.RunSummary) {
	s.Status, s.Says, s.Then, s.Ends, s.Unfinished = r.Status, r.Says, r.Then, r.Ends, r.Unfinished
}

// mostChildren is how many child runs are looked at for what can end a run.
const mostChildren = 4

// tell makes the words of a run.
func (t *speaker) tell() *Told {
	r := t.Run
	say, guess, next := t.then()
	out := &Told{status: t.status(), says: t.runSays().parts, then: say.parts, guess: guess.parts}
	switch {
	case r.Phase.Closed():
		out.holds, out.unfinished = r.Execution.At, t.unfinished()
		return out
	case next != nil:
		out.next, out.holds = next.Spec.Name, core.LookAhead(r, next, 0).Holds
		for i := int(next.ID) + 1; i < len(r.Steps) && len(out.begun) < mostBegun; i++ {
			if s := &r.Steps[i]; !s.Dropped && s.Group == core.NoStep && !slices.Contains(out.begun, s.Spec.Name) {
				out.begun = append(out.begun, s.Spec.Name)
			}
		}
	}
	out.ends = t.allEnds()
	for i := range r.Steps {
		if s := &r.Steps[i]; len(out.children) < mostChildren && t.endsWithChild(s) {
			out.children = append(out.children, childEnd{s.Key(), s.Child})
		}
	}
	return out
}

// mostBegun is how many steps are remembered that began beside the one that matters most.
const mostBegun = 32

// unfinished reports whether what the run does at a bad end did not succeed.
func (t *speaker) unfinished() bool {
	return t.Run.Unfinished() || t.Run.Phase != core.RunSucceeded && len(notUndone(t.Run)) > 0
}

// endsWithChild reports whether the step waits for a child run, and ends its run if that ends badly.
func (t *speaker) endsWithChild(s *core.Step) bool {
	if !isOpen(s) || s.Spec.Kind != core.KindChild || s.Child == (core.RunID{}) {
		return false
	}
	if most := maxAttempts(s); most == 0 || s.Counted < most {
		return false
	}
	def := t.Run.Attached()
	return def == nil || def.Tolerates == nil || !def.Tolerates(s)
}

// Read returns the words as they are at an instant.
func (t *Told) Read(k *Known, now core.Time) Reading {
	out := Reading{Status: t.status, Says: resolved(t.says, k).said(), Unfinished: t.unfinished}
	then := resolved(t.then, k)
	if t.holds == 0 || now <= t.holds {
		for _, p := range resolved(t.guess, k).parts {
			then.piece(p)
		}
	}
	thenNext(then, t.next, following(k.Plan, t.next, func(name string) bool { return slices.Contains(t.begun, name) }))
	out.Ends = endsAt(t.ends, now)
	if k.Child != nil && len(t.children) > 0 {
		out.Ends = withChildren(out.Ends, t.children, k.Child)
	}
	if k.Problem != "" && !closedStatus(t.status) {
		say := &phrase{}
		say.add("Cannot go on: ").failed(k.Problem).add(".")
		out.Status, out.Says, then = api.StatusStuck, say.said(), &phrase{}
	}
	out.Then = then.said()
	return out
}

// closedStatus reports whether a run with that status has ended.
func closedStatus(s api.Status) bool {
	phase := api.RunPhase(s)
	return slices.Contains(api.RunPhases(), phase) && phase.Closed()
}

// thenNext names what follows a step that succeeds.
func thenNext(say *phrase, step string, next []string) {
	if step == "" || len(next) == 0 {
		return
	}
	if len(say.parts) > 0 {
		say.add(" When it succeeds: ")
	} else {
		say.add("Then ")
	}
	saysSteps(say, next)
	say.add(".")
}

// withChildren adds the first end of each child run whose bad end ends the run.
func withChildren(all []api.End, children []childEnd, child func(core.RunID) (string, []api.End)) []api.End {
	var out []end
	for _, e := range all {
		out = append(out, end{End: e})
	}
	for _, c := range children {
		name, ends := child(c.child)
		for _, e := range ends {
			if e.At == 0 || e.Ends == endsAttempt {
				continue
			}
			e.Step, e.Ends, e.Child = c.step, endsStep, runText(c.child)
			if name != "" {
				e.Text = name + ": " + e.Text
			}
			out = append(out, end{End: e})
			break
		}
	}
	var ends []api.End
	for _, e := range sorted(out) {
		ends = append(ends, e.End)
	}
	return ends[:min(len(ends), mostEnds)]
}

// status returns what the run is at: the status of the step that matters most, unless the run itself has one. A run
// with an attempt at work is running, whatever its other steps wait for.
func (t *speaker) status() api.Status {
	r := t.Run
	switch {
	case r.Phase.Closed():
		return api.Status(r.Phase.String())
	case r.Ending():
		return api.StatusStopping
	case r.PausedAt != 0:
		return api.StatusPaused
	case r.HeldNow().Reason != core.HeldNone:
		return api.StatusHeld
	case r.Phase == core.RunPending:
		return api.StatusQueued
	}
	most, rank := api.Status(r.Phase.String()), -1
	for i := range r.Steps {
		s := &r.Steps[i]
		if !isOpen(s) || s.Spec.Kind == core.KindGroup {
			continue
		}
		status := stepStatus(s)
		if is := slices.Index(statusOrder, status); is > rank {
			most, rank = status, is
		}
	}
	return most
}

// statusOrder is how much the status of an open step matters for its run, the least first.
var statusOrder = []api.Status{
	api.StatusWaiting, api.StatusSleeping, api.StatusQueued, api.StatusHeld, api.StatusRetrying, api.StatusRunning,
	api.StatusStopping,
}

// stepStatus returns what a step is at.
func stepStatus(s *core.Step) api.Status {
	switch {
	case s.Phase.Closed():
		return api.Status(s.Phase.String())
	case s.Stopping:
		return api.StatusStopping
	case s.HeldNow().Reason != core.HeldNone:
		return api.StatusHeld
	case s.Phase == core.StepScheduled:
		return api.StatusQueued
	case s.Phase == core.StepBackingOff:
		return api.StatusRetrying
	case s.Phase == core.StepSuspended && s.Spec.Kind == core.KindSleep:
		return api.StatusSleeping
	case s.Phase == core.StepSuspended:
		return api.StatusWaiting
	default:
		return api.StatusRunning
	}
}

// Slots are pieces of a sentence that stand for what is known besides the history. Callers never get them.
const (
	slotWorker  api.AtForm = "slot:worker"  // that no worker takes the tasks of its queue and type
	slotBegins  api.AtForm = "slot:begins"  // that its step begins when such a worker comes
	slotHolders api.AtForm = "slot:holders" // the runs that have the places of its queue
	slotAhead   api.AtForm = "slot:ahead"   // the runs that begin before it
	slotFirst   api.AtForm = "slot:first"   // the events of which the first ends a wait, and the steps
	slotChild   api.AtForm = "slot:child"   // the name of a child run
)

func (s *phrase) slot(form api.AtForm, p api.Part) *phrase {
	p.Form = form
	return s.part(p)
}

// resolved fills the slots of a sentence.
func resolved(parts []api.Part, k *Known) *phrase {
	say := &phrase{}
	for _, p := range parts {
		switch p.Form {
		case slotWorker:
			if k.Unserved != nil && k.Unserved(p.Queue, p.Text) {
				say.add(": no worker takes %q tasks", p.Text)
				if p.Queue != "" {
					say.add(" from that queue")
				}
			}
		case slotBegins:
			if k.Unserved != nil && k.Unserved(p.Queue, p.Text) {
				say.step(p.Step).add(" begins when such a worker comes.")
			}
		case slotHolders:
			if k.Line != nil && k.Line.Holders.N > 0 {
				say.add(" by ").runs(k.Line.Holders)
			}
		case slotAhead:
			saysAhead(say, k.Line)
		case slotFirst:
			saysFirstOf(say, p, k)
		case slotChild:
			saysChild(say, p, k)
		default:
			say.piece(p)
		}
	}
	return say
}

// piece appends a piece as it is. Text joins the text before it.
func (s *phrase) piece(p api.Part) {
	if p == (api.Part{Text: p.Text}) {
		s.add("%s", p.Text)
	} else {
		s.part(p)
	}
}

func saysAhead(say *phrase, line *core.Line) {
	switch {
	case line == nil:
	case line.Ahead.N == 0:
		say.add("; it is the next one")
	case line.Ahead.N == 1:
		say.add("; ").runs(line.Ahead).add(" is ahead of it")
	default:
		say.add("; ").runs(line.Ahead).add(" are ahead of it")
	}
}

// saysChild names a child run.
func saysChild(say *phrase, p api.Part, k *Known) {
	text := p.Run
	if k.Child != nil {
		if id, err := core.ParseRunID(p.Run); err == nil {
			if name, _ := k.Child(id); name != "" {
				text = name
			}
		}
	}
	say.part(api.Part{Text: text, Run: p.Run})
}

// saysFirstOf describes the events and the ends of steps of which the first ends a wait.
func saysFirstOf(say *phrase, p api.Part, k *Known) {
	var events, steps []string
	if p.Text != "" {
		events = strings.Split(p.Text, "\x00")
	}
	for _, planned := range k.Plan {
		if planned.Name == p.Step {
			steps = planned.Watches
		}
	}
	add := func(what, several string, names []string, name func(string) *phrase) {
		if len(names) > 1 {
			what = several
		}
		for _, n := range names {
			say.add("%s", what)
			name(n)
			what = ", "
		}
	}
	if len(events)+len(steps) > 1 {
		say.add("the first of ")
	}
	add("the event ", "the events ", events, say.event)
	if len(events) > 0 && len(steps) > 0 {
		say.add(" and ")
	}
	add("the end of ", "the ends of ", steps, say.step)
	if len(events)+len(steps) == 0 {
		say.add("another step")
	}
}

// lastLife returns when the run was put back to work last, or when it was created.
func lastLife(r *core.Run) (from core.Time, again bool) {
	for i := len(r.Asked) - 1; i >= 0; i-- {
		if a := r.Asked[i]; a.Op == core.OpRetryRun || a.Op == core.OpRetryStep {
			return a.At, true
		}
	}
	return r.CreatedAt, false
}

// usesUp reports whether a step gave up because it has no attempts left.
func usesUp(reason policy.Reason) bool {
	return reason == policy.ReasonAttemptsExhausted || reason == policy.ReasonRetriesOff
}
