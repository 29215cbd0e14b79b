package api

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/policy"
)

// Tasks is the interface of workers in other processes: they take attempts from task queues and report on them. The
// process that has the engine implements it, and so does a client of a server. All methods are safe for concurrent use.
type Tasks interface {
	// Poll takes attempts from a queue. It waits for one as long as the request says; after that it returns none.
	// Errors: CodeInvalid, CodeClosed (the server stops: ask again later), CodeCancelled.
	Poll(ctx context.Context, r PollRequest) ([]Task, error)
	// Report takes reports and answers each, in their order. Reports of one attempt follow one another. It returns an
	// error only if the reports did not arrive.
	Report(ctx context.Context, reports []TaskReport) ([]TaskAnswer, error)
}

// PollRequest asks for tasks.
type PollRequest struct {
	Queue string `json:"queue" doc:"The task queue."`
	// Types are the types of task steps that the worker executes. Empty: all.
	Types  []string `json:"types,omitempty" doc:"The types of task steps that you execute. Default: all."`
	Worker string   `json:"worker,omitempty" doc:"Your name, for people: it is recorded with each attempt."`
	Max    int      `json:"max,omitempty" minimum:"1" maximum:"1000" doc:"Most tasks that you can take; default 1."`
	Wait   Duration `json:"wait,omitzero" doc:"Time to wait for a task, such as 30s. Default: none; at most 1m."`
	// Confirm: each task is followed by a report TaskStart within StartWithin, or it goes to another worker. While the
	// worker has the task, it reports something at least every minute (TaskLook): after a restart of the server, a task
	// without a report goes to another worker.
	Confirm bool `json:"confirm,omitempty" doc:"You report start for each task, then something each minute."`
	// May is called before tasks are handed out: an error keeps them back. nil: they are always handed out.
	May func(ctx context.Context) error `json:"-"`
}

// Task is an attempt in the hands of a worker.
type Task struct {
	Task     string            `json:"task" doc:"The attempt's token. Every report on it has it."`
	Run      string            `json:"run"`
	Workflow string            `json:"workflow"`
	Step     string            `json:"step"`
	Attempt  int               `json:"attempt" doc:"Its number. Lost attempts have one, too."`
	Key      string            `json:"idempotencyKey" doc:"The same for all attempts of the step."`
	Counted  int               `json:"counted" doc:"Attempts of the policy that are used up, this one included."`
	Queue    string            `json:"queue"`
	Type     string            `json:"type"`
	Input    json.RawMessage   `json:"input"`
	Details  json.RawMessage   `json:"details,omitempty" doc:"Details of the last heartbeat of the attempt before it."`
	Headers  map[string]string `json:"headers,omitempty"`
	Trace    string            `json:"traceparent,omitempty" doc:"Trace of the attempt, if the server sends traces."`
	Left     Left              `json:"left"`
	StartBy  Duration          `json:"startWithin,omitzero" doc:"Report start within this time."`
}

// Left is the remaining time of an attempt's clocks. They are lengths of time, so that wrong clocks do no harm.
type Left struct {
	Deadline   Duration `json:"deadline,omitzero" doc:"Until the earliest deadline; absent: there is none."`
	Limit      string   `json:"limit,omitempty" doc:"Name of that deadline."`
	Heartbeat  Duration `json:"heartbeat,omitzero" doc:"Report a heartbeat at least this often."`
	Inactivity Duration `json:"inactivity,omitzero" doc:"Show output or a heartbeat at least this often."`
}

// The kinds of reports.
const (
	TaskStart     = "start"     // the work begins
	TaskLook      = "look"      // no sign of life: it only asks whether the attempt goes on
	TaskHeartbeat = "heartbeat" // the work goes on
	TaskOutput    = "output"    // the work has written something: it counts for inactivity only
	TaskComplete  = "complete"  // it succeeded, with Output
	TaskFail      = "fail"      // it failed, with Failure
	TaskStopped   = "stopped"   // it was told to stop, and its work has ended
)

// TaskReport is a worker's report on an attempt.
type TaskReport struct {
	Task    string          `json:"task"`
	Kind    string          `json:"kind" enum:"start,look,heartbeat,output,complete,fail,stopped"`
	Details json.RawMessage `json:"details,omitempty" doc:"heartbeat: where the work is; the next attempt gets it."`
	Output  json.RawMessage `json:"output,omitempty" doc:"complete: the step's output."`
	Failure *policy.Failure `json:"failure,omitempty" doc:"fail: why."`
	// Abandoned: the work was killed and did not stop.
	Abandoned bool `json:"abandoned,omitempty" doc:"stopped: the work could not be stopped."`
	Killed    bool `json:"killed,omitempty" doc:"stopped: the work had to be killed."`
}

// TaskAnswer answers a report.
type TaskAnswer struct {
	// Stop means that the attempt has ended without the worker: stop the work, then report TaskStopped. It is the kind
	// of the failure that ended it, such as timeout or cancelled.
	Stop   string `json:"stop,omitempty" doc:"The attempt has ended: stop the work, then report stopped."`
	Paused bool   `json:"paused,omitempty" doc:"The run is paused. This attempt goes on."`
	Left   *Left  `json:"left,omitempty"`
	Error  *Error `json:"error,omitempty" doc:"Reason why the report was refused."`
}
