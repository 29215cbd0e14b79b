package api

// The causes for which something needs a person.
const (
	CauseFailed   = "failed"    // runs ended badly
	CauseWillMiss = "will_miss" // runs will miss their deadlines
	CauseStuck    = "stuck"     // runs cannot go on until somebody acts
	CauseSchedule = "schedule"  // a schedule cannot go on, or its runs fail one after the other
	CauseWebhook  = "webhook"   // a webhook is disabled, or its messages do not arrive
	CauseFlow     = "flow"      // a flow cannot be started
	CauseWaits    = "waits"     // runs wait for an event that a person sends
	CausePaused   = "paused"    // somebody has paused runs
)

// Attention is what needs a person, the worst first.
type Attention struct {
	Concerns []Concern `json:"concerns"`
	More     bool      `json:"more,omitempty" doc:"There are more runs than were looked at."`
}

// Concern is one thing that needs a person: runs with the same cause, a schedule, a webhook or a flow.
type Concern struct {
	ID    string   `json:"id" doc:"Identifier that stays the same until the concern changes."`
	Key   string   `json:"key" doc:"Key that stays the same as long as the concern exists, however it changes."`
	Cause string   `json:"cause"`
	Level Level    `json:"level"`
	Says  Saying   `json:"says"`
	Why   *Saying  `json:"why,omitempty"`
	Name  string   `json:"name" doc:"The workflow, schedule, webhook or flow."`
	At    Time     `json:"at,omitzero" doc:"Since when it is so; of deadlines the first one."`
	Runs  int      `json:"runs,omitempty" doc:"Number of runs it is about."`
	Of    []string `json:"of,omitempty" doc:"The ids of these runs, the newest first, at most 100."`
}

// The types of the messages of webhooks that tell when something needs a person.
const (
	EventAttentionRaised  = "attention.raised"
	EventAttentionCleared = "attention.cleared"
)

// AttentionEvent is the content of such a message.
type AttentionEvent struct {
	Concern
	Since Time `json:"since" doc:"When it was raised."`
}

// Level is how bad a concern is.
type Level string

// The levels, the worst first.
const (
	LevelBad  Level = "bad"
	LevelWarn Level = "warn"
	LevelInfo Level = "info"
)

// Overview shows how the runs of a period went, and what is next.
type Overview struct {
	Histogram
	Open     int           `json:"open" doc:"Runs that are open now, also those that began before."`
	Retrying int           `json:"retrying" doc:"Open runs of which a step is tried again."`
	Queued   int           `json:"queued" doc:"Attempts that wait for a worker now."`
	Late     Duration      `json:"late,omitzero" doc:"Lateness of the latest timer since the server began."`
	Counted  Counted       `json:"counted" doc:"Figures over time."`
	Flows    []FlowFigures `json:"flows" doc:"The same by workflow, those with the most runs first."`
	Due      []Due         `json:"due" doc:"Everything that is due within the hour, the soonest first."`
}

// Counted is what was counted over a span of time, minute by minute. It is kept in the database: a restart loses none
// of it. Child runs are not counted.
type Counted struct {
	Since Time     `json:"since" doc:"Beginning of the counting. Older figures come from the runs that are kept."`
	From  Time     `json:"from"`
	Each  Duration `json:"each" doc:"The length of each part: whole minutes."`
	Parts []Sample `json:"parts" doc:"The parts of the span, the oldest first."`
	All   Sample   `json:"all"`
}

// Sample is what was counted in a part of a span of time.
type Sample struct {
	Started int      `json:"started" doc:"Runs that began."`
	Failed  int      `json:"failed" doc:"Runs that failed or timed out."`
	Retries int      `json:"retries" doc:"Attempts after which another one followed."`
	RunP95  Duration `json:"runP95,omitzero" doc:"95 of 100 runs that ended took at most so long."`
	WaitP95 Duration `json:"waitP95,omitzero" doc:"95 of 100 attempts waited at most so long for a worker."`
	Late    Duration `json:"late,omitzero" doc:"Lateness of the latest timer."`
}

// Histogram is how the runs of a span of time went, by when they began.
type Histogram struct {
	From  Time      `json:"from"`
	To    Time      `json:"to"`
	Each  Duration  `json:"each" doc:"The length of each part of the span."`
	Parts []Figures `json:"parts" doc:"The parts of the span, the oldest first, by when runs began."`
	All   Figures   `json:"all"`
	More  bool      `json:"more,omitempty" doc:"Older runs of the span were left out."`
}

// Suggestion is a possible continuation of a search text.
type Suggestion struct {
	Term string `json:"term" doc:"Term that replaces the last one; one that ends with a colon goes on."`
	Says string `json:"says,omitempty" doc:"Meaning of the term."`
}

// Figures count the runs that began in a span of time.
type Figures struct {
	Runs   int      `json:"runs"`
	Failed int      `json:"failed" doc:"Runs that failed or timed out."`
	Open   int      `json:"open,omitempty" doc:"Runs that have not ended."`
	P50    Duration `json:"p50,omitzero" doc:"Median time of the runs that ended."`
	P95    Duration `json:"p95,omitzero"`
}

// FlowFigures are the figures of one workflow.
type FlowFigures struct {
	Workflow string `json:"workflow"`
	Figures
	Retrying int `json:"retrying,omitempty"`
}

// The kinds of due events.
const (
	DueDeadline = "deadline" // the deadline of a run
	DueMissed   = "missed"   // a deadline that the run will miss
	DueFiring   = "firing"   // a schedule starts a run
)

// Due is something that happens soon.
type Due struct {
	At   Time   `json:"at"`
	Kind string `json:"kind"`
	Name string `json:"name" doc:"The workflow id of the run, or the schedule."`
	Run  string `json:"run,omitempty"`
}
