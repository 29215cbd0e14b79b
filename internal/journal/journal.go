// Package journal is the storage seam. A journal is an append-only sequence of batches, the truth, and a view of it:
// rows a person can read and searches can use, written behind in the batches' own commits.
//
// A run's state is never stored: it is the fold of the run's entries, which the view keeps per run (history) once they
// leave the journal's tail. So there is one encoding, of entries, and loading a run is the very replay the tests check.
package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Errors of a journal. Implementations wrap them with what the storage said and what to do.
var (
	ErrFenced    = errors.New("journal: a newer owner has taken the partition")
	ErrFull      = errors.New("journal: no space left on the storage")
	ErrReadOnly  = errors.New("journal: the storage is read-only")
	ErrCorrupt   = errors.New("journal: the storage is corrupt")
	ErrNewer     = errors.New("journal: written by a newer version of Pawl")
	ErrHeld      = errors.New("journal: held by somebody else") // who may go: a later try may succeed
	ErrNotFound  = errors.New("journal: not found")
	ErrLost      = errors.New("journal: the storage failed to sync; what was acknowledged is safe, the process must restart")
	ErrGone      = errors.New("journal: the storage was taken away while it was open")
	ErrNoJournal = errors.New("journal: not a Pawl database")
)

// Ownership is who may append to a partition. The storage decides when an owner is gone: a lease ends with Release, when its
// process or its connection ends, or when the owner has given no sign of life for Lease.Term. That is the one thing for which
// a storage may read a clock of its own.
type Ownership interface {
	// Acquire takes a partition that nobody holds. The appends of its earlier owners fail with ErrFenced from here on.
	// Errors: ErrHeld while another owner is alive, whom the error names.
	Acquire(ctx context.Context, partition int, owner string) (Lease, error)
	// Renew says that the owner with the epoch is alive, and returns where the partition stands now. An owner that lost an
	// append goes on from there, under the same epoch. Errors: ErrFenced, where the partition is no longer its own.
	Renew(ctx context.Context, partition int, epoch uint64) (Lease, error)
	// Release gives the partition back, so that the next owner need not wait. A lease that has ended is not an error.
	Release(ctx context.Context, partition int, epoch uint64) error
}

// HeldBy returns the error of an Acquire that was refused, with the owner's name. It is ErrHeld.
func HeldBy(partition int, owner string) error {
	return fmt.Errorf("%w: partition %d is owned by %s; stop it or wait until it is gone", ErrHeld, partition, owner)
}

// Journal stores one or more partitions. All methods are safe for concurrent use; Append calls of one partition come
// one after the other. But for the end of a lease, every instant a journal needs is an argument: storage reads no clock.
type Journal interface {
	Ownership
	Messages
	// Append makes a batch durable, with the part of the view that is in it: all of it or nothing. It is a sign of life.
	// Errors: ErrFenced, ErrFull (nothing was written, a later Append may succeed), ErrReadOnly, ErrLost, ErrGone.
	Append(ctx context.Context, b *Batch) error
	// Tail calls fn with the batches after seq, in order. fn's entries are its own. Batches that the view comes to contain while
	// fn runs may be left out.
	Tail(ctx context.Context, partition int, after uint64, fn func(seq uint64, entries []core.Entry) error) error
	// History returns what the view holds of a run: its entries in order, through the journal sequence number it is
	// folded to. Entries of later batches are in the tail. ErrNotFound where the view has never seen the run.
	History(ctx context.Context, id core.RunID) (History, error)
	// Partitions returns the partitions that have had an owner, in order, as far as their batches are durable.
	Partitions(ctx context.Context) ([]Span, error)
	// Due returns open runs of the partition with from ≤ wake < before, in wake order, at most limit.
	Due(ctx context.Context, partition int, from, before core.Time, limit int) ([]Due, error)
	// Find returns the run that is open under a workflow id, or that an idempotency key made: of those of a chain, which
	// share the key, the newest. An empty name finds nothing. ErrNotFound.
	Find(ctx context.Context, by Lookup) (core.RunID, error)
	// List returns rows of the view, newest first.
	List(ctx context.Context, q Query) (Page, error)
	// Definition returns a workflow definition's stored source.
	Definition(ctx context.Context, id core.DefinitionID) (Definition, error)
	// Prune deletes closed runs that ended before the instant, at most limit, and returns how many went.
	Prune(ctx context.Context, partition int, before core.Time, limit int) (int, error)
	// Close releases the storage. What was appended is durable already.
	Close() error
}

// Messages is what the partitions of a storage send each other.
type Messages interface {
	// PartitionCount returns how many partitions the storage is divided into. It never changes: where a run lives is worked
	// out from it.
	PartitionCount() int
	// Inbox returns messages for a partition that it has not taken: of each sender those after the given sequence number,
	// in order, at most limit. Where it leaves out some of a sender's, these are the last ones.
	Inbox(ctx context.Context, partition int, after map[int]uint64, limit int) ([]Message, error)
}

// MostPartitions is how many a storage can have: as many as there are partition keys.
const MostPartitions = 1 << 14

// Lease is the ownership of a partition.
type Lease struct {
	Epoch   uint64         // carried by every append
	Term    time.Duration  // how long it lasts without a sign of life of its owner; 0: as long as the journal is open
	Last    uint64         // the last batch's sequence number
	Through uint64         // the view contains every batch up to here
	Taken   map[int]uint64 // by sender: the last message that the partition has taken

	Feeds     []Feed // in the order of their names
	FeedBytes int64  // how many bytes of entries stand after the oldest position of a feed that has not lapsed
}

// Span is what a journal holds of a partition.
type Span struct {
	Partition int
	Last      uint64 // the last batch's sequence number
	Through   uint64 // the view contains every batch up to here
}

// Message is what a partition sends to another one. It is stored with the batch that it follows from, and deleted with the
// batch of the receiver that takes it. So it is there once, whichever of the two crashes.
type Message struct {
	From, To int
	Seq      uint64 // MessageSeq: it grows with each message of the sender
	Encoded  []byte // core.AppendMessage
}

// MessageSeq returns the sequence number of the nth message that a batch sends, from 0.
func MessageSeq(batch uint64, n int) uint64 { return batch<<messageBits | uint64(n) }

// messageBits is the length of a message's number within its batch, and MaxMessages how many a batch may send.
const (
	messageBits = 20
	MaxMessages = 1 << messageBits
)

// Taken says that a partition has taken a sender's messages up to one.
type Taken struct {
	From    int
	Through uint64
}

// Batch is one append. It may hold no entry at all: a part of the view that rides alone, or a probe whether the storage
// takes writes again. A journal does not keep its slices after Append has returned.
type Batch struct {
	Partition   int
	Epoch       uint64
	Seq         uint64 // Last+1, dense
	Entries     []core.Entry
	Encoded     []byte       // the entries encoded already, core.AppendEntry of one after the other; where set, Entries is nil
	Definitions []Definition // first used by this batch; one that is stored already stays as it is
	View        *View        // nil: none
	Out         []Message    // to other partitions, which find them in their inbox from here on; From is the batch's partition
	Taken       []Taken      // what the batch has made of the inbox: these messages go, and do not come again
	Feeds       []Feed       // new positions of feeds
}

// Feed is the position of a named consumer of all entries of a partition. The journal keeps the batches after the oldest
// position, also those that the view contains, until the feed is removed or has lapsed.
type Feed struct {
	Name    string
	Seq     uint64 // the consumer has seen every batch up to here
	Lapsed  bool   // it was too far behind: nothing is kept for it any more
	Removed bool   // in a batch: it is forgotten
}

// View is a part of the view, written in a batch's commit. Rows replace older rows of the same key.
type View struct {
	Runs     []RunRow
	Steps    []StepRow
	Attempts []AttemptRow
	History  []HistoryRow // appended
	Through  uint64       // after this batch the view contains every batch up to here; the journal may drop those that no feed needs
}

// Wake times of rows that mean at once. The next owner of the partition loads these runs first.
const (
	WakeActive   core.Time = 1 // attempts are in flight
	WakeSetAside core.Time = 2 // the run was set aside: its code panicked
)

// RunRow is a run as lists show it. Its columns are for people and searches; state is folded from history.
type RunRow struct {
	ID         core.RunID
	Partition  int
	Workflow   string
	WorkflowID string // empty: the run's id
	Key        string // idempotency key
	Definition core.DefinitionID
	Phase      core.RunPhase
	CreatedAt  core.Time
	EndedAt    core.Time
	Deadline   core.Time // the earlier of the run's deadlines
	Wake       core.Time // when the run wants attention; WakeActive, WakeSetAside: at once; 0: never
	Parent     core.RunID
	Message    string // the failure in a sentence; of an open run: why it is set aside
	Applied    uint64 // journal sequence number the row and the run's history are folded to
}

// StepRow is a step as it stands.
type StepRow struct {
	Run         core.RunID
	Step        core.StepID
	Name        string // the step's key
	Kind        core.StepKind
	Phase       core.StepPhase
	Reason      policy.Reason
	Attempt     int
	ScheduledAt core.Time
	EndedAt     core.Time
	NextAt      core.Time
	Deadline    core.Time
	Message     string
}

// AttemptRow is one attempt.
type AttemptRow struct {
	Run     core.RunID
	Step    core.StepID
	Attempt int
	ReadyAt core.Time
	Started core.Time
	Ended   core.Time
	Worker  string
	Outcome string // "succeeded" or the failure's kind; empty: open
	Limit   policy.LimitKind
	Message string
}

// HistoryRow is a piece of a run's history: entries encoded by core.AppendHistory, or by core.AppendEntry.
type HistoryRow struct {
	Run     core.RunID
	Seq     uint64 // of the first entry's batch; pieces of a run sort by it
	Entries []byte
}

// History is a run's entries as the view holds them.
type History struct {
	Applied uint64
	Entries []core.Entry
}

// Due is a run that wants attention.
type Due struct {
	Run  core.RunID
	Wake core.Time
}

// Lookup finds a run by one of its two names.
type Lookup struct {
	WorkflowID string // of an open run; empty: by the key
	// Key is an idempotency key, of any run, open or not. It belongs to the workflow with that name: another workflow's
	// run with the same key is not found.
	Workflow, Key string
	// Here looks among the runs of Partition alone. With several partitions a key may stand in more than one of them,
	// beside different workflow ids.
	Here      bool
	Partition int
}

// The kinds of definitions.
const (
	KindGo     = "go"     // a Go function; the source names it
	KindFlow   = "flow"   // a flow document; package internal/kind/flow writes and reads the source
	KindBundle = "bundle" // flow documents as the command stored them before; read like KindFlow
)

// Definition is a workflow definition's source.
type Definition struct {
	ID     core.DefinitionID
	Kind   string // KindFlow, KindGo, or another one that whoever stores it knows
	Name   string
	Source []byte
}

// DefaultLimit is the length of a page where a query sets none.
const DefaultLimit = 50

// Query selects runs.
type Query struct {
	Workflow   string
	WorkflowID string
	Phases     []core.RunPhase // empty: all
	After      core.RunID      // the last run of the previous page; zero: from the start
	Limit      int             // default DefaultLimit
}

// Page is one page of a list.
type Page struct {
	Runs []RunRow
	More bool
}
