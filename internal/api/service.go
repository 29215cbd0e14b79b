package api

import "context"

// Service is the interface of callers to runs. Three things implement it: the embedded engine, a reader of a database
// that another process writes, and a client of a server. All methods are safe for concurrent use and return an
// *[Error].
//
// Every method may return CodeClosed, CodeStorage and CodeCancelled. Every method that changes something may also
// return CodeStalled, CodeUncertain and CodeReadOnly. Each method lists further codes.
type Service interface {
	Reader
	// Start makes a run. It returns when the start is durable.
	// Errors: CodeInvalid, CodeTooLarge, CodeConflict (the workflow id has an open run).
	Start(ctx context.Context, r StartRequest) (Started, error)
	// Send delivers a signal to the run, or to the last run of its chain. It returns when the signal is durable.
	// Errors: CodeNotFound, CodeRunClosed, CodeTooLarge, CodeFull.
	Send(ctx context.Context, name string, s SendRequest) error
	// Operate applies an operation. It returns when the operation is durable. An operation that ends, pauses or
	// extends a whole run applies to the last run of its chain. Errors: CodeInvalid, CodeNotFound, CodeConflict,
	// CodeRunClosed, CodeTooLarge.
	Operate(ctx context.Context, name string, op Operation) error
	// Restart starts a new run of the same stored definition, with the same input and new deadlines. Steps that the
	// request does not name keep their results. Errors: CodeNotFound, CodeInvalid, CodeConflict (the run is open
	// under a workflow id).
	Restart(ctx context.Context, name string, r RestartRequest) (Started, error)
	// Stats counts what the engine holds and does. Errors: CodeReadOnly (no engine is behind this service).
	Stats(ctx context.Context) (Stats, error)
}

// Reader is the part of Service that changes nothing.
type Reader interface {
	// Run returns a run with everything that explains it. Errors: CodeNotFound, CodeInvalid (the name fits several
	// runs).
	Run(ctx context.Context, name string) (*Run, error)
	// Runs lists runs, the newest first. Runs that began a moment ago are included. Errors: CodeInvalid.
	Runs(ctx context.Context, q Query) (Page, error)
	// Counts counts the runs of a query by phase, up to MostCounted of each. Errors: CodeInvalid.
	Counts(ctx context.Context, q Query) ([]Count, error)
	// Wait waits until the run has ended. If others follow it in its chain, Wait waits for the last of them. Errors:
	// CodeNotFound.
	Wait(ctx context.Context, name string) (Outcome, error)
	// Watch calls fn with each event of a run whose number is greater than after, in order and without gaps, until the
	// run has ended, ctx is done or fn fails. after is 0, or the number of the last event that the caller has seen.
	// Errors: CodeNotFound, and the error of fn, unchanged.
	Watch(ctx context.Context, name string, after int, fn func(Event) error) error
	// History returns all records of a run as the file that a replay reads; see package history. The bytes are the same
	// until something more happens to the run. Errors: CodeNotFound.
	History(ctx context.Context, name string) ([]byte, error)
	// Forecast returns a run as it would be later if its attempts did as the request assumes: with the attempts, the
	// very delays and the deadlines that will be, until its open steps have ended. Nothing happens to the run. Errors:
	// CodeNotFound, CodeInvalid, and those of Operate for an operation that would be refused.
	Forecast(ctx context.Context, name string, q ForecastRequest) (*Run, error)
	// RunAt returns a run as it was right after one of its events, counted from 1, with what was known then. Errors:
	// CodeNotFound, CodeInvalid (it has no such event).
	RunAt(ctx context.Context, name string, event int) (*Run, error)
	// Definition returns a stored definition by its id. Errors: CodeNotFound.
	Definition(ctx context.Context, id string) (Definition, error)
}

// Stats counts what an engine holds and does.
type Stats struct {
	Loaded int    `json:"loaded"` // runs in memory
	Queued int    `json:"queued"` // attempts that wait for a worker
	Live   int    `json:"live"`   // attempts in workers' hands
	Seq    uint64 `json:"seq"`    // number of the last durable batch
	Behind int    `json:"behind"` // runs whose rows are older than the journal
	// Late is how late the timer was that fired latest since the engine was opened: the deadline, sleep or retry of a
	// run.
	Late    Duration `json:"late,omitzero"`
	Stalled string   `json:"stalled,omitempty"` // why no work is taken, such as a full disk; empty: it is
}

// Definition is a stored workflow definition.
type Definition struct {
	ID     string `json:"id"`     // the hash of its contents, hexadecimal
	Kind   string `json:"kind"`   // the kind of decider that runs it: flow, go
	Name   string `json:"name"`   // the workflow's
	Source string `json:"source"` // the text in the form of its kind
}

// BringsCode reports whether a definition of a kind contains the code of its steps. That of a function only names what
// a program has.
func BringsCode(kind string) bool { return kind != "go" }
