package api

import (
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// BodyNews is one message of a server to a process.
type BodyNews struct {
	Kind   string        `json:"kind"` // begin, news, held, end, task, offer, revoke
	Run    string        `json:"run,omitzero"`
	Lease  uint64        `json:"lease,omitzero"`
	News   *BodyRunNews  `json:"news,omitzero"`             // the news, for begin and news
	Task   *BodyTask     `json:"task,omitzero"`             // the task, for task
	Left   time.Duration `json:"left,omitzero,format:nano"` // the time until the task's deadline; 0: it has none
	Update *BodyUpdate   `json:"update,omitzero"`           // the update, for offer
	Token  *BodyToken    `json:"token,omitzero"`            // the token, for revoke
	Why    policy.Kind   `json:"why,omitzero"`              // the reason, for revoke
}

// BodyRunNews is what has happened to a run.
type BodyRunNews struct {
	Run   string     `json:"run"`
	Whole bool       `json:"whole,omitzero"` // the steps are all of the run; else those that closed since the last news
	Head  *BodyRun   `json:"head,omitzero"`  // the run, for whole news
	Held  bool       `json:"held,omitzero"`  // the body must not go on for now
	Steps []BodyStep `json:"steps,omitzero"`
}

// BodyRun is a run as its body sees it.
type BodyRun struct {
	Workflow   string               `json:"workflow"`
	WorkflowID string               `json:"workflowId,omitzero"`
	Key        string               `json:"key,omitzero"`
	Input      []byte               `json:"input,omitzero"`
	CreatedAt  policy.Time          `json:"createdAt,omitzero"`
	StartedAt  policy.Time          `json:"startedAt,omitzero"`
	Execution  BodyRunLimit         `json:"execution,omitzero"`
	Deadline   BodyRunLimit         `json:"deadline,omitzero"`
	Parent     *BodyParent          `json:"parent,omitzero"`
	Chain      *BodyChain           `json:"chain,omitzero"`
	Updates    []BodyAnswer         `json:"updates,omitzero"`
	Places     map[string]BodyPlace `json:"places,omitzero"` // where branches have published values
	Stop       *BodyStop            `json:"stop,omitzero"`   // the body is asked to stop
	Headers    map[string]string    `json:"headers,omitzero"`
	Ends       uint32               `json:"ends,omitzero"` // how many ends of steps are recorded
}

// BodyRunLimit is the deadline of a run.
type BodyRunLimit struct {
	At     policy.Time   `json:"at,omitzero"`
	After  time.Duration `json:"after,omitzero,format:nano"`
	Warn   policy.Time   `json:"warn,omitzero"`
	Lead   time.Duration `json:"lead,omitzero,format:nano"`
	Origin string        `json:"origin,omitzero"`
}

// BodyParent is the step that has started a run.
type BodyParent struct {
	Run     string `json:"run"`
	Step    uint32 `json:"step"`
	Attempt int    `json:"attempt"`
	Close   string `json:"close"` // cancel, terminate, abandon
	Top     string `json:"top,omitzero"`
	Depth   int    `json:"depth,omitzero"`
}

// BodyChain links runs that continue one another.
type BodyChain struct {
	First        string `json:"first,omitzero"`
	Previous     string `json:"previous,omitzero"`
	Attempt      int    `json:"attempt,omitzero"`
	AfterFailure bool   `json:"afterFailure,omitzero"`
}

// BodyAnswer is an update that the body has accepted.
type BodyAnswer struct {
	Name     string       `json:"name"`
	ID       string       `json:"id"`
	Step     uint32       `json:"step"`
	Answered bool         `json:"answered,omitzero"`
	Output   []byte       `json:"output,omitzero"`
	Failure  *BodyFailure `json:"failure,omitzero"`
}

// BodyPlace is where in the body a value was published.
type BodyPlace struct {
	After string `json:"after,omitzero"`
	Count int    `json:"count,omitzero"`
}

// BodyStop asks the body to stop.
type BodyStop struct {
	Phase   string       `json:"phase"`
	Failure *BodyFailure `json:"failure,omitzero"`
	From    uint32       `json:"from"`
	Ends    uint32       `json:"ends,omitzero"`
	Until   policy.Time  `json:"until,omitzero"`
}

// BodyStep is a step as the body of its run sees it.
type BodyStep struct {
	ID          uint32        `json:"id"`
	Spec        *BodyStepSpec `json:"spec,omitzero"`
	Phase       string        `json:"phase"`
	Reason      policy.Reason `json:"reason,omitzero"`
	Attempts    int           `json:"attempts,omitzero"`
	ScheduledAt policy.Time   `json:"scheduledAt,omitzero"`
	EndedAt     policy.Time   `json:"endedAt,omitzero"`
	Output      []byte        `json:"output,omitzero"`
	Failure     *BodyFailure  `json:"failure,omitzero"`
	Dropped     bool          `json:"dropped,omitzero"`
	Kept        bool          `json:"kept,omitzero"`
	Restarted   bool          `json:"restarted,omitzero"`
	UpdateID    string        `json:"updateId,omitzero"`
	Rank        uint32        `json:"rank,omitzero"`
}

// BodyToken names an attempt.
type BodyToken struct {
	Run     string `json:"run"`
	Step    uint32 `json:"step"`
	Attempt int    `json:"attempt"`
}

// BodyTask is an attempt to execute.
type BodyTask struct {
	Token      BodyToken         `json:"token"`
	StepName   string            `json:"stepName"`
	Workflow   string            `json:"workflow"`
	Type       string            `json:"type"`
	Queue      string            `json:"queue,omitzero"`
	Payload    []byte            `json:"payload,omitzero"`
	Count      int               `json:"count,omitzero"`
	Deadline   policy.Time       `json:"deadline,omitzero"`
	Bound      policy.LimitKind  `json:"bound,omitzero"`
	Heartbeat  int64             `json:"heartbeat,omitzero"`  // microseconds
	Inactivity int64             `json:"inactivity,omitzero"` // microseconds
	Details    []byte            `json:"details,omitzero"`
	Headers    map[string]string `json:"headers,omitzero"`
	Announce   bool              `json:"announce,omitzero"`
	Secret     uint64            `json:"secret,omitzero,string"`
	Confirms   bool              `json:"confirms,omitzero"`
	Group      int               `json:"group,omitzero"`
}

// BodyUpdate is an update for a run.
type BodyUpdate struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Payload []byte `json:"payload,omitzero"`
}
