package judge_test

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

func ExampleJudge() {
	retry, err := policy.DecodeRetry("exponential(3, 1s)")
	if err != nil {
		panic(err)
	}
	p := &policy.Policy{Retry: retry}
	start := policy.At(time.Date(2030, 1, 31, 18, 0, 0, 0, time.UTC))
	refused := &policy.Failure{Kind: policy.KindError, Message: "connection refused"}
	for n := 1; n <= 3; n++ {
		h := judge.History{Counted: n, Deadline: start.Add(time.Minute), Bound: policy.LimitScheduleToClose}
		v := judge.Judge(p, h, refused, judge.Match{}, start, 0)
		if v.Retry {
			fmt.Println("again after", v.Delay)
		} else {
			fmt.Println("stopped:", v.Reason)
		}
	}
	// Output:
	// again after 1s
	// again after 2s
	// stopped: attempts_exhausted
}

func ExampleLint() {
	retry, err := policy.DecodeRetry("exponential(6, 1s)")
	if err != nil {
		panic(err)
	}
	for _, finding := range judge.Lint(&policy.Policy{Retry: retry}, 20*time.Second) {
		fmt.Println(finding.Message)
	}
	// Output:
	// attempt 6 can never start: 31s of delays alone do not fit in 20s (run)
}
