package sqlite

import (
	"context"
	"fmt"
	"os"
	"slices"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Report is the result of Check.
type Report struct {
	Path   string `json:"path"`
	SQLite string `json:"sqlite"` // version of the SQLite library
	Format int    `json:"format"`
	Bytes  int64  `json:"bytes"`
	Log    int64  `json:"logBytes"` // the bytes of the write-ahead log
	Free   int64  `json:"freeBytes"`
	Holder Holder `json:"holder,omitzero"` // zero: nobody holds it

	Runs, Open, Steps, Attempts int64
	Pieces, Batches, Entries    int64 // pieces of history, batches in the journal, entries in both
	Definitions                 int64
	Messages                    int64 // the messages between partitions that are not taken yet
	Partitions                  []PartitionReport

	// Problems lists the problems, as sentences. An intact file has none. At most a hundred are kept.
	Problems []string `json:"problems,omitempty"`
}

// PartitionReport is the state of one partition in the journal.
type PartitionReport struct {
	Partition int    `json:"partition"`
	Owner     string `json:"owner"`
	Epoch     uint64 `json:"epoch"`
	First     uint64 `json:"first"`   // the oldest batch in the journal
	Last      uint64 `json:"last"`    // the newest one
	Through   uint64 `json:"through"` // the view contains every batch up to here
}

const mostProblems = 100

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) < mostProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Check examines the file at path. It runs SQLite's own integrity check, checks the format, decodes every batch and
// every piece of history, and compares them with the watermarks. It only reads, and works while another process writes
// the file.
//
// It returns an error only if the file cannot be examined at all. What is wrong with a damaged file is in Problems.
// Check does not compare the rows with the histories, because that needs the definitions: use EachRun for it.
func Check(ctx context.Context, path string) (*Report, error) {
	j, err := OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = j.Close() }()
	r := &Report{Path: path, Format: format}
	if h, held := Held(path); held {
		r.Holder = h
	}
	if err := j.examine(ctx, r); err != nil {
		return nil, err
	}
	return r, nil
}

// examine checks all parts in one snapshot of the file, so that they can be compared.
func (j *Journal) examine(ctx context.Context, r *Report) error {
	return j.read(ctx, func(c *conn) error {
		c.SetInterrupt(ctx.Done())
		defer c.SetInterrupt(nil)
		if err := sqlitex.ExecuteTransient(c.Conn, "BEGIN", nil); err != nil {
			return j.wrap("check", err)
		}
		for _, part := range []struct {
			name  string
			check func(*conn, *Report) error
		}{
			{"the file", checkFile},
			{"the partitions", checkPartitions},
			{"the journal", checkJournal},
			{"the histories", checkHistories},
			{"the large entries", checkLarge},
			{"the rows", checkRows},
			{"the messages", checkMessages},
		} {
			// After a damaged page, the other parts may still be readable.
			if err := part.check(c, r); err != nil && ctx.Err() == nil {
				r.problem("%s: %v", part.name, j.wrap("check", err))
			}
		}
		c.SetInterrupt(nil)
		if err := sqlitex.ExecuteTransient(c.Conn, "ROLLBACK", nil); err != nil && !c.AutocommitEnabled() {
			return j.wrap("check", err)
		}
		return ctx.Err()
	})
}

func checkFile(c *conn, r *Report) error {
	if info, err := os.Stat(r.Path); err == nil {
		r.Bytes = info.Size()
	}
	if info, err := os.Stat(r.Path + "-wal"); err == nil {
		r.Log = info.Size()
	}
	free, err := queryInt(c, "PRAGMA freelist_count")
	if err != nil {
		return err
	}
	page, err := queryInt(c, "PRAGMA page_size")
	if err != nil {
		return err
	}
	r.Free = free * page
	if r.SQLite, err = queryText(c, "SELECT sqlite_version()"); err != nil {
		return err
	}
	version, err := queryInt(c, "SELECT value FROM meta WHERE key = 'format'")
	if err != nil {
		return err
	}
	r.Format = int(version)
	return sqlitex.ExecuteTransient(c.Conn, "PRAGMA integrity_check", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			if text := s.ColumnText(0); text != "ok" {
				r.problem("SQLite's integrity check: %s", text)
			}
			return nil
		},
	})
}

func checkPartitions(c *conn, r *Report) error {
	return query(c, "SELECT partition, epoch, owner FROM partitions ORDER BY partition", nil,
		func(s *sqlite.Stmt) (bool, error) {
			r.Partitions = append(r.Partitions, PartitionReport{
				Partition: s.ColumnInt(0), Epoch: uint64(s.ColumnInt64(1)), Owner: s.ColumnText(2),
			})
			return false, nil
		})
}

// checkJournal decodes every batch. Sequence numbers must have no gaps. Watermarks must not go back, and must not be
// ahead of their batch.
func checkJournal(c *conn, r *Report) error {
	var p *PartitionReport
	return query(c, "SELECT id, through, sum, entries FROM journal ORDER BY id", nil,
		func(s *sqlite.Stmt) (bool, error) {
			partition, seq := int(s.ColumnInt64(0)>>seqBits), uint64(s.ColumnInt64(0))&seqMask
			through := uint64(s.ColumnInt64(1))
			r.Batches++
			switch {
			case p == nil || p.Partition != partition:
				i := slices.IndexFunc(r.Partitions, func(p PartitionReport) bool { return p.Partition == partition })
				if i < 0 {
					r.problem("batch %d is of partition %d, which nobody ever owned", seq, partition)
					return false, nil
				}
				p = &r.Partitions[i]
				p.First = seq
			case seq != p.Last+1:
				r.problem("batch %d of partition %d follows batch %d: the batches between are missing", seq, partition,
					p.Last)
			case through < p.Through:
				r.problem("batch %d of partition %d sets the view's watermark back from %d to %d", seq,
					partition, p.Through, through)
			}
			if through > seq {
				r.problem("batch %d of partition %d says that the view contains batch %d", seq, partition, through)
			}
			p.Last, p.Through = seq, through
			b, err := c.entries(s, 2)
			var entries []core.Entry
			if err == nil {
				entries, err = core.ReadEntries(b)
			}
			if err != nil {
				r.problem("batch %d of partition %d: %v", seq, partition, err)
			}
			r.Entries += int64(len(entries))
			return false, nil
		})
}

// checkHistories decodes every piece of history. Each must belong to a row, and must not be ahead of that row.
func checkHistories(c *conn, r *Report) error {
	const pieces = "SELECT h.run, h.seq, r.applied, h.sum, h.entries" +
		" FROM history h LEFT JOIN runs_data r ON r.id = h.run"
	return query(c, pieces, nil,
		func(s *sqlite.Stmt) (bool, error) {
			var run core.RunID
			s.ColumnBytes(0, run[:])
			seq := s.ColumnInt64(1)
			r.Pieces++
			switch {
			case s.ColumnIsNull(2):
				r.problem("run %s has history but no row", run)
			case seq > s.ColumnInt64(2):
				r.problem("run %s has history of batch %d, but its row ends at batch %d", run, seq, s.ColumnInt64(2))
			}
			b, err := c.entries(s, 3)
			var entries []core.Entry
			if err == nil {
				entries, err = readPiece(run, nil, b)
			}
			if err != nil {
				r.problem("history of run %s, piece of batch %d: %v", run, seq, err)
			}
			r.Entries += int64(len(entries))
			return false, nil
		})
}

func checkRows(c *conn, r *Report) (err error) {
	for _, count := range []struct {
		n     *int64
		query string
	}{
		{&r.Runs, "SELECT count(*) FROM runs_data"},
		{&r.Open, fmt.Sprintf("SELECT count(*) FROM runs_data WHERE phase < %d", core.RunSucceeded)},
		{&r.Steps, "SELECT count(*) FROM " + allSteps},
		{&r.Attempts, "SELECT count(*) FROM " + allAttempts},
		{&r.Definitions, "SELECT count(*) FROM definitions WHERE kind IS NOT NULL"},
	} {
		if *count.n, err = queryInt(c, count.query); err != nil {
			return err
		}
	}
	for _, wrong := range []struct{ query, text string }{
		{
			"SELECT count(*) FROM runs_data r WHERE NOT EXISTS (SELECT 1 FROM history h WHERE h.run = r.id)",
			"runs without history",
		},
		{
			"SELECT count(*) FROM " + allSteps + " s WHERE NOT EXISTS (SELECT 1 FROM runs_data r WHERE r.id = s.run)",
			"steps of no run",
		},
		{
			"SELECT count(*) FROM " + allAttempts +
				" a WHERE NOT EXISTS (SELECT 1 FROM runs_data r WHERE r.id = a.run)",
			"attempts of no run",
		},
		{
			"SELECT count(*) FROM runs_data r WHERE r.definition <> 0 AND NOT EXISTS" +
				" (SELECT 1 FROM definitions d WHERE d.num = r.definition AND d.kind IS NOT NULL)",
			"runs whose definition is not stored",
		},
	} {
		n, err := queryInt(c, wrong.query)
		if err != nil {
			return err
		}
		if n > 0 {
			r.problem("%s: %d", wrong.text, n)
		}
	}
	for _, p := range r.Partitions {
		ahead, err := queryInt(c, fmt.Sprintf("SELECT count(*) FROM runs_data WHERE partition = %d AND applied > %d",
			p.Partition, p.Last))
		if err != nil {
			return err
		}
		if ahead > 0 {
			r.problem("%d runs of partition %d are ahead of its last batch, %d", ahead, p.Partition, p.Last)
		}
	}
	return nil
}

// checkMessages decodes every message. It must be between partitions of the file, or of one to itself, and must not
// have been taken.
func checkMessages(c *conn, r *Report) error {
	count, err := queryInt(c, "SELECT value FROM meta WHERE key = 'partitions'")
	if err != nil {
		return err
	}
	return query(c, "SELECT i.target, i.sender, i.seq, t.through, i.sum, i.message FROM inbox i LEFT JOIN taken t"+
		" ON t.partition = i.target AND t.sender = i.sender", nil,
		func(s *sqlite.Stmt) (bool, error) {
			to, from, seq := s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnInt64(2)
			r.Messages++
			if min(from, to) < 0 || max(from, to) >= count {
				r.problem("message %d is from partition %d to partition %d of %d", seq, from, to, count)
			}
			if s.ColumnInt64(3) >= seq {
				r.problem("message %d of partition %d to partition %d was taken, and is still there", seq, from, to)
			}
			b, err := c.blob(s, 4)
			if err == nil {
				_, err = core.ReadMessage(b)
			}
			if err != nil {
				r.problem("message %d of partition %d to partition %d: %v", seq, from, to, err)
			}
			return false, nil
		})
}

// eachRun is how many runs EachRun reads at once.
const eachRun = 256

// EachRun calls fn with every run in the view, the oldest first. It stops at fn's first error.
func (j *Journal) EachRun(ctx context.Context, fn func(journal.Stored) error) error {
	var after core.RunID
	for first := true; ; first = false {
		var runs []journal.Stored
		err := j.read(ctx, func(c *conn) (err error) {
			defer sqlitex.Transaction(c.Conn)(&err)
			at := " WHERE r.id > ?"
			if first {
				at = " WHERE r.id >= ?"
			}
			err = query(c, "SELECT "+runColumns+" FROM "+"runs_data r"+runNames+at+" ORDER BY r.id LIMIT ?",
				func(s *sqlite.Stmt) { s.BindBytes(1, after[:]); s.BindInt64(2, eachRun) },
				func(s *sqlite.Stmt) (bool, error) {
					runs = append(runs, journal.Stored{Row: scanRun(s)})
					return false, nil
				})
			for i := range runs {
				r := &runs[i]
				if r.History, _, r.Broken = historyOf(c, r.Row.ID); r.Broken != nil {
					continue
				}
				if err == nil {
					r.Steps, err = stepsOf(c, r.Row.ID)
				}
				if err == nil {
					r.Attempts, err = attemptsOf(c, r.Row.ID)
				}
			}
			return err
		})
		if err != nil {
			return j.wrap("each run", err)
		}
		for _, r := range runs {
			if err := fn(r); err != nil {
				return err
			}
			after = r.Row.ID
		}
		if len(runs) < eachRun {
			return nil
		}
	}
}
