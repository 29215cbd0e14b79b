package engine

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// Workers execute attempts for an engine. worker.Pool is one; the simulation is another.
type Workers interface {
	// Slots returns how many tasks of the type may run at once here: 0 none (they wait in the queue), -1 unbounded.
	Slots(queue, taskType string) int
	// Dispatch hands over an attempt whose start is durable. It must not block.
	Dispatch(t core.Task)
	// Revoke stops an attempt that has ended; TaskStopped is reported when it is gone. Unknown tokens are reported at once.
	Revoke(tok core.Token, why policy.Kind)
}

// Config configures an engine. Zero values are useful.
type Config struct {
	Journal journal.Journal
	// Workers execute attempts. Where they report to the engine they are made after it: add them by Engine.Serve.
	Workers Workers
	// Matcher counts the slots of all workers of the process. Engines of one process share it; default one of its own.
	Matcher *Matcher
	// Wake is called when a slot may be free for which the partition waits: its driver calls Partition.Match soon. It is
	// called from any goroutine and must not block. An Engine sets its own; default: nobody is called.
	Wake func(queue, taskType string)
	// Partition is which of the journal's partitions a Partition is. An Engine runs all of them.
	Partition int
	// Sent is called when messages for another partition are durable: its driver calls Partition.Expect soon. It must not
	// block. Default: nobody is called.
	Sent  func(partition int)
	Owner string // who holds the partition, for people; default "pid N"
	// Kinds are the kinds of workflows that the engine can run, by the name in journal.Definition.Kind. Required: without
	// one nothing can be started.
	Kinds map[string]Kind
	// BeforeRecovery runs when the partition is held and before any attempt is given out again: what still executes of
	// the previous owner's attempts is ended here. Default: nothing.
	BeforeRecovery func(ctx context.Context) error
	// Now is the clock; default the wall clock. It is read by Engine's loop alone.
	Now func() core.Time
	// MaxPayload bounds an input, output or event payload; default 2 MiB.
	MaxPayload int
	// FeedLimit bounds, in bytes of entries, how much of the journal is kept for consumers that are behind; default 256 MiB.
	// Where it is reached, the feed that is furthest behind lapses.
	FeedLimit int64
	// Retention is how long closed runs are kept; default 0: for ever.
	Retention time.Duration
	// Horizon is how far ahead of now runs are kept in memory for their timers; default 5s.
	Horizon time.Duration
	// Inflight bounds the inputs computed and not yet durable; default 4096.
	Inflight int
	// Random draws the random part of run ids; default math/rand/v2. The simulation gives it a seed.
	Random func() uint64
	// Queues and Services limit what shares a queue or a service, by its name, in all runs of the process together. They
	// replace what definitions say about the same name. Default: no limits.
	Queues, Services map[string]policy.QueueLimits
	// generations counts how often a partition of the process has forgotten its memory.
	generations *atomic.Int64
	Log         *slog.Logger // default discards
}

// StartRequest starts a run.
type StartRequest struct {
	Definition         journal.Definition // the source; registered with its first run
	Input              []byte             // JSON; empty: null
	RunID              core.RunID         // zero: a new one; else made by core.NewRunID with the key that core.KeyOfStart says
	WorkflowID         string
	Key                string // idempotency key: of one workflow the same key with the same input returns the run it made
	OnConflict         Conflict
	At                 core.Time // zero: now
	Execution, Run     *policy.Limit
	ExecutionAt, RunAt core.RunLimit
	Keep               []core.Kept
	Notify             string // workflow id of a run that gets the event core.SignalEnded when the chain has ended
	Actor, Reason      string
}

// Conflict says what happens when a workflow id is taken by an open run.
type Conflict uint8

// The conflict policies.
const (
	ConflictFail Conflict = iota // ErrConflict
	ConflictUse                  // the open run is returned, if it is of the same workflow
)

// Started answers a start.
type Started struct {
	Run      core.RunID
	Existing bool // the run was there before
}

// Outcome is how a run ended.
type Outcome struct {
	Run     core.RunID
	Phase   core.RunPhase
	Output  []byte
	Failure *policy.Failure
}

// API is what callers do with an engine; *Engine implements it.
type API interface {
	// Start makes a run. It returns when the start is durable.
	Start(ctx context.Context, r StartRequest) (Started, error)
	// Result waits until the run has ended. Where a chain goes on it waits for the chain's end; Outcome.Run says which
	// run that was.
	Result(ctx context.Context, id core.RunID) (Outcome, error)
	// Operate applies an operation to the run, or as a whole to the last one of its chain. It returns when it is durable.
	Operate(ctx context.Context, id core.RunID, op core.Operation) error
	// Signal delivers an event to the run, or the last one of its chain.
	Signal(ctx context.Context, id core.RunID, s core.SignalReceived) error
	// Lookup resolves a run id or a workflow id.
	Lookup(ctx context.Context, idOrWorkflowID string) (core.RunID, error)
	// Entries returns a run's history so far, committed entries only, without its first after entries.
	Entries(ctx context.Context, id core.RunID, after int) ([]core.Entry, error)
	// Inspect folds the committed history into a private copy of the run's state.
	Inspect(ctx context.Context, id core.RunID) (*core.Run, error)
	// Watch calls fn with each committed entry of the run after its first after ones, until the run has ended, ctx is done or
	// fn fails.
	Watch(ctx context.Context, id core.RunID, after int, fn func(core.Entry) error) error
	// List lists runs, the newest first, those not yet in the view included.
	List(ctx context.Context, q journal.Query) (journal.Page, error)
	// Definition returns a stored definition.
	Definition(ctx context.Context, id core.DefinitionID) (journal.Definition, error)
	// Stats counts what the engine holds.
	Stats() Stats
	// Feed calls fn with all committed entries, and DropFeed forgets a feed; see Engine.
	Feed(ctx context.Context, name string, fn func(seq uint64, entries []core.Entry) error) error
	DropFeed(ctx context.Context, name string) error
}

// Stats counts what an engine holds and does.
type Stats struct {
	Loaded int    // runs in memory
	Queued int    // attempts waiting for a worker
	Live   int    // attempts in workers' hands
	Seq    uint64 // last durable batch
	Behind int    // runs whose view row is older than the journal
	// SetAside counts runs that stand still because their code panicked, or their definition cannot be used. Their rows
	// in lists say why; the next start tries again.
	SetAside int
	Stalled  string // why no work is taken (a full disk); empty: none
}
