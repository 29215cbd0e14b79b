package lease

import (
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

var downNames = []string{"begin", "news", "held", "end", "task", "offer", "revoke"}

func downOf(d *down) api.BodyNews {
	out := api.BodyNews{
		Kind: downNames[d.Kind], Run: runOf(d.Run), Lease: d.Lease, News: newsOf(d.News), Task: taskOf(d.Task),
		Left: d.Left, Update: (*api.BodyUpdate)(d.Update), Why: d.Why,
	}
	if d.Kind == downRevoke {
		out.Token = tokenOf(d.Token)
	}
	return out
}

func (r *reading) down(n *api.BodyNews) down {
	d := down{
		Kind: oneOf[downKind](r, "kind of news", downNames, n.Kind), Run: r.run(n.Run), Lease: n.Lease,
		News: r.news(n.News), Task: r.task(n.Task), Left: n.Left, Update: (*body.Update)(n.Update),
		Token: r.token(n.Token), Why: n.Why,
	}
	switch missing := d.Kind; {
	case (missing == downBegin || missing == downNews) && d.News == nil, missing == downTask && d.Task == nil,
		missing == downOffer && d.Update == nil:
		r.fail("a %s says nothing", n.Kind)
	}
	return d
}

func newsOf(n *engine.News) *api.BodyRunNews {
	if n == nil {
		return nil
	}
	return &api.BodyRunNews{
		Run: runOf(n.Run), Whole: n.Whole, Head: headOf(n.Head), Held: n.Held, Steps: each(n.Steps, stepOf),
	}
}

func (r *reading) news(n *api.BodyRunNews) *engine.News {
	if n == nil {
		return nil
	}
	return &engine.News{
		Run: r.run(n.Run), Whole: n.Whole, Head: r.head(n.Head), Held: n.Held, Steps: each(n.Steps, r.step),
	}
}

func stepOf(s *engine.Step) api.BodyStep {
	return api.BodyStep{
		ID: uint32(s.ID), Spec: specOf(s.Spec), Phase: s.Phase.String(), Reason: s.Reason, Attempts: s.Attempts,
		ScheduledAt: s.ScheduledAt, EndedAt: s.EndedAt, Output: s.Output, Failure: failureOf(s.Failure),
		Dropped: s.Dropped, Kept: s.Kept, Restarted: s.Restarted, UpdateID: s.UpdateID,
		Rank: s.Rank,
	}
}

func (r *reading) step(s *api.BodyStep) engine.Step {
	return engine.Step{
		ID: core.StepID(s.ID), Spec: r.spec(s.Spec), Phase: named[core.StepPhase](r, s.Phase), Reason: s.Reason,
		Attempts: s.Attempts, ScheduledAt: s.ScheduledAt, EndedAt: s.EndedAt, Output: s.Output,
		Failure: failure(s.Failure), Dropped: s.Dropped, Kept: s.Kept, Restarted: s.Restarted, UpdateID: s.UpdateID,
		Rank: s.Rank,
	}
}

func headOf(h *engine.Head) *api.BodyRun {
	if h == nil {
		return nil
	}
	out := &api.BodyRun{
		Workflow: h.Workflow, WorkflowID: h.WorkflowID, Key: h.Key, Input: h.Input, CreatedAt: h.CreatedAt,
		StartedAt: h.StartedAt, Execution: api.BodyRunLimit(h.Execution), Deadline: api.BodyRunLimit(h.Deadline),
		Updates: each(h.Updates, answerOf), Headers: h.Headers.Map(), Ends: h.Ends,
	}
	if p := h.Parent; p != (core.Parent{}) {
		out.Parent = &api.BodyParent{
			Run: runOf(p.Run), Step: uint32(p.Step), Attempt: p.Attempt, Close: closeNames[p.Close], Top: runOf(p.Top),
			Depth: p.Depth,
		}
	}
	if c := h.Chain; c != (core.Chain{}) {
		out.Chain = &api.BodyChain{
			First: runOf(c.First), Previous: runOf(c.Previous), Attempt: c.Attempt, AfterFailure: c.AfterFailure,
		}
	}
	for branch, point := range h.Points {
		if out.Places == nil {
			out.Places = make(map[string]api.BodyPlace, len(h.Points))
		}
		out.Places[branch] = api.BodyPlace(point)
	}
	if s := h.Stop; s != nil {
		out.Stop = &api.BodyStop{
			Phase: s.Phase.String(), Failure: failureOf(s.Failure), From: uint32(s.From), Until: s.Until, Ends: s.Ends,
		}
	}
	return out
}

var closeNames = []string{"cancel", "terminate", "abandon"}

func (r *reading) head(h *api.BodyRun) *engine.Head {
	if h == nil {
		return nil
	}
	out := &engine.Head{
		Workflow: h.Workflow, WorkflowID: h.WorkflowID, Key: h.Key, Input: h.Input, CreatedAt: h.CreatedAt,
		StartedAt: h.StartedAt, Execution: core.RunLimit(h.Execution), Deadline: core.RunLimit(h.Deadline),
		Updates: each(h.Updates, answer), Headers: r.headers(h.Headers), Ends: h.Ends,
	}
	if p := h.Parent; p != nil {
		out.Parent = core.Parent{
			Run: r.run(p.Run), Step: core.StepID(p.Step), Attempt: p.Attempt,
			Close: oneOf[core.CloseChild](r, "way to close a child", closeNames, p.Close), Top: r.run(p.Top),
			Depth: p.Depth,
		}
	}
	if c := h.Chain; c != nil {
		out.Chain = core.Chain{
			First: r.run(c.First), Previous: r.run(c.Previous), Attempt: c.Attempt, AfterFailure: c.AfterFailure,
		}
	}
	for branch, place := range h.Places {
		if out.Points == nil {
			out.Points = make(map[string]core.Point, len(h.Places))
		}
		out.Points[branch] = core.Point(place)
	}
	if s := h.Stop; s != nil {
		out.Stop = &core.Stop{
			Phase: named[core.RunPhase](r, s.Phase), Failure: failure(s.Failure), From: core.StepID(s.From),
			Until: s.Until, Ends: s.Ends,
		}
	}
	return out
}

func answerOf(u *core.Update) api.BodyAnswer {
	return api.BodyAnswer{
		Name: u.Name, ID: u.ID, Step: uint32(u.Step), Answered: u.Answered, Output: u.Output,
		Failure: failureOf(u.Failure),
	}
}

func answer(u *api.BodyAnswer) core.Update {
	return core.Update{
		Name: u.Name, ID: u.ID, Step: core.StepID(u.Step), Answered: u.Answered, Output: u.Output,
		Failure: failure(u.Failure),
	}
}

func taskOf(t *core.Task) *api.BodyTask {
	if t == nil {
		return nil
	}
	return &api.BodyTask{
		Token: *tokenOf(t.Token), StepName: t.StepName, Workflow: t.Workflow, Type: t.Type, Queue: t.Queue,
		Payload: t.Payload, Count: t.Count, Deadline: t.Deadline, Bound: t.Bound, Heartbeat: t.Heartbeat,
		Inactivity: t.Inactivity, Details: t.Details, Headers: t.Headers.Map(), Announce: t.Announce,
		Secret: t.Secret, Confirms: t.Confirms, Group: t.Group,
	}
}

func (r *reading) task(t *api.BodyTask) *core.Task {
	if t == nil {
		return nil
	}
	return &core.Task{
		Token: r.token(&t.Token), StepName: t.StepName, Workflow: t.Workflow, Type: t.Type, Queue: t.Queue,
		Payload: t.Payload, Count: t.Count, Deadline: t.Deadline, Bound: t.Bound, Heartbeat: t.Heartbeat,
		Inactivity: t.Inactivity, Details: t.Details, Headers: r.headers(t.Headers), Announce: t.Announce,
		Secret: t.Secret, Confirms: t.Confirms, Group: t.Group,
	}
}
