package trail

import (
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// mostNamed is how many steps a sentence about the future names.
const mostNamed = 4

// then describes how the run goes on if nobody acts: from its queue, or from the open step that matters most. For a run
// that has ended it describes what a retry would do. guess is the part that holds only until an instant; next is the
// step of which the sentence names what follows it.
func (t *speaker) then() (say, guess *phrase, next *core.Step) {
	say, guess = &phrase{}, &phrase{}
	switch r := t.Run; {
	case r.Phase.Closed():
		t.thenAgain(guess, r.LastAt())
	case r.Ending():
		t.thenEnds(say)
	case r.PausedAt != 0:
		if s := t.mainStep(); s != nil {
			say.step(s.Key()).add(" ").with(t.stepSays(s)).add(".")
		}
	case r.InQueue():
		thenAdmitted(say, r.Admission.Held)
	default:
		if s := t.mainStep(); s != nil && t.thenOf(say, guess, s) {
			next = s
		}
	}
	return say, guess, next
}

// thenEnds describes what comes before the end of a run that ends.
func (t *speaker) thenEnds(say *phrase) {
	r := t.Run
	switch s := t.mainStep(); {
	case r.Closing != nil && s == nil && len(t.stopping()) > 0:
		say.add("Its hooks run when that is gone, if it has any.")
	case r.Closing != nil && s != nil && s.Spec.Hook:
		say.add("The run ends when ").step(s.Key()).add(" has ended, however that ends.")
	}
}

// thenAgain describes with which steps a retry of a closed run would begin, or which run follows it.
func (t *speaker) thenAgain(say *phrase, now core.Time) {
	r := t.Run
	if r.Next != (core.RunID{}) {
		say.add("The run ").run(runText(r.Next)).add(" follows it.")
		return
	}
	if r.Phase == core.RunSucceeded || r.RefusesRetry(now) != nil {
		return
	}
	again, err := r.MadeAgain(now)
	if err != nil || len(again) == 0 {
		return
	}
	var names []string
	for _, id := range again {
		if s := &r.Steps[id]; s.Spec.Kind != core.KindGroup {
			names = append(names, s.Key())
		}
	}
	if len(names) > 0 {
		say.add("A retry begins again with ")
		saysSteps(say, names)
		say.add(".")
	}
}

// saysSteps names the first of some steps, and how many others there are.
func saysSteps(say *phrase, keys []string) {
	for i, key := range keys[:min(len(keys), mostNamed)] {
		if i > 0 {
			say.add(", ")
		}
		say.step(key)
	}
	if others := len(keys) - mostNamed; others > 0 {
		say.add(" and %d more", others)
	}
}

// thenAdmitted describes when a run begins that waits in its queue.
func thenAdmitted(say *phrase, held core.Held) {
	switch held.Reason {
	case core.HeldConcurrency:
		say.add("It begins when a run of that queue has ended.")
	case core.HeldKeyConcurrency:
		say.add("It begins when a run of that queue with the same key has ended.")
	default: // the instant stands in the sentence
	}
}

// thenOf describes how an open step goes on if its attempts fail. It reports whether something follows if it succeeds.
func (t *speaker) thenOf(say, guess *phrase, s *core.Step) bool {
	if s.Spec.Kind == core.KindSleep {
		if limit, at := t.Run.Binding(s); at != 0 && at <= s.NextAt {
			say.add("The run ends then as timed out, unless the limit %s is extended.", limit)
			return false
		}
	}
	if s.Phase == core.StepScheduled && s.HeldNow().Reason == core.HeldNone {
		say.slot(slotBegins, api.Part{Queue: s.Spec.Queue, Text: s.Spec.Type, Step: s.Key()})
	}
	t.thenGivesUp(say, guess, s)
	return true
}

// thenGivesUp describes when a step gives up whose attempts fail.
func (t *speaker) thenGivesUp(say, guess *phrase, s *core.Step) {
	a := core.LookAhead(t.Run, s, 0)
	if a.At == 0 {
		return
	}
	if usesUp(a.Reason) && a.Attempt == s.Attempt {
		say.add("If attempt %d fails, ", a.Attempt).step(s.Key()).add(" gives up: it is the last one.")
		return
	}
	guess.add("If its attempts fail, ").step(s.Key()).add(" gives up ").in(api.Time(a.At))
	if a.Soonest {
		guess.add(" at the soonest")
	}
	switch {
	case usesUp(a.Reason):
		guess.add(" after attempt %d: its attempts are used up then", a.Attempt)
	case a.Reason == policy.ReasonNoTimeLeft:
		guess.add(" after attempt %d: the limit %s leaves no time for another one", a.Attempt, a.Limit)
	case a.Limit != policy.LimitNone:
		guess.add(": the limit %s expires", a.Limit)
	}
	guess.add(".")
}

// following returns the steps of the plan that need a step and have not begun.
func following(plan []api.PlannedStep, name string, begun func(string) bool) []string {
	var out []string
	for _, p := range plan {
		for _, need := range p.Needs {
			if need == name && !begun(p.Name) {
				out = append(out, p.Name)
			}
		}
	}
	return out
}
