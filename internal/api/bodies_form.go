package api

import (
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// BodiesVersion is the version of the messages between processes that serve workflows and servers, and of what a server
// stores of these workflows. A change that the other side would not understand is a new version. With version 2 both
// sides tell the order in which a body sees the ends of its steps.
const BodiesVersion = 2

// StoredBodyVersion is the version of what a server stores of such a workflow.
const StoredBodyVersion = 1

// BodyWorkflows are the options of a BodiesJoin, in JSON.
type BodyWorkflows struct {
	Version   int            `json:"version"` // BodiesVersion
	Workflows []BodyWorkflow `json:"workflows"`
}

// StoredBodyWorkflow is the stored form of a workflow whose function is in another process.
type StoredBodyWorkflow struct {
	Version  int          `json:"version"` // BodiesVersion
	Workflow BodyWorkflow `json:"workflow"`
}

// BodyNewsList are the news of a News, in JSON.
type BodyNewsList struct {
	Version int        `json:"version"` // BodiesVersion
	News    []BodyNews `json:"news"`
}

// BodyDecisionList are the decisions of Decisions, in JSON.
type BodyDecisionList struct {
	Version   int            `json:"version"` // BodiesVersion
	Decisions []BodyDecision `json:"decisions"`
}

// The structs below have these in common: ids are texts, empty for none; instants are microseconds since 1970, 0 for
// none; durations are nanoseconds; the data of the program is in base64, as its codec has made it. What is zero or
// empty is left out.

// BodyWorkflow is a server's view of a workflow whose function is in another process.
type BodyWorkflow struct {
	Name         string                   `json:"name"`
	Kind         string                   `json:"kind"`            // go
	ID           string                   `json:"id,omitzero"`     // hexadecimal
	Source       []byte                   `json:"source,omitzero"` // the source, whose hash is the id
	Hooks        map[string]*BodyStepSpec `json:"hooks,omitzero"`  // the hooks by the names of their steps
	Retry        *BodyRetry               `json:"retry,omitzero"`  // the retry policy of its runs
	Execution    *BodyLimit               `json:"execution,omitzero"`
	Run          *BodyLimit               `json:"run,omitzero"`
	Compensation time.Duration            `json:"compensation,omitzero,format:nano"`
	Queue        BodyQueue                `json:"queue,omitzero"`
	Cron         *BodyCron                `json:"cron,omitzero"`
}

// BodyQueue is the queue that the runs of a workflow are started into.
type BodyQueue struct {
	Name     string `json:"name,omitzero"`
	Key      string `json:"key,omitzero"` // limits for each key count the runs with this one
	Priority int32  `json:"priority,omitzero"`
}

// BodyCron specifies when the runs of a workflow's chain begin.
type BodyCron struct {
	Cron     string `json:"cron"`
	Zone     string `json:"zone,omitzero"`
	Skipped  string `json:"skipped,omitzero"`
	Repeated string `json:"repeated,omitzero"`
}

// BodyStepSpec is a body's specification of a step.
type BodyStepSpec struct {
	Name     string      `json:"name"`
	Def      int32       `json:"def"`  // -1
	Kind     string      `json:"kind"` // task, sleep, wait, flow, group, send
	Hook     bool        `json:"hook,omitzero"`
	Queue    string      `json:"queue,omitzero"`
	Priority int32       `json:"priority,omitzero"`
	Type     string      `json:"type,omitzero"`
	Event    string      `json:"event,omitzero"`
	Any      []string    `json:"any,omitempty"`
	Update   string      `json:"update,omitzero"`
	Policy   *BodyPolicy `json:"policy,omitzero"`
	Input    []byte      `json:"input,omitzero"`
	Spread   bool        `json:"spread,omitzero"`
	Detached bool        `json:"detached,omitzero"`
	Share    *BodyShare  `json:"share,omitzero"`
}

// BodyShare names whose limits bound the attempts of a step.
type BodyShare struct {
	Queue   string `json:"queue,omitzero"`
	Service string `json:"service,omitzero"`
	Key     string `json:"key,omitzero"`
}

// BodyPolicy specifies how long a step may take and how often it is tried.
type BodyPolicy struct {
	Retry           *BodyRetry `json:"retry,omitzero"`
	ScheduleToStart *BodyLimit `json:"scheduleToStart,omitzero"`
	StartToClose    *BodyLimit `json:"startToClose,omitzero"`
	ScheduleToClose *BodyLimit `json:"scheduleToClose,omitzero"`
	Deadline        *BodyLimit `json:"deadline,omitzero"`
	Heartbeat       *BodyLimit `json:"heartbeat,omitzero"`
	Inactivity      *BodyLimit `json:"inactivity,omitzero"`
	Wait            *BodyLimit `json:"wait,omitzero"`
}

// BodyRetry is a retry policy.
type BodyRetry struct {
	MaxAttempts        int           `json:"maxAttempts"` // -1: no bound
	InitialInterval    time.Duration `json:"initialInterval,omitzero,format:nano"`
	BackoffCoefficient float64       `json:"backoffCoefficient,omitzero"`
	MaxInterval        time.Duration `json:"maxInterval,omitzero,format:nano"`
	Jitter             float64       `json:"jitter,omitzero"`
	JitterKind         string        `json:"jitterKind"` // uniform, decorrelated
	On                 []policy.Kind `json:"on,omitzero"`
	When               string        `json:"when,omitzero"`
	NonRetryable       []string      `json:"nonRetryable,omitzero"`
	MaxLost            int           `json:"maxLost,omitzero"`
	Origin             string        `json:"origin,omitzero"`
}

// BodyLimit is one timeout.
type BodyLimit struct {
	After    time.Duration `json:"after,omitzero,format:nano"`
	At       policy.Time   `json:"at,omitzero"`
	Retry    bool          `json:"retry,omitzero"`
	OnExpire policy.Expire `json:"onExpire"` // fail, cancel
	Warn     int           `json:"warn,omitzero"`
	Removed  bool          `json:"removed,omitzero"`
	Origin   string        `json:"origin,omitzero"`
	Expr     string        `json:"expr,omitzero"`
}

// BodyFailure is why something failed.
type BodyFailure struct {
	Kind         policy.Kind      `json:"kind,omitzero"`
	Type         string           `json:"type,omitzero"`
	Message      string           `json:"message,omitzero"`
	Code         int              `json:"code,omitzero"`
	Details      []byte           `json:"details,omitzero"`
	NonRetryable bool             `json:"nonRetryable,omitzero"`
	RetryAfter   *time.Duration   `json:"retryAfter,omitzero,format:nano"`
	Limit        policy.LimitKind `json:"limit,omitzero"`
	Origin       string           `json:"origin,omitzero"`
	Cause        *BodyFailure     `json:"cause,omitzero"`
	Also         []BodyKnownError `json:"also,omitzero"`
	Encoded      []byte           `json:"encoded,omitzero"`
	Reason       policy.Reason    `json:"reason,omitzero"`
}

// BodyKnownError is an error whose type the program knows.
type BodyKnownError struct {
	Type    string `json:"type"`
	Details []byte `json:"details,omitzero"`
}
