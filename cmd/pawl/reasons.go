package main

// reasons explain stop reasons in a sentence.
var reasons = map[string]string{
	"":                      "it succeeded",
	"cancelled":             "it was cancelled",
	"timeout_not_retryable": "a limit expired that no attempt may follow",
	"non_retryable":         "the failure is of a kind that is never retried",
	"not_matched":           "the retry policy does not retry this failure",
	"expression_error":      "the retry condition is broken",
	"attempts_exhausted":    "the attempts are used up",
	"retries_off":           "there are no retries",
	"no_time_left":          "the next attempt would begin at or after the deadline",
	"worker_lost":           "too many attempts were lost with their worker, one after the other",
	"skipped":               "the step is skipped",
	"operator":              "an operator decided",
}
