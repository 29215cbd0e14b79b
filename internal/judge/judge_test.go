package judge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/internal/judge/judgetest"
	"github.com/pawl-dev/pawl/policy"
)

// epoch is the instant that the transcripts call 0.
const epoch = judgetest.Epoch

// TestJudge replays the transcripts in testdata/judge:
//
//	policy          sets the policy, in its native JSON form
//	judge key=value one ended attempt: kind, and where they matter type, limit, code, nonRetryable, retryAfter; what
//	                came before: counted (default 1), lost, previous, closed; matched or broken for when; now,
//	                deadline, bound and u
func TestJudge(t *testing.T) {
	datadriven.Walk(t, "testdata/judge", func(t *testing.T, path string) {
		var p policy.Policy
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "policy":
				p = policy.Policy{}
				if err := json.Unmarshal([]byte(d.Input), &p); err != nil {
					return err.Error() + "\n"
				}
				return p.Retry.String() + "\n"
			case "judge":
				return judged(t, d, &p)
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
				return ""
			}
		})
	})
}

func judged(t *testing.T, d *datadriven.TestData, p *policy.Policy) string {
	f := &policy.Failure{Kind: policy.KindError}
	h := judge.History{Counted: 1}
	var m judge.Match
	now, u := epoch, 0.0
	for _, arg := range d.CmdArgs {
		value := strings.Join(arg.Vals, ",")
		amount := func() time.Duration {
			sign := time.Duration(1)
			if rest, negative := strings.CutPrefix(value, "-"); negative {
				value, sign = rest, -1
			}
			amount, err := duration.Parse(value)
			must(t, err)
			return sign * amount
		}
		switch arg.Key {
		case "kind":
			must(t, f.Kind.UnmarshalText([]byte(value)))
		case "type":
			f.Type = value
		case "limit":
			must(t, f.Limit.UnmarshalText([]byte(value)))
		case "nonRetryable":
			f.NonRetryable = true
		case "retryAfter":
			after := amount()
			f.RetryAfter = &after
		case "counted":
			arg.Scan(t, 0, &h.Counted)
		case "lost":
			arg.Scan(t, 0, &h.Lost)
		case "apart":
			arg.Scan(t, 0, &h.LostAlone)
		case "previous":
			h.Previous = amount()
		case "closed":
			h.Closed = true
		case "deadline":
			h.Deadline = epoch.Add(amount())
		case "bound":
			must(t, h.Bound.UnmarshalText([]byte(value)))
		case "matched":
			m.Matched = true
		case "broken":
			m.Error = value
		case "now":
			now = epoch.Add(amount())
		case "u":
			_, err := fmt.Sscan(value, &u)
			must(t, err)
		default:
			d.Fatalf(t, "unknown argument %q", arg.Key)
		}
	}
	return describe(judge.Judge(p, h, f, m, now, u), now) + "\n"
}

func describe(v judge.Verdict, now policy.Time) string {
	if v.Retry {
		text := "retry after " + duration.Format(v.Delay)
		if v.At != now.Add(v.Delay) {
			text += fmt.Sprintf(", which is not at %s", v.At)
		}
		return text
	}
	text := "stop: " + v.Reason.String()
	if v.Bound != policy.LimitNone {
		text += " before " + v.Bound.String()
	}
	if v.Detail != "" {
		text += ": " + v.Detail
	}
	return text
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestJudgeWithoutPolicy(t *testing.T) {
	for _, p := range []*policy.Policy{nil, {}} {
		v := judge.Judge(p, judge.History{Counted: 1}, &policy.Failure{Kind: policy.KindError}, judge.Match{}, epoch,
			0)
		if v.Retry || v.Reason != policy.ReasonRetriesOff {
			t.Errorf("got %+v, want one attempt", v)
		}
	}
}

// TestJudgeOrder draws policies, histories and failures, and asks the rules in their order, each in its own words.
func TestJudgeOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, h, f, m := judgetest.Policy(t), drawHistory(t), drawFailure(t), drawMatch(t)
		u := rapid.Float64Range(0, 0.9999).Draw(t, "u")
		v := judge.Judge(&p, h, f, m, epoch, u)
		r := p.Retry
		if r == nil {
			r = &policy.Retry{MaxAttempts: 1}
		}
		bound := r.MaxLost
		if bound == 0 {
			bound = 5
		}
		for _, rule := range []struct {
			reason  policy.Reason
			applies bool
		}{
			{policy.ReasonCancelled, h.Closed},
			{policy.ReasonWorkerLost, f.Kind == policy.KindLost && bound >= 0 && h.LostAlone >= bound},
			{
				policy.ReasonNoTimeLeft,
				f.Kind == policy.KindLost && h.Deadline != 0 && epoch.Add(pauseOf(h)) >= h.Deadline,
			},
			{policy.ReasonNone, f.Kind == policy.KindLost},
			{policy.ReasonTimeoutNotRetryable, f.Kind == policy.KindTimeout && isFinal(&p, f.Limit)},
			{policy.ReasonNonRetryable, f.NonRetryable || (f.Type == "Bad" && len(r.NonRetryable) > 0)},
			{policy.ReasonExpressionError, r.When != "" && m.Error != ""},
			{policy.ReasonNotMatched, r.When != "" && !m.Matched},
			{policy.ReasonNotMatched, r.When == "" && !r.Retries(f.Kind)},
			{policy.ReasonRetriesOff, r.MaxAttempts == 1},
			{policy.ReasonAttemptsExhausted, r.MaxAttempts >= 0 && h.Counted >= r.MaxAttempts},
			{policy.ReasonNoTimeLeft, h.Deadline != 0 && nextAt(r, h, f, u) >= h.Deadline},
			{policy.ReasonNone, true},
		} {
			if rule.applies {
				if v.Reason != rule.reason || v.Retry != (rule.reason == policy.ReasonNone) {
					t.Fatalf("got %s, want reason %q", describe(v, epoch), rule.reason)
				}
				break
			}
		}
		checkRetry(t, r, h, f, v)
	})
}

func isFinal(p *policy.Policy, kind policy.LimitKind) bool {
	if kind == policy.LimitNone {
		return false
	}
	if limit := p.Get(kind); limit != nil && kind.PerAttempt() {
		return !limit.Retry
	}
	return !kind.RetriesByDefault()
}

// pauseOf returns how long a step waits after a loss: nothing after the first one in a row, then 1s, 2s, 4s and so on.
func pauseOf(h judge.History) time.Duration {
	if h.Lost < 2 {
		return 0
	}
	pause := time.Second
	for range h.LostAlone {
		pause *= 2
	}
	return min(pause, 5*time.Minute)
}

func nextAt(r *policy.Retry, h judge.History, f *policy.Failure, u float64) policy.Time {
	if f.RetryAfter != nil && *f.RetryAfter > 0 {
		return epoch.Add(max(0, *f.RetryAfter).Truncate(time.Millisecond))
	}
	return epoch.Add(r.Delay(h.Counted, h.Previous, u))
}

// checkRetry holds what is true of every retry, however it came about.
func checkRetry(t *rapid.T, r *policy.Retry, h judge.History, f *policy.Failure, v judge.Verdict) {
	if !v.Retry {
		return
	}
	switch {
	case v.Delay < 0 || v.At < epoch:
		t.Fatalf("goes back in time: %+v", v)
	case v.Delay%time.Millisecond != 0:
		t.Fatalf("not whole milliseconds: %v", v.Delay)
	case h.Deadline != 0 && v.At >= h.Deadline:
		t.Fatalf("attempt at %v, after the deadline %v", v.At, h.Deadline)
	case f.Kind != policy.KindLost && r.MaxAttempts >= 0 && h.Counted+1 > r.MaxAttempts:
		t.Fatalf("attempt %d of %d", h.Counted+1, r.MaxAttempts)
	}
}

func drawHistory(t *rapid.T) judge.History {
	h := judge.History{
		Counted:   rapid.IntRange(1, 7).Draw(t, "counted"),
		Lost:      rapid.IntRange(0, 9).Draw(t, "lost"),
		LostAlone: rapid.IntRange(0, 7).Draw(t, "apart"),
		Previous:  judgetest.Amount(t, "previous"),
		Closed:    rapid.IntRange(0, 5).Draw(t, "closed") == 0,
	}
	if rapid.Bool().Draw(t, "has deadline") {
		h.Deadline = epoch.Add(judgetest.Amount(t, "deadline"))
		h.Bound = policy.LimitScheduleToClose
	}
	return h
}

func drawFailure(t *rapid.T) *policy.Failure {
	f := &policy.Failure{
		Kind:         judgetest.Kind().Draw(t, "failure"),
		Type:         rapid.SampledFrom([]string{"", "Bad", "Good"}).Draw(t, "type"),
		NonRetryable: rapid.IntRange(0, 5).Draw(t, "non-retryable") == 0,
	}
	if f.Kind == policy.KindTimeout {
		f.Limit = policy.LimitKind(rapid.IntRange(0, int(policy.LimitTask)).Draw(t, "limit"))
	}
	if rapid.IntRange(0, 3).Draw(t, "has retryAfter") == 0 {
		after := time.Duration(rapid.Int64Range(-1e9, 1e12).Draw(t, "retryAfter"))
		f.RetryAfter = &after
	}
	return f
}

func drawMatch(t *rapid.T) judge.Match {
	return judge.Match{
		Matched: rapid.Bool().Draw(t, "matched"),
		Error:   rapid.SampledFrom([]string{"", "", "unknown name"}).Draw(t, "broken"),
	}
}

// TestJudgeAtTheEdges checks that the order of the rules, and lists that hold nothing.
func TestJudgeAtTheEdges(t *testing.T) {
	retry := func(change func(r *policy.Retry)) *policy.Policy {
		r := &policy.Retry{MaxAttempts: 3, BackoffCoefficient: 1}
		change(r)
		return &policy.Policy{Retry: r}
	}
	for name, c := range map[string]struct {
		policy  *policy.Policy
		failure policy.Failure
		want    policy.Reason
	}{
		"a limit that allows no retry comes before a failure that allows none": {
			retry(func(*policy.Retry) {}),
			policy.Failure{Kind: policy.KindTimeout, Limit: policy.LimitScheduleToClose, NonRetryable: true},
			policy.ReasonTimeoutNotRetryable,
		},
		"a failure without a type is none of those that are listed": {
			retry(func(r *policy.Retry) { r.NonRetryable = []string{""} }),
			policy.Failure{Kind: policy.KindError},
			policy.ReasonNone,
		},
		"an empty list of kinds retries nothing": {
			retry(func(r *policy.Retry) { r.On = []policy.Kind{} }),
			policy.Failure{Kind: policy.KindError},
			policy.ReasonNotMatched,
		},
	} {
		v := judge.Judge(c.policy, judge.History{Counted: 1}, &c.failure, judge.Match{}, 1, 0)
		if v.Reason != c.want || v.Retry != (c.want == policy.ReasonNone) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	for lost, want := range map[int]int{0: 0, 1: 0, 2: 16, 3: 4, 4: 1, 5: 1, 100: 1} {
		if got := judge.SuspectGroup(lost); got != want {
			t.Errorf("after %d losses %d suspects run at once, not %d", lost, got, want)
		}
	}
	late := judge.History{Counted: 1, Lost: 9, LostAlone: 40}
	unlimited := retry(func(r *policy.Retry) { r.MaxLost = policy.Unlimited })
	v := judge.Judge(unlimited, late, &policy.Failure{Kind: policy.KindLost}, judge.Match{}, 1, 0)
	if v.Delay != 5*time.Minute {
		t.Errorf("a suspect waits %s at most", v.Delay)
	}
}
