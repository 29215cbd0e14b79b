// Package judge decides what follows when an attempt ends badly, by a policy: [Judge] is the only function that does.
// [Lint] finds what a policy can never do.
//
// The package is pure, as package policy is: it reads no clock, draws no random numbers and keeps no state. Instants
// and random numbers are arguments, so a preview, a replay and a real run give the same answers.
package judge

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// The pause of a suspect before its next attempt: it doubles with each loss that counts.
const (
	firstLostPause   = time.Second
	longestLostPause = 5 * time.Minute
)

// SuspectGroup returns how many suspects may run at once in a process, after that many attempts in a row were lost; 0:
// they are no suspects. A suspect may be what kills its workers. Two losses make a step one. The groups shrink with
// each loss until it runs alone, so that many harmless steps soon have their turn. A loss while it runs alone counts.
func SuspectGroup(lost int) int {
	switch {
	case lost < 2:
		return 0
	case lost == 2:
		return 16
	case lost == 3:
		return 4
	default:
		return 1
	}
}

// lostPause returns how long a step waits that was lost so often.
func lostPause(h History) time.Duration {
	if SuspectGroup(h.Lost) == 0 {
		return 0
	}
	return min(firstLostPause<<min(h.LostAlone, 20), longestLostPause)
}

// defaultRetry is the policy of a step that has none: one attempt.
var defaultRetry = policy.Retry{MaxAttempts: 1, BackoffCoefficient: 1}

// Judge decides what follows when an attempt ended with failure f. It checks the rules in this order. The first rule
// that applies decides, and its name is the verdict's reason:
//
//  1. the run is closed or its cancel was asked: cancelled
//  2. the limit that fired does not allow another attempt: timeout_not_retryable
//  3. the failure or its type is not retryable: non_retryable
//  4. When is false, or the kind is not in On: not_matched; When is broken: expression_error
//  5. the attempts are used up: attempts_exhausted, or retries_off if the policy allows only one
//  6. the next attempt would begin at or after h.Deadline: no_time_left
//
// If no rule applies, the step is tried again after the policy's delay, or after f.RetryAfter if the worker asked for a
// delay that is longer than zero. MaxInterval and jitter do not change a delay that the worker asked for; only
// the deadline bounds it.
//
// A lost attempt is a fault of the infrastructure, not of the step. Judge skips rules 2 to 5. After the first loss it
// tries the step again at once, after further ones in a row with a growing pause: the step is a suspect then. Suspects
// run in groups that shrink with each loss (see SuspectGroup), and only a loss while one runs alone counts. The fifth
// such loss (Retry.MaxLost) stops the step with worker_lost.
//
// m is the result of the When expression; it is ignored if there is none. u in [0,1) chooses the jitter, see [Random].
// A nil p is the default policy, one attempt.
func Judge(p *policy.Policy, h History, f *policy.Failure, m Match, now policy.Time, u float64) Verdict {
	if p == nil {
		p = &policy.Policy{}
	}
	r := p.Retry
	if r == nil {
		r = &defaultRetry
	}
	if h.Closed {
		return Verdict{Reason: policy.ReasonCancelled}
	}
	if f.Kind == policy.KindLost {
		if bound := r.LostBound(); bound >= 0 && h.LostAlone >= bound {
			return Verdict{Reason: policy.ReasonWorkerLost}
		}
		pause := lostPause(h)
		return h.again(now, Verdict{Retry: true, Delay: pause, At: now.Add(pause)})
	}
	if f.Kind == policy.KindTimeout && !retriesAfter(p, f.Limit) {
		return Verdict{Reason: policy.ReasonTimeoutNotRetryable}
	}
	if f.NonRetryable || (f.Type != "" && slices.Contains(r.NonRetryable, f.Type)) {
		return Verdict{Reason: policy.ReasonNonRetryable}
	}
	if reason := matched(r, f.Kind, m); reason != policy.ReasonNone {
		return Verdict{Reason: reason, Detail: m.Error}
	}
	if r.MaxAttempts == 1 {
		return Verdict{Reason: policy.ReasonRetriesOff}
	}
	if r.MaxAttempts >= 0 && h.Counted >= r.MaxAttempts {
		return Verdict{Reason: policy.ReasonAttemptsExhausted}
	}
	delay := r.Delay(h.Counted, h.Previous, u)
	// A delay of zero does not count: a service that is down would get all attempts at once.
	if f.RetryAfter != nil && *f.RetryAfter > 0 {
		delay = f.RetryAfter.Truncate(time.Millisecond)
	}
	return h.again(now, Verdict{Retry: true, Delay: delay, At: now.Add(delay)})
}

// again returns the retry v if it starts before the deadline. Otherwise it stops the step now: waiting for the deadline
// would change nothing, and the caller would learn of the failure later.
func (h History) again(now policy.Time, v Verdict) Verdict {
	if h.Deadline != 0 && v.At >= h.Deadline {
		return Verdict{Reason: policy.ReasonNoTimeLeft, Bound: h.Bound}
	}
	return v
}

// matched checks When, or On if there is no When.
func matched(r *policy.Retry, kind policy.Kind, m Match) policy.Reason {
	if r.When == "" {
		if !r.Retries(kind) {
			return policy.ReasonNotMatched
		}
		return policy.ReasonNone
	}
	if m.Error != "" {
		return policy.ReasonExpressionError
	}
	if !m.Matched {
		return policy.ReasonNotMatched
	}
	return policy.ReasonNone
}

// retriesAfter reports whether the retry policy decides after the limit ended an attempt. It does after a timeout that
// names no limit: the worker made that one itself. If the policy no longer has the limit, for example because an
// operator replaced the policy, the limit's default holds.
func retriesAfter(p *policy.Policy, kind policy.LimitKind) bool {
	if kind == policy.LimitNone {
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
