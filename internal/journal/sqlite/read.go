package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// read calls fn with a reading connection. Keep each call short: while a snapshot is held, the write-ahead log cannot
// be copied into the file, and it grows.
func (j *Journal) read(ctx context.Context, fn func(c *conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	readers := j.readers
	if journal.IsUrgent(ctx) {
		readers = j.urgentReaders
	}
	conn, ok := <-readers
	if !ok {
		return ErrClosed
	}
	if isClosed(j.closing) {
		readers <- conn
		return ErrClosed
	}
	err := error(nil)
	if conn == nil {
		if conn, err = openReader(j.path); err != nil {
			readers <- nil
			return j.wrap("open", err)
		}
	}
	err = fn(conn)
	readers <- conn
	return err
}

// query runs a prepared statement on a reading connection. bind sets its parameters. row is called for each row, and
// stops the query by returning true.
func query(c *conn, text string, bind func(*sqlite.Stmt), row func(*sqlite.Stmt) (stop bool, err error)) error {
	s, err := c.stmt(text)
	if err != nil {
		return err
	}
	if bind != nil {
		bind(s)
	}
	for {
		found, err := s.Step()
		if err != nil {
			return err // Step has reset the statement
		}
		stop := !found
		if found {
			stop, err = row(s)
		}
		if stop || err != nil {
			if resetErr := s.Reset(); err == nil {
				err = resetErr
			}
			return err
		}
	}
}

func (j *Journal) Partitions(ctx context.Context) (spans []journal.Span, err error) {
	// One statement reads one snapshot. The newest row of a partition is never deleted.
	const newest = "SELECT p.partition, j.id, j.through FROM partitions p LEFT JOIN journal j ON j.id =" +
		" (SELECT max(id) FROM journal WHERE id BETWEEN p.partition << ?1 AND (p.partition << ?1) + ?2)" +
		" ORDER BY p.partition"
	err = j.read(ctx, func(c *conn) error {
		return j.wrap("partitions", query(c, newest,
			func(s *sqlite.Stmt) {
				s.BindInt64(1, seqBits)
				s.BindInt64(2, seqMask)
			},
			func(s *sqlite.Stmt) (bool, error) {
				spans = append(spans, journal.Span{
					Partition: s.ColumnInt(0), Last: uint64(s.ColumnInt64(1)) & seqMask,
					Through: uint64(s.ColumnInt64(2)),
				})
				return false, nil
			}))
	})
	return spans, err
}

// tailBytes bounds how many bytes one read of the tail loads into memory.
const tailBytes = 4 << 20

type tailBatch struct {
	seq     uint64
	entries []byte
}

// Tail implements journal.Journal. It holds no snapshot while fn runs. If the journal deletes batches meanwhile, Tail
// goes on after them.
func (j *Journal) Tail(
	ctx context.Context, partition int, after uint64, fn func(seq uint64, entries []core.Entry) error,
) error {
	begun := false
	for {
		batches, err := j.tail(ctx, partition, after)
		if err != nil || len(batches) == 0 {
			return err
		}
		for i, b := range batches {
			if begun && b.seq != after+1 {
				through := uint64(0) // batches from the same read cannot have a gap
				if i == 0 {
					through, err = j.through(ctx, partition)
				}
				if err == nil && through < b.seq-1 {
					err = j.wrap("tail", fmt.Errorf("%w: batch %d follows batch %d", core.ErrBroken, b.seq, after))
				}
				if err != nil {
					return err
				}
			}
			begun, after = true, b.seq
			entries, err := core.ReadEntries(b.entries)
			if err != nil {
				return j.wrap("tail", fmt.Errorf("batch %d of partition %d: %w", b.seq, partition, err))
			}
			if err := fn(b.seq, entries); err != nil {
				return err
			}
		}
	}
}

// tail reads some batches after one.
func (j *Journal) tail(ctx context.Context, partition int, after uint64) (batches []tailBatch, err error) {
	size := 0
	err = j.read(ctx, func(c *conn) error {
		return j.wrap("tail", query(c, "SELECT id, sum, entries FROM journal WHERE id > ? AND id <= ? ORDER BY id",
			func(s *sqlite.Stmt) {
				s.BindInt64(1, rowID(partition, after))
				s.BindInt64(2, rowID(partition, seqMask))
			},
			func(s *sqlite.Stmt) (bool, error) {
				b := tailBatch{seq: uint64(s.ColumnInt64(0)) & seqMask}
				b.entries, err = c.entries(s, 1)
				if err != nil {
					return true, fmt.Errorf("batch %d of partition %d: %w", b.seq, partition, err)
				}
				batches = append(batches, b)
				size += len(b.entries)
				return size >= tailBytes, nil
			}))
	})
	return batches, err
}

// through reads the watermark: the view contains every batch up to it.
func (j *Journal) through(ctx context.Context, partition int) (seq uint64, err error) {
	err = j.read(ctx, func(c *conn) error {
		return j.wrap("tail", query(c, "SELECT through FROM journal WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1",
			func(s *sqlite.Stmt) {
				s.BindInt64(1, rowID(partition, 0))
				s.BindInt64(2, rowID(partition, seqMask))
			},
			func(s *sqlite.Stmt) (bool, error) { seq = uint64(s.ColumnInt64(0)); return true, nil }))
	})
	return seq, err
}

// blob reads the columns sum and entries, which must be next to each other.
func (c *conn) blob(s *sqlite.Stmt, column int) ([]byte, error) {
	b := make([]byte, s.ColumnLen(column+1))
	s.ColumnBytes(column+1, b)
	if sum(b) != s.ColumnInt64(column) {
		return nil, fmt.Errorf("%w: the checksum of its %d bytes does not match", core.ErrBroken, len(b))
	}
	return b, nil
}

func readPiece(run core.RunID, entries []core.Entry, src []byte) ([]core.Entry, error) {
	for len(src) > 0 {
		e, rest, err := core.ReadHistory(run, src)
		if err != nil {
			return entries, err
		}
		entries = append(entries, e)
		src = rest
	}
	return entries, nil
}

func (j *Journal) History(ctx context.Context, id core.RunID) (h journal.History, err error) {
	found := false
	err = j.read(ctx, func(c *conn) (err error) {
		h, found, err = historyOf(c, id)
		return j.wrap("history", err)
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: run %s", journal.ErrNotFound, id)
	}
	if err != nil {
		return journal.History{}, err
	}
	return h, nil
}

// historyOf reads row and history in one statement, so both are from one snapshot.
func historyOf(c *conn, id core.RunID) (h journal.History, found bool, err error) {
	err = query(c, "SELECT r.applied, h.seq, h.sum, h.entries FROM runs_data r LEFT JOIN history h ON h.run = r.id"+
		" WHERE r.id = ? ORDER BY h.seq",
		func(s *sqlite.Stmt) { s.BindBytes(1, id[:]) },
		func(s *sqlite.Stmt) (bool, error) {
			found = true
			h.Applied = uint64(s.ColumnInt64(0))
			if s.ColumnIsNull(1) {
				return false, nil
			}
			src, err := c.entries(s, 2)
			if err == nil {
				h.Entries, err = readPiece(id, h.Entries, src)
			}
			if err != nil {
				return true, fmt.Errorf("history of run %s, piece of batch %d: %w", id, s.ColumnInt64(1), err)
			}
			return false, nil
		})
	if err == nil && found && len(h.Entries) == 0 { // row and history are written in one commit
		err = fmt.Errorf("%w: run %s has a row and no history", core.ErrBroken, id)
	}
	return h, found, err
}

func (j *Journal) Definition(ctx context.Context, id core.DefinitionID) (d journal.Definition, err error) {
	found := false
	err = j.read(ctx, func(c *conn) error {
		return j.wrap("definition", query(c, "SELECT kind, name, source FROM definitions WHERE id = ? AND kind IS "+
			"NOT NULL",
			func(s *sqlite.Stmt) { s.BindBytes(1, id[:]) },
			func(s *sqlite.Stmt) (bool, error) {
				found = true
				d = journal.Definition{
					ID: id, Kind: s.ColumnText(0), Name: s.ColumnText(1),
					Source: make([]byte, s.ColumnLen(2)),
				}
				s.ColumnBytes(2, d.Source)
				return true, nil
			}))
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: definition %s", journal.ErrNotFound, id)
	}
	return d, err
}

// Find implements journal.Journal. If several runs match, it returns the newest.
func (j *Journal) Find(ctx context.Context, by journal.Lookup) (id core.RunID, err error) {
	text := "SELECT id, phase, partition FROM runs_data WHERE workflow_id = ? ORDER BY id DESC"
	args := []string{by.WorkflowID}
	if by.WorkflowID == "" {
		text = "SELECT id, phase, partition FROM runs_data " +
			"WHERE key = ? AND workflow = (SELECT id FROM names WHERE name = ?)" +
			" ORDER BY id DESC"
		args = []string{by.Key, by.Workflow}
	}
	found := false
	if args[0] != "" {
		err = j.read(ctx, func(c *conn) error {
			return j.wrap("find", query(c, text,
				func(s *sqlite.Stmt) {
					for i, arg := range args {
						s.BindText(i+1, arg)
					}
				},
				func(s *sqlite.Stmt) (bool, error) {
					found = (by.WorkflowID == "" || !core.RunPhase(s.ColumnInt64(1)).Closed()) &&
						(!by.Here || s.ColumnInt(2) == by.Partition)
					s.ColumnBytes(0, id[:])
					return found, nil
				}))
		})
	}
	if err == nil && !found {
		err = fmt.Errorf("%w: no run with workflow id %q, or key %q of workflow %q",
			journal.ErrNotFound, by.WorkflowID, by.Key, by.Workflow)
	}
	return id, err
}
