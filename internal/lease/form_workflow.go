package lease

import (
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/cron"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

func workflowOf(w *Served) api.BodyWorkflow {
	out := api.BodyWorkflow{
		Name: w.Definition.Name, Kind: w.Definition.Kind, Source: w.Definition.Source,
		Retry: retryOf(w.Retry), Execution: (*api.BodyLimit)(w.Execution), Run: (*api.BodyLimit)(w.Run),
		Compensation: w.Compensation, Queue: api.BodyQueue(w.Queue),
	}
	if w.Definition.ID != (core.DefinitionID{}) {
		out.ID = w.Definition.ID.String()
	}
	if len(w.Hooks) > 0 {
		out.Hooks = make(map[string]*api.BodyStepSpec, len(w.Hooks))
		for name, spec := range w.Hooks {
			out.Hooks[name] = specOf(spec)
		}
	}
	if c := w.Cron; c != nil {
		out.Cron = &api.BodyCron{Cron: c.Cron, Zone: c.Zone, Skipped: c.Skipped, Repeated: c.Repeated}
	}
	return out
}

func (r *reading) workflow(w *api.BodyWorkflow) Served {
	out := Served{
		Definition: journal.Definition{ID: r.definition(w.ID), Kind: w.Kind, Name: w.Name, Source: w.Source},
		Retry:      r.retry(w.Retry), Execution: (*policy.Limit)(w.Execution), Run: (*policy.Limit)(w.Run),
		Compensation: w.Compensation, Queue: core.RunQueue(w.Queue),
	}
	if len(w.Hooks) > 0 {
		out.Hooks = make(map[string]*core.StepSpec, len(w.Hooks))
		for name, spec := range w.Hooks {
			if out.Hooks[name] = r.spec(spec); spec == nil {
				r.fail("workflow %q: the hook %q is not described", w.Name, name)
			}
		}
	}
	if c := w.Cron; c != nil {
		out.Cron = &cron.Written{Cron: c.Cron, Zone: c.Zone, Skipped: c.Skipped, Repeated: c.Repeated}
	}
	return out
}

func specOf(s *core.StepSpec) *api.BodyStepSpec {
	if s == nil {
		return nil
	}
	return &api.BodyStepSpec{
		Name: s.Name, Def: s.Def, Kind: s.Kind.String(), Hook: s.Hook, Queue: s.Queue, Priority: s.Priority,
		Type: s.Type, Event: s.Event, Any: s.Any, Update: s.Update, Policy: policyOf(&s.Policy), Input: s.Input,
		Spread: s.Spread, Detached: s.Detached, Share: (*api.BodyShare)(s.Share),
	}
}

func (r *reading) spec(s *api.BodyStepSpec) *core.StepSpec {
	if s == nil {
		return nil
	}
	return &core.StepSpec{
		Name: s.Name, Def: s.Def, Kind: named[core.StepKind](r, s.Kind), Hook: s.Hook, Queue: s.Queue,
		Priority: s.Priority, Type: s.Type, Event: s.Event, Any: s.Any, Update: s.Update, Policy: r.policy(s.Policy),
		Input: s.Input, Spread: s.Spread, Detached: s.Detached, Share: (*core.Share)(s.Share),
	}
}

func policyOf(p *policy.Policy) *api.BodyPolicy {
	if p == nil || *p == (policy.Policy{}) {
		return nil
	}
	limit := func(l *policy.Limit) *api.BodyLimit { return (*api.BodyLimit)(l) }
	return &api.BodyPolicy{
		Retry: retryOf(p.Retry), ScheduleToStart: limit(p.ScheduleToStart), StartToClose: limit(p.StartToClose),
		ScheduleToClose: limit(p.ScheduleToClose), Deadline: limit(p.Deadline), Heartbeat: limit(p.Heartbeat),
		Inactivity: limit(p.Inactivity), Wait: limit(p.Wait),
	}
}

// policyIn reads a policy that takes the place of another one, or nil if it stays.
func (r *reading) policyIn(p *api.BodyPolicy) *policy.Policy {
	if p == nil {
		return nil
	}
	out := r.policy(p)
	return &out
}

func (r *reading) policy(p *api.BodyPolicy) policy.Policy {
	if p == nil {
		return policy.Policy{}
	}
	limit := func(l *api.BodyLimit) *policy.Limit { return (*policy.Limit)(l) }
	return policy.Policy{Retry: r.retry(p.Retry), Limits: policy.Limits{
		ScheduleToStart: limit(p.ScheduleToStart), StartToClose: limit(p.StartToClose),
		ScheduleToClose: limit(p.ScheduleToClose), Deadline: limit(p.Deadline), Heartbeat: limit(p.Heartbeat),
		Inactivity: limit(p.Inactivity), Wait: limit(p.Wait),
	}}
}

var jitterNames = []string{policy.JitterKind(0).String(), policy.JitterDecorrelated.String()}

func retryOf(p *policy.Retry) *api.BodyRetry {
	if p == nil {
		return nil
	}
	return &api.BodyRetry{
		MaxAttempts: p.MaxAttempts, InitialInterval: p.InitialInterval, BackoffCoefficient: p.BackoffCoefficient,
		MaxInterval: p.MaxInterval, Jitter: p.Jitter, JitterKind: p.JitterKind.String(), On: p.On, When: p.When,
		NonRetryable: p.NonRetryable, MaxLost: p.MaxLost, Origin: p.Origin,
	}
}

func (r *reading) retry(p *api.BodyRetry) *policy.Retry {
	if p == nil {
		return nil
	}
	return &policy.Retry{
		MaxAttempts: p.MaxAttempts, InitialInterval: p.InitialInterval, BackoffCoefficient: p.BackoffCoefficient,
		MaxInterval: p.MaxInterval, Jitter: p.Jitter, On: p.On, When: p.When, NonRetryable: p.NonRetryable,
		JitterKind: oneOf[policy.JitterKind](r, "kind of jitter", jitterNames, p.JitterKind), MaxLost: p.MaxLost,
		Origin: p.Origin,
	}
}
