package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// A request that concerns one partition goes to the store that keeps it.

// Acquire implements journal.Journal. It reads the map first, because a partition that has no owner may have moved.
func (s *stores) Acquire(ctx context.Context, n int, name string) (journal.Lease, error) {
	_ = s.readMap(ctx) // an old one is as good: the partition's row decides
	at, err := s.at(ctx, n)
	if err != nil {
		return journal.Lease{}, err
	}
	l, err := at.Acquire(ctx, n, name)
	if !errors.Is(err, journal.ErrHeld) {
		return l, err
	}
	if moved, settleErr := s.settle(ctx, n); !moved || settleErr != nil {
		return journal.Lease{}, errors.Join(settleErr, err)
	}
	if at, err = s.at(ctx, n); err != nil {
		return journal.Lease{}, err
	}
	return at.Acquire(ctx, n, name)
}

// ofOne returns the error of a store. The loss of another store than the first one is not the loss of the journal, so
// its kind is left out: only the partitions in it stop.
func (s *stores) ofOne(at *storage, err error) error {
	if at == s.storage || errors.Is(err, journal.ErrFenced) {
		return err
	}
	for _, lost := range []error{journal.ErrGone, journal.ErrNoJournal, journal.ErrNewer, journal.ErrCorrupt} {
		if errors.Is(err, lost) {
			return fmt.Errorf("%v", err) //nolint:errorlint // see above
		}
	}
	return err
}

func (s *stores) Renew(ctx context.Context, n int, epoch uint64) (journal.Lease, error) {
	at, err := s.at(ctx, n)
	if err != nil {
		return journal.Lease{}, err
	}
	l, err := at.Renew(ctx, n, epoch)
	return l, s.ofOne(at, err)
}

func (s *stores) Release(ctx context.Context, n int, epoch uint64) error {
	at, err := s.at(ctx, n)
	if err != nil {
		return err
	}
	return at.Release(ctx, n, epoch)
}

func (s *stores) Append(ctx context.Context, b *journal.Batch) error {
	at, err := s.at(ctx, b.Partition)
	if err != nil {
		return err
	}
	if err := at.Append(ctx, b); err != nil {
		return s.ofOne(at, err)
	}
	if l := s.layout.Load(); len(l.all) > 1 {
		if len(b.Definitions) > 0 {
			s.tellDefinitions(ctx, l, at, b.Definitions)
		}
		if b.Seq%trimEvery == 0 {
			s.trimSenders(ctx, l, at, b.Partition)
		}
	}
	return nil
}

func (s *stores) Tail(
	ctx context.Context, n int, after uint64, fn func(seq uint64, entries []core.Entry) error,
) error {
	at, err := s.at(ctx, n)
	if err != nil {
		return err
	}
	return at.Tail(ctx, n, after, fn)
}

func (s *stores) Due(ctx context.Context, n int, from, before core.Time, limit int) ([]journal.Due, error) {
	at, err := s.at(ctx, n)
	if err != nil {
		return nil, err
	}
	return at.Due(ctx, n, from, before, limit)
}

func (s *stores) History(ctx context.Context, id core.RunID) (journal.History, error) {
	at, err := s.at(ctx, int(core.PartitionKey(id))%s.count)
	if err != nil {
		return journal.History{}, err
	}
	return at.History(ctx, id)
}

// Prune implements journal.Journal. Nothing is deleted while the partition moves, since a copy of it may exist already.
func (s *stores) Prune(ctx context.Context, n int, old journal.Old) (int, error) {
	if err := s.readMap(ctx); err != nil {
		return 0, err
	}
	l := s.layout.Load()
	if n >= 0 && n < s.count && l.places[n] != l.targets[n] {
		return 0, nil
	}
	at, err := s.at(ctx, n)
	if err != nil {
		return 0, err
	}
	return at.Prune(ctx, n, old)
}

// Inbox implements journal.Journal. The messages that a partition has sent are in its receiver's store, and those that
// it has taken in its own. While a store does not answer, nothing comes from its partitions, and all from the others.
func (s *stores) Inbox(
	ctx context.Context, partition int, after map[int]uint64, limit int,
) ([]journal.Message, error) {
	own, err := s.at(ctx, partition)
	if err != nil {
		return nil, err
	}
	l := s.layout.Load()
	if len(l.all) == 1 {
		return own.Inbox(ctx, partition, after, limit)
	}
	taken, err := own.takenBy(ctx, partition)
	if err != nil {
		return nil, err
	}
	for sender, through := range after {
		taken[sender] = max(taken[sender], through)
	}
	found, errs := make([][]journal.Message, len(l.all)), make([]error, len(l.all))
	var all sync.WaitGroup
	for i, at := range l.all {
		all.Go(func() {
			ctx := ctx
			if at != own {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, s.short())
				defer cancel()
			}
			if errs[i] = at.begin(ctx); errs[i] == nil {
				found[i], errs[i] = at.inbox(ctx, partition, l.keeps[i], taken, limit)
			}
			if at != own && errs[i] == nil && len(found[i]) > 0 {
				if errs[i] = at.replicated(ctx, found[i][0].From); errs[i] != nil {
					found[i] = nil
				}
			}
		})
	}
	all.Wait()
	for i, at := range l.all {
		if at == own && errs[i] != nil {
			return nil, errs[i]
		}
	}
	out := slices.Concat(found...)
	slices.SortStableFunc(out, func(a, b journal.Message) int { return cmp.Compare(a.From, b.From) })
	return out, nil
}

// takenBy reads which messages a partition has taken, by sender.
func (s *storage) takenBy(ctx context.Context, partition int) (taken map[int]uint64, err error) {
	err = s.read(ctx, "inbox", s.in("SELECT sender, through FROM {schema}.taken WHERE partition = $1"),
		[]any{partition}, func() { taken = map[int]uint64{} }, func(r pgx.Rows) error {
			var sender int
			var through uint64
			err := r.Scan(&sender, &through)
			taken[sender] = through
			return err
		})
	return taken, err
}

const trimSendersText = "DELETE FROM {schema}.inbox i USING unnest($2::int[], $3::bigint[]) AS t (sender, through)" +
	" WHERE i.target = $1 AND i.sender = t.sender AND i.seq <= t.through"

// trimSenders deletes the messages that a partition has taken in the stores of their senders. If that fails, the next
// one does it.
func (s *stores) trimSenders(ctx context.Context, l *layout, own *storage, partition int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.short())
	defer cancel()
	taken, err := own.takenBy(ctx, partition)
	if err != nil {
		return
	}
	var senders []int32
	var through []int64
	for sender, last := range taken {
		senders, through = append(senders, int32(sender)), append(through, int64(last))
	}
	_ = l.each(ctx, func(_ int, at *storage) error {
		if at == own {
			return nil // its own trim has done it
		}
		return at.query(ctx, at.in(trimSendersText), []any{partition, senders, through},
			func(pgx.Rows) error { return nil })
	})
}

// FindDocuments implements journal.Documents. The range is within the documents of one partition, or has none of any.
func (s *stores) FindDocuments(
	ctx context.Context, from, before string, last bool, limit int,
) ([]journal.Document, error) {
	at, err := s.keeps(ctx, from)
	if err != nil {
		return nil, err
	}
	return at.FindDocuments(ctx, from, before, last, limit)
}

// ReadDocuments implements journal.Documents. Either all keys are of one partition, or none is of any.
func (s *stores) ReadDocuments(ctx context.Context, keys ...string) ([]journal.Document, error) {
	first := ""
	if len(keys) > 0 {
		first = keys[0]
	}
	at, err := s.keeps(ctx, first)
	if err != nil {
		return nil, err
	}
	return at.ReadDocuments(ctx, keys...)
}

// keeps returns the store of a document.
func (s *stores) keeps(ctx context.Context, key string) (*storage, error) {
	if n, ok := journal.PartitionOf(key); ok {
		return s.at(ctx, n)
	}
	return s.storage, nil
}
