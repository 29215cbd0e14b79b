package policy

import "slices"

// MaxLost is how many attempts in a row may be lost; the last of them stops the step. A step that kills its worker
// must not be handed from worker to worker for ever.
const MaxLost = 5

// defaultRetry is the policy of a step that has none: one attempt.
var defaultRetry = Retry{MaxAttempts: 1, BackoffCoefficient: 1}

// defaultOn are the kinds that are retried where a policy lists none: what may pass by itself.
var defaultOn = []Kind{KindError, KindTimeout}

// Judge decides what follows when an attempt ended with f. The rules are asked in one order, the first that applies
// decides, and its name is the verdict's reason:
//
//  1. the run is closed or its cancel was asked: cancelled
//  2. the limit that fired does not allow another attempt: timeout_not_retryable
//  3. the failure or its type is not retryable: non_retryable
//  4. When is false, or the kind is not in On: not_matched; When is broken: expression_error
//  5. the attempts are used up: attempts_exhausted, or retries_off where there was only ever one
//  6. the next attempt would begin at or after h.Deadline: no_time_left
//
// Otherwise the step is tried again after the policy's delay, or after f.RetryAfter where the worker asked for one;
// neither MaxInterval nor jitter changes that wish, only the deadline bounds it.
//
// A lost attempt is nobody's failure but the infrastructure's: rules 2 to 5 are not asked, the step is tried again at
// once, and the fifth loss in a row stops it with worker_lost.
//
// m is the outcome of the When expression and looked at only where there is one; u in [0,1) draws the jitter, see
// [Random]. A nil p is the default policy, one attempt.
func Judge(p *Policy, h History, f *Failure, m Match, now Time, u float64) Verdict {
	if p == nil {
		p = &Policy{}
	}
	r := p.Retry
	if r == nil {
		r = &defaultRetry
	}
	if h.Closed {
		return Verdict{Reason: ReasonCancelled}
	}
	if f.Kind == KindLost {
		if h.Lost >= MaxLost {
			return Verdict{Reason: ReasonWorkerLost}
		}
		return h.again(now, Verdict{Retry: true, At: now})
	}
	if f.Kind == KindTimeout && !p.retriesAfter(f.Limit) {
		return Verdict{Reason: ReasonTimeoutNotRetryable}
	}
	if f.NonRetryable || (f.Type != "" && slices.Contains(r.NonRetryable, f.Type)) {
		return Verdict{Reason: ReasonNonRetryable}
	}
	if reason := r.match(f.Kind, m); reason != ReasonNone {
		return Verdict{Reason: reason, Detail: m.Error}
	}
	if r.MaxAttempts == 1 {
		return Verdict{Reason: ReasonRetriesOff}
	}
	if r.MaxAttempts >= 0 && h.Counted >= r.MaxAttempts {
		return Verdict{Reason: ReasonAttemptsExhausted}
	}
	delay := r.Delay(h.Counted, h.Previous, u)
	if f.RetryAfter != nil {
		delay = wholeMilliseconds(max(*f.RetryAfter, 0))
	}
	return h.again(now, Verdict{Retry: true, Delay: delay, At: now.Add(delay)})
}

// again lets a retry pass that begins before the deadline. One that does not is stopped now: waiting for a deadline
// that leaves no room for another attempt would only delay the news.
func (h History) again(now Time, v Verdict) Verdict {
	if h.Deadline != 0 && v.At >= h.Deadline {
		return Verdict{Reason: ReasonNoTimeLeft, Bound: h.Bound}
	}
	return v
}

// match asks When, or On where there is no When.
func (r *Retry) match(kind Kind, m Match) Reason {
	if r.When == "" {
		if !r.Retries(kind) {
			return ReasonNotMatched
		}
		return ReasonNone
	}
	if m.Error != "" {
		return ReasonExpressionError
	}
	if !m.Matched {
		return ReasonNotMatched
	}
	return ReasonNone
}

// Retries reports whether On holds the kind; a nil On holds error and timeout, an empty one nothing.
func (r *Retry) Retries(kind Kind) bool {
	if r.On == nil {
		return slices.Contains(defaultOn, kind)
	}
	return slices.Contains(r.On, kind)
}

// retriesAfter reports whether the limit that ended an attempt leaves the decision to the retry policy. A timeout of
// the worker's own making, which names no limit, does. So does a limit that the policy no longer holds, as after an
// operator replaced it, if it would have by default.
func (p *Policy) retriesAfter(kind LimitKind) bool {
	if kind == LimitNone {
		return true
	}
	if !kind.PerAttempt() {
		return false
	}
	if limit := p.Get(kind); limit != nil {
		return limit.Retry
	}
	return kind.RetriesByDefault()
}
