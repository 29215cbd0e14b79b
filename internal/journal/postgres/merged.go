package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// A request that concerns all partitions goes to all stores at once. A store that does not answer fails the request,
// with its name: a list that silently lacks runs would be worse. Only the rows in a partition's own store count,
// because another store may have a copy that is not complete yet, or not removed yet.

// about returns the stores that may have runs with a workflow id; empty: all. Such runs are where their name
// determines, so a run can be found while the stores of others do not answer.
func (l *layout) about(workflowID string) *layout {
	if workflowID == "" || len(l.all) == 1 {
		return l
	}
	at := l.places[int(core.KeyOfWorkflowID(workflowID))%len(l.places)]
	return &layout{all: l.all[at : at+1], keeps: l.keeps[at : at+1]}
}

func (s *stores) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	l := s.fresh(ctx).about(q.WorkflowID)
	pages := make([]journal.Page, len(l.all))
	err := l.each(ctx, func(i int, at *storage) (err error) {
		pages[i], err = at.list(ctx, q, l.keeps[i])
		return err
	})
	if err != nil || len(pages) == 1 {
		return pages[0], err
	}
	var page journal.Page
	for _, p := range pages {
		page.Runs = append(page.Runs, p.Runs...)
		page.More = page.More || p.More
	}
	slices.SortFunc(page.Runs, q.Order)
	if q.Limit <= 0 {
		q.Limit = journal.DefaultLimit
	}
	if len(page.Runs) > q.Limit {
		page.Runs, page.More = page.Runs[:q.Limit], true
	}
	return page, nil
}

func (s *stores) Find(ctx context.Context, by journal.Lookup) (id core.RunID, err error) {
	l := s.fresh(ctx).about(by.WorkflowID)
	if by.Here {
		at, err := s.at(ctx, by.Partition)
		if err != nil {
			return id, err
		}
		return at.Find(ctx, by)
	}
	found, missing := make([]core.RunID, len(l.all)), make([]error, len(l.all))
	err = l.each(ctx, func(i int, at *storage) error {
		var err error
		if found[i], err = at.find(ctx, by, l.keeps[i]); errors.Is(err, journal.ErrNotFound) {
			missing[i] = err
			return nil
		}
		return err
	})
	if err != nil {
		return id, err
	}
	for _, other := range found { // the newest, or none
		if bytes.Compare(other[:], id[:]) > 0 {
			id = other
		}
	}
	if id == (core.RunID{}) {
		return id, missing[0]
	}
	return id, nil
}

func (s *stores) Partitions(ctx context.Context) ([]journal.Span, error) {
	l := s.fresh(ctx)
	found := make([][]journal.Span, len(l.all))
	err := l.each(ctx, func(i int, at *storage) (err error) {
		found[i], err = at.Partitions(ctx)
		return err
	})
	if err != nil || len(found) == 1 {
		return found[0], err
	}
	var spans []journal.Span
	for i := range found {
		for _, span := range found[i] {
			if l.places[span.Partition] == i {
				spans = append(spans, span)
			}
		}
	}
	slices.SortFunc(spans, func(a, b journal.Span) int { return a.Partition - b.Partition })
	return spans, nil
}

// Definition implements journal.Journal. Definitions belong to no partition: each store has those that its runs need,
// and usually all.
func (s *stores) Definition(ctx context.Context, id core.DefinitionID) (d journal.Definition, err error) {
	l := s.layout.Load()
	var unread error
	for _, at := range l.all {
		if err = at.begin(ctx); err == nil {
			d, err = at.Definition(ctx, id)
		}
		if err == nil {
			return d, nil
		}
		if !errors.Is(err, journal.ErrNotFound) {
			unread = errors.Join(unread, err)
		}
	}
	if unread != nil {
		return d, unread
	}
	return d, err
}

// tellDefinitions stores definitions in the other stores, too: their runs may come to use them without their source. A
// store that does not answer gets them from the next process that uses them.
func (s *stores) tellDefinitions(ctx context.Context, l *layout, own *storage, defs []journal.Definition) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.short())
	defer cancel()
	_ = l.each(ctx, func(_ int, at *storage) error {
		if at == own {
			return nil
		}
		return at.define(ctx, defs)
	})
}

// define stores definitions that are not stored yet.
func (s *storage) define(ctx context.Context, defs []journal.Definition) error {
	st := &statement{}
	if !addDefinitions(&journal.Batch{Definitions: defs}, st) {
		return nil
	}
	return s.query(ctx, s.in("INSERT INTO {schema}.definitions (id, kind, name, source) SELECT * FROM"+
		" unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[]) ON CONFLICT DO NOTHING"), st.args,
		func(pgx.Rows) error { return nil })
}

// Statements returns how many statements were sent to all stores.
func (s *stores) Statements() (n int64) {
	for _, at := range s.layout.Load().all {
		n += at.Statements()
	}
	return n
}

// Bytes returns how large the tables and indexes of all stores are.
func (s *stores) Bytes(ctx context.Context) (int64, error) {
	var sum atomic.Int64
	err := s.fresh(ctx).each(ctx, func(_ int, at *storage) error {
		n, err := at.Bytes(ctx)
		sum.Add(n)
		return err
	})
	return sum.Load(), err
}

// EachRun implements journal.Inspected. It goes through the runs of all stores in one order.
func (s *stores) EachRun(ctx context.Context, fn func(journal.Stored) error) error {
	l := s.fresh(ctx)
	type source struct {
		next func() (journal.Stored, error, bool)
		head journal.Stored
	}
	var open []*source
	for i, at := range l.all {
		if err := at.begin(ctx); err != nil {
			return err
		}
		next, stop := iter.Pull2(at.runs(ctx, l.keeps[i]))
		defer stop()
		open = append(open, &source{next: next})
	}
	advance := func(from *source) error {
		head, err, ok := from.next()
		if !ok {
			open = slices.DeleteFunc(open, func(s *source) bool { return s == from })
		}
		from.head = head
		return err
	}
	for _, from := range slices.Clone(open) {
		if err := advance(from); err != nil {
			return err
		}
	}
	for len(open) > 0 {
		first := slices.MinFunc(open, func(a, b *source) int {
			return bytes.Compare(a.head.Row.ID[:], b.head.Row.ID[:])
		})
		if err := fn(first.head); err != nil {
			return err
		}
		if err := advance(first); err != nil {
			return err
		}
	}
	return nil
}

// runs goes through the runs of a store's partitions. An error is the last it yields.
func (s *storage) runs(ctx context.Context, keeps []int32) iter.Seq2[journal.Stored, error] {
	return func(yield func(journal.Stored, error) bool) {
		enough := errors.New("enough")
		err := s.eachRun(ctx, keeps, func(r journal.Stored) error {
			if !yield(r, nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(journal.Stored{}, err)
		}
	}
}

func (s *stores) Inspect(ctx context.Context) (*journal.Inspection, error) {
	if err := s.readMap(ctx); err != nil {
		return nil, err
	}
	l := s.layout.Load()
	lacking, partial, err := l.lacking(ctx)
	if err != nil || partial {
		return &journal.Inspection{Problems: lacking}, err
	}
	taken := make([]map[int]uint64, s.count) // read before all else: partitions at work go on
	var mu sync.Mutex
	err = l.each(ctx, func(i int, at *storage) error {
		return at.allTaken(ctx, func(p, sender int, through uint64) {
			mu.Lock()
			defer mu.Unlock()
			if p < len(taken) && l.places[p] == i {
				if taken[p] == nil {
					taken[p] = map[int]uint64{}
				}
				taken[p][sender] = through
			}
		})
	})
	if err != nil {
		return nil, err
	}
	found := make([]*inspection, len(l.all))
	err = l.each(ctx, func(i int, at *storage) (err error) {
		found[i], err = at.inspect(ctx, l.keeps[i], taken)
		return err
	})
	if err != nil {
		return nil, err
	}
	sum := found[0]
	sum.Problems = append(lacking, sum.Problems...)
	for _, other := range found[1:] {
		sum.add(other)
	}
	sum.compare(taken)
	for id := range sum.undefined {
		if _, err := s.Definition(ctx, id); errors.Is(err, journal.ErrNotFound) {
			sum.problem("runs whose definition %s is not stored: %d", id, sum.undefined[id])
		}
	}
	return &sum.Inspection, nil
}

// allTaken calls fn for each row of taken.
func (s *storage) allTaken(ctx context.Context, fn func(partition, sender int, through uint64)) error {
	return s.read(ctx, "check", s.in("SELECT partition, sender, through FROM {schema}.taken"), nil, func() {},
		func(r pgx.Rows) error {
			var p, sender int
			var through uint64
			err := r.Scan(&p, &sender, &through)
			fn(p, sender, through)
			return err
		})
}

// add adds the results of another store.
func (i *inspection) add(other *inspection) {
	i.Server += "; " + fmt.Sprintf("%s: %s", other.s.id, other.Server)
	i.Bytes += other.Bytes
	i.Runs, i.Open, i.Steps, i.Attempts = i.Runs+other.Runs, i.Open+other.Open, i.Steps+other.Steps,
		i.Attempts+other.Attempts
	i.Pieces, i.Batches, i.Entries = i.Pieces+other.Pieces, i.Batches+other.Batches, i.Entries+other.Entries
	i.Definitions, i.Messages = max(i.Definitions, other.Definitions), i.Messages+other.Messages
	i.Partitions = append(i.Partitions, other.Partitions...)
	slices.SortFunc(i.Partitions, func(a, b journal.PartitionState) int { return a.Partition - b.Partition })
	for _, p := range other.Problems {
		i.problem("%s: %s", other.s.name, p)
	}
	for id, n := range other.undefined {
		i.undefined[id] += n
	}
}

// compare finds partitions that have taken messages which their sender has not sent: its store is a copy from before.
func (i *inspection) compare(taken []map[int]uint64) {
	for _, sender := range i.Partitions {
		for p := range taken {
			if after := journal.MessageSeq(sender.Last+1, 0); taken[p][sender.Partition] >= after {
				i.problem("partition %d has taken a message of a later batch than the last one of partition %d, which"+
					" is %d: the stores were restored to different times", p, sender.Partition, sender.Last)
			}
		}
	}
}
