package trail

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// closeNames names what happens to a child run when its parent ends.
var closeNames = map[core.CloseChild]string{
	core.ChildCancel: "cancel", core.ChildTerminate: "terminate", core.ChildAbandon: "abandon",
}

// Snapshot returns the present state of the run. It needs now for what would follow: the next run of the chain, a
// retry.
func (t *Trail) Snapshot(now core.Time) *api.Run {
	r := t.Run
	t.askAgain()
	out := &api.Run{
		RunSummary: t.summary(),
		Input:      t.input.of(r.Input, r.Attached().ShownInput),
		Output:     t.output.of(r.Output, r.Attached().ShownValue),
		Headers:    r.Headers.Map(),
		Execution:  api.Time(r.Execution.At), RunLimit: api.Time(r.Deadline.At),
		Deadlines: t.deadlines(), Binding: t.runBinding(),
		StartAt: api.Time(r.StartAt), StartedAt: api.Time(r.StartedAt), PausedAt: api.Time(r.PausedAt),
		CancelAsked: r.CancelAsked, Attempt: r.Chain.Attempt,
		First: runText(r.Chain.First), Previous: runText(r.Chain.Previous), Next: runText(r.Next), Notify: r.Notify,
		Why: t.runWhy(), Failure: r.Failure, Events: t.events, Operations: append([]api.Audit{}, t.operations...),
	}
	t.queue(out)
	if p := r.Published; p != nil {
		out.State, out.StateAt = payload(p.Value), api.Time(p.At)
	}
	if r.Closing != nil && !r.Phase.Closed() {
		out.Closing = api.RunPhase(r.Closing.Phase.String())
	}
	if r.Stop != nil && !r.Phase.Closed() {
		out.Closing = api.RunPhase(r.Stop.Phase.String())
		if r.Compensating() {
			out.CompensateUntil = api.Time(r.Stop.Until)
		}
	}
	if r.Parent.Run != (core.RunID{}) {
		out.ParentClose = closeNames[r.Parent.Close]
	}
	if def := r.Attached(); def != nil {
		out.Cron = def.Timetable
	}
	if out.Cron != "" || r.Firing != 0 {
		out.ScheduledAt = api.Time(r.ScheduledFor())
		out.Zone = r.Zone
	}
	out.Retryable = r.Phase.Closed() && r.RefusesRetry(now) == nil
	if r.Next == (core.RunID{}) && !r.Phase.Closed() {
		out.NextFrom = api.Time(r.Follows(now))
	}
	out.Problem, out.Plan = t.Known.Problem, t.Known.Plan
	out.Steps = t.steps(now)
	out.Bounds = bounds(nil, out.Deadlines, false)
	t.tell().Read(&t.Known, now).Into(&out.RunSummary)
	if r.ClockStands() {
		out.ClockStoppedAt = api.Time(r.PausedAt)
	}
	return out
}

// queue adds the run's state in its queue.
func (t *Trail) queue(out *api.Run) {
	a := t.Run.Admission
	if a == nil || a.Queue.Name == "" {
		return
	}
	out.Queue = &api.RunQueue{Name: a.Queue.Name, Key: a.Queue.Key, Priority: a.Queue.Priority}
	if !t.Run.InQueue() {
		return
	}
	out.QueuedAt = api.Time(a.Entered)
	if t.Known.Line != nil {
		out.Queue.Ahead = &t.Known.Line.Ahead.N
	}
	if a.Held.Reason != core.HeldNone {
		out.Held = t.heldBy(a.Held, api.Time(a.Since))
		out.Message = out.Held.Why
	}
}

// summary returns the run as lists show it.
func (t *Trail) summary() api.RunSummary {
	r := t.Run
	s := api.RunSummary{
		Run: r.ID.String(), Workflow: r.Workflow, WorkflowID: r.WorkflowID, Key: r.Key,
		Phase:     api.RunPhase(r.Phase.String()),
		CreatedAt: api.Time(r.CreatedAt), EndedAt: api.Time(r.EndedAt),
		Deadline: api.Time(r.Execution.At.Earlier(r.Deadline.At)), Parent: runText(r.Parent.Run),
		Labels: r.Labels.Map(),
	}
	if r.Definition != (core.DefinitionID{}) {
		s.Definition = r.Definition.String()
	}
	if r.ClockStands() {
		s.Deadline = 0
	}
	if !r.Phase.Closed() {
		s.Wake = api.Time(r.Wake())
	}
	if s.Stopping = core.StopsWork(r); s.Stopping {
		s.Message = core.StoppingMessage
	}
	return s
}

// steps returns the steps as they are now. Steps that did not change since the last snapshot are the same values as
// then: a run may have many steps, and a watcher takes many snapshots.
func (t *Trail) steps(now core.Time) []*api.Step {
	r := t.Run
	if n := len(r.Steps) - len(t.views); n > 0 {
		t.views = append(t.views, make([]view, n)...)
	}
	steps := make([]*api.Step, 0, len(r.Steps))
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Dropped && !t.superseded(s) {
			continue
		}
		shown := t.views[i]
		if shown.Step == nil || shown.until != 0 && now > shown.until {
			shown = t.step(s, now)
			t.views[i] = shown
		}
		steps = append(steps, shown.Step)
	}
	return steps
}

// known returns what is known, and notes what the views say of workers.
func (t *Trail) known() *Known {
	k := t.Known
	if k.Unserved != nil {
		k.Unserved = func(queue, taskType string) bool {
			is := t.Known.Unserved(queue, taskType)
			if t.asked == nil {
				t.asked = map[[2]string]bool{}
			}
			t.asked[[2]string{queue, taskType}] = is
			return is
		}
	}
	return &k
}

// askAgain asks again which queues have no worker. If an answer has changed, all steps are shown again.
func (t *Trail) askAgain() {
	for key, was := range t.asked {
		if t.Known.Unserved == nil || t.Known.Unserved(key[0], key[1]) != was {
			clear(t.views)
			clear(t.asked)
			return
		}
	}
}

// changed drops the views of the steps that a record changes. A record about the whole run may change what every
// step shows. Example: a pause removes their deadlines.
func (t *Trail) changed(rec core.Record) {
	step := core.NoStep
	switch rec := rec.(type) {
	case core.SignalKept, core.BodyWaits, core.EndsOrdered,
		core.StatePublished, core.UpdateAnswered, core.RunHeld, core.Turned:
		return
	case core.UpdateAccepted:
		step = rec.Step
	case core.StepBegan:
		step = core.StepID(len(t.Run.Steps) - 1)
	case core.StepOmitted:
		step = core.StepID(len(t.Run.Steps) - 1)
	case core.AttemptReady:
		step = rec.Step
	case core.AttemptHeld:
		step = rec.Step
	case core.AttemptStarted:
		step = rec.Step
	case core.AttemptBeat:
		step = rec.Step
	case core.AttemptEnded:
		step = rec.Step
	case core.AttemptStopped:
		step = rec.Step
	case core.StepEnded:
		step = rec.Step
	case core.StepWarned:
		step = rec.Step
	case core.StepReset:
		step = rec.Step
	case core.StepPolicy:
		step = rec.Step
	case core.DeadlineMoved:
		step = rec.Step
	case core.Operated:
		step = rec.Step
	default:
	}
	_, began := rec.(core.StepBegan)
	if step == core.NoStep || began && t.Run.Steps[step].Spec.Kind == core.KindGroup { // it may have kept items
		clear(t.views)
		return
	}
	for _, id := range []core.StepID{step, t.Run.Steps[step].Group} {
		if id != core.NoStep && int(id) < len(t.views) {
			t.views[id] = view{}
		}
	}
}

func (t *Trail) step(s *core.Step, now core.Time) view {
	out := &api.Step{
		Step: s.Key(), ID: int(s.ID), Name: s.Spec.Name, Items: t.itemsOf(s), FailedItems: t.counted()[s.ID].failed,
		Kind: s.Spec.Kind.String(), Queue: s.Spec.Queue,
		Event: s.Spec.Event, Any: s.Spec.Any, Update: s.Spec.Update, Actor: core.SentBy(t.Run, s.ID),
		Phase: api.StepPhase(s.Phase.String()), Reason: s.Reason.String(),
		ScheduledAt: api.Time(s.ScheduledAt), ReadyAt: api.Time(s.ReadyAt), StartedAt: api.Time(s.Started),
		EndedAt: api.Time(s.EndedAt), NextAt: api.Time(s.NextAt),
		Backoff: api.Duration(time.Duration(s.Delay) * time.Millisecond),
		Attempt: s.Attempt, MaxAttempts: maxAttempts(s), Counted: s.Counted, Lost: s.Lost,
		Stopping: s.Stopping, Kept: s.Kept,
		ScheduleToClose: api.Time(s.ScheduleToClose), Deadline: api.Time(s.Deadline), Deadlines: stepDeadlines(s),
		Failure: s.Failure, Output: payload(t.Run.Attached().ShownValue(s.Output)), Child: runText(t.LastChild(s.ID)),
		Superseded: s.Dropped, Hook: s.Spec.Hook, AgainAt: t.again[s.ID].at,
		Attempts: append([]api.Attempt{}, t.Attempts(s.ID)...),
	}
	if n := len(out.Attempts); n > 0 && s.Phase == core.StepRunning && len(out.Attempts[n-1].Heartbeats) > 0 {
		out.Heartbeat = payload(t.Run.Attached().ShownValue(s.Details))
	}
	if held := s.HeldNow(); held.Reason != core.HeldNone {
		out.Held = t.heldBy(held, api.Time(s.Shared.Since))
	}
	if s.Spec.Kind == core.KindTask {
		out.Kind, out.Type = s.Spec.Type, s.Spec.Type
	}
	if s.Item >= 0 {
		item := int(s.Item)
		out.Item, out.ItemName = &item, t.itemName(s.ID)
	}
	if group := core.GroupOf(t.Run, s); group != core.NoStep {
		out.Group = t.key(group)
	}
	var until core.Time
	if s.Phase.Closed() {
		out.Why = t.stepWhy(s)
	} else {
		out.Binding, out.Why = t.binding(s), suspicion(s)
		next := core.LookAhead(t.Run, s, mostPlanned)
		if next.Holds == 0 || now <= next.Holds {
			out.Ahead, until = ahead(next), next.Holds
		}
		out.Ends = endsAt(t.ends(s, next), now)
		out.Says = resolved(t.stepSays(s).parts, t.known()).said()
	}
	out.Bars, out.Bounds = t.bars(s, out.Ahead), bounds(out.Ends, out.Deadlines, !s.Phase.Closed())
	if s.Group == core.NoStep || s.Phase != core.StepSucceeded && s.Phase != core.StepSkipped {
		out.Policy = s.Effective()
	}
	if t.Words != nil {
		said := t.Words(s)
		out.Dialect = &said
	}
	out.Status = stepStatus(s)
	return view{out, until}
}

// heldBy describes what holds an attempt.
func (t *speaker) heldBy(h core.Held, since api.Time) *api.Held {
	out := &api.Held{
		Reason: h.Reason.String(), Queue: h.Name, Key: h.Key, Since: since, Until: api.Time(h.Until), Probes: h.Probes,
		Why: h.Why(),
	}
	if h.Service {
		out.Queue, out.Service = "", h.Name
	}
	if t.Shared {
		out.Why += "; each node counts its own"
	}
	return out
}

// maxAttempts returns how many attempts a step's policy allows; 0: any number.
func maxAttempts(s *core.Step) int {
	r := s.Effective().Retry
	switch {
	case r == nil:
		return 1
	case r.MaxAttempts < 0:
		return 0
	default:
		return r.MaxAttempts
	}
}

// checked is a payload that was checked to be JSON. It is kept because payloads may be large and snapshots are taken
// often.
type checked struct {
	source []byte
	json   json.RawMessage
}

func (c *checked) of(b []byte, shown func([]byte) []byte) json.RawMessage {
	// the state replaces payloads, it never changes them
	if len(b) != len(c.source) || (len(b) > 0 && &b[0] != &c.source[0]) {
		c.source, c.json = b, payload(shown(b))
	}
	return c.json
}

// payload returns a payload as JSON. If it is not JSON, it becomes a JSON string.
func payload(b []byte) json.RawMessage {
	if len(b) == 0 || (utf8.Valid(b) && json.Valid(b)) {
		return b
	}
	text, err := json.Marshal(string(b))
	if err != nil {
		return nil
	}
	return text
}

// Event converts an event of core to one of the API.
func Event(e core.Event) api.Event {
	return api.Event{
		Seq: e.Seq, Time: api.Time(e.At), OffsetMs: e.Offset.Milliseconds(), Run: e.Run.String(),
		Type: e.Type, Step: e.Step, ItemName: e.ItemName,
		Attempt: e.Attempt, Phase: e.Phase, Reason: e.Reason.String(), Limit: e.Limit.String(),
		Deadline: api.Time(e.Deadline),
		NextAt:   api.Time(e.NextAt), DurationMs: e.Took.Milliseconds(), Worker: e.Worker,
		Child: runText(e.Child), Name: e.Name,
		Actor: e.Actor, Why: e.Why, Failure: e.Failure, Data: payload(e.Data), Text: e.Text(),
	}
}
