package sqlite

import (
	"context"
	"crypto/rand"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/journal"
)

// Keys of meta.
const (
	databaseKey   = "database"   // the id of the file, which its copies share; files of before 0.2.0 have none
	generationKey = "generation" // the last one that an operator has accepted; none: the file was never accepted
)

var _ journal.Remembering = (*Journal)(nil)

// newID returns the id of a new file.
func newID() string { return rand.Text() }

// remember compares the file with what was seen of it, when it is opened. A new file begins anew.
func (j *Journal) remember(ctx context.Context, created bool) error {
	found, err := j.Stands(ctx)
	if err != nil {
		return err
	}
	known := j.notes.Seen()
	if created || found.Database != "" && known.Database != found.Database {
		j.notes.Forget(found)
		return nil
	}
	if err := known.Check(&found); err != nil {
		return fmt.Errorf("open %s: %w", j.path, err)
	}
	j.notes.Found(found)
	for n, stand := range found.Partitions {
		j.notes.Note(n, stand)
	}
	return nil
}

// Seen implements journal.Remembering.
func (j *Journal) Seen() journal.Seen { return j.notes.Seen() }

// Learn implements journal.Remembering.
func (j *Journal) Learn(others ...journal.Seen) { j.notes.Learn(others...) }

// Verify implements journal.Remembering.
func (j *Journal) Verify(ctx context.Context) error {
	known := j.notes.Seen() // before it looks
	found, err := j.Stands(ctx)
	if err != nil {
		return err
	}
	return known.Check(&found)
}

// Stands implements journal.Remembering. A partition that never had an owner stands at nothing.
func (j *Journal) Stands(ctx context.Context) (journal.Seen, error) {
	spans, err := j.Partitions(ctx)
	if err != nil {
		return journal.Seen{}, err
	}
	found := journal.Seen{Partitions: map[int]journal.Stand{}}
	for n := range j.count {
		found.Partitions[n] = journal.Stand{}
	}
	for _, s := range spans {
		found.Partitions[s.Partition] = journal.Stand{Last: s.Last}
	}
	err = j.read(ctx, func(c *conn) error {
		err := query(c, "SELECT partition, epoch FROM partitions", nil, func(s *sqlite.Stmt) (bool, error) {
			stand := found.Partitions[s.ColumnInt(0)]
			stand.Epoch = uint64(s.ColumnInt64(1))
			found.Partitions[s.ColumnInt(0)] = stand
			return false, nil
		})
		if err != nil {
			return err
		}
		return accepted(c, &found)
	})
	return found, j.wrap("look at", err)
}

// accepted reads the file's id and generation.
func accepted(c *conn, found *journal.Seen) error {
	return query(c, "SELECT key, value FROM meta WHERE key IN ('"+databaseKey+"', '"+generationKey+"')", nil,
		func(s *sqlite.Stmt) (_ bool, err error) {
			if s.ColumnText(0) == databaseKey {
				found.Database = s.ColumnText(1)
			} else {
				found.Generation, err = journal.ParseGeneration(s.ColumnText(1))
			}
			return false, err
		})
}

// Accept implements journal.Remembering.
func (j *Journal) Accept(ctx context.Context) (journal.Generation, error) {
	found, err := j.Stands(ctx)
	if err != nil {
		return journal.Generation{}, err
	}
	known := j.notes.Seen()
	next := found.Generation
	next.Number = max(next.Number, known.Generation.Number)
	next = next.Next()
	err = j.change(ctx, "accept", func() (int, error) {
		s, err := j.w.conn.stmt("REPLACE INTO meta (key, value) VALUES ('" + generationKey + "', ?1)")
		if err != nil {
			return 0, err
		}
		s.BindText(1, next.String())
		return rowCost, do(s)
	})
	if err != nil {
		return journal.Generation{}, err
	}
	found.Generation = next
	j.notes.Forget(found)
	return next, nil
}
