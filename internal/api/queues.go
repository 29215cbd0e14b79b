package api

// QueueReport is what waits for workers, what limits hold back, and who works.
type QueueReport struct {
	At       Time         `json:"at"`
	Queued   int          `json:"queued" doc:"Attempts that wait for a worker, or are held by limits."`
	Running  int          `json:"running" doc:"Attempts in the hands of workers."`
	Loaded   int          `json:"loaded" doc:"Runs in memory."`
	SetAside int          `json:"setAside" doc:"Runs that cannot go on because of an error."`
	Late     Duration     `json:"late,omitzero" doc:"Lateness of the latest timer since the server began."`
	Queues   []TaskQueue  `json:"queues"`
	Services []ServiceUse `json:"services"`
	Limits   []LimitUse   `json:"limits" doc:"Queues of runs, task queues and services that have limits."`
	Workers  []WorkerSeen `json:"workers" doc:"Workers in other processes that came lately."`
}

// TaskQueue is one type of attempts in a task queue.
type TaskQueue struct {
	Queue     string   `json:"queue,omitempty" doc:"Missing: the server's own workers."`
	Type      string   `json:"type"`
	Waiting   int      `json:"waiting"`
	Running   int      `json:"running"`
	Free      *int     `json:"free,omitempty" doc:"Slots that are free; missing: any number."`
	Unserved  bool     `json:"unserved,omitempty" doc:"Attempts wait, and no worker comes for them or is there."`
	Oldest    Time     `json:"oldest,omitzero" doc:"Since when the attempt waits that has waited longest."`
	OldestRun string   `json:"oldestRun,omitempty" doc:"The run of that attempt."`
	PerMinute int      `json:"perMinute" doc:"Attempts that began within the last minute."`
	WaitP50   Duration `json:"waitP50,omitzero" doc:"Median wait of the attempts of the last five minutes."`
	WaitP95   Duration `json:"waitP95,omitzero"`
}

// ServiceUse is how the attempts at one service went.
type ServiceUse struct {
	Service   string `json:"service,omitempty" doc:"Missing: steps without a service."`
	Attempts  int    `json:"attempts" doc:"Attempts that ended within the last five minutes."`
	Retries   int    `json:"retries" doc:"Failed attempts that another one follows."`
	PerMinute int    `json:"perMinute" doc:"Retries within the last minute."`
	Parts     []int  `json:"parts" doc:"Retries of the last five minutes, each part ten seconds, the oldest first."`
	All       int    `json:"all" doc:"Retries since the server began."`
}

// The kinds of what has limits.
const (
	LimitedRuns    = "runs"    // a queue into which runs are started
	LimitedQueue   = "queue"   // a task queue
	LimitedService = "service" // a service that steps use
)

// LimitUse is how much of its limits something has used up.
type LimitUse struct {
	Kind    string       `json:"kind" enum:"runs,queue,service"`
	Name    string       `json:"name"`
	Waiting int          `json:"waiting" doc:"Attempts, or runs, that are held back."`
	Running int          `json:"running"`
	Held    int          `json:"held,omitempty" doc:"Attempts that were held back since the server began."`
	Uses    []UseOf      `json:"uses" doc:"Each limit, with what of it is used."`
	Breaker *BreakerSeen `json:"breaker,omitempty" doc:"Its circuit breaker; missing: it has none."`
	Says    Saying       `json:"says" doc:"State of the limit, in a sentence."`
}

// UseOf is one limit, and what of it is used. For limits for each key, only the limit is shown.
type UseOf struct {
	Limit string   `json:"limit" enum:"concurrency,rate,retries,per_key,key_rate"`
	Most  int      `json:"most"`
	Per   Duration `json:"per,omitzero" doc:"Time within which a rate counts."`
	Used  int      `json:"used,omitempty"`
}

// BreakerSeen is a circuit breaker as it stands.
type BreakerSeen struct {
	Open    bool `json:"open"`
	Failed  int  `json:"failed" doc:"Failures among the last attempts, while it is closed."`
	Opens   int  `json:"opens" doc:"Number of failures at which it opens."`
	Of      int  `json:"of" doc:"Among so many attempts."`
	Probe   Time `json:"probe,omitzero" doc:"Open: when the next probe goes, at the soonest."`
	Probing bool `json:"probing,omitempty" doc:"Open: a probe is on its way."`
	Probes  int  `json:"probes,omitempty" doc:"Open: probes that have failed."`
}

// WorkerSeen is a worker in another process.
type WorkerSeen struct {
	Name    string   `json:"name" doc:"Name that it gives itself."`
	Queue   string   `json:"queue"`
	Types   []string `json:"types,omitempty" doc:"Types of tasks that it takes; missing: all."`
	Since   Time     `json:"since" doc:"Instant of its first request."`
	Last    Time     `json:"last" doc:"Instant of its last request."`
	Asks    bool     `json:"asks" doc:"Set if it waits for tasks at this moment."`
	Running int      `json:"running" doc:"Attempts that it has."`
}
