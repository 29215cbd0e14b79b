package core

import (
	"sort"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// player plays a run on in virtual time. It drives the machine that real runs use, and plays the attempts of its tasks.
type player struct {
	run  *Run
	def  *Definition
	now  Time
	act  func(s *Step) *Act // the act of the step's attempt; nil if it does not even start
	told func(e Entry)

	until       Time // the last instant that can be counted from the beginning
	uncountable bool // the next thing would happen later than that
}

// countable is how far a run is played on: spans of time saturate at 292 years, and instants have years of four digits.
const countable = 292 * 365 * 24 * time.Hour

// next processes the next event: a report of an attempt, then an expiry, then a start, in this order at one instant. It
// reports false if nothing more happens.
func (p *player) next() (bool, error) {
	var first timedInput
	offer := func(at Time, in Input) {
		if at = max(at, p.now); first.in == nil || at < first.at {
			first = timedInput{at, in}
		}
	}
	for i := range p.run.Steps {
		if s := &p.run.Steps[i]; s.Phase == StepRunning && s.Spec.Kind == KindTask {
			if act := p.act(s); act != nil {
				if reports := act.reports(s); len(reports) > 0 {
					offer(reports[0].at, reports[0].in)
				}
			}
		}
	}
	if wake := p.run.Wake(); wake != 0 {
		offer(wake, Tick{})
	}
	for i := range p.run.Steps {
		if s := &p.run.Steps[i]; s.Phase == StepScheduled && s.Spec.Kind == KindTask {
			if act := p.act(s); act != nil {
				at := max(s.ReadyAt.Add(act.Queue), s.HeldNow().Until)
				offer(at, TaskStarted{Step: s.ID, Attempt: s.Attempt, Worker: "script"})
			}
		}
	}
	if first.in == nil {
		return false, nil // an attempt hangs and nothing will stop it
	}
	if first.at > p.until {
		p.uncountable = true
		return false, nil
	}
	return true, p.put(first.in, first.at)
}

// put gives the run an input, and answers a revoked attempt's stop at once.
func (p *player) put(in Input, now Time) error {
	out, err := Advance(p.run, p.def, in, now)
	if err != nil {
		return err
	}
	p.now = now
	p.told(out.Entry)
	for _, e := range out.Effects {
		if r, ok := e.(Revoke); ok {
			if err := p.put(TaskStopped{Step: r.Step, Attempt: r.Attempt}, now); err != nil && !p.run.Phase.Closed() {
				return err
			}
		}
	}
	return nil
}

// timedInput is an input that comes at an instant.
type timedInput struct {
	at Time
	in Input
}

// reports lists what the running attempt of a step still reports, in order; at one instant its signs of life come
// before its end.
func (a *Act) reports(s *Step) []timedInput {
	var out []timedInput
	sign := func(offsets []time.Duration, last Time, output bool) {
		for _, o := range offsets {
			at := s.Started.Add(o)
			if at > last && (a.End == "hang" || o <= a.Run) {
				out = append(out, timedInput{at, Beat{Step: s.ID, Attempt: s.Attempt, Output: output}})
			}
		}
	}
	sign(a.Output, s.ByteAt, true)
	sign(a.Heartbeat, s.BeatAt, false)
	sort.SliceStable(out, func(i, j int) bool { return out[i].at < out[j].at })
	if a.End != "hang" {
		ended := TaskEnded{Step: s.ID, Attempt: s.Attempt, Failure: a.failure()}
		out = append(out, timedInput{s.Started.Add(a.Run), ended})
	}
	return out
}

func (a *Act) failure() *policy.Failure {
	f := &policy.Failure{Type: a.Type, NonRetryable: a.NonRetryable, RetryAfter: a.RetryAfter, Message: a.Message}
	if f.Message == "" {
		f.Message = "as scripted"
	}
	switch a.End {
	case "ok":
		return nil
	case "failed":
		f.Kind = policy.KindFailed
	case "lost":
		f.Kind = policy.KindLost
	default:
		f.Kind = policy.KindError
	}
	return f
}
