package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/journal"
)

var _ journal.Remembering = (*stores)(nil)

// Seen implements journal.Remembering.
func (s *stores) Seen() journal.Seen { return s.fence.notes.Seen() }

// Learn implements journal.Remembering.
func (s *stores) Learn(others ...journal.Seen) { s.fence.notes.Learn(others...) }

// Verify implements journal.Remembering.
func (s *stores) Verify(ctx context.Context) error {
	return s.layout.Load().each(ctx, func(_ int, at *storage) error {
		return at.wrap("look at", at.again(ctx, at.fence.behind))
	})
}

// trust makes the stores let any connection in, until the function that it returns is called.
func (l *layout) trust() (end func()) {
	add := func(n int32) {
		for _, at := range l.all {
			at.fence.trusting.Add(n)
		}
	}
	add(1)
	return func() { add(-1) }
}

// Stands implements journal.Remembering.
func (s *stores) Stands(ctx context.Context) (journal.Seen, error) {
	l := s.layout.Load()
	defer l.trust()()
	var mu sync.Mutex
	var out journal.Seen
	err := l.each(ctx, func(_ int, at *storage) error {
		var found sight
		err := at.again(ctx, func(ctx context.Context) error {
			c, err := at.pool.Acquire(ctx)
			if err != nil {
				return err
			}
			defer c.Release()
			found, err = at.fence.sight(ctx, c.Conn().PgConn())
			return err
		})
		mu.Lock()
		defer mu.Unlock()
		out.Found(&found.seen)
		for p, stand := range found.seen.Partitions {
			out.Note(p, stand)
		}
		return at.wrap("look at", err)
	})
	return out, err
}

// generationText is the generation of the database, as journal.Generation writes it.
const generationText = "coalesce((SELECT value FROM {schema}.meta WHERE key = 'generation'), '')"

const acceptText = "INSERT INTO {schema}.meta (key, value) VALUES ('generation', $1)" +
	" ON CONFLICT (key) DO UPDATE SET value = excluded.value"

// Accept implements journal.Remembering. The first database is the last to have the new generation: until then this can
// be repeated.
func (s *stores) Accept(ctx context.Context) (journal.Generation, error) {
	if err := s.usable(true); err != nil {
		return journal.Generation{}, err
	}
	found, err := s.Stands(ctx)
	if err != nil {
		return journal.Generation{}, err
	}
	known := s.fence.notes.Seen()
	next := found.Generation
	next.Number = max(next.Number, known.Generation.Number)
	next = next.Next()
	l := s.layout.Load()
	defer l.trust()()
	all := l.all
	for i := len(all) - 1; i >= 0 && err == nil; i-- {
		at := all[i]
		if err = at.begin(ctx); err == nil {
			err = at.wrap("accept", at.again(ctx, func(ctx context.Context) error {
				return at.query(ctx, at.in(acceptText), []any{next.String()}, func(pgx.Rows) error { return nil })
			}))
		}
	}
	if err != nil {
		return journal.Generation{}, err
	}
	found.Generation = next
	s.fence.notes.Forget(found)
	return next, nil
}
