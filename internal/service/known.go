package service

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// KnownStep is what a preview of a step goes on from.
type KnownStep struct {
	Run      core.RunID
	Key      string
	Policy   policy.Policy // that counts, with what operations have set
	RunLimit time.Duration // from its scheduling to the end of its run; 0: none
	Origin   api.Time      // when it was scheduled
	Past     []core.Act    // what its attempts did
	Open     bool          // another attempt goes on
}

// Step returns what is known of a step. Errors: CodeNotFound.
func (r *reads) Step(ctx context.Context, name, key string) (out KnownStep, err error) {
	id, err := r.find(ctx, name)
	if err != nil {
		return out, err
	}
	err = r.with(ctx, name, id, func(f *followed) error {
		s, ok := f.trail.Run.Lookup(key)
		if !ok {
			return noSuchStep(id, key)
		}
		out = KnownStep{Run: id, Key: key, Policy: *s.Effective(), Origin: api.Time(s.ScheduledAt)}
		if _, at := f.trail.Run.Limit(); at > s.ScheduledAt {
			out.RunLimit = at.Sub(s.ScheduledAt)
		}
		for _, shown := range f.trail.Snapshot(r.now()).Steps {
			if shown.Step == key {
				out.Past, out.Open = past(shown)
			}
		}
		return nil
	})
	return out, err
}

// past returns what the attempts of a step did.
func past(s *api.Step) (acts []core.Act, open bool) {
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.EndedAt == 0 {
			return acts, true
		}
		act := core.Act{End: "error"}
		if a.StartedAt != 0 {
			act.Queue, act.Run = a.StartedAt.Sub(a.ReadyAt), a.EndedAt.Sub(a.StartedAt)
		}
		switch {
		case a.Outcome == "succeeded":
			act.End = "ok"
		case a.Failure == nil:
		case a.Failure.Kind == policy.KindTimeout && a.Failure.Limit != policy.LimitNone:
			act.End = "hang"
		case a.Failure.Kind == policy.KindFailed:
			act.End = "failed"
		case a.Failure.Kind == policy.KindLost:
			act.End = "lost"
		}
		if a.Failure != nil {
			act.Type, act.NonRetryable, act.RetryAfter = a.Failure.Type, a.Failure.NonRetryable, a.Failure.RetryAfter
		}
		acts = append(acts, act)
	}
	return acts, false
}
