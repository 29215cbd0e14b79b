package judge

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/policy"
)

// Finding is a contradiction in a policy. The policy is allowed, but a part of it can never have an effect.
type Finding struct {
	Code    string   `json:"code"`    // a stable word, such as "never-runs"
	Message string   `json:"message"` // one sentence
	Path    []string `json:"path"`    // the field, in the native form
}

// The codes.
const (
	lintNeverRuns        = "never-runs"          // maxAttempts 0 skips the step
	lintRetriesOff       = "retries-off"         // a retry setting, but only one attempt
	lintAttemptNeverFits = "attempt-never-fits"  // the delays before an attempt are longer than a deadline
	lintTimeoutNeverFits = "timeout-never-fits"  // no attempt fits after one that timed out
	lintLimitNeverFires  = "limit-never-fires"   // an outer limit always fires first
	lintCapBelowInitial  = "cap-below-initial"   // maxInterval cuts even the first delay
	lintCapNoEffect      = "cap-no-effect"       // no delay reaches maxInterval
	lintNothingRetried   = "nothing-retried"     // attempts, but no kind of failure that uses them
	lintOnReplaced       = "on-replaced-by-when" // the policy's on is ignored because there is a when
	lintLostInOn         = "lost-always-retried" // lost attempts are retried whatever on lists
	lintJitterNoEffect   = "jitter-no-effect"    // there is no delay to spread
	lintNoPause          = "no-pause"            // attempts without end, and no delay between them
)

// Lint finds contradictions in a step's policy. Give it the policy after all overlays. runLimit is the shortest limit
// of the step's run; 0 means none.
func Lint(p *policy.Policy, runLimit time.Duration) []Finding {
	l := linter{policy: p, retry: p.Retry, runLimit: runLimit}
	if l.retry == nil {
		l.retry = &defaultRetry
	}
	switch l.retry.MaxAttempts {
	case 0:
		l.find(lintNeverRuns, "maxAttempts is 0: the step is always skipped", "retry", "maxAttempts")
		return l.findings
	case 1:
		l.lintRetriesOff()
	default:
		l.lintFilter()
		l.lintDelays()
		l.lintAttemptsFit()
		l.lintTimeoutsFit()
	}
	l.lintNeverFires()
	return l.findings
}

type linter struct {
	policy   *policy.Policy
	retry    *policy.Retry
	runLimit time.Duration
	findings []Finding
}

func (l *linter) find(code, message string, path ...string) {
	l.findings = append(l.findings, Finding{Code: code, Message: message, Path: path})
}

func (l *linter) lintRetriesOff() {
	const why = "maxAttempts is 1: nothing is retried, and %s has no effect"
	r := l.retry
	for _, setting := range []struct {
		field string
		given bool
	}{
		{"initialInterval", r.InitialInterval > 0 && r.InitialInterval != policy.DefaultRetry().InitialInterval},
		{"maxInterval", r.MaxInterval > 0},
		{"jitter", r.Jitter > 0 || r.JitterKind != 0},
		{"when", r.When != ""},
		{"nonRetryable", len(r.NonRetryable) > 0},
	} {
		if setting.given {
			l.find(lintRetriesOff, fmt.Sprintf(why, setting.field), "retry", setting.field)
		}
	}
	// Only scheduleToStart does not retry by default. Here the user must have asked for it explicitly.
	if limit := l.policy.Get(policy.LimitScheduleToStart); limit != nil && limit.Retry {
		message := fmt.Sprintf(why, "retry: true")
		l.find(lintRetriesOff, message, "timeout", policy.LimitScheduleToStart.String(), "retry")
	}
}

func (l *linter) lintFilter() {
	r := l.retry
	if r.When != "" {
		if len(r.On) > 0 {
			l.find(lintOnReplaced, "when replaces on: on has no effect", "retry", "on")
		}
		return
	}
	if slices.Contains(r.On, policy.KindLost) {
		l.find(lintLostInOn, "lost attempts are always retried, and do not use up maxAttempts", "retry", "on")
	}
	if r.On != nil && !slices.ContainsFunc(r.On, func(kind policy.Kind) bool { return kind != policy.KindLost }) {
		l.find(lintNothingRetried, "on lists no kind of failure, so nothing is retried", "retry", "on")
	}
}

func (l *linter) lintDelays() {
	r := l.retry
	if r.MaxAttempts < 0 && r.InitialInterval <= 0 {
		const message = "unlimited attempts follow each other without a delay; set initialInterval"
		l.find(lintNoPause, message, "retry", "initialInterval")
	}
	if r.InitialInterval <= 0 && (r.Jitter > 0 || r.JitterKind != 0) {
		l.find(lintJitterNoEffect, "initialInterval is 0: there is no delay to spread", "retry", "jitter")
	}
	if r.MaxInterval <= 0 {
		return
	}
	if r.MaxInterval < r.InitialInterval {
		message := fmt.Sprintf("maxInterval is below initialInterval: no delay is longer than %s, not even the first",
			duration.Format(r.MaxInterval))
		l.find(lintCapBelowInitial, message, "retry", "maxInterval")
		return
	}
	if r.JitterKind == policy.JitterDecorrelated {
		return
	}
	if longest := r.Longest(); longest <= r.MaxInterval {
		message := fmt.Sprintf("maxInterval of %s has no effect: no delay is longer than %s",
			duration.Format(r.MaxInterval), duration.Format(longest))
		l.find(lintCapNoEffect, message, "retry", "maxInterval")
	}
}

// furthestAttempt bounds the search for an attempt that does not fit. Nobody sets that many attempts by mistake.
const furthestAttempt = 10_000

// lintAttemptsFit adds up the shortest delays that the policy allows, and finds an attempt that they put after the
// deadline. It skips unlimited attempts: those go on until the deadline.
func (l *linter) lintAttemptsFit() {
	window, outer := l.window()
	if window == 0 || l.retry.MaxAttempts < 0 {
		return
	}
	var sum, previous time.Duration
	for n := 1; n < min(l.retry.MaxAttempts, furthestAttempt); n++ {
		previous = l.retry.Delay(n, previous, 0)
		sum += previous
		if sum < window {
			continue
		}
		atLeast := ""
		if l.retry.Jitter > 0 || l.retry.JitterKind != 0 {
			atLeast = "at least "
		}
		message := fmt.Sprintf("attempt %d can never start: %s%s of delays alone do not fit in %s (%s)",
			n+1, atLeast, duration.Format(sum), duration.Format(window), outer)
		l.find(lintAttemptNeverFits, message, "retry", "maxAttempts")
		return
	}
}

// lintTimeoutsFit finds attempt limits so long that an attempt they end is always the last one.
func (l *linter) lintTimeoutsFit() {
	window, outer := l.window()
	if window == 0 || (l.retry.When == "" && !l.retry.Retries(policy.KindTimeout)) {
		return
	}
	for _, kind := range []policy.LimitKind{policy.LimitStartToClose, policy.LimitHeartbeat, policy.LimitInactivity} {
		limit := l.policy.Get(kind)
		if limit == nil || !limit.Retry || limit.After >= window {
			continue
		}
		delay := l.retry.Delay(1, 0, 0)
		if limit.After+min(delay, math.MaxInt64-limit.After) < window {
			continue
		}
		message := fmt.Sprintf("an attempt that %s ends is never retried: %s and a delay of %s do not fit in %s (%s)",
			kind, duration.Format(limit.After), duration.Format(delay), duration.Format(window), outer)
		l.find(lintTimeoutNeverFits, message, "timeout", kind.String())
	}
}

// window returns the shortest of the limits that span all attempts, and its name; 0 if there is none.
func (l *linter) window() (window time.Duration, name string) {
	if l.runLimit > 0 {
		window, name = l.runLimit, policy.LimitRun.String()
	}
	for _, kind := range []policy.LimitKind{policy.LimitScheduleToClose, policy.LimitDeadline} {
		limit := l.policy.Get(kind)
		if limit != nil && limit.At == 0 && (window == 0 || limit.After < window) {
			window, name = limit.After, kind.String()
		}
	}
	return window, name
}

// outerLimits lists, for each limit, the limits whose clocks start at the same time or earlier. If such a limit is not
// longer, it always fires first. Heartbeat is one of those of inactivity: output restarts only the clock of inactivity,
// a heartbeat restarts both, so inactivity never expires before a heartbeat limit that is not longer.
var outerLimits = map[policy.LimitKind][]policy.LimitKind{
	policy.LimitDeadline:        {policy.LimitScheduleToClose},
	policy.LimitScheduleToStart: {policy.LimitScheduleToClose},
	policy.LimitStartToClose:    {policy.LimitScheduleToClose, policy.LimitDeadline},
	policy.LimitHeartbeat:       {policy.LimitScheduleToClose, policy.LimitDeadline, policy.LimitStartToClose},
	policy.LimitInactivity: {
		policy.LimitScheduleToClose, policy.LimitDeadline, policy.LimitStartToClose, policy.LimitHeartbeat,
	},
	policy.LimitWait: {policy.LimitScheduleToClose},
}

func (l *linter) lintNeverFires() {
	for _, kind := range policy.StepLimits {
		limit := l.policy.Get(kind)
		if limit == nil || limit.At != 0 {
			continue
		}
		shortest, name := limit.After+1, ""
		if l.runLimit > 0 && l.runLimit < shortest {
			shortest, name = l.runLimit, "the run's limit"
		}
		for _, outerKind := range outerLimits[kind] {
			outer := l.policy.Get(outerKind)
			if outer == nil || outer.At != 0 || outer.After >= shortest {
				continue
			}
			// One setting may set two limits to the same amount. That is not a contradiction.
			if outer.After == limit.After && outer.Origin != "" && outer.Origin == limit.Origin {
				continue
			}
			shortest, name = outer.After, outerKind.String()
		}
		if name == "" {
			continue
		}
		message := fmt.Sprintf("%s of %s can never fire: %s of %s is always over first",
			kind, duration.Format(limit.After), name, duration.Format(shortest))
		l.find(lintLimitNeverFires, message, "timeout", kind.String())
	}
}
