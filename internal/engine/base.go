package engine

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// base is shared by all parts of a partition: its configuration, its time, and its reads of the journal.
type base struct {
	cfg        Config
	defs       *definitions
	partitions int             // how many the journal has
	ctx        context.Context // the context of reads of the journal
	now        core.Time       // never goes back
	readErr    error           // why the open batch must not be saved; see noteTemporary
}

// heart is the parts' view of their partition: it advances runs. It is not an interface, because inputs would then be
// put on the heap.
type heart struct{ of *Partition }

// advance gives an input to a run; see Partition.advance.
func (h heart) advance(r *run, def *core.Definition, in core.Input) error {
	return h.of.advance(r, def, in)
}

// get returns a run of this partition, and reads it if it is not in memory.
func (h heart) get(id core.RunID) (*run, error) { return h.of.get(id) }

// current returns the last run of the chain that an id belongs to.
func (h heart) current(id core.RunID) (*run, error) { return h.of.current(id) }

// send sends a message to another run, of this partition or another one.
func (h heart) send(m core.Message) { h.of.send(m) }

// settle carries out what follows inside the partition from the inputs so far.
func (h heart) settle() { h.of.settle() }

// at moves the partition's time forward. If the clock went back, the time stays.
func (b *base) at(now core.Time) { b.now = max(b.now, now) }

// home returns the partition of a partition key.
func (b *base) home(key uint16) int { return int(key) % b.partitions }

// owns reports whether a run lives in this partition.
func (b *base) owns(id core.RunID) bool {
	return b.partitions == 1 || b.home(core.PartitionKey(id)) == b.cfg.Partition
}

// ownKey returns a partition key of this partition, chosen by a random number.
func (b *base) ownKey(random uint16) uint16 {
	n := b.partitions
	return uint16(int(random)%(journal.MostPartitions/n)*n + b.cfg.Partition)
}

// acquire makes this process the owner of the partition, or renews its ownership since an epoch; zero: it is not the
// owner.
func (b *base) acquire(ctx context.Context, epoch uint64) (journal.Lease, error) {
	if epoch != 0 {
		return b.cfg.Journal.Renew(ctx, b.cfg.Partition, epoch)
	}
	return b.cfg.Journal.Acquire(ctx, b.cfg.Partition, b.cfg.Owner)
}

// history reads what the view has of a run.
func (b *base) history(id core.RunID) (journal.History, error) {
	return b.cfg.Journal.History(b.ctx, id)
}

// lookup finds a run of this partition in the view.
func (b *base) lookup(by journal.Lookup) (core.RunID, bool, error) {
	by.Here, by.Partition = true, b.cfg.Partition
	id, err := b.cfg.Journal.Find(b.ctx, by)
	if errors.Is(err, journal.ErrNotFound) {
		return core.RunID{}, false, nil
	}
	return id, err == nil, err
}

// noteTemporary reports whether a run could not be read because of an error that may go away, such as a network
// failure.
//
// Then the input of that run is not in the open batch, so the batch must not be saved. The error is kept: the
// partition's memory is dropped, and everything happens again when the journal can be read.
func (b *base) noteTemporary(err error) bool {
	if err == nil || errors.Is(err, journal.ErrNotFound) || errors.Is(err, journal.ErrCorrupt) || permanent(err) {
		return false
	}
	if b.readErr == nil {
		b.readErr = err
	}
	return true
}

// unreadable reports whether a run could not be read. If it can never be read, that is logged: the run does not get
// its input, and the others go on.
func (b *base) unreadable(err error, what string, about ...any) bool {
	if err != nil && !b.noteTemporary(err) {
		b.cfg.Log.Error(what, append(append([]any{"id", "run-unreadable"}, about...), "error", err)...)
	}
	return err != nil
}

// ReadError returns why the open batch must not be saved, or nil if it may be saved. The driver calls Failed with the
// error as soon as no other batch is on its way to the journal.
func (b *base) ReadError() error { return b.readErr }
