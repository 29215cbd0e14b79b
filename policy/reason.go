package policy

// Reason is why a step stopped being tried.
type Reason uint8

// The stop reasons, in the order in which they are checked.
const (
	ReasonNone Reason = iota
	ReasonCancelled
	ReasonTimeoutNotRetryable
	ReasonNonRetryable
	ReasonNotMatched
	ReasonExpressionError
	ReasonAttemptsExhausted
	ReasonRetriesOff
	ReasonNoTimeLeft
	ReasonWorkerLost
	ReasonSkipped
	ReasonOperator // an operator completed, failed or skipped the step
)
