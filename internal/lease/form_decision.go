package lease

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
)

var upNames = []string{
	"decide", "report", "confirm", "begin", "consult", "end", "refuse", "problem", "leave", "gone",
}

func upOf(u *up) api.BodyDecision {
	return api.BodyDecision{
		Kind: upNames[u.Kind], Run: runOf(u.Run), Lease: u.Lease, Inputs: each(u.Inputs, inputOf),
		Step: uint32(u.Step), Seen: u.Seen, Text: u.Text, Update: (*api.BodyUpdate)(u.Update),
		Failure: failureOf(u.Failure),
	}
}

func (r *reading) up(d *api.BodyDecision) up {
	u := up{
		Kind: oneOf[upKind](r, "kind of decision", upNames, d.Kind), Run: r.run(d.Run), Lease: d.Lease,
		Inputs: each(d.Inputs, r.input), Step: core.StepID(d.Step), Seen: d.Seen, Text: d.Text,
		Update: (*body.Update)(d.Update), Failure: failure(d.Failure),
	}
	if u.Kind == upRefuse && (u.Update == nil || u.Failure == nil) {
		r.fail("a refuse says nothing")
	}
	return u
}

func inputOf(in *core.Input) (out api.BodyInput) {
	switch in := (*in).(type) {
	case core.Commands:
		out.Commands = &api.BodyCommands{
			Commands: each(in.Commands, commandOf), Waits: in.Waits, Closed: in.Closed, Stopping: in.Stopping,
			Seen: seenOf(in.Seen), Ends: in.Seen.Ends,
		}
	case core.TaskEnded:
		out.Ended = &api.BodyEnded{
			Step: uint32(in.Step), Attempt: in.Attempt, Output: in.Output, Failure: failureOf(in.Failure),
			Details: in.Details,
		}
	case core.TaskStopped:
		out.Stopped = &api.BodyStopped{
			Step: uint32(in.Step), Attempt: in.Attempt, Abandoned: in.Abandoned, Killed: in.Killed,
		}
	case core.Beat:
		out.Beat = &api.BodyBeat{
			Step: uint32(in.Step), Attempt: in.Attempt, At: in.At, Output: in.Output, Details: in.Details,
		}
	default: // a body is the cause of no others
	}
	return out
}

func (r *reading) input(in *api.BodyInput) core.Input {
	switch {
	case in.Commands != nil:
		c := in.Commands
		return core.Commands{
			Commands: each(c.Commands, r.command), Waits: c.Waits, Closed: c.Closed, Stopping: c.Stopping,
			Seen: seen(c.Seen, c.Ends),
		}
	case in.Ended != nil:
		e := in.Ended
		return core.TaskEnded{
			Step: core.StepID(e.Step), Attempt: e.Attempt, Output: e.Output, Failure: failure(e.Failure),
			Details: e.Details,
		}
	case in.Stopped != nil:
		s := in.Stopped
		return core.TaskStopped{
			Step: core.StepID(s.Step), Attempt: s.Attempt, Abandoned: s.Abandoned, Killed: s.Killed,
		}
	case in.Beat != nil:
		b := in.Beat
		return core.Beat{Step: core.StepID(b.Step), Attempt: b.Attempt, At: b.At, Output: b.Output, Details: b.Details}
	default:
		r.fail("an input says nothing")
		return nil
	}
}

func seenOf(s core.Seen) (out []uint32) {
	if !s.Told {
		return nil
	}
	for _, id := range append(slices.Clone(s.More), s.Last) {
		out = append(out, uint32(id))
	}
	return out
}

func seen(steps []uint32, ends uint32) core.Seen {
	out := core.Seen{Ends: ends}
	for i, id := range steps {
		if out.Told = i == len(steps)-1; out.Told {
			out.Last = core.StepID(id)
		} else {
			out.More = append(out.More, core.StepID(id))
		}
	}
	return out
}

func commandOf(cmd *core.Command) (out api.BodyCommand) {
	switch c := (*cmd).(type) {
	case core.Schedule:
		out.Schedule = &api.BodySchedule{
			Policy: policyOf(c.Policy),
			Spec:   specOf(c.Spec), Item: c.Item, Group: uint32(c.Group), Until: c.Until, For: c.For, Key: c.Key,
			Failure: failureOf(c.Failure), BodyCauses: api.BodyCauses(c.Causes),
		}
	case core.Mark:
		out.Mark = &api.BodyMark{
			Spec: specOf(c.Spec), Output: c.Output, Labels: c.Labels.Map(), BodyCauses: api.BodyCauses(c.Causes),
		}
	case core.CancelStep:
		out.Cancel = &api.BodyCancel{Key: c.Key, Ask: c.Ask}
	case core.Publish:
		out.Publish = &api.BodyPublish{Branch: c.Branch, After: c.After, Count: c.Count, Value: c.Value}
	case core.AcceptUpdate:
		out.Accept = &api.BodyAccept{Key: c.Key, Name: c.Name, ID: c.ID, Payload: c.Payload}
	case core.AnswerUpdate:
		out.Answer = &api.BodyAnswerUpdate{
			Spec: specOf(c.Spec), Name: c.Name, ID: c.ID, Output: c.Output, Failure: failureOf(c.Failure),
			BodyCauses: api.BodyCauses(c.Causes),
		}
	case core.Close:
		out.Close = &api.BodyClose{
			Phase: c.Phase.String(), Output: c.Output, Failure: failureOf(c.Failure), From: c.From,
		}
	default: // a body gives no others
	}
	return out
}

func (r *reading) command(cmd *api.BodyCommand) core.Command {
	switch {
	case cmd.Schedule != nil:
		c := cmd.Schedule
		return core.Schedule{
			Policy: r.policyIn(c.Policy),
			Spec:   r.spec(c.Spec), Item: c.Item, Group: core.StepID(c.Group), Until: c.Until, For: c.For, Key: c.Key,
			Failure: failure(c.Failure), Causes: core.Causes(c.BodyCauses),
		}
	case cmd.Mark != nil:
		c := cmd.Mark
		return core.Mark{
			Spec: r.spec(c.Spec), Output: c.Output, Labels: r.labels(c.Labels), Causes: core.Causes(c.BodyCauses),
		}
	case cmd.Cancel != nil:
		return core.CancelStep{Key: cmd.Cancel.Key, Ask: cmd.Cancel.Ask}
	case cmd.Publish != nil:
		c := cmd.Publish
		return core.Publish{Branch: c.Branch, After: c.After, Count: c.Count, Value: c.Value}
	case cmd.Accept != nil:
		c := cmd.Accept
		return core.AcceptUpdate{Key: c.Key, Name: c.Name, ID: c.ID, Payload: c.Payload}
	case cmd.Answer != nil:
		c := cmd.Answer
		return core.AnswerUpdate{
			Spec: r.spec(c.Spec), Name: c.Name, ID: c.ID, Output: c.Output, Failure: failure(c.Failure),
			Causes: core.Causes(c.BodyCauses),
		}
	case cmd.Close != nil:
		c := cmd.Close
		return core.Close{
			Phase: named[core.RunPhase](r, c.Phase), Output: c.Output, Failure: failure(c.Failure), From: c.From,
		}
	default:
		r.fail("a command says nothing")
		return nil
	}
}
