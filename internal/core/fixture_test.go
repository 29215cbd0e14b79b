package core

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// fixture is a small definition for transcripts: steps with needs, written one a line.
type fixture struct {
	specs    []*StepSpec
	needs    [][]string
	lengths  []time.Duration // the lengths of sleeps
	untils   []Time          // the ends of sleeps that end at an instant
	retry    *policy.Retry
	every    time.Duration // runs begin at multiples of it; 0: when they are started
	tolerate map[string]bool
	again    bool        // a run that succeeds continues as a new one
	whole    *Definition // the definition, where it is no such one
}

// parseFixture reads lines such as
//
//	charge task retry=fixed(3,1s) startToClose=5s needs=a,b
//	rest sleep=10s
//	hold until=1h                        an offset from the epoch
//	approved wait=approval limit=7d
//	sub flow
//	onFailure task hook
//	run retry=fixed(2,1s) every=1m
//	run again
func parseFixture(text string) (*fixture, error) {
	f := &fixture{tolerate: map[string]bool{}}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		words := strings.Fields(line)
		if words[0] == "run" {
			if err := f.parseRun(words[1:]); err != nil {
				return nil, err
			}
			continue
		}
		if err := f.parseStep(words); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
	}
	return f, nil
}

func (f *fixture) parseRun(words []string) error {
	for _, w := range words {
		if w == "again" {
			f.again = true
			continue
		}
		if text, ok := strings.CutPrefix(w, "every="); ok {
			f.every = mustDuration(text)
			continue
		}
		r, err := policy.DecodeRetry(strings.TrimPrefix(w, "retry="))
		if err != nil {
			return err
		}
		f.retry = r
	}
	return nil
}

func (f *fixture) parseStep(words []string) error {
	spec := &StepSpec{Name: words[0], Def: int32(len(f.specs)), Type: "test"}
	var needs []string
	var length time.Duration
	var until Time
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "task":
		case "flow":
			spec.Kind = KindChild
		case "hook":
			spec.Hook = true
		case "detached":
			spec.Detached = true
		case "tolerated":
			f.tolerate[spec.Name] = true
		case "needs":
			needs = strings.Split(value, ",")
		case "sleep":
			spec.Kind = KindSleep
			length = mustDuration(value)
		case "until":
			spec.Kind, until = KindSleep, epoch.Add(mustDuration(value))
		case "wait":
			spec.Kind, spec.Event = KindWait, value
		case "retry":
			r, err := policy.DecodeRetry(value)
			if err != nil {
				return err
			}
			spec.Policy.Retry = r
		case "maxLost":
			r, err := policy.DecodeRetry(map[string]any{key: json.Number(value)})
			if err != nil {
				return err
			}
			spec.Policy.Retry = r
		case "skip":
			spec.Policy.Retry = &policy.Retry{}
		case "when":
			spec.Policy.Retry.When = value
		default:
			l, err := fixtureLimit(key, value)
			if err != nil {
				return err
			}
			l(&spec.Policy)
		}
	}
	f.specs = append(f.specs, spec)
	f.needs = append(f.needs, needs)
	f.lengths = append(f.lengths, length)
	f.untils = append(f.untils, until)
	return nil
}

// fixtureLimit reads limit=AMOUNT[,cancel][,warn].
func fixtureLimit(key, value string) (func(*policy.Policy), error) {
	amount, rest, _ := strings.Cut(value, ",")
	l := &policy.Limit{After: mustDuration(amount), Origin: "test"}
	if strings.Contains(rest, "cancel") {
		l.OnExpire = policy.ExpireCancel
	}
	if strings.Contains(rest, "warn") {
		l.Warn = 80
	}
	switch key {
	case "scheduleToStart":
		return func(p *policy.Policy) { p.ScheduleToStart = l }, nil
	case "startToClose":
		l.Retry = true
		return func(p *policy.Policy) { p.StartToClose = l }, nil
	case "scheduleToClose":
		return func(p *policy.Policy) { p.ScheduleToClose = l }, nil
	case "deadline":
		return func(p *policy.Policy) { p.Deadline = l }, nil
	case "deadlineAt": // an instant, as an offset from the epoch
		l.At, l.After = epoch.Add(l.After), 0
		return func(p *policy.Policy) { p.Deadline = l }, nil
	case "heartbeat":
		l.Retry = true
		return func(p *policy.Policy) { p.Heartbeat = l }, nil
	case "inactivity":
		l.Retry = true
		return func(p *policy.Policy) { p.Inactivity = l }, nil
	case "limit":
		return func(p *policy.Policy) { p.Wait = l }, nil
	default:
		return nil, fmt.Errorf("unknown word %q", key)
	}
}

func mustDuration(s string) time.Duration {
	d, err := duration.Parse(s)
	if err != nil {
		panic(err)
	}
	return d
}

// definition returns the fixture as the machine sees it; a nil fixture has none.
func (f *fixture) definition() *Definition {
	if f == nil {
		return nil
	}
	if f.whole != nil {
		return f.whole
	}
	def := &Definition{
		Specs: f.specs, NewDecider: func(*Run) Decider { return f },
		Rules:     func([]byte) RunRules { return RunRules{Retry: f.retry} },
		Tolerates: func(s *Step) bool { return f.tolerate[s.Spec.Name] },
	}
	if f.every != 0 {
		def.Begins = func(now Time) Time { return f.firing(now + 1) }
		def.Follows = func(_, began, now Time) Time { return f.firing(max(began+1, now)) }
	}
	return def
}

// firing returns the first multiple of every, from the epoch, that is not before an instant.
func (f *fixture) firing(t Time) Time {
	return epoch.Add((t.Sub(epoch) + f.every - 1) / f.every * f.every)
}

// Decide schedules every step whose needs are met, once; the run closes with the last.
func (f *fixture) Decide(r *Run, _ []StepID, _ Time) []Command {
	if r.Closing != nil {
		return f.hooks(r)
	}
	var out []Command
	open, failed := 0, (*policy.Failure)(nil)
	for i, spec := range f.specs {
		if spec.Hook {
			continue
		}
		if s, ok := r.Lookup(spec.Name); ok {
			if !s.Phase.Closed() {
				open++
			} else if !f.satisfied(s) && failed == nil && !s.Upstream {
				failed = s.Failure
			}
			continue
		}
		switch ready, reason := f.ready(r, i); {
		case reason != "":
			out = append(out, Skip{Spec: spec, Item: -1, Group: NoStep, Reason: reason, Upstream: true})
		case ready:
			out = append(out, Schedule{Spec: spec, Item: -1, Group: NoStep, Until: f.untils[i], For: f.lengths[i]})
		}
		open++
	}
	if open > 0 {
		return out
	}
	if failed != nil {
		return []Command{Close{Phase: RunFailed, Failure: failed}}
	}
	if f.again {
		return []Command{Close{Phase: RunContinued, Output: []byte(`"more"`)}}
	}
	return []Command{Close{Phase: RunSucceeded, Output: []byte(`"done"`)}}
}

func (f *fixture) hooks(r *Run) []Command {
	for _, spec := range f.specs {
		if spec.Hook && r.Closing.Hook == 0 && r.Closing.Phase != RunSucceeded {
			return []Command{Schedule{Spec: spec, Item: -1, Group: NoStep}}
		}
	}
	return nil
}

func (f *fixture) satisfied(s *Step) bool {
	return s.Phase == StepSucceeded || (s.Phase == StepSkipped && !s.Upstream) || f.tolerate[s.Spec.Name]
}

func (f *fixture) ready(r *Run, i int) (ready bool, skip string) {
	for _, need := range f.needs[i] {
		s, ok := r.Lookup(need)
		if !ok || !s.Phase.Closed() {
			return false, ""
		}
		if !f.satisfied(s) {
			return false, "needs " + need
		}
	}
	return true, ""
}

// Match knows three expressions.
func (f *fixture) Match(_ *Run, _ *Step, when string, fl *policy.Failure, _ []byte, _ Time) judge.Match {
	switch when {
	case "transient":
		return judge.Match{Matched: fl.Type == "Transient"}
	case "broken":
		return judge.Match{Error: "does not parse"}
	default:
		return judge.Match{Matched: true}
	}
}

func (f *fixture) Task(_ *Run, s *Step, _ Time) ([]byte, *policy.Failure) {
	if s.Spec.Name == "broken" {
		return nil, &policy.Failure{Kind: policy.KindFailed, Type: "expression", Message: "no such field"}
	}
	return []byte("{}"), nil
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
