// Package journal is the interface between engine and storage. A journal is an append-only sequence of batches, and it
// is the truth. Its view has rows that people and searches can read. The view is written later, in the commits of other
// batches.
//
// A run's state is never stored. It is computed from the run's entries. The view keeps them in its history after they
// leave the journal's tail. So only entries need an encoding, and loading a run is the same as the replay that the
// tests check.
package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Errors of a journal. Implementations wrap them with the storage's own error and with advice.
var (
	ErrFenced   = errors.New("journal: a newer owner has taken the partition")
	ErrFull     = errors.New("journal: no space left on the storage")
	ErrReadOnly = errors.New("journal: the storage is read-only")
	ErrCorrupt  = errors.New("journal: the storage is corrupt")
	ErrNewer    = errors.New("journal: written by a newer version of Pawl")
	ErrHeld     = errors.New("journal: held by somebody else") // a later try may succeed
	ErrNotFound = errors.New("journal: not found")
	ErrLost     = errors.New(
		"journal: the storage failed to sync; what was acknowledged is safe, the process must restart")
	ErrNoAnswer  = errors.New("journal: the storage does not answer") // only a read returns it; a later try may succeed
	ErrGone      = errors.New("journal: the storage was taken away while it was open")
	ErrNoJournal = errors.New("journal: not a Pawl database")
	// ErrBehind means that a database lacks what was seen of it: it is another primary, or a restored copy. Nothing is
	// read or written there. A later try may succeed, since the address may lead to the right one again.
	ErrBehind = errors.New("journal: this database went back")
)

// Stalls reports whether an error means that the storage does not work at present: a later try may succeed.
func Stalls(err error) bool {
	return errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrFull) || errors.Is(err, ErrReadOnly) ||
		errors.Is(err, ErrBehind)
}

// Ownership decides who may append to a partition. The storage decides when an owner is gone: after Release, when its
// process or its connection ends, or when it has not given a sign of life for Lease.Term. A storage may read a clock of
// its own only for that.
type Ownership interface {
	// Acquire takes a partition that has no owner. From now on the appends of its earlier owners fail with ErrFenced.
	// Errors: ErrHeld while another owner is alive; the error names that owner.
	Acquire(ctx context.Context, partition int, owner string) (Lease, error)
	// Renew is a sign of life of the owner with the epoch. It returns the partition's current state. After a failed
	// append the owner goes on from that state, with the same epoch. Errors: ErrFenced if the partition has another
	// owner now.
	Renew(ctx context.Context, partition int, epoch uint64) (Lease, error)
	// Release gives the partition back, so that the next owner need not wait. If the lease has ended already, this is
	// not an error.
	Release(ctx context.Context, partition int, epoch uint64) error
}

// Blockable is a storage that can tell what holds up the commits of a partition.
type Blockable interface {
	// Blocker describes who holds up a commit, for people; empty if nobody does, or that cannot be read.
	Blocker(ctx context.Context, partition int) string
}

// HeldError is the error of a refused Acquire. It is ErrHeld.
type HeldError struct {
	Partition int
	Owner     string
	Term      time.Duration // the time without a sign of life until another one is let in; 0: the owner is alive
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%v: partition %d is owned by %s; stop it or wait until it is gone",
		ErrHeld, e.Partition, e.Owner)
}

// Unwrap makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Unwrap() error { return ErrHeld }

// heldLook is how often WhileHeld tries again.
const heldLook = 100 * time.Millisecond

// WhileHeld calls open until its error is not ErrHeld any more. If the context ends before, it returns who holds the
// journal. Before it waits for the first time it calls tell.
func WhileHeld(ctx context.Context, open func() error, tell func(error)) error {
	var held error
	for {
		err := open()
		switch {
		case held != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return held
		case !errors.Is(err, ErrHeld):
			return err
		case held == nil && ctx.Err() == nil:
			tell(err)
		}
		held = err
		select {
		case <-ctx.Done():
			return held
		case <-time.After(heldLook):
		}
	}
}

// Journal stores one or more partitions. All methods are safe for concurrent use. The Append calls of one partition
// come one after the other. A storage reads no clock, except for the end of a lease: instants are arguments.
type Journal interface {
	Ownership
	Remembering
	Messages
	Documents
	// Append makes a batch durable, with its part of the view: all of it or nothing. It is a sign of life. Errors:
	// ErrFenced, ErrFull (nothing was written, a later Append may succeed), ErrReadOnly, ErrLost, ErrGone.
	Append(ctx context.Context, b *Batch) error
	// Tail calls fn with the batches after seq, in order. fn may keep the entries. If the view gets some of these
	// batches while fn runs, Tail may leave them out.
	Tail(ctx context.Context, partition int, after uint64, fn func(seq uint64, entries []core.Entry) error) error
	// History returns what the view has of a run: its entries in order, up to the batch History.Applied. Entries of
	// later batches are in the tail. Errors: ErrNotFound if the view has never had the run.
	History(ctx context.Context, id core.RunID) (History, error)
	// Partitions returns the partitions that have ever had an owner, in order, with their durable batches.
	Partitions(ctx context.Context) ([]Span, error)
	// Due returns open runs of the partition with from ≤ wake < before, in wake order, at most limit.
	Due(ctx context.Context, partition int, from, before core.Time, limit int) ([]Due, error)
	// Find returns the run that is open under a workflow id, or the run that was started with an idempotency key. The
	// runs of a chain share a key; Find returns the newest. An empty name finds nothing. Errors: ErrNotFound.
	Find(ctx context.Context, by Lookup) (core.RunID, error)
	// List returns rows of the view, in the order of the query.
	List(ctx context.Context, q Query) (Page, error)
	// Definition returns the stored source of a workflow definition.
	Definition(ctx context.Context, id core.DefinitionID) (Definition, error)
	// Prune deletes closed runs of which the view has the end. It returns how many it deleted.
	Prune(ctx context.Context, partition int, old Old) (int, error)
	// Close releases the storage. Acknowledged batches are durable already.
	Close() error
}

// Old selects closed runs of a partition: one of them, or those that ended first.
type Old struct {
	Run    core.RunID // zero: those that ended before Before
	Before core.Time
	Limit  int // how many there are at most; one run has none
}

// Messages are messages between the partitions of a storage.
type Messages interface {
	// PartitionCount returns how many partitions the storage has. It never changes, because the partition of a run is
	// computed from it.
	PartitionCount() int
	// Inbox returns messages that a partition has not taken: of each sender those after the given sequence number, in
	// order, at most limit. If it leaves out messages of a sender, it leaves out the last ones.
	Inbox(ctx context.Context, partition int, after map[int]uint64, limit int) ([]Message, error)
}

// MostPartitions is how many partitions a storage can have: as many as there are partition keys.
const MostPartitions = 1 << 14

// Lease is the ownership of a partition.
type Lease struct {
	Epoch   uint64         // every append carries it
	Term    time.Duration  // how long it lasts without a sign of life; 0: while the journal is open
	Last    uint64         // sequence number of the last batch
	Through uint64         // the view has every batch up to here
	Taken   map[int]uint64 // the last message from each sender that the partition has taken

	Feeds     []Feed // the feeds in the order of their names
	FeedBytes int64  // bytes of entries after the oldest position of a feed that has not lapsed
}

// Span is which batches a journal has of a partition.
type Span struct {
	Partition int
	Last      uint64 // sequence number of the last batch
	Through   uint64 // the view has every batch up to here
}

// Message is a message of a partition to another one, or one that it keeps for its own runs. It is stored in the same
// commit as its cause, and deleted in the same commit as its effect. So it is taken exactly once, even if sender or
// receiver crashes.
type Message struct {
	From, To int
	Seq      uint64 // MessageSeq; it grows with each message of the sender
	Encoded  []byte // the form that core.AppendMessage gives it
}

// MessageSeq returns the sequence number of a batch's nth message, counted from 0.
func MessageSeq(batch uint64, n int) uint64 { return batch<<messageBits | uint64(n) }

// messageBits is the length of a message's number within its batch. MaxMessages is how many messages a batch may send.
const (
	messageBits = 20
	MaxMessages = 1 << messageBits
)

// Taken notes that a partition has received the messages of a sender up to a sequence number.
type Taken struct {
	From    int
	Through uint64
}

// Batch is the content of one Append. It may have no entries, only a part of the view. It may also be empty, to find
// out whether the storage accepts writes again. A journal does not keep its slices after Append has returned.
type Batch struct {
	Partition   int
	Epoch       uint64
	Seq         uint64 // the last number plus one, without gaps
	Entries     []core.Entry
	Encoded     []byte       // the encoded entries, one after the other (core.AppendEntry); if set, Entries is nil
	Large       []Large      // where Encoded has large entries, in order
	Definitions []Definition // first used by this batch; a definition that is stored already does not change
	View        *View        // nil: none
	// Out has messages to other partitions, and to the partition itself. From here on they are in those inboxes. From
	// is the batch's partition.
	Out   []Message
	Taken []Taken // messages of the inbox that the batch has taken; they are deleted
	Feeds []Feed  // new positions of feeds
	// Documents are put and deleted with the batch, in order. Their keys begin with OfPartition(Partition).
	Documents []Document
}

// Feed is the position of a named consumer that reads all entries of a partition. The journal keeps the batches after
// the oldest position, even if the view has them, until the feed is removed or has lapsed.
type Feed struct {
	Name    string
	Seq     uint64 // the consumer has seen every batch up to here
	Lapsed  bool   // it was too far behind: nothing is kept for it any longer
	Removed bool   // the batch deletes the feed
}

// View is a part of the view, written in the commit of a batch. A row replaces the older row with the same key.
type View struct {
	Runs     []RunRow
	Steps    []StepRow
	Attempts []AttemptRow
	History  []HistoryRow // appended
	// New are runs without an earlier row: everything that the view has of them from now on is here. They, and the rows
	// of their steps, attempts and histories, are in the order of Runs.
	New []core.RunID
	// The view has every batch up to Through after this one. The journal may delete those that no feed needs.
	Through uint64
}

// Wake times that mean "at once". The next owner of the partition loads these runs first.
const (
	WakeActive   core.Time = 1 // attempts are live
	WakeSetAside core.Time = 2 // the run was set aside, because its code panicked
)

// RunRow is a run as lists show it. Its columns are for people and searches. The run's state is computed from history.
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
	Wake       core.Time // the run's wake time; WakeActive, WakeSetAside: at once; 0: never
	Parent     core.RunID
	Message    string // the failure in a sentence; for an open run: why it is set aside
	Applied    uint64 // the batch up to which the row and the history are written
	Labels     core.Labels
	// Told are the words of the run, in the form of package trail; empty if the other columns tell them. They begin
	// with Applied: an older version of Pawl replaces a row and leaves them as they are.
	Told string
	// Retrying: a step of the open run backs off, or is tried again. Journals find it in the rows of steps.
	Retrying bool
}

// StepRow is the current state of a step.
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

// Retrying reports whether an open step backs off or is tried again.
func (s *StepRow) Retrying() bool {
	return s.EndedAt == 0 && (s.Phase == core.StepBackingOff || s.Attempt > 1)
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
	Outcome string // "succeeded" or the kind of the failure; empty: open
	Limit   policy.LimitKind
	Message string
}

// HistoryRow is a piece of a run's history: entries encoded by core.AppendHistory, or by core.AppendEntry.
type HistoryRow struct {
	Run     core.RunID
	Seq     uint64 // the sequence of the first entry's batch; the pieces of a run are sorted by it
	Entries []byte
	Large   []Large // where Entries has large entries, in order
}

// LargeEntry is from how many bytes on an encoded entry is large.
const LargeEntry = 32 << 10

// Large is a large entry's place among encoded entries: a journal may store it once, for the batch and for the history.
// The entry has been encoded by core.AppendEntry in both.
type Large struct {
	Run      core.RunID
	Seq      uint64 // the entry's batch
	From, To int
}

// History is a run's entries in the view.
type History struct {
	Applied uint64
	Entries []core.Entry
	Size    int // the size of the entries in bytes, as they are stored
}

// Due is a run whose wake time is near or past.
type Due struct {
	Run  core.RunID
	Wake core.Time
}

// Lookup finds a run by its workflow id or by its key.
type Lookup struct {
	WorkflowID string // the workflow id of an open run; empty: find by the key
	// Key is the idempotency key of a run, open or closed. It belongs to the workflow with that name: a run of another
	// workflow with the same key is not found.
	Workflow, Key string
	// Here looks only among the runs of Partition. With several partitions, more than one of them may have the key,
	// with different workflow ids.
	Here      bool
	Partition int
}

// The kinds of definitions.
const (
	KindGo   = "go"   // a Go function; the source has its name
	KindFlow = "flow" // a flow document; package internal/kind/flow encodes and decodes the source
)

// Definition is the source of a workflow definition.
type Definition struct {
	ID     core.DefinitionID
	Kind   string // KindFlow, KindGo, or a kind that only its package knows
	Name   string
	Source []byte
}

// DefaultLimit is the length of a page if a query sets none.
const DefaultLimit = 50

// Query selects runs. The newest come first, or with ByDeadline those with the soonest deadline.
type Query struct {
	Workflow   string
	WorkflowID string
	Phases     []core.RunPhase // empty: all
	Labels     core.Labels     // all of them
	// CreatedFrom and CreatedBefore bound when the runs were created: from ≤ created < before. Zero: no bound.
	CreatedFrom, CreatedBefore core.Time
	// Stuck selects the open runs that were set aside, and those in Bodies: runs that only their process knows to be
	// stuck.
	Stuck  bool
	Bodies map[core.RunID]bool
	Parent core.RunID // the run whose steps started the children; zero: any
	Top    bool       // no child runs
	// Retrying selects open runs of which a step backs off or is tried again.
	Retrying bool
	// ByDeadline selects open runs that have a deadline, the soonest first. DeadlineBefore bounds it; zero: no bound.
	ByDeadline     bool
	DeadlineBefore core.Time
	After          core.RunID // the last run of the previous page; zero: begin with the first page
	AfterDeadline  core.Time  // its deadline, with ByDeadline
	Limit          int        // default DefaultLimit
}

// GoOn makes a query continue after a row.
func (q *Query) GoOn(last *RunRow) { q.After, q.AfterDeadline = last.ID, last.Deadline }

// Order compares two rows by their places in the list.
func (q *Query) Order(a, b RunRow) int {
	if q.ByDeadline {
		return cmp.Or(cmp.Compare(a.Deadline, b.Deadline), bytes.Compare(a.ID[:], b.ID[:]))
	}
	return bytes.Compare(b.ID[:], a.ID[:])
}

// Follows reports whether a row has its place after the previous page.
func (q *Query) Follows(row *RunRow) bool {
	return q.After == core.RunID{} || q.Order(*row, RunRow{ID: q.After, Deadline: q.AfterDeadline}) > 0
}

// Selects reports whether a query asks for a row, on whatever page.
func (q *Query) Selects(row *RunRow) bool {
	stuck := !row.Phase.Closed() && (row.Wake == WakeSetAside || q.Bodies[row.ID])
	return (q.Workflow == "" || q.Workflow == row.Workflow) &&
		(q.WorkflowID == "" || q.WorkflowID == row.WorkflowID) &&
		(len(q.Phases) == 0 || slices.Contains(q.Phases, row.Phase)) &&
		(q.Labels == "" || row.Labels.HasAll(q.Labels)) &&
		(q.CreatedFrom == 0 || q.CreatedFrom <= row.CreatedAt) &&
		(q.CreatedBefore == 0 || row.CreatedAt < q.CreatedBefore) &&
		(q.Parent == core.RunID{} || q.Parent == row.Parent) &&
		(!q.Top || row.Parent == core.RunID{}) &&
		(!q.Retrying || row.Retrying) &&
		(!q.ByDeadline || row.EndedAt == 0 && row.Deadline > 0) &&
		(q.DeadlineBefore == 0 || row.Deadline < q.DeadlineBefore) &&
		(!q.Stuck || stuck)
}

// Page is one page of a list.
type Page struct {
	Runs []RunRow
	More bool
}
