package trail

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Known is the knowledge about a run besides its history.
type Known struct {
	Problem string            // why it cannot go on until somebody acts; empty if it can
	Plan    []api.PlannedStep // the steps of its definition, without hooks
	// Unserved reports whether no worker comes for the tasks of a type in a queue. nil: that is not known.
	Unserved func(queue, taskType string) bool
	// Line is how it stands in the line of its queue, while it waits there; nil: that is not known.
	Line *core.Line
}

// unserved reports whether a step's attempt waits for a worker that does not exist.
func (t *Trail) unserved(s *core.Step) bool {
	if s.Phase != core.StepScheduled || s.HeldNow().Reason != core.HeldNone {
		return false
	}
	key := [2]string{s.Spec.Queue, s.Spec.Type}
	is, asked := t.asked[key]
	if !asked {
		is = t.Known.Unserved != nil && t.Known.Unserved(key[0], key[1])
		if t.asked == nil {
			t.asked = map[[2]string]bool{}
		}
		t.asked[key] = is
	}
	return is
}

// askAgain asks again which queues have no worker. If an answer has changed, all steps are shown again.
func (t *Trail) askAgain() {
	for key, was := range t.asked {
		if t.Known.Unserved != nil && t.Known.Unserved(key[0], key[1]) != was {
			clear(t.views)
			clear(t.asked)
			return
		}
	}
}

// stepSays describes what an open step does, and why. Its name is the subject.
func (t *Trail) stepSays(s *core.Step) *api.Saying {
	say := &phrase{}
	paused := t.Run.PausedAt != 0
	switch {
	case s.Phase == core.StepBackingOff && s.Stopping:
		say.add("waits until attempt %d has stopped", s.Attempt)
		t.failures(say, s)
	case s.Phase == core.StepBackingOff && paused:
		say.add("retries when its run is resumed, %s", attemptOf(s, s.Attempt+1))
		t.failures(say, s)
	case s.Phase == core.StepScheduled && paused:
		say.add("starts when its run is resumed, %s", attemptOf(s, s.Attempt))
		t.failures(say, s)
	case s.Phase == core.StepBackingOff:
		say.add("retries ").in(api.Time(s.NextAt)).add(", %s", attemptOf(s, s.Attempt+1))
		t.failures(say, s)
	case s.HeldNow().Reason != core.HeldNone:
		t.saysHeld(say, s)
	case s.Phase == core.StepScheduled && t.unserved(s):
		t.saysQueuedStep(say, s)
		say.add(": no worker takes %q tasks", s.Spec.Type)
		if s.Spec.Queue != "" {
			say.add(" from that queue")
		}
		t.failures(say, s)
	case s.Phase == core.StepScheduled:
		t.saysQueuedStep(say, s)
		t.failures(say, s)
	case s.Phase == core.StepRunning && maxAttempts(s) == 1 && s.Attempt == 1:
		say.add("runs ").since(api.Time(s.Started))
	case s.Phase == core.StepRunning:
		say.add("runs ").since(api.Time(s.Started)).add(", %s", attemptOf(s, s.Attempt))
		t.failures(say, s)
	default:
		t.saysWaiting(say, s)
	}
	if why := suspicion(s); why != "" {
		say.add("; %s", why)
	}
	return say.said()
}

// attemptOf names an attempt, with the possible number of attempts. An attempt that was lost is not counted.
func attemptOf(s *core.Step, number int) string {
	most := maxAttempts(s)
	if most == 0 || number > most {
		return fmt.Sprintf("attempt %d", number)
	}
	return fmt.Sprintf("attempt %d of %d", number, most)
}

// saysQueuedStep describes since when an attempt waits for a worker, and for which.
func (t *Trail) saysQueuedStep(say *phrase, s *core.Step) {
	say.add("waits for a worker ")
	if s.Spec.Queue != "" {
		say.add("of the queue ").queue(s.Spec.Queue).add(" ")
	}
	if say.since(api.Time(s.ReadyAt)); s.Attempt > 1 {
		say.add(", %s", attemptOf(s, s.Attempt))
	}
}

func (t *Trail) saysHeld(say *phrase, s *core.Step) {
	held := t.heldBy(s.HeldNow(), api.Time(s.Shared.Since))
	say.add("%s is %s", attemptOf(s, s.Attempt), held.Why)
	if held.Until != 0 {
		say.add("; it starts ").in(held.Until).add(" at the soonest")
	}
	t.failures(say, s)
}

// saysWaiting describes what a step waits for that has no attempt at a worker.
func (t *Trail) saysWaiting(say *phrase, s *core.Step) {
	switch {
	case s.Spec.Kind == core.KindChild && s.Child != (core.RunID{}):
		say.add("waits for its child run ").run(runText(s.Child)).add(" ").since(api.Time(s.Started))
		t.failures(say, s)
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
		saysFirst(say, s.Spec, t.watched(s.Spec.Name))
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
func (t *Trail) failures(say *phrase, s *core.Step) {
	all := t.attempts[s.ID]
	if n := len(all); n > 0 && all[n-1].EndedAt == 0 {
		all = all[:n-1]
	}
	alike := 0
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Failure == nil || all[i].Why != all[len(all)-1].Why || all[i].Life != all[len(all)-1].Life {
			break
		}
		alike++
	}
	if alike == 0 {
		return
	}
	if alike == 1 {
		say.add("; attempt %d failed: ", all[len(all)-1].Attempt)
	} else {
		say.add("; the last %d failed alike: ", alike)
	}
	say.failed(all[len(all)-1].Why)
}

// runSays describes what the run does and why, or how it ended. steps are its steps as they are shown.
func (t *Trail) runSays(steps []*api.Step) *api.Saying {
	r, say := t.Run, &phrase{}
	switch {
	case r.Phase.Closed():
		t.saysEnded(say)
	case t.Known.Problem != "":
		say.add("Cannot go on: ").failed(t.Known.Problem)
	case r.PausedAt != 0:
		say.add("Paused%s ", t.by(core.OpPause)).ago(api.Time(r.PausedAt))
		if reason := t.reason(core.OpPause); reason != "" {
			say.add(": %s", reason)
		}
		if r.StopClock {
			say.add("; its clock stands")
		}
	case r.Compensating():
		say.add("Ends as %s and undoes what it did, until ", words(r.Stop.Phase.String())).in(api.Time(r.Stop.Until)).
			add(" at the latest")
	case r.Ending():
		t.saysEnding(say, steps)
	case r.InQueue():
		t.saysQueued(say)
	case r.StartAt != 0 && r.StartedAt == 0:
		say.add("Begins ").in(api.Time(r.StartAt))
	default:
		t.saysOpen(say, steps)
	}
	say.add(".")
	return say.said()
}

func (t *Trail) saysQueued(say *phrase) {
	a := t.Run.Admission
	say.add("Waits in the queue ").queue(a.Queue.Name).add(" ").since(api.Time(a.Entered))
	if a.Held.Reason != core.HeldNone {
		held := t.heldBy(a.Held, api.Time(a.Since))
		say.add(": %s", strings.TrimPrefix(held.Why, "held by "+a.Held.Place()+": "))
		if line := t.Known.Line; line != nil && line.Holders.N > 0 {
			say.add(" by ").runs(line.Holders)
		}
		if held.Until != 0 {
			say.add("; it begins ").in(held.Until).add(" at the soonest")
		}
	}
	switch line := t.Known.Line; {
	case line == nil:
	case line.Ahead.N == 0:
		say.add("; it is the next one")
	case line.Ahead.N == 1:
		say.add("; ").runs(line.Ahead).add(" is ahead of it")
	default:
		say.add("; ").runs(line.Ahead).add(" are ahead of it")
	}
}

// saysEnding describes how a run will end, and what it still does before.
func (t *Trail) saysEnding(say *phrase, steps []*api.Step) {
	phase := core.RunCancelled
	switch {
	case t.Run.Closing != nil:
		phase = t.Run.Closing.Phase
	case t.Run.Stop != nil:
		phase = t.Run.Stop.Phase
	}
	say.add("Ends as %s", words(phase.String()))
	if s := mainStep(steps); s != nil {
		say.add(" when ").step(s.Step).add(" has ended, which ").with(s.Says)
	} else {
		say.add(" when its work has stopped")
	}
}

// saysOpen describes the step that matters most, and how many others are open.
func (t *Trail) saysOpen(say *phrase, steps []*api.Step) {
	s := mainStep(steps)
	if s == nil {
		say.add("Decides what comes next")
		return
	}
	say.step(s.Step).add(" ").with(s.Says)
	others := -1
	for _, o := range steps {
		if !o.Phase.Closed() && !isGroup(o) {
			others++
		}
	}
	if others == 1 {
		say.add("; 1 more step is open")
	} else if others > 1 {
		say.add("; %d more steps are open", others)
	}
}

// isGroup reports whether a step represents its items.
func isGroup(s *api.Step) bool { return s.Type == "" && s.Kind == api.KindGroup }

// mainStep returns the open step that matters most: one that runs, or else one that is retried, waits for a worker, or
// waits for something else. nil: none is open.
func mainStep(steps []*api.Step) *api.Step {
	rank := func(s *api.Step) int {
		switch {
		case isGroup(s):
			return 0
		case s.Phase == api.StepRunning:
			return 4
		case s.Phase == api.StepBackingOff:
			return 3
		case s.Phase == api.StepScheduled:
			return 2
		default:
			return 1
		}
	}
	var first *api.Step
	for _, s := range steps {
		if !s.Phase.Closed() && (first == nil || rank(s) > rank(first)) {
			first = s
		}
	}
	return first
}

// by names the actor of the last operation of a kind on the run.
func (t *Trail) by(op core.Op) string {
	for i := len(t.operations) - 1; i >= 0; i-- {
		if o := t.operations[i]; o.Operation == op.String() && o.Step == "" && o.Actor != "" {
			return " by " + o.Actor
		}
	}
	return ""
}

func (t *Trail) reason(op core.Op) string {
	for i := len(t.operations) - 1; i >= 0; i-- {
		if o := t.operations[i]; o.Operation == op.String() && o.Step == "" {
			return o.Reason
		}
	}
	return ""
}

// saysEnded describes how the run ended, and why.
func (t *Trail) saysEnded(say *phrase) {
	r := t.Run
	say.add("%s in %s", capital(words(r.Phase.String())), api.Length(r.EndedAt.Sub(r.CreatedAt)))
	if why := t.runWhy(); why != "" {
		say.add(": ").failed(why)
	}
	switch r.Phase {
	case core.RunTimedOut:
		t.saysCut(say)
	case core.RunSucceeded:
		t.saysTolerated(say)
	default:
	}
}

// saysCut names the steps that had not ended when the run's limit came.
func (t *Trail) saysCut(say *phrase) {
	var cut []string
	for i := range t.Run.Steps {
		s := &t.Run.Steps[i]
		if cutOff(s) && !s.Dropped && !s.Spec.Hook && s.Spec.Kind != core.KindGroup {
			cut = append(cut, s.Key())
		}
	}
	if len(cut) == 0 {
		return
	}
	say.add("; ")
	saysSteps(say, cut)
	say.add(" had not ended")
}

// cutOff reports whether a step ended because its run did.
func cutOff(s *core.Step) bool {
	if s.Phase == core.StepTimedOut && s.Failure != nil {
		return s.Failure.Limit == policy.LimitRun || s.Failure.Limit == policy.LimitExecution
	}
	return s.Phase == core.StepCancelled && s.Reason == policy.ReasonCancelled
}

// saysTolerated describes what failed in a run that succeeded.
func (t *Trail) saysTolerated(say *phrase) {
	r := t.Run
	for i := range r.Steps {
		s := &r.Steps[i]
		c := t.counted()[s.ID]
		if s.Spec.Kind != core.KindGroup || s.Dropped || c.failed == 0 {
			continue
		}
		say.add("; %d of %d items of ", c.failed, max(t.itemsOf(s), c.all)).step(s.Key()).add(" failed")
		if first := t.teller.ItemName(c.first); first != "" && c.failed == 1 {
			say.add(" (item %s)", first)
		} else if !c.alike && first != "" {
			say.add(", the first one (item %s)", first)
		} else if !c.alike {
			say.add(", the first one")
		}
		say.add(": ").failed(c.why)
	}
	var failed []string
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Group == core.NoStep && s.Spec.Kind != core.KindGroup && !s.Dropped && failedBadly(s) {
			failed = append(failed, s.Key())
		}
	}
	if len(failed) > 0 {
		say.add("; ")
		saysSteps(say, failed)
		say.add(" failed")
	}
}

func failedBadly(s *core.Step) bool {
	return s.Phase == core.StepFailed || s.Phase == core.StepTimedOut
}

// itemCount counts the items of a group.
type itemCount struct {
	all, ended, failed int
	first              core.StepID // the first item that failed
	why                string      // its failure
	alike              bool        // all items that failed have that one
}

// fails counts an item that failed.
func (c *itemCount) fails(item core.StepID, why string) {
	if c.failed == 0 {
		c.first, c.why, c.alike = item, why, true
	}
	c.failed++
	c.alike = c.alike && why == c.why
}

// counted counts the items of all groups.
func (t *Trail) counted() map[core.StepID]itemCount {
	if t.counts != nil {
		return t.counts
	}
	t.counts = map[core.StepID]itemCount{}
	for i := range t.Run.Steps {
		s := &t.Run.Steps[i]
		group := core.GroupOf(t.Run, s)
		if group == core.NoStep || s.Dropped {
			continue
		}
		c := t.counts[group]
		c.all++
		if s.Phase.Closed() {
			c.ended++
		}
		if failedBadly(s) {
			c.fails(s.ID, sentence(s.Failure))
		}
		t.counts[group] = c
	}
	return t.counts
}

func words(phase string) string { return strings.ReplaceAll(phase, "_", " ") }

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// watched returns the steps of which the first end ends a wait.
func (t *Trail) watched(wait string) []string {
	for _, p := range t.Known.Plan {
		if p.Name == wait {
			return p.Watches
		}
	}
	return nil
}

// saysFirst describes what ends an event wait: an event, or the first of several events and ends of steps.
func saysFirst(say *phrase, spec *core.StepSpec, steps []string) {
	if spec.Event != "" {
		say.add("the event ").event(spec.Event)
		return
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
	if len(spec.Any)+len(steps) > 1 {
		say.add("the first of ")
	}
	add("the event ", "the events ", spec.Any, say.event)
	if len(spec.Any) > 0 && len(steps) > 0 {
		say.add(" and ")
	}
	add("the end of ", "the ends of ", steps, say.step)
	if len(spec.Any)+len(steps) == 0 {
		say.add("another step")
	}
}
