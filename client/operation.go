package client

// Op names an operation.
type Op string

// The operations. Those on a step name it by its key.
const (
	OpCancel           Op = "cancel"            // running steps are told to stop
	OpCancelGracefully Op = "cancel_gracefully" // running steps finish
	OpTerminate        Op = "terminate"         // closed at once
	OpPause            Op = "pause"
	OpResume           Op = "resume"
	OpRetryRun         Op = "retry_run" // a run that has ended goes back to the failed steps that its failure came from
	OpRetryStep        Op = "retry_step"
	OpSkip             Op = "skip"
	OpComplete         Op = "complete"
	OpFail             Op = "fail"
	OpNow              Op = "now" // ends a backoff
	OpSetPolicy        Op = "set_policy"
	OpExtend           Op = "extend"
)
