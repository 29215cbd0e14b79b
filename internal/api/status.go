package api

// Status is the state of a run or a step, in a word for people. It is more precise than a phase if the run or step runs
// or waits: it is retried, is held, sleeps, or stops.
type Status string

// The statuses.
const (
	StatusQueued     Status = "queued"
	StatusRunning    Status = "running"
	StatusRetrying   Status = "retrying"
	StatusWaiting    Status = "waiting"
	StatusSleeping   Status = "sleeping"
	StatusHeld       Status = "held"
	StatusPaused     Status = "paused"
	StatusStopping   Status = "stopping"
	StatusStuck      Status = "stuck" // it cannot go on until somebody acts
	StatusSucceeded  Status = "succeeded"
	StatusFailed     Status = "failed"
	StatusTimedOut   Status = "timed_out"
	StatusCancelled  Status = "cancelled"
	StatusTerminated Status = "terminated"
	StatusSkipped    Status = "skipped"
	StatusContinued  Status = "continued"
)
