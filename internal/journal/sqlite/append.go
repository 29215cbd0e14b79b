package sqlite

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// A journal row's id holds its partition and its sequence number.
const (
	seqBits = 40
	seqMask = 1<<seqBits - 1
)

func rowID(partition int, seq uint64) int64 { return int64(partition)<<seqBits | int64(seq&seqMask) }

// trimAt is how many old rows the journal keeps before it deletes them, all at once. A delete rewrites the same few
// pages for one row as for many.
const trimAt = 32

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum returns the checksum of a blob, as SQLite stores it in the fewest bytes. It begins with the application's id, so
// that the one of an empty blob is not zero: a row that has lost its contents would look intact.
func sum(b []byte) int64 { return int64(int32(crc32.Update(applicationID, castagnoli, b))) }

func (j *Journal) Acquire(ctx context.Context, n int, owner string) (journal.Lease, error) {
	if err := ctx.Err(); err != nil {
		return journal.Lease{}, err
	}
	if n < 0 || n >= j.count {
		return journal.Lease{}, fmt.Errorf("journal: acquire %s: there is no partition %d, it has %d",
			j.path, n, j.count)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.writable(); err != nil {
		return journal.Lease{}, err
	}
	if p := j.partitions[n]; p != nil {
		return journal.Lease{}, &journal.HeldError{Partition: n, Owner: p.owner}
	}
	p := &partition{owner: owner}
	if err := j.w.acquire(n, owner, p); err != nil {
		return journal.Lease{}, j.failed("acquire", err)
	}
	if err := j.inPlace(); err != nil {
		return journal.Lease{}, err
	}
	l, err := j.w.lease(n, p)
	if err != nil {
		return journal.Lease{}, j.failed("acquire", err)
	}
	j.partitions[n] = p
	return l, nil
}

// lease returns a lease without a term: the lock on the file keeps other processes out while the journal is open, and
// ends with it.
func (w *writer) lease(n int, p *partition) (journal.Lease, error) {
	l := journal.Lease{Epoch: p.epoch, Last: p.last, Through: p.through, Taken: p.taken}
	return l, w.feedsOf(n, p, &l)
}

// owned returns the partition, or an error if the epoch is not that of its owner.
func (j *Journal) owned(n int, epoch uint64) (*partition, error) {
	p := j.partitions[n]
	if p == nil || epoch != p.epoch {
		return nil, fmt.Errorf("%w: partition %d has no owner with epoch %d", journal.ErrFenced, n, epoch)
	}
	return p, nil
}

// Renew implements journal.Journal. It reads the partition's state from the file, because after a failed append it may
// be unknown whether the batch was stored.
func (j *Journal) Renew(ctx context.Context, n int, epoch uint64) (journal.Lease, error) {
	if err := ctx.Err(); err != nil {
		return journal.Lease{}, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.writable(); err != nil {
		return journal.Lease{}, err
	}
	p, err := j.owned(n, epoch)
	if err != nil {
		return journal.Lease{}, err
	}
	now := partition{epoch: p.epoch, owner: p.owner}
	var l journal.Lease
	err = j.w.transaction(func() error {
		err := j.w.stand(n, &now)
		if err == nil {
			l, err = j.w.lease(n, &now)
		}
		return err
	})
	if err != nil {
		return journal.Lease{}, j.failed("renew", err)
	}
	*p = now
	return l, nil
}

func (j *Journal) Release(_ context.Context, n int, epoch uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p := j.partitions[n]; p != nil && p.epoch == epoch {
		delete(j.partitions, n)
	}
	return nil
}

// writable returns an error if the journal cannot be written.
func (j *Journal) writable() error {
	switch {
	case j.readOnly:
		return fmt.Errorf("%w: %s is open for reading only", journal.ErrReadOnly, j.path)
	case j.lost != nil:
		return j.lost
	case j.w == nil || isClosed(j.closing):
		return ErrClosed
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// failed wraps a writer's error. After a failed sync nothing is written any longer.
func (j *Journal) failed(op string, err error) error {
	if isLost(sqlite.ErrCode(err)) {
		j.lost = fmt.Errorf("%w: %s %s: %w (restart the process; look at the system's log for the device's errors)",
			journal.ErrLost, op, j.path, err)
		return j.lost
	}
	return j.wrap(op, err)
}

// change changes the file in one transaction, beside the batches. fn returns about how many bytes it has written.
func (j *Journal) change(ctx context.Context, op string, fn func() (int, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.writable(); err != nil {
		return err
	}
	size := 0
	err := j.w.transaction(func() (err error) {
		size, err = fn()
		return err
	})
	if err != nil {
		return j.failed(op, err)
	}
	j.check.wrote(size)
	return j.inPlace()
}

// inPlace returns an error if the file was removed or replaced. It is called after each write: SQLite does not notice,
// and would continue to write to a file that can no longer be opened.
func (j *Journal) inPlace() error {
	now, err := os.Stat(j.path)
	if err == nil && os.SameFile(j.file, now) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	j.lost = fmt.Errorf("%w: %s was removed or replaced, and its contents are lost (restart the process)",
		journal.ErrGone, j.path)
	return j.lost
}

// writer is the only connection that writes, with its statements. It is used under the journal's lock.
type writer struct {
	conn                                      *conn
	begin, commit, rollback                   *sqlite.Stmt
	insert, trim                              *sqlite.Stmt
	run, step, attempt, endedRun, piece       rowStmt
	mail                                      messages
	large                                     large
	pack                                      pack
	addName, findName, define, findDefinition *sqlite.Stmt
	addLabel, dropLabels                      *sqlite.Stmt
	labelled                                  bool // the file may have labels

	buf   []byte          // the buffer for the batch's entries, if the caller has not encoded them
	found []journal.Large // the large ones among them

	// Space for the rows of a view, see takeEnded.
	ended        []endedRows
	leftSteps    []journal.StepRow
	leftAttempts []journal.AttemptRow

	// Rows that are known to be in the file, and those that the open transaction has added. A rollback removes the
	// latter.
	names            map[string]int64
	definitions      map[core.DefinitionID]definition
	freshNames       []string
	freshDefinitions []core.DefinitionID
}

func (w *writer) prepare() error {
	for _, s := range []struct {
		stmt  **sqlite.Stmt
		query string
	}{
		{&w.begin, "BEGIN IMMEDIATE"},
		{&w.commit, "COMMIT"},
		{&w.rollback, "ROLLBACK"},
		{&w.insert, "INSERT INTO journal (id, through, sum, entries) VALUES (?, ?, ?, ?)"},
		{&w.trim, "DELETE FROM journal WHERE id BETWEEN ? AND ?"},
		{&w.findName, "SELECT id FROM names WHERE name = ?"},
		{&w.addName, "INSERT INTO names (name) VALUES (?) RETURNING id"},
		{&w.findDefinition, "SELECT num, kind IS NOT NULL FROM definitions WHERE id = ?"},
		{&w.define, "INSERT INTO definitions (id, kind, name, source) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE" +
			" SET kind = excluded.kind, name = excluded.name, source = excluded.source RETURNING num"},
		{&w.addLabel, "INSERT INTO labels VALUES (?, ?, ?)"},
		{&w.dropLabels, "DELETE FROM labels WHERE run = ?"},
	} {
		stmt, err := w.conn.stmt(s.query)
		if err != nil {
			return err
		}
		*s.stmt = stmt
	}
	if err := w.mail.prepare(w.conn); err != nil {
		return err
	}
	if err := w.large.prepare(w.conn); err != nil {
		return err
	}
	n, err := queryInt(w.conn, "SELECT EXISTS (SELECT 1 FROM labels)")
	if err != nil {
		return err
	}
	w.labelled = n > 0
	for _, s := range []struct {
		stmt    *rowStmt
		into    string
		columns int
	}{
		{&w.run, "REPLACE INTO runs_data", 14},
		{&w.step, "REPLACE INTO steps_data", 12},
		{&w.attempt, "REPLACE INTO attempts_data", 10},
		{&w.endedRun, "REPLACE INTO ended_data", 2},
		{&w.piece, "INSERT OR ROLLBACK INTO history (run, seq, sum, entries)", 4},
	} {
		if err := s.stmt.prepare(w.conn, s.into, s.columns); err != nil {
			return err
		}
	}
	return nil
}

// do runs a statement that returns no rows.
func do(s *sqlite.Stmt) error {
	_, err := s.Step()
	if err != nil {
		return err
	}
	return s.Reset()
}

// one runs a statement that returns at most one row, and returns the row's first column.
func one(s *sqlite.Stmt) (n int64, found bool, err error) {
	if found, err = s.Step(); err != nil {
		return 0, false, err
	}
	if found {
		n = s.ColumnInt64(0)
	}
	return n, found, s.Reset()
}

// transaction runs fn in a transaction: all of it or nothing.
func (w *writer) transaction(fn func() error) (err error) {
	if err := do(w.begin); err != nil {
		return err
	}
	w.freshNames = w.freshNames[:0]
	w.freshDefinitions = w.freshDefinitions[:0]
	if err = fn(); err == nil {
		if err = do(w.commit); err == nil {
			return nil
		}
	}
	for _, name := range w.freshNames {
		delete(w.names, name)
	}
	for _, id := range w.freshDefinitions {
		delete(w.definitions, id)
	}
	if !w.conn.AutocommitEnabled() { // SQLite has already rolled back after some errors, such as a full disk
		if rollbackErr := do(w.rollback); rollbackErr != nil {
			return fmt.Errorf("%w, and then %w", err, rollbackErr)
		}
	}
	return err
}

// append writes a batch in its own transaction and returns approximately how many bytes that put into the log. next is
// the partition after it; trimming sets its first.
func (w *writer) append(b *journal.Batch, next *partition) (size int, err error) {
	rows := len(b.Definitions) + len(b.Out) + len(b.Taken) + len(b.Feeds) + len(b.Large) + len(b.Documents)
	if b.View == nil && rows == 0 && len(b.Entries) == 0 {
		return w.write(b, next) // a single statement is its own transaction
	}
	err = w.transaction(func() error {
		size, err = w.write(b, next)
		return err
	})
	return size, err
}

// write writes a batch within a transaction.
func (w *writer) write(b *journal.Batch, next *partition) (size int, err error) {
	if size, err = w.entries(b, next); err != nil {
		return 0, err
	}
	if err := w.defineAll(b.Definitions); err != nil {
		return 0, err
	}
	n, err := w.messages(b)
	if err != nil {
		return 0, err
	}
	written, err := w.putDocuments(b.Documents)
	if err != nil {
		return 0, err
	}
	n += written
	if err := w.mark(b.Partition, b.Feeds); err != nil {
		return 0, err
	}
	if b.View == nil && len(b.Feeds) == 0 {
		return size + n, nil
	}
	rows := 0
	if b.View != nil {
		if rows, err = w.view(b.Partition, b.View); err != nil {
			return 0, err
		}
	}
	trimmed, err := w.trimTo(b, next)
	return size + n + rows + trimmed, err
}

// entries writes the batch's row.
func (w *writer) entries(b *journal.Batch, next *partition) (size int, err error) {
	whole, found := b.Encoded, b.Large
	if whole == nil {
		whole, found = w.encode(b)
	}
	entries, err := w.storeLarge(b, whole, found)
	if err != nil {
		return 0, err
	}
	if next.first == 0 {
		next.first = b.Seq
	}
	next.feeds = marked(next.feeds, b.Feeds)
	w.insert.BindInt64(1, rowID(b.Partition, b.Seq))
	w.insert.BindInt64(2, int64(next.through))
	w.insert.BindInt64(3, sum(entries))
	w.insert.BindBytes(4, entries)
	return len(whole) + 2*pageSize, do(w.insert)
}

// encode encodes the entries of a batch, and finds the large ones.
func (w *writer) encode(b *journal.Batch) (whole []byte, found []journal.Large) {
	whole, found = w.buf[:0], w.found[:0]
	for i := range b.Entries {
		from := len(whole)
		whole = core.AppendEntry(whole, &b.Entries[i])
		if len(whole)-from >= journal.LargeEntry {
			found = append(found, journal.Large{Run: b.Entries[i].Run, Seq: b.Seq, From: from, To: len(whole)})
		}
	}
	w.buf, w.found = whole, found
	return whole, found
}

// trimTo deletes batches that the view has, once there are enough of them.
func (w *writer) trimTo(b *journal.Batch, next *partition) (size int, err error) {
	trimmed := min(next.through, b.Seq-1) // keep the newest row: it has the last sequence number
	if oldest, ok := oldestOf(next.feeds); ok {
		trimmed = min(trimmed, oldest)
	}
	if trimmed < next.first+trimAt-1 {
		return 0, nil
	}
	last := min(trimmed, next.first+2*trimAt-1)
	w.trim.BindInt64(1, rowID(b.Partition, next.first))
	w.trim.BindInt64(2, rowID(b.Partition, last))
	if err := w.trimLarge(b.Partition, next.first, last); err != nil {
		return 0, err
	}
	next.first = last + 1
	return 4 * pageSize, do(w.trim)
}

func (w *writer) acquire(n int, owner string, p *partition) error {
	take, err := w.conn.stmt("INSERT INTO partitions VALUES (?, 1, ?) ON CONFLICT (partition) DO UPDATE" +
		" SET epoch = epoch + 1, owner = excluded.owner RETURNING epoch")
	if err != nil {
		return err
	}
	return w.transaction(func() error {
		take.BindInt64(1, int64(n))
		take.BindText(2, owner)
		epoch, _, err := one(take)
		if err != nil {
			return err
		}
		p.epoch = uint64(epoch)
		return w.stand(n, p)
	})
}

// stand reads the state of a partition.
func (w *writer) stand(n int, p *partition) error {
	taken, err := takenBy(w.conn, n)
	if err != nil {
		return err
	}
	p.taken = taken
	first, err := w.conn.stmt("SELECT id FROM journal WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 1")
	if err != nil {
		return err
	}
	last, err := w.conn.stmt("SELECT id, through FROM journal WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1")
	if err != nil {
		return err
	}
	for _, s := range []*sqlite.Stmt{first, last} {
		s.BindInt64(1, rowID(n, 0))
		s.BindInt64(2, rowID(n, seqMask))
	}
	id, found, err := one(first)
	if err != nil || !found {
		return err
	}
	p.first = uint64(id) & seqMask
	if _, err := last.Step(); err != nil {
		return err
	}
	p.last, p.through = uint64(last.ColumnInt64(0))&seqMask, uint64(last.ColumnInt64(1))
	return last.Reset()
}
