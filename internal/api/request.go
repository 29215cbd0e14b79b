package api

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/policy"
)

// StartRequest starts a run of a definition, which is stored with its first run.
type StartRequest struct {
	Definition  Definition      `json:"definition"`
	Input       json.RawMessage `json:"input,omitempty"`
	WorkflowID  string          `json:"workflowId,omitempty" doc:"Unique among open runs; default: the run's id."`
	Key         string          `json:"key,omitempty" doc:"Idempotency key; it may stand in Idempotency-Key instead."`
	UseExisting bool            `json:"useExisting,omitempty" doc:"Answer with the open run of the workflow id."`
	StartAt     Time            `json:"startAt,omitzero"`
	ScheduledAt Time            `json:"scheduledAt,omitzero" doc:"The firing of a schedule that the run is for."`
	Zone        string          `json:"zone,omitempty" doc:"The time zone of that firing; default UTC."`
	Timeout     *policy.Limit   `json:"timeout,omitempty" doc:"The run's limit, instead of the workflow's."`
	// Deadline bounds the runs that follow this one, too. The workflow's own deadline applies if it is earlier.
	Deadline Time              `json:"deadline,omitzero" doc:"The run does not live past it."`
	Origin   string            `json:"origin,omitempty" doc:"Place where the deadline was set, for people."`
	Actor    string            `json:"actor,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	Notify   string            `json:"notify,omitempty" doc:"The workflow id of a run that is told of the end."`
	Labels   map[string]string `json:"labels,omitempty"` // the values that the run can be searched by
	Queue    *RunQueue         `json:"queue,omitempty"`  // the queue of the run; nil: the workflow's
	Headers  map[string]string `json:"headers,omitempty"`
}

// Started answers a start.
type Started struct {
	Run      string `json:"run"`
	Existing bool   `json:"existing"` // the run was there before
}

// RestartRequest starts a run like an earlier one. Without Steps, From and Failed, all steps run again. With one of
// them the text or the input may be another; a step that keeps its result must not differ in what made the result.
type RestartRequest struct {
	Steps []string `json:"steps,omitempty" doc:"Only these run again, and those that have no result."`
	From  string   `json:"from,omitempty" doc:"This step and all that depend on it run again."`

	Failed     bool            `json:"failed,omitempty" doc:"The failed steps run again, and all that depend on them."`
	Definition *Definition     `json:"definition,omitempty" doc:"Another text, as it is stored."`
	Input      json.RawMessage `json:"input,omitempty" doc:"Another input, whole."`
	Actor      string          `json:"actor,omitempty"`
	Reason     string          `json:"reason,omitempty"` // default: which run it repeats
}

// SendRequest is an event that a run may wait for.
type SendRequest struct {
	Name    string          `json:"name"`
	ID      string          `json:"id,omitempty"` // the sender's: a repeat of name and id changes nothing
	Payload json.RawMessage `json:"payload,omitempty"`
	Keep    bool            `json:"keep,omitempty"` // the event is kept although no step of the flow waits for its name
	Actor   string          `json:"actor,omitempty"`
	Reason  string          `json:"reason,omitempty"`
}

// The operations.
const (
	OpCancel           = "cancel"            // cancel a run: running attempts are told to stop, nothing new starts
	OpCancelGracefully = "cancel_gracefully" // cancel a run: running attempts finish, nothing new starts
	OpTerminate        = "terminate"         // close a run at once
	OpPause            = "pause"
	OpResume           = "resume"
	OpRetryRun         = "retry_run"  // the failed steps that made a run fail begin again
	OpRetryStep        = "retry_step" // retry a step that has ended
	OpSkip             = "skip"
	OpComplete         = "complete" // end an open step with Output
	OpFail             = "fail"     // end an open step with Failure
	OpNow              = "now"      // end the backoff of a step
	OpSetPolicy        = "set_policy"
	OpExtend           = "extend" // move a limit of a run or a step by By, to To, or Remove it
)

// Operation is an operator's action on a run or a step. Each is kept in the run's history.
type Operation struct {
	Operation string          `json:"operation"`      // OpCancelGracefully, …
	Step      string          `json:"step,omitempty"` // the step's key; empty: it is about the run
	Output    json.RawMessage `json:"output,omitempty"`
	Failure   *policy.Failure `json:"failure,omitempty"`
	Policy    *policy.Policy  `json:"policy,omitempty"`
	Limit     string          `json:"limit,omitempty"`     // extend: which deadline; empty: the only one
	By        Extension       `json:"by,omitzero"`         // extend: by how much
	To        Time            `json:"to,omitzero"`         // extend: until when
	Remove    bool            `json:"remove,omitempty"`    // extend: take the deadline away
	StopClock bool            `json:"stopClock,omitempty"` // pause: the run's own deadlines stand still
	Actor     string          `json:"actor,omitempty"`
	Reason    string          `json:"reason,omitempty"`
}

// ForecastRequest specifies what a forecast assumes: each attempt fails, at once unless the request says otherwise, and
// nobody acts on the run.
type ForecastRequest struct {
	Operation  *Operation `json:"operation,omitempty"` // comes first; nothing of it is kept
	FailsAfter Duration   `json:"failsAfter,omitzero"` // how long each attempt runs before it fails
	Hang       bool       `json:"hang,omitempty"`      // attempts hang until a limit ends them
	Attempts   int        `json:"attempts,omitempty"`  // how many of each step to forecast; default 20, at most 100
}

// Query selects runs. Its zero value selects all of them. The newest come first; if it asks for deadlines, the runs
// with the soonest ones do.
type Query struct {
	Workflow   string     `json:"workflow,omitempty"`
	WorkflowID string     `json:"workflowId,omitempty"`
	Phases     []RunPhase `json:"phases,omitempty"`
	Cursor     string     `json:"cursor,omitempty"` // Page.Next of the page before
	After      string     `json:"after,omitempty"`  // the id of the last run of the page before; used without a cursor

	Labels        map[string]string `json:"labels,omitempty"`       // the runs that have all of them
	CreatedFrom   Time              `json:"createdFrom,omitzero"`   // those created at this instant or later
	CreatedBefore Time              `json:"createdBefore,omitzero"` // those created before it
	// Stuck selects open runs that cannot go on until somebody acts: their code panicked, they cannot be read, no
	// worker takes their tasks, or a breaker has held an attempt for long.
	Stuck bool `json:"stuck,omitempty"`
	// Resting selects open runs that no process carries on.
	Resting bool `json:"resting,omitempty"`

	Parent string `json:"parent,omitempty"` // the child runs that this run's steps started
	Top    bool   `json:"top,omitempty"`    // no child runs

	DeadlineWithin Duration `json:"deadlineWithin,omitzero"` // open runs whose deadline comes within this time, or has
	Retrying       bool     `json:"retrying,omitempty"`      // open runs of which a step backs off or is tried again
	// WillMiss selects open runs that will miss their deadlines: nothing happens before on its own, or runs of their
	// workflow usually take longer than that.
	WillMiss bool `json:"willMiss,omitempty"`
	// Input selects runs by values in their input: by the path of a value, customer.id, what it is. It is read run by
	// run, unlike labels: a page looks at a few runs only, so it may have less than Limit and still have a next one.
	Input map[string]string `json:"input,omitempty"`

	// Text is a person's search for runs, such as is:open flow:checkout tenant=acme; see find.go. Read converts it to
	// fields: those above, and Words and Error, which are compared row by row.
	Text  string   `json:"q,omitempty"`
	Words []string `json:"-"` // texts that a run has in its name, its workflow, its labels or its message
	Error string   `json:"-"` // words of its message alone

	Limit int `json:"limit,omitempty"` // how many at most; default 50
}

// ByDeadline reports whether the runs with the soonest deadlines come first.
func (q *Query) ByDeadline() bool { return q.DeadlineWithin > 0 || q.WillMiss }

// Page is one page of a list.
type Page struct {
	Runs []RunSummary `json:"runs"`
	Next string       `json:"next,omitempty"` // the cursor of the next page; empty: this is the last one
}

// Outcome is how a run ended.
type Outcome struct {
	Run     string          `json:"run"` // the id of the run; of a chain the last one
	Phase   RunPhase        `json:"phase"`
	Output  json.RawMessage `json:"output,omitempty"`
	Failure *policy.Failure `json:"failure,omitempty"`
}

// Payload returns what a caller gives as an input or as the data of an event; null: it gives none. The operation and
// the id are for the error. Errors: CodeInvalid, if it is not JSON.
func Payload(op, id string, given []byte) ([]byte, error) {
	switch {
	case len(given) == 0:
		return []byte("null"), nil
	case !json.Valid(given):
		return nil, &Error{Code: CodeInvalid, Op: op, ID: id, Message: "the payload is not valid JSON"}
	}
	return given, nil
}
