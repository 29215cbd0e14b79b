package cases

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Lab shows what policies do.
type Lab struct{}

var _ api.Policies = Lab{}

const (
	shownAttempts = 20
	mostAttempts  = 1000
	mostScript    = 1000
)

// subject is a checked request.
type subject struct {
	core.Scenario
	assumes string
}

// subjectOf checks a request.
func subjectOf(r api.PolicyRequest) (s subject, err error) {
	if len(r.Policy) == 0 {
		return s, invalid("give a policy, such as {retry: …, timeout: …}")
	}
	if s.Policy, err = policyOf(r.System, r.Policy); err != nil {
		return s, err
	}
	if r.RunLimit < 0 || r.Attempts < 0 || r.Attempts > mostAttempts || len(r.Script) > mostScript {
		return s, invalid("runLimit is not negative, attempts are at most %d, a script has at most %d", mostAttempts,
			mostScript)
	}
	s.RunDeadline = r.RunLimit.Std()
	if s.MaxAttempts = r.Attempts; r.Attempts == 0 {
		s.MaxAttempts = shownAttempts
	}
	switch s.Random = r.Random; {
	case r.Random != nil && !(*r.Random >= 0 && *r.Random < 1):
		return s, invalid("random is a number in [0,1), not %v", *r.Random)
	case r.Random == nil:
		greatest := math.Nextafter(1, 0)
		s.Random = &greatest
	}
	s.Match = func(string, *policy.Failure, int) judge.Match { return judge.Match{Matched: true} }
	return s, s.script(r.Script)
}

// script sets what the attempts do.
func (s *subject) script(given []api.Act) error {
	for i, a := range given {
		act, err := actOf(a)
		if err != nil {
			return invalid("script, attempt %d: %v", i+1, err)
		}
		s.Script = append(s.Script, act)
	}
	if len(given) > 0 {
		s.assumes = "as the script says"
		return nil
	}
	act := core.Act{End: "error"}
	s.assumes = "if each attempt fails at once"
	if s.Policy.StartToClose != nil || s.Policy.Heartbeat != nil || s.Policy.Inactivity != nil {
		act.End, s.assumes = "hang", "if each attempt hangs until a limit ends it"
	}
	s.Script = append(s.Script, act)
	return nil
}

func actOf(a api.Act) (core.Act, error) {
	act := core.Act{
		Queue: a.Queue.Std(), Run: a.Run.Std(), End: a.End, Type: a.Type, NonRetryable: a.NonRetryable,
	}
	if a.RetryAfter != nil {
		d := a.RetryAfter.Std()
		act.RetryAfter = &d
	}
	for _, o := range a.Output {
		act.Output = append(act.Output, o.Std())
	}
	for _, o := range a.Heartbeat {
		act.Heartbeat = append(act.Heartbeat, o.Std())
	}
	if !slices.Contains([]string{"ok", "error", "failed", "hang", "lost"}, a.End) {
		return act, fmt.Errorf("unknown end %q; use ok, error, failed, hang or lost", a.End)
	}
	return act, nil
}

// policyOf reads a policy in the form of a system: JSON, or a text with YAML.
func policyOf(system string, raw json.RawMessage) (policy.Policy, error) {
	v, err := plainOf(raw)
	if err != nil {
		return policy.Policy{}, invalid("the policy cannot be read: %v", err)
	}
	p, err := translate(cmp.Or(system, "native"), v)
	if err != nil {
		return p, invalid("%v", err)
	}
	return p, nil
}

// plainOf decodes JSON, or the YAML of a text in it. The reader of YAML takes much more memory, so JSON does not go
// through it.
func plainOf(raw json.RawMessage) (any, error) {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	text, ok := v.(string)
	if !ok {
		return numbered(v), nil
	}
	read := tree.Read("policy", []byte(text))
	return read.Root().Any(), read.Err()
}

// numbered turns the numbers in a decoded value into those that a reader of YAML gives.
func numbered(v any) any {
	switch v := v.(type) {
	case json.Number:
		return tree.ParseNumber(v.String())
	case []any:
		for i := range v {
			v[i] = numbered(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = numbered(v[key])
		}
	}
	return v
}

func invalid(format string, args ...any) error {
	return &api.Error{Code: api.CodeInvalid, Message: "policy: " + fmt.Sprintf(format, args...)}
}

func (Lab) LintPolicy(_ context.Context, r api.PolicyRequest) ([]judge.Finding, error) {
	s, err := subjectOf(r)
	if err != nil {
		return nil, err
	}
	return append([]judge.Finding{}, judge.Lint(&s.Policy, s.RunDeadline)...), nil
}

func (Lab) SimulatePolicy(_ context.Context, r api.PolicyRequest) (api.Simulated, error) {
	s, err := subjectOf(r)
	if err != nil {
		return api.Simulated{}, err
	}
	out, _, err := s.simulate()
	return out, err
}

func (Lab) ExplainPolicy(_ context.Context, r api.PolicyRequest) (out api.Explained, err error) {
	s, err := subjectOf(r)
	if err != nil {
		return out, err
	}
	return Explain(s.Scenario, s.assumes)
}

// Explain returns the attempts that a policy makes; assumes describes how they end. It simulates the policy, and then
// again without the deadlines that span attempts, to see what can never start.
func Explain(sc core.Scenario, assumes string) (out api.Explained, err error) {
	s := subject{sc, assumes}
	var reason policy.Reason
	if out.Simulated, reason, err = s.simulate(); err != nil {
		return out, err
	}
	out.Findings = append([]judge.Finding{}, judge.Lint(&s.Policy, s.RunDeadline)...)
	ended := reason == policy.ReasonNoTimeLeft || reason == policy.ReasonTimeoutNotRetryable
	last := s.Script[len(s.Script)-1]
	limited := s.Policy.StartToClose != nil || s.Policy.Heartbeat != nil || s.Policy.Inactivity != nil
	if !ended || last.End == "hang" && !limited {
		return out, nil
	}
	free := s.Scenario
	free.Policy.ScheduleToClose, free.Policy.Deadline, free.RunDeadline = nil, nil, 0
	ideal, err := core.Simulate(free)
	if err != nil {
		return out, nil //nolint:nilerr // what would follow cannot be told
	}
	for i, at := range ideal.Attempts {
		if i >= len(out.Attempts) {
			one := attemptOf(i+1, at)
			one.Ended, one.End, one.Limit, one.Never = nil, "", "", true
			out.Attempts = append(out.Attempts, one)
		}
	}
	return out, nil
}

// simulate drives the machine of real runs.
func (s *subject) simulate() (out api.Simulated, reason policy.Reason, err error) {
	sim, err := core.Simulate(s.Scenario)
	if err != nil {
		return out, 0, invalid("%v", errors.Unwrap(err))
	}
	out = api.Simulated{
		Policy: s.Policy, Attempts: []api.SimulatedAttempt{}, Phase: sim.Phase.String(),
		At: duration.Duration(sim.At), Assumes: s.assumes, Beyond: sim.Beyond,
	}
	if sim.Reason != policy.ReasonNone {
		out.Reason = sim.Reason.String()
	}
	for i, at := range sim.Attempts {
		out.Attempts = append(out.Attempts, attemptOf(i+1, at))
	}
	if s.RunDeadline > 0 {
		out.Marks = append(out.Marks, api.Mark{Limit: policy.LimitRun.String(), At: duration.Duration(s.RunDeadline)})
	}
	for _, kind := range []policy.LimitKind{policy.LimitScheduleToClose, policy.LimitDeadline} {
		if l := s.Policy.Get(kind); l != nil && l.At == 0 {
			out.Marks = append(out.Marks, api.Mark{Limit: kind.String(), At: duration.Duration(l.After)})
		}
	}
	return out, sim.Reason, nil
}

func attemptOf(number int, at core.SimulatedAttempt) api.SimulatedAttempt {
	offset := func(d *time.Duration) *api.Duration {
		if d == nil {
			return nil
		}
		return new(api.Duration(*d))
	}
	out := api.SimulatedAttempt{
		Attempt: number, At: api.Duration(at.At), Started: offset(at.Started), Ended: offset(at.Ended), End: at.End,
	}
	if at.Limit != policy.LimitNone {
		out.Limit = at.Limit.String()
	}
	return out
}
