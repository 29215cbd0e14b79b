package trail

import (
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// mostNamed is how many steps a sentence about the future names.
const mostNamed = 4

// then describes how the run goes on if nobody acts: from its queue, or from the open step that matters most. For a run
// that has ended it describes what a retry would do. nil: nothing is known, or nothing comes.
func (t *Trail) then(steps []*api.Step, now core.Time) *api.Saying {
	say := &phrase{}
	switch r := t.Run; {
	case r.Phase.Closed():
		t.thenAgain(say, now)
	case r.Ending():
	case r.PausedAt != 0:
		if s := mainStep(steps); s != nil {
			say.step(s.Step).add(" ").with(s.Says).add(".")
		}
	case r.InQueue():
		thenAdmitted(say, r.Admission.Held)
	default:
		if s := mainStep(steps); s != nil {
			t.thenOf(say, s, steps)
		}
	}
	return say.said()
}

// thenAgain describes with which steps a retry of a closed run would begin, or which run follows it.
func (t *Trail) thenAgain(say *phrase, now core.Time) {
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

// thenOf describes how an open step goes on if its attempts fail, and what follows if it succeeds.
func (t *Trail) thenOf(say *phrase, s *api.Step, steps []*api.Step) {
	step := &t.Run.Steps[s.ID]
	if step.Spec.Kind == core.KindSleep {
		if limit, at := t.Run.Binding(step); at != 0 && at <= step.NextAt {
			say.add("The run ends then as timed out, unless the limit %s is extended.", limit)
			return
		}
	}
	if t.unserved(step) {
		say.step(s.Step).add(" begins when such a worker comes.")
	}
	thenGivesUp(say, s)
	next := t.next(s.Name, steps)
	if len(next) == 0 {
		return
	}
	if len(say.parts) > 0 {
		say.add(" When it succeeds: ")
	}
	saysSteps(say, next)
	say.add(".")
}

// thenGivesUp describes when a step gives up whose attempts fail.
func thenGivesUp(say *phrase, s *api.Step) {
	a := s.Ahead
	if a == nil || a.GivesUp == 0 {
		return
	}
	if gone(a.Reason) && a.Attempt == s.Attempt {
		say.add("If attempt %d fails, ", a.Attempt).step(s.Step).add(" gives up: it is the last one.")
		return
	}
	say.add("If its attempts fail, ").step(s.Step).add(" gives up ").in(a.GivesUp)
	switch {
	case gone(a.Reason):
		say.add(" after attempt %d: its attempts are used up then", a.Attempt)
	case a.Reason == policy.ReasonNoTimeLeft.String():
		say.add(" after attempt %d: the limit %s leaves no time for another one", a.Attempt, a.Limit)
	case a.Limit != "":
		say.add(": the limit %s expires", a.Limit)
	}
	say.add(".")
}

// next returns the steps of the plan that need a step and have not begun.
func (t *Trail) next(name string, steps []*api.Step) []string {
	begun := make(map[string]bool, len(steps))
	for _, s := range steps {
		begun[s.Name] = true
	}
	var out []string
	for _, p := range t.Known.Plan {
		for _, need := range p.Needs {
			if need == name && !begun[p.Name] {
				out = append(out, p.Name)
			}
		}
	}
	return out
}
