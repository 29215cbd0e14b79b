// Package memory is a journal in memory, for tests and for the simulation. What was appended survives [Journal.Reopen],
// as a file survives its process. [Journal.Fault] makes any call fail.
package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// ErrClosed is returned by a journal that was closed, or that Reopen has replaced.
var ErrClosed = errors.New("journal: closed")

// Op is an operation of the journal, as Fault gets it.
type Op string

// The operations. OpAck comes after an append was stored: an error there is a lost acknowledgement.
const (
	OpAcquire    Op = "acquire"
	OpRenew      Op = "renew"
	OpRelease    Op = "release"
	OpAppend     Op = "append"
	OpAck        Op = "ack"
	OpTail       Op = "tail"
	OpHistory    Op = "history"
	OpDue        Op = "due"
	OpFind       Op = "find"
	OpList       Op = "list"
	OpDefinition Op = "definition"
	OpPrune      Op = "prune"
	OpInbox      Op = "inbox"
	OpPartitions Op = "partitions"

	OpPutDocuments  Op = "put documents"
	OpFindDocuments Op = "find documents"
	OpReadDocuments Op = "read documents"
	OpNodes         Op = "nodes"
)

// Journal is a journal in memory, see [New].
type Journal struct {
	// Fault is called before each operation, and with OpAck after an append. If it returns an error, the operation
	// returns that error. b is the batch for OpAppend and OpAck, and nil for others. Set Fault before the journal is
	// shared. If it is nil, nothing fails.
	Fault func(op Op, b *journal.Batch) error

	// Term is how long a lease lasts without a sign of life of its owner, by the clock Now. Set both before the journal
	// is shared. Default 0: until Release, Close or Reopen.
	Term time.Duration
	Now  func() core.Time

	mu    *sync.Mutex // guards the disk, for everyone who shares it
	disk  *disk
	gone  bool
	count int // the number of partitions
}

// New returns an empty journal with one partition.
func New() *Journal { return NewPartitions(1) }

// NewPartitions returns an empty journal with that many partitions.
func NewPartitions(count int) *Journal {
	return &Journal{mu: new(sync.Mutex), disk: newDisk(), count: count}
}

func (j *Journal) PartitionCount() int { return j.count }

// Reopen does what a crash does: it returns a new journal with everything that was durable, and with the same Fault.
// The old one returns ErrClosed from then on.
func (j *Journal) Reopen() *Journal {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leave()
	return j.again()
}

// again returns the journal as another process opens it.
func (j *Journal) again() *Journal {
	return &Journal{Fault: j.Fault, Term: j.Term, Now: j.Now, mu: j.mu, disk: j.disk, count: j.count}
}

// leave closes the journal and ends its leases, like the end of a process does.
func (j *Journal) leave() {
	if j.gone {
		return
	}
	j.gone = true
	for _, p := range j.disk.partitions {
		p.owner = ""
	}
}

// Close closes the journal; Reopen opens it again.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leave()
	return nil
}

// enter locks the journal for one operation. The caller must unlock it if there was no error.
func (j *Journal) enter(ctx context.Context, op Op, b *journal.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.mu.Lock()
	if j.gone {
		j.mu.Unlock()
		return ErrClosed
	}
	if j.Fault != nil {
		if err := j.Fault(op, b); err != nil {
			j.mu.Unlock()
			return err
		}
	}
	return nil
}

func (j *Journal) Acquire(ctx context.Context, partition int, owner string) (journal.Lease, error) {
	if err := j.enter(ctx, OpAcquire, nil); err != nil {
		return journal.Lease{}, err
	}
	defer j.mu.Unlock()
	p := j.disk.partition(partition)
	if j.alive(p) {
		return journal.Lease{}, &journal.HeldError{Partition: partition, Owner: p.owner, Term: j.Term}
	}
	if owner == "" {
		owner = "somebody"
	}
	p.epoch++
	p.owner = owner
	return j.lease(p), nil
}

// lease returns the lease of a partition's owner, which is alive.
func (j *Journal) lease(p *partition) journal.Lease {
	if j.Term > 0 {
		p.until = j.Now().Add(j.Term)
	}
	l := journal.Lease{Epoch: p.epoch, Term: j.Term, Last: p.last, Through: p.through}
	for _, name := range slices.Sorted(maps.Keys(p.feeds)) {
		l.Feeds = append(l.Feeds, p.feeds[name])
	}
	if oldest, ok := p.oldestFeed(); ok {
		for _, b := range p.batches {
			if b.seq > oldest {
				l.FeedBytes += int64(len(b.entries))
			}
		}
	}
	if len(p.taken) > 0 {
		l.Taken = maps.Clone(p.taken)
	}
	return l
}

// owned returns an error if the epoch is not that of the partition's owner.
func (p *partition) owned(n int, epoch uint64) error {
	if p.owner == "" || epoch != p.epoch {
		return fmt.Errorf("%w: partition %d has epoch %d, the owner %d", journal.ErrFenced, n, p.epoch, epoch)
	}
	return nil
}

// Expire ends a partition's lease, as if its owner's signs of life did not arrive. It is for tests, and for journals
// with a Term.
func (j *Journal) Expire(partition int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.disk.partition(partition).until = 0
}

// Holder returns who has the lease of a partition, and whether it has not ended; empty if nobody has it.
func (j *Journal) Holder(partition int) (owner string, alive bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.disk.partition(partition)
	return p.owner, j.alive(p)
}

// alive reports whether a partition has an owner whose lease has not ended.
func (j *Journal) alive(p *partition) bool {
	return p.owner != "" && (j.Term == 0 || j.Now() < p.until)
}

func (j *Journal) Renew(ctx context.Context, partition int, epoch uint64) (journal.Lease, error) {
	if err := j.enter(ctx, OpRenew, nil); err != nil {
		return journal.Lease{}, err
	}
	defer j.mu.Unlock()
	p := j.disk.partition(partition)
	if err := p.owned(partition, epoch); err != nil {
		return journal.Lease{}, err
	}
	return j.lease(p), nil
}

func (j *Journal) Release(ctx context.Context, partition int, epoch uint64) error {
	if err := j.enter(ctx, OpRelease, nil); err != nil {
		return err
	}
	defer j.mu.Unlock()
	if p := j.disk.partition(partition); p.epoch == epoch {
		p.owner = ""
	}
	return nil
}

func (j *Journal) Append(ctx context.Context, b *journal.Batch) error {
	if err := j.enter(ctx, OpAppend, b); err != nil {
		return err
	}
	defer j.mu.Unlock()
	p := j.disk.partition(b.Partition)
	if err := p.owned(b.Partition, b.Epoch); err != nil {
		return err
	}
	j.lease(p)
	if b.Seq != p.last+1 {
		return fmt.Errorf("journal: batch %d of partition %d does not follow batch %d", b.Seq, b.Partition, p.last)
	}
	if err := j.disk.append(p, b); err != nil {
		return err
	}
	if j.Fault != nil {
		return j.Fault(OpAck, b)
	}
	return nil
}

func (j *Journal) Partitions(ctx context.Context) ([]journal.Span, error) {
	if err := j.enter(ctx, OpPartitions, nil); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	var spans []journal.Span
	for _, n := range slices.Sorted(maps.Keys(j.disk.partitions)) {
		if p := j.disk.partitions[n]; p.epoch > 0 {
			spans = append(spans, journal.Span{Partition: n, Last: p.last, Through: p.through})
		}
	}
	return spans, nil
}

func (j *Journal) Tail(
	ctx context.Context, partition int, after uint64, fn func(seq uint64, entries []core.Entry) error,
) error {
	if err := j.enter(ctx, OpTail, nil); err != nil {
		return err
	}
	batches := slices.Clone(j.disk.partition(partition).batches) // fn may call the journal
	j.mu.Unlock()
	for _, b := range batches {
		if b.seq <= after {
			continue
		}
		entries, err := core.ReadEntries(b.entries)
		if err != nil {
			return fmt.Errorf("%w: batch %d: %w", journal.ErrCorrupt, b.seq, err)
		}
		if err := fn(b.seq, entries); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (j *Journal) Inbox(
	ctx context.Context, partition int, after map[int]uint64, limit int,
) (out []journal.Message, err error) {
	if err := j.enter(ctx, OpInbox, nil); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	inbox := j.disk.partition(partition).inbox
	for _, from := range slices.Sorted(maps.Keys(inbox)) {
		n := 0
		for _, m := range inbox[from] {
			if m.Seq > after[from] && n < limit {
				m.Encoded = slices.Clone(m.Encoded)
				out = append(out, m)
				n++
			}
		}
	}
	return out, nil
}

func (j *Journal) History(ctx context.Context, id core.RunID) (journal.History, error) {
	if err := j.enter(ctx, OpHistory, nil); err != nil {
		return journal.History{}, err
	}
	defer j.mu.Unlock()
	row, ok := j.disk.runs[id]
	if !ok {
		return journal.History{}, fmt.Errorf("%w: run %s", journal.ErrNotFound, id)
	}
	h := journal.History{Applied: row.Applied}
	for _, piece := range j.disk.history[id] {
		for rest := piece.Entries; len(rest) > 0; {
			e, after, err := core.ReadHistory(id, rest)
			if err != nil {
				return journal.History{}, fmt.Errorf("%w: history of run %s: %w", journal.ErrCorrupt, id, err)
			}
			h.Entries = append(h.Entries, e)
			rest = after
		}
	}
	return h, nil
}

func (j *Journal) Find(ctx context.Context, by journal.Lookup) (core.RunID, error) {
	if err := j.enter(ctx, OpFind, nil); err != nil {
		return core.RunID{}, err
	}
	defer j.mu.Unlock()
	for _, id := range j.disk.newest() {
		r := j.disk.runs[id]
		if by.Here && r.Partition != by.Partition {
			continue
		}
		if by.WorkflowID != "" && r.WorkflowID == by.WorkflowID && !r.Phase.Closed() {
			return id, nil
		}
		if by.WorkflowID == "" && by.Key != "" && r.Key == by.Key && r.Workflow == by.Workflow {
			return id, nil
		}
	}
	return core.RunID{}, fmt.Errorf("%w: no run with workflow id %q, or key %q of workflow %q",
		journal.ErrNotFound, by.WorkflowID, by.Key, by.Workflow)
}

func (j *Journal) Definition(ctx context.Context, id core.DefinitionID) (journal.Definition, error) {
	if err := j.enter(ctx, OpDefinition, nil); err != nil {
		return journal.Definition{}, err
	}
	defer j.mu.Unlock()
	d, ok := j.disk.definitions[id]
	if !ok {
		return journal.Definition{}, fmt.Errorf("%w: definition %s", journal.ErrNotFound, id)
	}
	d.Source = slices.Clone(d.Source)
	return d, nil
}
