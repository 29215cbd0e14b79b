package worker

import (
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// maxStack is how many bytes of a panic's stack are put into its failure.
const maxStack = 8 << 10

// guard sets res to what work returns, or to a failure if work panics. One broken executor must not end the engine and
// all its runs.
func guard(res *Result, work func() Result) {
	defer func() {
		if v := recover(); v != nil {
			*res = Result{Failure: panicked(v, debug.Stack())}
		}
	}()
	*res = work()
}

func panicked(v any, stack []byte) *policy.Failure {
	details, err := json.Marshal(map[string]string{"stack": ValidText(stack[:min(len(stack), maxStack)])})
	if err != nil {
		details = nil // cannot happen: a map of strings is always valid
	}
	return &policy.Failure{Kind: policy.KindError, Type: "panic", Message: fmt.Sprint(v), Details: details}
}

// unfinished returns the failure of an executor whose goroutine ended without returning (runtime.Goexit).
func unfinished() *policy.Failure {
	return &policy.Failure{
		Kind: policy.KindError, Type: "panic",
		Message: "the executor ended its goroutine instead of returning (runtime.Goexit, or FailNow of a test)",
	}
}

// lostByClosing returns the failure of an attempt that the pool's Close interrupted. It does not count against the
// step.
func lostByClosing(cause *policy.Failure) *policy.Failure {
	if cause != nil && cause.Message == ErrClosing.Error() { // it says the same
		cause = nil
	}
	return &policy.Failure{
		Kind: policy.KindLost, Type: core.TypeWorkerClosed, Cause: cause,
		Message: "its worker was stopped, so it is made again",
	}
}
