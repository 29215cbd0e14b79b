package engine

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// Config configures an engine. Zero values are useful.
type Config struct {
	Journal journal.Journal
	// Workers execute attempts. Workers that report to the engine must be made after it; add them with Engine.Serve.
	Workers slots.Workers
	// Matcher counts the slots of all workers of the process. Engines of one process share it. Default: a new one.
	Matcher *slots.Matcher
	// Wake is called when a slot may be free for which the partition waits. The driver of the partition then calls
	// Partition.Match soon. Wake is called from any goroutine and must not block. An Engine sets its own. Default:
	// none.
	Wake func(queue, taskType string)
	// Partition is the number of the partition, for NewPartition. An Engine runs all partitions.
	Partition int
	// Shared says that engines of other processes own partitions of the same journal. Then Open opens none; Engine.Take
	// and Engine.Give determine which ones this engine runs. The journal needs leases.
	Shared bool
	// Sent is called when messages to another partition are durable. The driver of that partition then calls
	// Partition.Expect soon. Sent must not block. Default: none.
	Sent func(partition int)
	// Owner is shown to people as the owner of the partition. Default: "pid N".
	Owner string
	// Kinds are the kinds of workflows that the engine can run, by the name in journal.Definition.Kind. It is required:
	// without a kind no run can be started.
	Kinds map[string]Kind
	// BeforeRecovery is called by Open, before the engine takes over a partition and starts any attempt. It ends
	// processes that the previous owner left behind. Default: none.
	BeforeRecovery func(ctx context.Context) error
	// Now is the clock. Only the loop of an Engine reads it. Default: the wall clock.
	Now func() core.Time
	// MaxPayload bounds an input, an output or an event's payload, in bytes. Default: 2 MiB.
	MaxPayload int
	// FeedLimit bounds how much of the journal is kept for consumers of feeds that are behind, in bytes of entries. At
	// the limit the feed that is furthest behind lapses. Default: 256 MiB.
	FeedLimit int64
	// Retention is how long closed runs are kept. Default: 0, which means forever.
	Retention time.Duration
	// Horizon is how long before their wake time runs are loaded into memory. Default: 5s.
	Horizon time.Duration
	// Inflight bounds the number of entries that are not durable yet. Default: 4096.
	Inflight int
	// Random returns the random part of run ids. The simulation uses a seeded one. Default: rand.Uint64 of
	// math/rand/v2.
	Random func() uint64
	// MaxDepth bounds how many runs may be above a child run, MaxFamily how many child runs of one family may be open
	// at once. A child run beyond these is not started, and its step fails. Defaults: 32 and 100,000.
	MaxDepth, MaxFamily int
	// Carried are the runs that the engine carries on; the others rest. nil: all runs.
	Carried *Carried
	// Queues and Services limit what shares a queue or a service, by its name, in all runs of the process together.
	// They replace those of definitions for the same name. Default: no limits.
	Queues, Services map[string]policy.QueueLimits
	// Log is the log. Default: none.
	Log      *slog.Logger
	Observer Observer // zero if nobody is told
	// generations counts how often the partitions of the process have forgotten their memory.
	generations *atomic.Int64
	families    *families // the open child runs of all partitions of the process
}

// StartRequest starts a run.
type StartRequest struct {
	// Start holds the initial data of the run. Its Definition and Workflow are replaced by Definition below. Input is
	// bytes, which the definition may check. With Key, a second start of the same workflow with the same key and the
	// same input returns the run that the first one created. Chain.AfterFailure means that the last run of the workflow
	// failed; the engine looks for it if the definition recalls it.
	core.Start
	Definition journal.Definition // its source is stored with the workflow's first run
	// RunID is the id of the new run. Zero: the engine makes one. Otherwise it must be made by core.NewRunID with the
	// partition key that core.KeyOfStart returns.
	RunID      core.RunID
	OnConflict Conflict
	// Newest is the newest run of the workflow id that the caller has looked at, open or not; zero: there was none. The
	// start is refused with CodeConflict if another one is the newest in the batch that would make the run. Nil: any.
	Newest *core.RunID
	// Caller is the name under which Carried knows for whom the run is carried on. It is not stored.
	Caller string
}

// Conflict decides what a start does if an open run has the same workflow id.
type Conflict uint8

// The conflict policies.
const (
	ConflictFail    Conflict = iota // fails with ErrConflict
	ConflictUse                     // returns the open run, if it is of the same workflow
	ConflictReplace                 // terminates the open run
)

// Started answers a start.
type Started struct {
	Run      core.RunID
	Existing bool // the run existed before
}

// AlreadyStarted is the cause of CodeConflict where a start is refused for the newest run of its workflow id.
type AlreadyStarted struct {
	Run  core.RunID // zero: the run that the start names is gone
	Open bool       // the run has not ended
}

// Error says which run it is.
func (a AlreadyStarted) Error() string {
	switch {
	case a.Open:
		return fmt.Sprintf("the open run %s has this workflow id", a.Run)
	case a.Run == core.RunID{}:
		return "no run has this workflow id any more"
	}
	return fmt.Sprintf("run %s had this workflow id meanwhile", a.Run)
}

// Outcome is how a run ended.
type Outcome struct {
	Run     core.RunID
	Phase   core.RunPhase
	Output  []byte
	Failure *policy.Failure
}

// API is the interface of callers to an engine; *Engine implements it.
type API interface {
	// Start creates a run. It returns when the start is durable.
	Start(ctx context.Context, r StartRequest) (Started, error)
	// Result waits until the run has ended. If the chain goes on, it waits until the chain has ended. Outcome.Run is
	// the last run of the chain.
	Result(ctx context.Context, id core.RunID) (Outcome, error)
	// Operate applies an operation. It returns when the operation is durable. An operation on the whole run goes to the
	// last run of its chain, unless it retries the run.
	Operate(ctx context.Context, id core.RunID, op core.Operation) error
	// Signal delivers an event to the last run of the chain. It returns when the event is durable.
	Signal(ctx context.Context, id core.RunID, s core.SignalReceived, expected bool) error
	// Lookup finds a run by its run id or its workflow id.
	Lookup(ctx context.Context, idOrWorkflowID string) (core.RunID, error)
	// Entries returns the durable entries of a run, except the first after ones.
	Entries(ctx context.Context, id core.RunID, after int) ([]core.Entry, error)
	// Inspect returns the run's state, computed from its durable entries. The caller may keep it.
	Inspect(ctx context.Context, id core.RunID) (*core.Run, error)
	// Watch calls fn with each durable entry of the run, except the first after ones. It returns when the run has
	// ended, ctx is done or fn fails.
	Watch(ctx context.Context, id core.RunID, after int, fn func(core.Entry) error) error
	// List lists runs, the newest first. It includes runs that the view does not have yet.
	List(ctx context.Context, q journal.Query) (journal.Page, error)
	// Definition returns a stored definition.
	Definition(ctx context.Context, id core.DefinitionID) (journal.Definition, error)
	// Stats counts what the engine holds.
	Stats() Stats
	// BeginFeed makes a feed. Feed calls fn with all durable entries. DropFeed forgets a feed. See Engine.
	BeginFeed(ctx context.Context, name string) error
	Feed(ctx context.Context, name string, fn func(partition int, seq uint64, entries []core.Entry) error) error
	DropFeed(ctx context.Context, name string) error
}

// QueueStats are the numbers of the attempts of one type in a task queue.
type QueueStats struct {
	Queue, Type string
	Waiting     int    // attempts that wait for a worker, or because of limits that they share
	Running     int    // attempts that have a slot of a worker
	Free        int    // slots that are free; -1: any number
	Waits       []Wait // the attempts that wait, at most 1000 of each partition
}

// Wait is an attempt that waits.
type Wait struct {
	Run   core.RunID
	Since core.Time
	Held  core.Held // why, if a worker could take it
}

// Stats counts what an engine holds and does.
type Stats struct {
	Loaded int    // runs in memory
	Queued int    // attempts that wait for a worker
	Live   int    // attempts that workers execute
	Seq    uint64 // the last durable batch; with several partitions the sum over them
	Behind int    // runs whose rows in the view are out of date
	// SetAside counts runs that cannot go on because their code panicked or their definition cannot be used. Lists show
	// the reason. After a restart they are tried again.
	SetAside int
	// Late is the largest delay of any timer since the engine was opened: of the deadline, sleep or retry of a run. A
	// timer that was due while no engine was open counts from the opening.
	Late    time.Duration
	Wake    core.Time // when a run next does something on its own; zero: never
	Next    core.Time // when the engine has something to do next, for a run or for itself; zero: never
	Moving  bool      // something is on its way to the journal, or from it
	Stalled string    // why the engine takes no requests, for example a full disk; empty if it takes them
}

// withDefaults fills in the defaults, except for the clock, whose default is in clock.read.
func (c Config) withDefaults() Config {
	if c.Matcher == nil {
		c.Matcher = slots.NewMatcher()
	}
	if c.Workers != nil {
		c.Matcher.Add("", c.Workers)
		c.Workers = nil // the matcher has them now; a second call must not add them again
	}
	if c.MaxDepth <= 0 {
		c.MaxDepth = 32
	}
	if c.MaxFamily <= 0 {
		c.MaxFamily = 100_000
	}
	if c.families == nil {
		c.families = &families{open: make(map[core.RunID]int)}
	}
	if c.generations == nil {
		c.generations = new(atomic.Int64)
	}
	if c.Wake == nil {
		c.Wake = func(string, string) {}
	}
	if c.Sent == nil {
		c.Sent = func(int) {}
	}
	if c.Owner == "" {
		c.Owner = fmt.Sprintf("pid %d", os.Getpid())
	}
	if c.MaxPayload <= 0 {
		c.MaxPayload = 2 << 20
	}
	if c.FeedLimit <= 0 {
		c.FeedLimit = 256 << 20
	}
	if c.Horizon <= 0 {
		c.Horizon = 5 * time.Second
	}
	if c.Inflight <= 0 {
		c.Inflight = 4096
	}
	if c.Random == nil {
		c.Random = rand.Uint64
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
