package trail

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// stepSays describes what an open step does, and why. Its name is the subject.
func (t *speaker) stepSays(s *core.Step) *phrase {
	say := &phrase{}
	paused := t.Run.PausedAt != 0
	switch {
	case s.Phase == core.StepBackingOff && s.Stopping:
		say.add("waits until attempt %d has stopped", s.Attempt)
		failures(say, s)
	case s.Phase == core.StepBackingOff && paused:
		say.add("retries when its run is resumed, %s", attemptOf(s, s.Attempt+1, true))
		failures(say, s)
	case s.Phase == core.StepScheduled && paused:
		say.add("starts when its run is resumed, %s", attemptOf(s, s.Attempt, false))
		failures(say, s)
	case s.Phase == core.StepBackingOff:
		say.add("retries ").in(api.Time(s.NextAt)).add(", %s", attemptOf(s, s.Attempt+1, true))
		failures(say, s)
	case s.HeldNow().Reason != core.HeldNone:
		t.saysHeld(say, s)
	case s.Phase == core.StepScheduled:
		saysQueuedStep(say, s)
		say.slot(slotWorker, api.Part{Queue: s.Spec.Queue, Text: s.Spec.Type})
		failures(say, s)
	case s.Phase == core.StepRunning && maxAttempts(s) == 1 && s.Attempt == 1:
		say.add("runs ").since(api.Time(s.Started))
	case s.Phase == core.StepRunning:
		say.add("runs ").since(api.Time(s.Started)).add(", %s", attemptOf(s, s.Attempt, false))
		failures(say, s)
	default:
		t.saysWaiting(say, s)
	}
	if why := suspicion(s); why != "" {
		say.add("; %s", why)
	}
	return say
}

// attemptOf names an attempt, with the possible number of attempts. Attempts that were lost, and those before an
// operator put the step back to work, are not counted among these. next: it is the one after those that were counted.
func attemptOf(s *core.Step, number int, next bool) string {
	most, counted := maxAttempts(s), s.Counted
	if next {
		counted++
	}
	switch {
	case most == 0 || counted > most:
		return fmt.Sprintf("attempt %d", number)
	case counted == number:
		return fmt.Sprintf("attempt %d of %d", number, most)
	default:
		return fmt.Sprintf("attempt %d, %s of %d that count", number, ordinal(counted), most)
	}
}

// ordinal writes a number as the place in a row: 1st, 2nd, 11th.
func ordinal(n int) string {
	ending := "th"
	if n/10%10 != 1 {
		switch n % 10 {
		case 1:
			ending = "st"
		case 2:
			ending = "nd"
		case 3:
			ending = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, ending)
}

// saysQueuedStep describes since when an attempt waits for a worker, and for which.
func saysQueuedStep(say *phrase, s *core.Step) {
	say.add("waits for a worker ")
	if s.Spec.Queue != "" {
		say.add("of the queue ").queue(s.Spec.Queue).add(" ")
	}
	if say.since(api.Time(s.ReadyAt)); s.Attempt > 1 {
		say.add(", %s", attemptOf(s, s.Attempt, false))
	}
}

func (t *speaker) saysHeld(say *phrase, s *core.Step) {
	held := t.heldBy(s.HeldNow(), api.Time(s.Shared.Since))
	say.add("%s is %s", attemptOf(s, s.Attempt, false), held.Why)
	if held.Until != 0 {
		say.add("; it starts ").in(held.Until).add(" at the soonest")
	}
	failures(say, s)
}

// saysWaiting describes what a step waits for that has no attempt at a worker.
func (t *speaker) saysWaiting(say *phrase, s *core.Step) {
	switch {
	case s.Spec.Kind == core.KindChild && s.Child != (core.RunID{}):
		say.add("waits for its child run ").slot(slotChild, api.Part{Run: runText(s.Child)}).add(" ").
			since(api.Time(s.Started))
		failures(say, s)
	case s.Spec.Kind == core.KindSleep:
		say.add("sleeps and wakes ").in(api.Time(s.NextAt))
		if t.Run.PausedAt != 0 {
			say.add(", if its run is resumed by then")
		}
		if limit, at := t.Run.Binding(s); at != 0 && at <= s.NextAt {
			say.add("; but the limit %s ends it before, ", limit).in(api.Time(at))
		}
	case s.Spec.Kind == core.KindWait && s.Spec.Update != "":
		say.add("waits for the update ").event(s.Spec.Update).add(" ").since(api.Time(s.ScheduledAt))
	case s.Spec.Kind == core.KindWait:
		say.add("waits for ")
		saysFirst(say, s.Spec)
		say.add(" ").since(api.Time(s.ScheduledAt))
	case s.Spec.Kind == core.KindGroup:
		c := t.counted()[s.ID]
		say.add("works on its items: %d of %d ended", c.ended, max(t.itemsOf(s), c.all))
		if c.failed > 0 {
			say.add(", %d failed", c.failed)
		}
	case s.Spec.Kind == core.KindSend:
		say.add("what it sends is on its way ").since(api.Time(s.ScheduledAt))
	default:
		say.add("is %s", words(s.Phase.String()))
	}
}

// failures describes how the earlier attempts failed: the last ones that failed alike.
func failures(say *phrase, s *core.Step) {
	if s.Failure == nil || s.Past.Alike == 0 {
		return
	}
	if s.Past.Alike == 1 {
		say.add("; attempt %d failed: ", lastEnded(s))
	} else {
		say.add("; the last %d failed alike: ", s.Past.Alike)
	}
	say.failed(sentence(s.Failure))
}

// lastEnded returns the number of the last attempt of an open step that has ended.
func lastEnded(s *core.Step) int {
	if s.Phase == core.StepScheduled || s.Started != 0 {
		return s.Attempt - 1
	}
	return s.Attempt
}

func words(phase string) string { return strings.ReplaceAll(phase, "_", " ") }

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// saysFirst describes what ends an event wait: an event, or the first of several events and ends of steps.
func saysFirst(say *phrase, spec *core.StepSpec) {
	if spec.Event != "" {
		say.add("the event ").event(spec.Event)
		return
	}
	say.slot(slotFirst, api.Part{Step: spec.Name, Text: strings.Join(spec.Any, "\x00")})
}
