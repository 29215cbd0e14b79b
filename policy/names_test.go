package policy_test

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// TestNames pins the names: they stand in journals and in flow files.
func TestNames(t *testing.T) {
	check(t, []policy.Kind{
		policy.KindError, policy.KindFailed, policy.KindTimeout, policy.KindCancelled, policy.KindLost,
	}, "error", "failed", "timeout", "cancelled", "lost")
	check(t, []policy.LimitKind{
		policy.LimitExecution, policy.LimitRun, policy.LimitScheduleToClose, policy.LimitDeadline,
		policy.LimitScheduleToStart, policy.LimitStartToClose, policy.LimitHeartbeat, policy.LimitInactivity,
		policy.LimitWait, policy.LimitTask,
	}, "execution", "run", "scheduleToClose", "deadline", "scheduleToStart", "startToClose", "heartbeat", "inactivity",
		"wait", "task")
	check(t, []policy.Reason{
		policy.ReasonCancelled, policy.ReasonTimeoutNotRetryable, policy.ReasonNonRetryable, policy.ReasonNotMatched,
		policy.ReasonExpressionError, policy.ReasonAttemptsExhausted, policy.ReasonRetriesOff, policy.ReasonNoTimeLeft,
		policy.ReasonWorkerLost, policy.ReasonSkipped, policy.ReasonOperator,
	}, "cancelled", "timeout_not_retryable", "non_retryable", "not_matched", "expression_error", "attempts_exhausted",
		"retries_off", "no_time_left", "worker_lost", "skipped", "operator")
	check(t, []policy.Expire{0, policy.ExpireCancel}, "fail", "cancel")
}

func check[T interface {
	comparable
	fmt.Stringer
	encoding.TextMarshaler
}, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T, values []T, names ...string) {
	t.Helper()
	for i, v := range values {
		text, err := v.MarshalText()
		if err != nil || string(text) != names[i] || v.String() != names[i] {
			t.Errorf("%T %d is %q, %v; want %q", v, i, text, err, names[i])
		}
		var again T
		if err := P(&again).UnmarshalText(text); err != nil || again != v {
			t.Errorf("%q was read as %v, %v", text, again, err)
		}
	}
	var v T
	if err := P(&v).UnmarshalText([]byte("cancled")); err == nil {
		t.Errorf("%T: cancled was read as %v", v, v)
	}
}

func TestUnknownNames(t *testing.T) {
	if got := policy.Kind(99).String(); got != "unknown(99)" {
		t.Errorf("got %q", got)
	}
	if text, err := policy.Reason(99).MarshalText(); err == nil {
		t.Errorf("got %q", text)
	}
	var kind policy.LimitKind
	err := kind.UnmarshalText([]byte("startToClosed"))
	if want := `policy: unknown limit "startToClosed"; did you mean "startToClose"?`; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestFailureJSON(t *testing.T) {
	after := 90 * time.Second
	f := policy.Failure{
		Kind: policy.KindTimeout, Limit: policy.LimitHeartbeat, Origin: "order.yaml:12:5", Message: "no sign of life",
		Details: json.RawMessage(`{"page":3}`), RetryAfter: &after,
		Cause: &policy.Failure{Kind: policy.KindFailed, Type: "InvalidCard", Code: 402, NonRetryable: true},
	}
	data, err := json.Marshal(f)
	must(t, err)
	want := `{"kind":"timeout","message":"no sign of life","details":{"page":3},"limit":"heartbeat",` +
		`"origin":"order.yaml:12:5","cause":{"kind":"failed","type":"InvalidCard","code":402,"nonRetryable":true},` +
		`"retryAfter":"1m30s"}`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}
	var again policy.Failure
	must(t, json.Unmarshal(data, &again))
	if again.RetryAfter == nil || *again.RetryAfter != after || again.Cause.Type != "InvalidCard" {
		t.Errorf("read as %+v", again)
	}
	past := -time.Second
	data, err = json.Marshal(policy.Failure{Kind: policy.KindError, RetryAfter: &past})
	if want := `{"kind":"error","retryAfter":"0ms"}`; err != nil || string(data) != want {
		t.Errorf("got %s, %v; want %s", data, err, want)
	}
}

func TestFailureError(t *testing.T) {
	card := &policy.Failure{Kind: policy.KindFailed, Type: "InvalidCard", Code: 402, Message: "card refused"}
	for _, test := range []struct {
		failure policy.Failure
		want    string
	}{
		{*card, "failed InvalidCard (code 402): card refused"},
		{policy.Failure{Kind: policy.KindError, Code: 1, Message: "exit status 1"}, "error (code 1): exit status 1"},
		{policy.Failure{Kind: policy.KindLost}, "lost"},
		{
			policy.Failure{Kind: policy.KindTimeout, Limit: policy.LimitStartToClose, Origin: "order.yaml:12:5"},
			"timeout: startToClose expired (set at order.yaml:12:5)",
		},
		{
			policy.Failure{Kind: policy.KindTimeout, Limit: policy.LimitScheduleToClose, Cause: card},
			"timeout: scheduleToClose expired; caused by failed InvalidCard (code 402): card refused",
		},
	} {
		if got := test.failure.Error(); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
	outer := &policy.Failure{Kind: policy.KindTimeout, Cause: card}
	if !errors.Is(outer, card) || errors.Unwrap(card) != nil {
		t.Error("the cause is not found through the failure")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
